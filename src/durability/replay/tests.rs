//! Tests of the threads' agreement; the tests of recovery show that the whole equals one thread's replay.

use std::sync::atomic::AtomicUsize;

use super::*;

fn board() -> Board {
    Board { batches: (0..SHARES).map(|_| VecDeque::new()).collect(), ..Board::default() }
}

/// A batch with one group that has nothing in it.
fn batch() -> Batch {
    let store = Store::new(1, 1, true);
    let mut tools = Tools::new(Overlap::default());
    let group = scatter(&store, (1, Vec::new()), SHARES, &mut tools, &pin()).expect("an empty group");
    vec![(Position { index: 0, offset: 0 }, group)]
}

fn failure(group: u64) -> Failure {
    Failure { group, error: Error::Closed, place: None }
}

/// Takes until something is to be read, or nothing is to be done; the shares and batches that were to be replayed.
fn replays(board: &mut Board) -> Vec<(usize, u64)> {
    std::iter::from_fn(|| match board.take() {
        Some(Job::Replay(share, first, _)) => Some((share, first)),
        Some(Job::Read) | None => None,
    })
    .collect()
}

#[test]
fn a_share_has_one_thread_at_a_time_and_its_batches_in_their_order() {
    let mut board = board();
    for first in [0, 1, 2] {
        board.put(first, batch());
    }
    for first in [0, 1, 2] {
        let all: Vec<(usize, u64)> = (0..SHARES).map(|share| (share, first)).collect();
        assert_eq!(replays(&mut board), all, "each share once, though more waits for it");
        (board.busy, board.reading) = (0, false);
    }
    assert!(!board.is_over(), "the log may go on");
    assert!(matches!(board.take(), Some(Job::Read)));
    assert!(board.take().is_none(), "one thread reads");
    board.reading = false;
    board.put(3, Batch::new());
    assert!(board.is_over() && board.take().is_none());
}

#[test]
fn no_reader_runs_too_far_ahead() {
    let mut board = board();
    board.busy = u64::MAX;
    let mut read = 0;
    while let Some(Job::Read) = board.take() {
        board.reading = false;
        board.put(read, batch());
        read += 1;
    }
    assert_eq!(read, BATCHES_AHEAD as u64);
}

#[test]
fn of_several_failures_the_first_in_the_log_is_reported_and_nothing_more_is_begun() {
    let mut board = board();
    board.put(0, batch());
    for group in [7, 3, 5] {
        board.fail(failure(group));
    }
    assert_eq!(board.failure.as_ref().map(|failure| failure.group), Some(3));
    assert!(board.take().is_none() && board.is_over());
    board.busy = 1;
    assert!(!board.is_over(), "another thread may still find an earlier one");
}

#[test]
fn a_thread_that_panics_is_waited_for_by_nobody() {
    let directory = std::path::Path::new("db");
    let disk: Arc<dyn crate::base::disk::Disk> = Arc::new(crate::testing::SimulatedDisk::new());
    let options = crate::options::Options::default();
    let db = crate::Database::open(directory, options.clone().disk(disk.clone())).expect("a new database");
    db.close().expect("closed");
    // The callback for progress runs on the threads that recover.
    let reported = Arc::new(AtomicUsize::new(0));
    let teller = reported.clone();
    let options = options.disk(disk.clone()).recovery_progress(move |_| {
        if teller.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            panic!("the callback panics");
        }
    });
    let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        crate::Database::open(directory, options).map(drop)
    }));
    assert!(opened.is_err(), "the panic goes on to the caller");
    assert!(reported.load(std::sync::atomic::Ordering::Relaxed) > 0);
}
