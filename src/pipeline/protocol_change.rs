//! Changes of the protocol while transactions run.
//!
//! A change is made behind the closed gate: no thread is in a commit section, and the next generation begins with another protocol
//! in force. An attempt commits only in the generation in which it began, so that those which are running are retried under the
//! new protocol, and no commit of one protocol overlaps with one of another. Reads that no commit follows are concluded only if
//! their generation still lasts, too. Attempts that wait under the old protocol need not be woken: what they wait for is released by
//! attempts that end.
//!
//! A protocol with phases is left in a joined phase: its coordinator, which began the split phases, ends first.
//!
//! # Invariants
//! - One change at a time; none once the database is being closed.
//! - A transaction that a change has had retried ends before the next change is made: so changes starve no transaction.
//! - No access of a session that loads rows is running (`loads`): it could not be retried.
//!
//! # Concurrency
//! What a change publishes, it publishes with the generation, and by opening the gate (`crate::storage::epoch`).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::base::atomics::{AtomicBool, Ordering};
use crate::error::{Error, Result};
use crate::pipeline::choice_log::ChoiceLog;
use crate::pipeline::engine::Engine;
use crate::pipeline::input::Input;
use crate::pipeline::threads::PhaseThread;
use crate::protocol::ProtocolKind;
use crate::storage::worker_context::WorkerContext;

/// The pause between two looks whether a transaction that was retried has ended.
const LOOK: Duration = Duration::from_micros(100);
/// Changes the protocol of one database.
pub(crate) struct ProtocolChange {
    engine: Arc<Engine>,
    input: Arc<Input>,
    phases: Arc<PhaseThread>,
    /// Locked while a change is made, or once the database is closed.
    changing: Mutex<()>,
    is_closed: AtomicBool,
    opened_with: Mutex<ProtocolKind>,
    choices: Arc<ChoiceLog>,
}

impl ProtocolChange {
    /// For the database of this engine.
    pub(crate) fn new(
        (engine, input): (Arc<Engine>, Arc<Input>),
        phases: Arc<PhaseThread>,
        choices: Arc<ChoiceLog>,
    ) -> ProtocolChange {
        let opened_with = engine.protocol_kind();
        choices.note("protocol", "none", opened_with.name(), "the database was opened with it");
        ProtocolChange {
            engine,
            input,
            phases,
            changing: Mutex::new(()),
            is_closed: AtomicBool::new(false),
            opened_with: Mutex::new(opened_with),
            choices,
        }
    }

    /// The protocol with which the database was opened.
    pub(crate) fn opened_with(&self) -> ProtocolKind {
        *self.opened_with.lock()
    }

    /// Puts the protocol in force with which the database is said to have been opened: a standby was promoted.
    ///
    /// # Errors
    /// Those of [`to`](Self::to).
    pub(crate) fn open_with(&self, kind: ProtocolKind) -> Result<()> {
        self.to(kind)?;
        *self.opened_with.lock() = kind;
        Ok(())
    }

    /// Puts a protocol in force. Waits for transactions that an earlier change has had retried.
    ///
    /// # Errors
    /// One of the two protocols cannot be changed; [`Error::Closed`]; [`Error::ThreadRefused`], and the protocol is in force
    /// without split phases.
    pub(crate) fn to(&self, kind: ProtocolKind) -> Result<()> {
        let _changing = self.changing.lock();
        let before = self.engine.protocol_kind();
        for one in [before, kind] {
            if !one.is_changeable() {
                return Err(unchangeable(one, kind));
            }
        }
        self.wait_for_replaced()?;
        if before == kind {
            return Ok(());
        }
        let number = self.engine.protocols().build(kind);
        let change = || {
            if self.engine.protocol().phases().is_some() {
                self.phases.stop(&self.engine);
            }
            self.put_in_force(number);
        };
        self.engine.loads().between(|| self.is_closed(), change).ok_or(Error::Closed)?;
        self.choices.note("protocol", before.name(), kind.name(), "it was set");
        if self.engine.protocol().phases().is_some() {
            self.phases.start(&self.engine, &self.input)?;
        }
        Ok(())
    }

    /// Has no more changes made, and waits for the one that is being made.
    pub(crate) fn close(&self) {
        // Release pairs with the acquire in `is_closed`.
        self.is_closed.store(true, Ordering::Release);
        drop(self.changing.lock());
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn wait_for_replaced(&self) -> Result<()> {
        loop {
            if self.is_closed() {
                return Err(Error::Closed);
            }
            // Acquire pairs with the release of a transaction that has ended.
            if self.engine.replaced().load(Ordering::Acquire) == 0 {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
    }

    fn put_in_force(&self, number: usize) {
        let store = self.engine.store();
        let epochs = store.epochs();
        epochs.close_gate();
        epochs.wait_for_all(store.worker_contexts().all().map(WorkerContext::published));
        debug_assert!(
            store.splits().current(&crossbeam_epoch::pin()).is_none(),
            "a protocol with phases is left in a joined phase"
        );
        epochs.put_in_force(number);
        // SAFETY: closed above.
        unsafe { epochs.open_gate() };
    }
}

fn unchangeable(kind: ProtocolKind, wanted: ProtocolKind) -> Error {
    Error::InvalidOption {
        option: "protocol",
        given: wanted.to_string(),
        expected: format!(
            "protocols that can be changed while transactions run: under {kind} threads own the rows; open the database with it"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::database::Database;
    use crate::options::{Durability, Options};
    use crate::row;
    use crate::storage::definition::TableDefinition;
    use crate::types::DataType;

    #[test]
    fn a_change_there_and_back_counts_the_body_that_it_has_had_retried() {
        let options = Options::default().protocol(ProtocolKind::Optimistic).durability(Durability::None);
        let db = Database::in_memory_with(options).expect("a database");
        let table = TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]);
        let table = db.create_table(table).expect("a table");
        let (arrived, arrivals) = mpsc::channel();
        let (go_on, gone_on) = mpsc::channel();
        let counted = || db.engine().replaced().load(Ordering::Relaxed);
        thread::scope(|scope| {
            let (db, table) = (&db, &table);
            let body = scope.spawn(move || {
                db.run(|tx| {
                    arrived.send(()).expect("the test waits");
                    gone_on.recv().expect("the test goes on");
                    tx.insert(table, row![1])
                })
            });
            arrivals.recv().expect("the first execution");
            for kind in [ProtocolKind::Serial, ProtocolKind::Optimistic] {
                db.set_protocol(kind).expect("a running body holds no change off");
            }
            assert_eq!(counted(), 0, "it has not been retried yet");
            go_on.send(()).expect("the body waits");
            arrivals.recv().expect("the second execution");
            assert_eq!(counted(), 1, "it holds the next change off");
            go_on.send(()).expect("the body waits");
            assert_eq!(body.join().expect("no panic"), Ok(()));
        });
        assert_eq!(counted(), 0);
    }
}
