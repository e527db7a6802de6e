//! The site under every protocol; and that the check sees what does not agree.

use heddledb::{Durability, Options, ProtocolKind, ValueRef, key, row};

use super::tables::Tables;
use super::*;
use crate::workload::{Bound, next_calls};

fn small(mix: RubisMix) -> Rubis {
    Rubis { users: 20, items: 30, ..Rubis::of(mix) }
}

fn loaded(settings: &Rubis, protocol: ProtocolKind) -> (Database, Box<dyn Bound>) {
    let options = Options::default().durability(Durability::None).protocol(protocol).workers(2);
    let db = Database::in_memory_with(options).unwrap();
    settings.load(&db).unwrap();
    let bound = settings.bind(&db, 4).unwrap();
    (db, bound)
}

/// Makes calls on four threads; returns how many of each transaction were made, all of which commit.
fn visit(db: &Database, bound: &dyn Bound, calls: usize) -> Vec<u64> {
    let work = |caller: usize| {
        let mut generator = bound.generator(7, caller).unwrap();
        let made = next_calls(generator.as_mut(), calls);
        let mut counts = vec![0; transaction::NAMES.len()];
        for (procedure, args) in made.made() {
            db.call(&generator.procedures()[*procedure], args.clone()).unwrap();
            counts[*procedure] += 1;
        }
        counts
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|caller| scope.spawn(move || work(caller))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).fold(vec![0; 17], |mut all, counts| {
            all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
            all
        })
    })
}

fn written(counts: &[u64]) -> u64 {
    (0..counts.len()).filter(|place| transaction::writes(*place)).map(|place| counts[place]).sum()
}

#[test]
fn everything_agrees_under_every_protocol() {
    for &protocol in ProtocolKind::ALL {
        for mix in [RubisMix::Bidding, RubisMix::Contended] {
            let settings = small(mix);
            let (db, bound) = loaded(&settings, protocol);
            let counts = visit(&db, bound.as_ref(), 400);
            let name = format!("{}, {}", protocol.name(), mix.name());
            assert!(counts.iter().all(|count| *count > 0), "{name}: {counts:?}");
            assert_eq!(settings.marks(&db).unwrap(), written(&counts), "{name}");
            assert_eq!(settings.check(&db, Some(written(&counts))), Ok(()), "{name}");
        }
    }
}

#[test]
fn bids_on_split_columns_add_up() {
    let settings = Rubis { alpha: 8.0, ..small(RubisMix::Contended) };
    let (db, bound) = loaded(&settings, ProtocolKind::Phased);
    let tables = Tables::open(&db).unwrap();
    let popular = crate::zipf::PopularKeys::new(30, 8.0).key_of(0);
    db.split(&tables.item, popular, "bids", heddledb::SplitOperation::ADD).unwrap();
    db.split(&tables.item, popular, "max_bid", heddledb::SplitOperation::MAX).unwrap();
    db.split(&tables.item_bids, popular, "winner", heddledb::SplitOperation::ORDERED_PUT).unwrap();
    db.split(&tables.item_bids, popular, "highest", heddledb::SplitOperation::TOP_K_INSERT).unwrap();
    let counts = visit(&db, bound.as_ref(), 500);
    assert_eq!(settings.check(&db, Some(written(&counts))), Ok(()));
}

#[test]
fn rows_of_a_later_run_have_other_numbers_and_keys_are_acknowledged() {
    let settings = small(RubisMix::Contended);
    let (db, _) = loaded(&settings, ProtocolKind::Optimistic);
    let mut written_so_far = 0;
    for _ in 0..2 {
        let again = settings.bind(&db, 4).unwrap();
        written_so_far += written(&visit(&db, again.as_ref(), 100));
        assert_eq!(settings.check(&db, Some(written_so_far)), Ok(()));
    }
    let bound = settings.bind(&db, 1).unwrap();
    let mut generator = bound.generator(1, 0).unwrap();
    let made = next_calls(generator.as_mut(), 200);
    let mut keys = Vec::new();
    for (procedure, args) in made.made() {
        keys.extend(bound.acknowledgement(crate::Call { procedure: *procedure, args, marks: 1 }));
        db.call(&generator.procedures()[*procedure], args.clone()).unwrap();
    }
    assert!(keys.len() > 80);
    assert_eq!(settings.check_acknowledged(&db, &keys), Ok(()));
    let lost = format!("{} 1 1", transaction::STORE_BID);
    assert!(settings.check_acknowledged(&db, &[lost]).unwrap_err().contains("rubis_bid"));
    assert!(settings.check_acknowledged(&db, &["4 1 1".to_owned()]).is_err());
}

#[test]
fn the_check_sees_what_does_not_agree() {
    type Fault = fn(&Database, &Tables) -> heddledb::Result<()>;
    fn set(
        db: &Database,
        table: &heddledb::Table,
        id: i64,
        column: &str,
        value: i64,
    ) -> heddledb::Result<()> {
        db.run(|tx| tx.update(table, key![id], &[(column, ValueRef::Int(value))]))
    }
    let faults: [(Fault, &str); 8] = [
        (|db, tables| db.run(|tx| tx.add(&tables.item, 3, "bids", 1)), "item 3 has"),
        (|db, tables| set(db, &tables.item, 3, "max_bid", 9_999_999), "up to 9999999"),
        (|db, tables| set(db, &tables.item, 3, "quantity", 5), "5 pieces left"),
        (|db, tables| db.run(|tx| tx.add(&tables.user, 4, "rating", 100)), "user 4 has the rating"),
        (
            |db, tables| {
                db.run(|tx| tx.top_k_insert(&tables.item_bids, 3, "highest", &row![9_999_999, 1], &row![1]))
            },
            "the highest bids for item 3",
        ),
        (
            |db, tables| {
                db.run(|tx| tx.ordered_put(&tables.item_bids, 3, "winner", &row![9_999_999, 1], &row![1]))
            },
            "item 3 is won by",
        ),
        (
            |db, tables| {
                db.run(|tx| {
                    tx.top_k_insert(&tables.category_items, 2, "newest", &row![i64::MAX, 1], &row![1])
                })
            },
            "list 2 of rubis_category_items",
        ),
        (
            |db, tables| db.run(|tx| tx.insert(&tables.bid, row![1, 1, 77_777, 5, 5])),
            "item 77777, which there is not",
        ),
    ];
    for (fault, expected) in faults {
        let settings = small(RubisMix::Bidding);
        let (db, bound) = loaded(&settings, ProtocolKind::Optimistic);
        let written = written(&visit(&db, bound.as_ref(), 100));
        fault(&db, &Tables::open(&db).unwrap()).unwrap();
        let wrong = settings.check(&db, None).unwrap_err();
        assert!(wrong.contains(expected), "{expected}: {wrong}");
        assert!(settings.check(&db, Some(written + 1)).is_err());
    }
    let (db, _) = loaded(&small(RubisMix::Bidding), ProtocolKind::Optimistic);
    assert!(small(RubisMix::Bidding).check(&db, Some(1)).unwrap_err().contains("1 were committed"));
}

#[test]
fn a_load_goes_on_and_settings_are_checked() {
    let db = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
    assert_eq!(small(RubisMix::Bidding).check(&db, None), Ok(()));
    assert!(small(RubisMix::Bidding).check(&db, Some(3)).is_err());
    Rubis { items: 10, ..small(RubisMix::Bidding) }.load(&db).unwrap();
    small(RubisMix::Bidding).load(&db).unwrap();
    assert_eq!(small(RubisMix::Bidding).check(&db, Some(0)), Ok(()));
    for wrong in [
        Rubis { users: 1, ..Rubis::default() },
        Rubis { items: 0, ..Rubis::default() },
        Rubis { alpha: -1.0, ..Rubis::default() },
    ] {
        assert!(wrong.load(&db).is_err());
    }
}
