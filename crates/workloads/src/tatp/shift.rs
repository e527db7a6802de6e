//! The load that shifts: after this long, subscribers of one executor's range alone are chosen.
//!
//! Only for protocols whose executors own the rows: the database is asked for each subscriber's owner when
//! the benchmark begins. Under other protocols data has no owner, and nothing shifts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use heddledb::{Database, key};

use super::Tatp;
use super::tables::Tables;
use crate::Result;

/// The time of the load's shift, and its target executor.
#[derive(Clone)]
pub(super) struct Shift {
    after: Duration,
    /// The subscribers of the first executor's range; empty if nothing shifts.
    to: Arc<[i64]>,
}

/// A caller's own look at the clock.
pub(super) struct Shifting {
    shift: Shift,
    /// Time of its first call.
    since: Option<Instant>,
    has_shifted: bool,
}

impl Shift {
    /// The shift that these settings request, if they do.
    pub fn of(settings: &Tatp, db: &Database, tables: &Tables) -> Result<Option<Shift>> {
        if settings.shift_seconds <= 0.0 {
            return Ok(None);
        }
        let mut to = Vec::new();
        for subscriber in 1..=i64::from(settings.subscribers) {
            if db.executor_of(&tables.subscriber, key![subscriber])? == Some(0) {
                to.push(subscriber);
            }
        }
        Ok(Some(Shift { after: Duration::from_secs_f64(settings.shift_seconds), to: to.into() }))
    }

    pub fn begin(&self) -> Shifting {
        Shifting { shift: self.clone(), since: None, has_shifted: false }
    }
}

impl Shifting {
    /// Looks at the clock: once for a group of calls.
    pub fn look(&mut self) {
        let since = *self.since.get_or_insert_with(Instant::now);
        self.has_shifted = self.has_shifted || since.elapsed() >= self.shift.after;
    }

    /// Whom a call is about that was to be about this subscriber.
    pub fn apply(&self, subscriber: i64) -> i64 {
        let to = &self.shift.to;
        if !self.has_shifted || to.is_empty() {
            return subscriber;
        }
        to[subscriber as usize % to.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;
    use heddledb::{Durability, Options, PartitionedOptions, ProtocolKind, ProtocolOptions};

    fn shift(protocol: ProtocolKind) -> (Database, Tables, Shift) {
        let settings = Tatp { subscribers: 300, shift_seconds: 0.001, ..Tatp::default() };
        let options = Options::default().durability(Durability::None).protocol(
            ProtocolOptions::from(protocol).partitioned(PartitionedOptions::default().executors(3)),
        );
        let db = Database::in_memory_with(options).unwrap();
        settings.load(&db).unwrap();
        let tables = Tables::open(&db).unwrap();
        let shift = Shift::of(&settings, &db, &tables).unwrap().expect("it shifts");
        (db, tables, shift)
    }

    #[test]
    fn the_load_goes_to_the_first_executors_subscribers_when_the_time_has_come() {
        let (db, tables, shift) = shift(ProtocolKind::Partitioned);
        assert!((90..=110).contains(&shift.to.len()));
        let mut shifting = shift.begin();
        shifting.look();
        assert!((1..=300).all(|subscriber| shifting.apply(subscriber) == subscriber) || shifting.has_shifted);
        std::thread::sleep(Duration::from_millis(2));
        shifting.look();
        for subscriber in 1..=300 {
            let shifted = shifting.apply(subscriber);
            assert_eq!(db.executor_of(&tables.subscriber, key![shifted]).unwrap(), Some(0));
        }
    }

    #[test]
    fn nothing_shifts_where_nobody_owns_anything_or_where_nothing_was_said() {
        let (db, tables, shift) = shift(ProtocolKind::Optimistic);
        let mut shifting = shift.begin();
        shifting.look();
        std::thread::sleep(Duration::from_millis(2));
        shifting.look();
        assert!((1..=300).all(|subscriber| shifting.apply(subscriber) == subscriber));
        assert!(Shift::of(&Tatp::default(), &db, &tables).unwrap().is_none());
    }
}
