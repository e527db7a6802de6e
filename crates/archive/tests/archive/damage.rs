//! Each object flipped, cut, deleted, and exchanged: named by verification, and never restored silently.

use std::sync::Arc;

use heddledb_archive::{ArchiveError, verify};

use crate::shelf::Shelf;
use crate::support::{archived, random, restore_all, setting, transactions_in};

/// The objects that a problem names.
fn named(problems: &[ArchiveError]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn every_object_that_is_changed_cut_missing_or_exchanged_is_named() {
    let mut random = random();
    let shelf = Arc::new(Shelf::default());
    let bank = archived(&shelf, 80);
    let names = shelf.names();
    assert!(verify(&*shelf, None).expect("read").problems.is_empty());
    assert!(names.len() > 20, "{names:?}");
    let rounds = setting("HEDDLE_DAMAGES", 2);
    for (at, name) in names.iter().enumerate() {
        let good = shelf.get(name);
        let mut damages = vec![None, Some(good[..random.usize(..good.len())].to_vec())];
        for _ in 0..rounds {
            let mut flipped = good.clone();
            flipped[random.usize(..good.len())] ^= 1 << random.u8(..8);
            damages.push(Some(flipped));
        }
        let other = &names[(at + random.usize(1..names.len())) % names.len()];
        damages.push(Some(shelf.get(other)));
        for (which, damage) in damages.into_iter().enumerate() {
            shelf.set(name, damage);
            let problems = verify(&*shelf, None).expect("read").problems;
            let found = named(&problems);
            // A catalog that is not there is named by its folder: its number is not known.
            let folder = name.rsplit_once('/').expect("a folder").0;
            let is_named =
                |problem: &String| problem.starts_with(name) || problem.starts_with(&format!("{folder} "));
            assert!(found.iter().any(is_named), "{name}, damage {which}: {found:?}");
            let to = bank.fresh(&format!("restored-{at}-{which}"));
            match restore_all(&*shelf, &to) {
                // It was not needed.
                Ok(_) => assert_eq!(transactions_in(&to), bank.history.len(), "{name}, damage {which}"),
                Err(error) => {
                    assert!(is_named(&error.to_string()), "{name}, damage {which}: {error}");
                    assert!(!to.join("MANIFEST").exists(), "it is no database");
                }
            }
            shelf.set(name, Some(good.clone()));
        }
    }
}

#[test]
fn two_objects_that_change_places_are_both_named() {
    let shelf = Arc::new(Shelf::default());
    let _bank = archived(&shelf, 40);
    let logs: Vec<_> = shelf.names().into_iter().filter(|name| name.contains("/log/")).collect();
    let (one, other) = (shelf.get(&logs[1]), shelf.get(&logs[2]));
    shelf.set(&logs[1], Some(other));
    shelf.set(&logs[2], Some(one));
    let found = named(&verify(&*shelf, None).expect("read").problems);
    assert!(
        found.len() >= 2 && found[0].starts_with(&logs[1]) && found[1].starts_with(&logs[2]),
        "{found:?}"
    );
}
