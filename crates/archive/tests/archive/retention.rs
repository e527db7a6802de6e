//! What is kept: never less than one checkpoint that was verified, and the log since.

use std::sync::Arc;
use std::time::Duration;

use heddledb_archive::{Retention, list, prune, verify};

use crate::shelf::Shelf;
use crate::support::{Bank, archived, restore_all, restore_to, settings, transactions_in, two_checkpoints};

fn checkpoints(shelf: &Shelf) -> usize {
    list(shelf).expect("listed")[0].catalog.as_ref().expect("archived").checkpoints().len()
}

#[test]
fn by_count_the_last_checkpoints_stay_and_the_log_since() {
    let shelf = Arc::new(Shelf::default());
    let mut bank = archived(&shelf, 80);
    let before = shelf.names().len();
    assert_eq!(checkpoints(&shelf), 4);
    let pruned = prune(&*shelf, None, &two_checkpoints()).expect("pruned");
    assert!(pruned[0].1.objects > 0 && pruned[0].1.base == 3, "{pruned:?}");
    assert_eq!((checkpoints(&shelf), shelf.names().len()), (2, before - pruned[0].1.objects as usize));
    assert_eq!(prune(&*shelf, None, &two_checkpoints()).expect("pruned")[0].1.objects, 0);
    let verified = verify(&*shelf, None).expect("read");
    assert_eq!((verified.problems, verified.unneeded), (Vec::new(), Vec::new()));
    restore_to(&*shelf, bank.history[65], &bank.fresh("late")).expect("restored");
    assert_eq!(transactions_in(&bank.fresh("late")), 66);
    let early = restore_to(&*shelf, bank.history[5], &bank.fresh("early")).expect_err("pruned").to_string();
    assert!(early.contains("does not reach back so far"), "{early}");
    // The archiver goes on with what the other process has left.
    bank.work(10);
    bank.checkpoint();
    bank.archive();
    assert_eq!((checkpoints(&shelf), bank.archiver.status().timeline), (3, 1));
    restore_all(&*shelf, &bank.fresh("end")).expect("restored");
    assert_eq!(transactions_in(&bank.fresh("end")), bank.history.len());
}

#[test]
fn nothing_is_removed_before_its_time_and_never_the_last_checkpoint() {
    let shelf = Arc::new(Shelf::default());
    let bank = archived(&shelf, 40);
    let keep = |age: u64, checkpoints| {
        let retention = Retention { age: Some(Duration::from_secs(age)), checkpoints };
        prune(&*shelf, None, &retention).expect("pruned")[0].1.objects
    };
    assert_eq!(prune(&*shelf, None, &Retention::default()).expect("pruned")[0].1.objects, 0);
    assert_eq!(keep(3_600, None), 0, "all of it was written within the hour");
    assert_eq!(keep(3_600, Some(1)), 0, "what either keeps is kept");
    assert!(keep(0, Some(2)) > 0);
    assert_eq!(checkpoints(&shelf), 2);
    assert!(keep(0, None) > 0);
    assert_eq!(checkpoints(&shelf), 1);
    assert_eq!(keep(0, Some(0)), 0, "there is no less than one");
    restore_all(&*shelf, &bank.fresh("end")).expect("restored");
    assert_eq!(transactions_in(&bank.fresh("end")), bank.history.len());
}

#[test]
fn what_would_be_kept_is_verified_before_anything_is_removed() {
    let shelf = Arc::new(Shelf::default());
    let _bank = archived(&shelf, 40);
    let names = shelf.names();
    for needed in ["/checkpoint/00000003/000001", "/log/"] {
        let name = names.iter().rfind(|name| name.contains(needed)).expect("there");
        let good = shelf.get(name);
        let mut bad = good.clone();
        *bad.last_mut().expect("content") ^= 1;
        shelf.set(name, Some(bad));
        let refused = prune(&*shelf, None, &two_checkpoints()).expect_err("damaged").to_string();
        assert!(refused.contains(name.as_str()), "{refused}");
        assert_eq!(shelf.names(), names);
        shelf.set(name, Some(good));
    }
}

#[test]
fn the_archiver_prunes_by_its_own_settings() {
    let shelf = Arc::new(Shelf::default());
    let mut settings = settings();
    settings.retention = two_checkpoints();
    let mut bank = Bank::new(shelf.clone(), settings);
    for _ in 0..5 {
        bank.work(20);
        bank.archive();
        bank.checkpoint();
        bank.archive();
    }
    assert_eq!(checkpoints(&shelf), 2);
    let verified = verify(&*shelf, None).expect("read");
    assert_eq!((verified.problems, verified.unneeded), (Vec::new(), Vec::new()));
    restore_all(&*shelf, &bank.fresh("end")).expect("restored");
    assert_eq!(transactions_in(&bank.fresh("end")), 100);
}
