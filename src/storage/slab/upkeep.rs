//! Upkeep of the memory of records by a dedicated thread, beside transactions: it clears fresh memory ahead, and joins
//! free memory.
//!
//! The system clears a large page (2 MiB on Linux) when it is first touched, which takes it a few hundred microseconds: the thread has
//! that done for the page that transactions will need next. And once many records were freed, it joins their memory to spans,
//! whose pages the system gets back ([`Slabs::join_free`](super::Slabs)).
//!
//! # Invariants
//! At most one page is cleared ahead of those in use, and only while records are being made: what is idle takes nothing.
//!
//! # Concurrency
//! Whichever thread cuts the first chunk of a page asks for the next one. If it is not cleared when it is needed, whichever thread
//! touches it first clears it, or waits for the part that is being cleared: the system serializes both.

use std::ptr::NonNull;

use parking_lot::{Condvar, Mutex};

/// The work that is to be done next.
#[derive(Default)]
pub(super) struct Upkeep {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The page that is to be cleared; `None` if the last one is cleared, or being cleared.
    page: Option<Page>,
    /// True if free memory is to be joined.
    is_join_due: bool,
    is_stopped: bool,
}

struct Page(NonNull<u8>);

// SAFETY: it is an address; what is done with the memory there, the system does.
unsafe impl Send for Page {}

/// One thing to do.
pub(super) enum Task {
    /// Have the large page at this address cleared.
    Clear(NonNull<u8>),
    /// Join free memory.
    Join,
}

impl Upkeep {
    /// Asks for this page, which is needed next, to be cleared; a page that was to be cleared, and is not, has been
    /// needed meanwhile.
    pub(super) fn want_cleared(&self, page: NonNull<u8>) {
        self.state.lock().page = Some(Page(page));
        self.changed.notify_one();
    }

    /// Asks for free memory to be joined.
    pub(super) fn want_joined(&self) {
        self.state.lock().is_join_due = true;
        self.changed.notify_one();
    }

    /// Waits for a task; `None` if there will be no more. Tasks that transactions wait for are first.
    pub(super) fn next(&self) -> Option<Task> {
        let mut state = self.state.lock();
        loop {
            if state.is_stopped {
                return None;
            }
            if let Some(Page(page)) = state.page.take() {
                return Some(Task::Clear(page));
            }
            if std::mem::take(&mut state.is_join_due) {
                return Some(Task::Join);
            }
            self.changed.wait(&mut state);
        }
    }

    /// Ends the work, also before it has begun.
    pub(super) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::super::{CHUNK_BYTES, Cutter, JOINED_RECORDS_MIN, REGION_BYTES, SINGLE_CHUNKS, Slabs};
    use super::Task;
    use crate::base::atomics::Ordering;
    use crate::storage::record::RecordPointer;
    use crate::storage::word::PLACEHOLDER;

    fn make(slabs: &Slabs, cutter: &mut Cutter, records: usize) -> Vec<RecordPointer> {
        let key = |number: usize| number.to_be_bytes();
        (0..records).map(|number| slabs.make(cutter, PLACEHOLDER, &key(number), 5)).collect()
    }

    fn free(slabs: &Slabs, records: impl IntoIterator<Item = RecordPointer>) {
        // SAFETY: no other thread has access to them, and none is given twice.
        records.into_iter().for_each(|record| unsafe { slabs.free(record) });
    }

    #[test]
    fn a_page_is_cleared_for_each_that_is_begun_and_records_stay_as_they_are() {
        let slabs = Arc::new(Slabs::default());
        let mut cutter = Cutter::default();
        thread::scope(|scope| {
            scope.spawn(|| slabs.keep_up());
            let mut made = Vec::new();
            // Records, until some pages were asked for, and cleared beside them.
            while slabs.chunks.lock().regions.len() < 3 {
                let key = made.len().to_be_bytes();
                made.push((slabs.make(&mut cutter, PLACEHOLDER, &key, 5), key));
            }
            while slabs.upkeep.state.lock().page.is_some() {
                thread::yield_now();
            }
            for (record, key) in &made {
                // SAFETY: the slabs are alive.
                assert_eq!(unsafe { record.as_record() }.key(), key);
            }
            slabs.stop_upkeep();
        });
        assert_eq!(slabs.chunks.lock().singles.len(), SINGLE_CHUNKS);
    }

    #[test]
    fn the_second_chunk_of_regions_asks_for_the_page_behind_it() {
        let slabs = Slabs::default();
        let mut cutter = Cutter::default();
        let mut made = 0;
        while slabs.upkeep.state.lock().page.is_none() {
            made += make(&slabs, &mut cutter, 1).len();
            assert!(made < 1_000_000, "no page was asked for");
        }
        assert_eq!(slabs.chunks.lock().regions.len(), 1);
        let task = slabs.upkeep.next();
        assert!(matches!(task, Some(Task::Clear(_))));
        assert!(slabs.upkeep.state.lock().page.is_none());
    }

    #[test]
    fn a_small_store_has_nothing_to_do_and_the_thread_ends_also_if_it_begins_late() {
        let slabs = Slabs::default();
        let mut cutter = Cutter::default();
        let made = make(&slabs, &mut cutter, JOINED_RECORDS_MIN - 1);
        free(&slabs, made);
        let state = slabs.upkeep.state.lock();
        assert!(!state.is_join_due);
        drop(state);
        slabs.stop_upkeep();
        slabs.keep_up();
    }

    #[test]
    fn memory_of_many_freed_records_is_joined_and_serves_records_of_other_sizes() {
        let slabs = Slabs::default();
        let mut cutter = Cutter::default();
        thread::scope(|scope| {
            scope.spawn(|| slabs.keep_up());
            let made = make(&slabs, &mut cutter, 4 * JOINED_RECORDS_MIN);
            free(&slabs, made);
            // Joined, all that lies in whole chunks: the records of the chunk that is in use may stay.
            while slabs.free_count.load(Ordering::Relaxed) >= JOINED_RECORDS_MIN {
                thread::yield_now();
            }
            slabs.stop_upkeep();
        });
        let fetched = |slabs: &Slabs| {
            let chunks = slabs.chunks.lock();
            (chunks.singles.len(), chunks.regions.len(), chunks.left)
        };
        let before = fetched(&slabs);
        for number in 0..2 * JOINED_RECORDS_MIN {
            slabs.make(&mut cutter, PLACEHOLDER, &number.to_be_bytes(), 7);
        }
        assert_eq!(fetched(&slabs), before, "records of another size need no fresh memory");
    }

    #[test]
    fn memory_that_lies_between_records_in_use_is_joined_again_only_once_twice_as_much_is_free() {
        let slabs = Slabs::default();
        let mut cutter = Cutter::default();
        let made = make(&slabs, &mut cutter, 6 * JOINED_RECORDS_MIN);
        let (mut one_in_two, rest): (Vec<_>, Vec<_>) =
            made.into_iter().enumerate().partition(|(number, _)| number % 2 == 0);
        let later = one_in_two.split_off(JOINED_RECORDS_MIN);
        let is_due = || std::mem::take(&mut slabs.upkeep.state.lock().is_join_due);
        let records = |pairs: Vec<(usize, RecordPointer)>| pairs.into_iter().map(|(_, record)| record);
        free(&slabs, records(one_in_two));
        assert!(is_due());
        slabs.join_free();
        assert_eq!(slabs.free_count.load(Ordering::Relaxed), JOINED_RECORDS_MIN, "none has a free neighbor");
        let mut later = records(later);
        free(&slabs, later.by_ref().take(JOINED_RECORDS_MIN - 1));
        assert!(!is_due());
        free(&slabs, later.by_ref().take(1));
        assert!(is_due());
        // Those that are left are as they were made.
        for (number, record) in rest {
            // SAFETY: the slabs are alive.
            assert_eq!(unsafe { record.as_record() }.key(), number.to_be_bytes());
        }
        free(&slabs, later);
    }

    /// Threads fill records with a number of their own, look at it, and free them, one by one and many at once.
    #[test]
    fn no_memory_is_used_twice_and_none_is_lost_while_it_is_joined_beside_several_threads() {
        let slabs = Slabs::default();
        let live = |number: u64| {
            let (mut cutter, mut made) = (Cutter::default(), Vec::new());
            let mut random = fastrand::Rng::with_seed(number);
            let look = |record: &RecordPointer, stamp: u64| {
                // SAFETY: it was made below, and is freed behind the look.
                let record = unsafe { record.as_record() };
                assert_eq!(record.key(), stamp.to_be_bytes());
                assert!(record.row().iter().all(|word| word.load(Ordering::Relaxed) == stamp));
            };
            for round in 0..60 {
                let words = random.usize(1..30);
                for _ in 0..random.usize(0..2 * JOINED_RECORDS_MIN) {
                    let stamp = number << 32 | random.u64(..1 << 32);
                    slabs.fetch_ahead(&mut cutter);
                    let record = slabs.make(&mut cutter, PLACEHOLDER, &stamp.to_be_bytes(), words);
                    // SAFETY: as above.
                    let row = unsafe { record.as_record() }.row();
                    row.iter().for_each(|word| word.store(stamp, Ordering::Relaxed));
                    made.push((record, stamp));
                }
                random.shuffle(&mut made);
                let freed = made.split_off(made.len() * random.usize(0..4) / 4);
                freed.iter().for_each(|(record, stamp)| look(record, *stamp));
                let freed = freed.into_iter().map(|(record, _)| record);
                match round % 3 {
                    // SAFETY: no other thread has access to them, and none is given twice.
                    0 => unsafe { slabs.free_all(freed.collect()) },
                    _ => free(&slabs, freed),
                }
            }
            made.iter().for_each(|(record, stamp)| look(record, *stamp));
            free(&slabs, made.into_iter().map(|(record, _)| record));
            slabs.give_back(&mut cutter);
        };
        thread::scope(|scope| {
            scope.spawn(|| slabs.keep_up());
            let threads: Vec<_> = (1..4)
                .map(|number| {
                    let live = &live;
                    scope.spawn(move || live(number))
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().expect("no memory was used twice"));
            slabs.stop_upkeep();
        });
        assert_eq!(slabs.budget().used(), 0);
        slabs.join_free();
        let mut pieces = Vec::new();
        slabs.gather_free(&mut pieces);
        let free: usize = pieces.iter().map(|piece| piece.bytes as usize).sum();
        let chunks = slabs.chunks.lock();
        let fetched = chunks.singles.len() * CHUNK_BYTES + chunks.regions.len() * REGION_BYTES - chunks.left;
        assert_eq!(free, fetched);
        assert!(pieces.len() <= chunks.singles.len() + chunks.regions.len(), "all of it is joined");
    }
}
