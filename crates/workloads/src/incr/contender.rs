//! An upper bound for every engine that locks: a plain atomic addition into a flat array, outside of any
//! engine, without transactions and without a log.

use std::sync::atomic::{AtomicU64, Ordering};

use heddledb::Args;

use super::Increment;
use crate::Result;
use crate::contender::Contender;
use crate::workload::Generator;

/// One counter of 8 bytes for each key, side by side.
pub struct AtomicCounters {
    settings: Increment,
    counters: Box<[AtomicU64]>,
}

impl AtomicCounters {
    /// Counters for the same keys and the same calls as the engine gets.
    pub fn new(settings: Increment) -> Result<Self> {
        settings.check_settings()?;
        Ok(Self { settings, counters: (0..settings.keys).map(|_| AtomicU64::new(0)).collect() })
    }
}

impl Contender for AtomicCounters {
    fn name(&self) -> &'static str {
        "atomic"
    }

    fn generator(&self, seed: u64, caller: usize) -> Box<dyn Generator> {
        Box::new(self.settings.adder(Vec::new(), seed, caller))
    }

    fn run(&self, calls: &[(usize, Args)]) -> heddledb::Result<()> {
        for (_, args) in calls {
            let counter = self.counters.get((args.int(0)? - 1) as usize);
            let counter = counter.ok_or_else(|| heddledb::fail("a key without a counter"))?;
            // Relaxed: nothing is published with a counter; threads are joined before the sum is taken.
            counter.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn check(&self, marks: u64) -> Result<(), String> {
        // Relaxed: see `run`.
        let sum: u64 = self.counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum();
        if sum == marks {
            return Ok(());
        }
        Err(format!("the counters add up to {sum}, but {marks} additions were made"))
    }
}
