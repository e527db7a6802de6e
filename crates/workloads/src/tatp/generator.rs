//! The callers: which transaction, on which subscriber, with which values.

use heddledb::{Database, Procedure};

use super::check::{DELETED, INSERTED, UPDATED};
use super::shift::{Shift, Shifting};
use super::tables::{START_TIMES, TYPES, Tables, location};
use super::{Tatp, procedure, transaction};
use crate::Result;
use crate::calls::{Call, Calls};
use crate::mix::Mix;
use crate::workload::{Bound, Generator, random_of};

/// The benchmark on an open database.
pub(super) struct Register {
    settings: Tatp,
    /// One list for each caller: clients' calls count handles, and would hand a shared one's count to and fro.
    procedures: Vec<Vec<Procedure>>,
    shift: Option<Shift>,
}

impl Register {
    pub fn bind(settings: Tatp, db: &Database, callers: usize) -> Result<Self> {
        let tables = Tables::open(db)?;
        let procedures = (0..callers.max(1)).map(|_| procedure::register_all(db, &tables, settings.pause));
        let procedures = procedures.collect::<Result<_, _>>()?;
        Ok(Self { settings, procedures, shift: Shift::of(&settings, db, &tables)? })
    }
}

impl Bound for Register {
    fn generator(&self, seed: u64, caller: usize) -> Result<Box<dyn Generator>> {
        Ok(Box::new(Caller {
            procedures: self.procedures[caller % self.procedures.len()].clone(),
            choice: Choice::new(&self.settings),
            probe_records: i64::from(self.settings.probe_records),
            mix: self.settings.mix(),
            random: random_of(seed, caller),
            shifting: self.shift.as_ref().map(Shift::begin),
        }))
    }

    fn acknowledgement(&self, _call: Call<'_>) -> Option<String> {
        None
    }
}

/// Chooses subscribers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    subscribers: i64,
    /// The specification's constant A, which depends on how many subscribers there are.
    spread: i64,
    hot: i64,
    /// A random number below it makes a choice in the hot spot.
    hot_below: u64,
}

impl Choice {
    pub fn new(settings: &Tatp) -> Self {
        let spread = match settings.subscribers {
            0..=1_000_000 => 65_535,
            1_000_001..=10_000_000 => 1_048_575,
            _ => 2_097_151,
        };
        Self {
            subscribers: i64::from(settings.subscribers),
            spread,
            hot: i64::from(settings.hot),
            hot_below: (settings.hot_percent / 100.0 * 2_f64.powi(64)) as u64,
        }
    }

    /// The next choice: two random numbers are joined by OR, so that numbers with many bits set come up more often.
    #[inline]
    pub fn choose(&self, random: &mut fastrand::Rng) -> i64 {
        if self.hot_below > 0 && random.u64(..) < self.hot_below {
            return random.i64(1..=self.hot);
        }
        let joined = random.i64(0..=self.spread) | random.i64(1..=self.subscribers);
        joined % self.subscribers + 1
    }
}

/// The calls of one caller.
struct Caller {
    procedures: Vec<Procedure>,
    choice: Choice,
    probe_records: i64,
    mix: Mix,
    random: fastrand::Rng,
    shifting: Option<Shifting>,
}

impl Caller {
    #[inline]
    fn add(&mut self, calls: &mut Calls) {
        let place = self.mix.choose(&mut self.random);
        let random = &mut self.random;
        let chosen = self.choice.choose(random);
        let subscriber = self.shifting.as_ref().map_or(chosen, |shifting| shifting.apply(chosen));
        let kind = random.i64(TYPES);
        match place {
            transaction::GET_SUBSCRIBER_DATA => calls.add_integers(place, 0, &[subscriber]),
            transaction::GET_NEW_DESTINATION => {
                let (from, until) = (START_TIMES[random.usize(0..3)], random.i64(1..=24));
                calls.add_integers(place, 0, &[subscriber, kind, from, until]);
            }
            transaction::GET_ACCESS_DATA => calls.add_integers(place, 0, &[subscriber, kind]),
            transaction::UPDATE_SUBSCRIBER_DATA => {
                calls.add_integers(place, UPDATED, &[subscriber, kind, random.i64(0..256)]);
            }
            transaction::UPDATE_LOCATION => {
                let place_now = location(subscriber, random.i64(..));
                calls.add_integers(place, UPDATED, &[subscriber, place_now]);
            }
            transaction::INSERT_CALL_FORWARDING => {
                let start = START_TIMES[random.usize(0..3)];
                let (end, number) = (start + random.i64(1..=8), random.i64(0..1_000_000_000_000_000));
                calls.add_integers(place, INSERTED, &[subscriber, kind, start, end, number]);
            }
            transaction::DELETE_CALL_FORWARDING => {
                calls.add_integers(place, DELETED, &[subscriber, kind, START_TIMES[random.usize(0..3)]]);
            }
            _ => {
                let records = self.probe_records;
                let first = subscriber.min(self.choice.subscribers + 1 - records);
                calls.add_integers(place, UPDATED * records as u32, &[first, records]);
            }
        }
    }
}

impl Generator for Caller {
    fn procedures(&self) -> &[Procedure] {
        &self.procedures
    }

    fn fill(&mut self, calls: &mut Calls, at_most: usize) -> Result<bool> {
        if let Some(shifting) = &mut self.shifting {
            shifting.look();
        }
        while calls.len() < at_most {
            self.add(calls);
        }
        Ok(true)
    }
}
