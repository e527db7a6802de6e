//! Both transactions, their share, and that the check sees likes counted on one side only.

use heddledb::{Durability, Options, key};

use super::*;
use crate::workload::next_calls;

fn memory() -> Database {
    Database::in_memory_with(Options::default().durability(Durability::None)).unwrap()
}

fn small() -> Like {
    Like { users: 200, pages: 100, ..Like::default() }
}

fn loaded(settings: &Like) -> (Database, Box<dyn Bound>) {
    let db = memory();
    settings.load(&db).unwrap();
    let bound = settings.bind(&db, 2).unwrap();
    (db, bound)
}

#[test]
fn likes_are_counted_at_users_and_pages_and_reads_change_nothing() {
    let (db, bound) = loaded(&small());
    let mut generator = bound.generator(1, 0).unwrap();
    let calls = next_calls(generator.as_mut(), 400);
    for (procedure, args) in calls.made() {
        db.call(&generator.procedures()[*procedure], args.clone()).unwrap();
    }
    let likes: u64 = calls.marks().iter().copied().map(u64::from).sum();
    assert!((150..250).contains(&likes), "{likes} of 400");
    assert_eq!(small().marks(&db).unwrap(), likes);
    assert_eq!(small().check(&db, Some(likes)), Ok(()));
    assert!(small().check(&db, Some(likes - 1)).unwrap_err().contains("were committed"));
    let user = db.table(USER).unwrap();
    let (procedure, args) = calls.made().iter().rfind(|(procedure, _)| *procedure == LIKE).unwrap();
    assert_eq!(*procedure, LIKE);
    let last = db.run(|tx| tx.get(&user, key![args.int(0)?])?.unwrap().int("last_page")).unwrap();
    assert_eq!(last, args.int(1).unwrap());
}

#[test]
fn popular_pages_take_their_share_and_users_are_alike() {
    let settings = Like { users: 10, pages: 1_000, ..small() };
    let (_db, bound) = loaded(&settings);
    let calls = next_calls(bound.generator(9, 0).unwrap().as_mut(), 20_000);
    let most_popular = PopularKeys::new(1_000, 1.4).key_of(0);
    let taken = |place, value| calls.made().iter().filter(|(_, args)| args.int(place) == Ok(value)).count();
    let share = 1.0 / (1..=1_000).map(|k| f64::from(k).powf(-1.4)).sum::<f64>();
    let found = taken(1, most_popular) as f64 / 20_000.0;
    assert!((found - share).abs() < 0.02, "{found} is not {share}");
    assert!((1..=10).all(|user| (1_700..2_300).contains(&taken(0, user))));
}

#[test]
fn the_share_of_writes_is_as_asked() {
    for (percent, likes) in [(0.0, 0..1), (100.0, 1_000..1_001), (10.0, 60..140)] {
        let settings = Like { write_percent: percent, ..small() };
        let (_db, bound) = loaded(&settings);
        let calls = next_calls(bound.generator(2, 0).unwrap().as_mut(), 1_000);
        let writes = calls.made().iter().filter(|(procedure, _)| *procedure == LIKE).count();
        assert!(likes.contains(&writes), "{percent} %: {writes}");
    }
}

#[test]
fn the_check_sees_likes_on_one_side_and_impossible_rows() {
    let wrong = |change: &dyn Fn(&heddledb::Tx<'_, '_>, &Table, &Table) -> heddledb::Result<()>| {
        let (db, _bound) = loaded(&small());
        let (page, user) = (db.table(PAGE).unwrap(), db.table(USER).unwrap());
        assert_eq!(small().check(&db, Some(0)), Ok(()));
        db.run(|tx| change(tx, &page, &user)).unwrap();
        small().check(&db, None).unwrap_err()
    };
    assert!(
        wrong(&|tx, page, _| tx.add(page, key![3], "likes", 1)).contains("pages have 1 likes, but users 0")
    );
    assert!(wrong(&|tx, page, _| tx.add(page, key![3], "likes", -1)).contains("page 3 has -1 likes"));
    let like_of_nothing = wrong(&|tx, page, user| {
        tx.add(page, key![3], "likes", 1)?;
        tx.add(user, key![7], "likes", 1)
    });
    assert!(like_of_nothing.contains("user 7"), "{like_of_nothing}");
    let last_page_without_like = wrong(&|tx, _, user| tx.update(user, key![8], &[("last_page", 5.into())]));
    assert!(last_page_without_like.contains("user 8"), "{last_page_without_like}");
}

#[test]
fn a_load_cut_short_goes_on_and_another_size_is_refused() {
    let (db, _bound) = loaded(&small());
    let larger = Like { users: 300, pages: 150, ..small() };
    larger.load(&db).unwrap();
    assert_eq!(scan::count(&db, &db.table(USER).unwrap()).unwrap(), 300);
    let message = |settings: Like| settings.load(&db).unwrap_err().to_string();
    assert!(message(Like { users: 299, ..larger }).contains("--users 300"));
    assert!(message(Like { pages: 149, ..larger }).contains("--pages 150"));
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let message = |settings: Like| settings.load(&memory()).unwrap_err().to_string();
    assert!(message(Like { users: 0, ..small() }).contains("--users"));
    assert!(message(Like { pages: 0, ..small() }).contains("--pages"));
    assert!(message(Like { alpha: -1.0, ..small() }).contains("--alpha"));
    assert!(message(Like { write_percent: 101.0, ..small() }).contains("--write-percent"));
}

#[test]
fn seeds_repeat_and_callers_differ() {
    let (_db, bound) = loaded(&small());
    let users = |seed, caller| {
        let calls = next_calls(bound.generator(seed, caller).unwrap().as_mut(), 20);
        calls.made().iter().map(|(_, args)| args.int(0).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(users(3, 0), users(3, 0));
    assert_ne!(users(3, 0), users(3, 1));
    assert_ne!(users(3, 0), users(4, 0));
}

#[test]
fn a_database_without_the_tables_has_nothing_to_check_and_nothing_is_acknowledged() {
    assert_eq!(small().check(&memory(), None), Ok(()));
    assert_eq!(small().marks(&memory()).unwrap(), 0);
    assert_eq!(small().check_acknowledged(&memory(), &[]), Ok(()));
    assert!(small().check_acknowledged(&memory(), &["1".to_owned()]).is_err());
}
