//! The same histories, with records copied at different moments of them, as a checkpoint is made beside commits: the
//! copies, and the log from where they need it, make what the whole log makes.

use super::*;
use crate::storage::epoch::FIRST;
use crate::storage::redo::append_copied;
use crate::storage::restore::{Loader, Overlap, Tools};

/// A checkpoint that is being made of an engine's live records.
struct Copying {
    first_epoch: u64,
    block: Vec<u8>,
    copied: i64,
}

impl Copying {
    fn begin(engine: &Engine) -> Copying {
        let since = (!engine.phase.columns.is_empty()).then_some(engine.phase.since);
        let first_epoch = engine.epoch().min(since.unwrap_or(u64::MAX));
        Copying { first_epoch, block: Vec::new(), copied: 0 }
    }

    /// Copies the next record, if it is there.
    fn copy_next(&mut self, engine: &Engine) {
        let (guard, table) = (pin(), &engine.live.table);
        let key = self.copied;
        self.copied += 1;
        let Some(record) = engine.live.record(key, &guard) else { return };
        let mut row = vec![0; table.layout().words()];
        let word = record.read(table.layout(), &mut row);
        if word & ABSENT != 0 {
            return;
        }
        let since = if engine.is_split(key) { engine.phase.since } else { 0 };
        // SAFETY: the row was just read, and the thread is pinned.
        unsafe { append_copied(&mut self.block, table, record.key(), (Stamp::of(word), since), &row) };
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 5_000 }))]

    #[test]
    fn copies_of_different_moments_and_the_log_make_what_the_calls_have_done(
        inserts in prop::collection::vec(row_of(types()), KEYS as usize),
        steps in prop::collection::vec(step(), 1..80),
        begin in any::<prop::sample::Index>(),
        gaps in prop::collection::vec(0..12_usize, KEYS as usize),
    ) {
        let mut engine = Engine::new();
        for (key, row) in inserts.into_iter().enumerate() {
            engine.run(&Step::Insert(key as i64, row));
        }
        let begin = begin.index(steps.len());
        let moments: Vec<usize> =
            gaps.iter().scan(begin, |moment, gap| { *moment += gap; Some(*moment) }).collect();
        let (mut copying, mut last_epoch) = (None, 0);
        for (at, step) in steps.iter().enumerate().skip_while(|(at, _)| *at < begin) {
            // Everything before is run when the copying begins.
            if at == begin {
                steps[..begin].iter().for_each(|step| engine.run(step));
                copying = Some(Copying::begin(&engine));
            }
            let copying = copying.as_mut().expect("begun");
            while moments.get(copying.copied as usize).is_some_and(|moment| *moment <= at) {
                copying.copy_next(&engine);
                last_epoch = engine.epoch();
            }
            engine.run(step);
        }
        let mut copying = copying.expect("begun");
        while copying.copied < KEYS {
            copying.copy_next(&engine);
            last_epoch = engine.epoch();
        }
        engine.seal(false);

        let restored = empty_rig();
        let mut loader = Loader::new(&restored.store, (copying.first_epoch, last_epoch));
        loader.load(&copying.block).expect("copies");
        let mut tools = Tools::new(Overlap::new(last_epoch, loader.finish().split));
        for ((epoch, group), state) in (FIRST..).zip(&engine.groups).zip(&engine.states) {
            if epoch < copying.first_epoch {
                continue;
            }
            tools.begin_epoch(Some(epoch)).expect("all that was missed has gone");
            restored.replay_with(&mut tools, group).expect("what was logged");
            if epoch >= last_epoch {
                prop_assert_eq!(&rows(&restored), state, "epoch {} of {} to {}", epoch, copying.first_epoch, last_epoch);
            }
        }
        tools.begin_epoch(None).expect("all that was missed has gone");
        engine.reconcile();
        prop_assert_eq!(rows(&engine.live), rows(&restored));
    }
}
