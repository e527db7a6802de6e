//! A store with one table and a protocol, without the pipeline's threads: transactions run on the model's own.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_epoch::pin;
use heddle_model_doors::execution::prepare;

use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::protocol::attempt::{Attempt, Target};
use crate::protocol::in_force::Protocols;
use crate::protocol::{Held, LockConflict, ProtocolKind, Settings, Try};
use crate::storage::commit::CommitFailure;
use crate::storage::definition::TableDefinition;
use crate::storage::epoch::{FIRST, protocol_of};
use crate::storage::reclaim::{collect_deleted, collect_placeholders};
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::storage::word::Stamp;
use crate::storage::worker_context::{Memory, WorkerContext};
use crate::types::{DataType, Value, ValueRef};

/// The number of the one table.
const TABLE: u32 = 16;
/// Most threads of a model.
const THREADS: usize = 3;

/// See the module's description.
pub(super) struct Stand {
    pub(super) store: Store,
    pub(super) table: Arc<TableCore>,
    protocols: Protocols,
}

/// Arguments of a transaction's body.
pub(super) struct Body<'b, 'a> {
    attempt: &'b Attempt<'a>,
    table: &'b TableCore,
}

impl Stand {
    /// A stand with these rows: a key and the two columns. Memory that threads will share is touched.
    pub(super) fn new(kind: ProtocolKind, rows: &[(i64, i64, i64)]) -> Arc<Stand> {
        prepare(|| {
            let definition = TableDefinition::new("item")
                .column("id", DataType::Int64)
                .column("left", DataType::Int64)
                .column("right", DataType::Int64)
                .primary_key(["id"]);
            let store = Store::new(FIRST, THREADS, false);
            let table = store.add_table(TABLE, definition);
            let settings = Settings {
                partitions: 1,
                serial_variant: crate::protocol::SerialVariant::default(),
                lock_conflict: LockConflict::Wait,
                phase: Duration::from_millis(20),
                max_worker_contexts: THREADS,
            };
            let protocols = Protocols::new(kind, settings);
            store.epochs().put_in_force(protocols.build(kind));
            let stand = Stand { store, table, protocols };
            let slot_guards: Vec<_> = (0..THREADS).map(|_| stand.store.worker_contexts().take()).collect();
            slot_guards.iter().for_each(|slot_guard| slot_guard.worker_context().published().leave());
            drop(slot_guards);
            for &(id, left, right) in rows {
                stand.transact(|body| body.insert(id, left, right));
                stand.transact(|body| body.get(id));
            }
            Arc::new(stand)
        })
    }

    /// Puts a protocol in force, as `pipeline::protocol_change` does.
    pub(super) fn change(&self, kind: ProtocolKind) {
        let (epochs, number) = (self.store.epochs(), self.protocols.build(kind));
        epochs.close_gate();
        epochs.wait_for_all(self.store.worker_contexts().all().map(WorkerContext::published));
        epochs.put_in_force(number);
        // SAFETY: closed above.
        unsafe { epochs.open_gate() };
    }

    /// Runs the body until it commits.
    pub(super) fn transact<T>(&self, body: impl Fn(&Body<'_, '_>) -> Result<T>) -> T {
        let mut number = 0;
        loop {
            number += 1;
            match self.attempt(number, &body) {
                Ok((answer, _)) => return answer,
                Err(CommitFailure::Conflict) => heddle_model_doors::thread::yield_now(),
                Err(failure) => panic!("{failure:?}"),
            }
        }
    }

    /// Runs the body once. The stamp, if it has written.
    pub(super) fn attempt<T>(
        &self,
        number: u32,
        body: impl Fn(&Body<'_, '_>) -> Result<T>,
    ) -> Result<(T, Option<Stamp>), CommitFailure> {
        let (guard, mut held) = (pin(), Held::default());
        let mut slot_guard = self.store.worker_contexts().take();
        let (worker_context, memory) = slot_guard.parts();
        let Memory { workspace, reads, arena } = memory;
        arena.reset();
        let attempt =
            Attempt::new(&self.store, worker_context, &guard, arena, workspace, reads, &mut held, None);
        let protocol = self.protocols.get(protocol_of(attempt.generation()));
        protocol.begin(&attempt, None, Try { number, code: 0 });
        let committed = match body(&Body { attempt: &attempt, table: &self.table }) {
            // As in `pipeline::execute`: what has only read must be of this generation, too.
            Ok(answer) => match protocol.commit(&attempt) {
                Ok(None) if !attempt.is_of_current_schema() => Err(CommitFailure::Conflict),
                committed => committed.map(|stamp| (answer, stamp)),
            },
            Err(Error::Conflict) => Err(CommitFailure::Conflict),
            // As in `pipeline::execute`: only what was a possible state is released.
            Err(_) if attempt.has_lost_a_record() || !protocol.validate_reads(&attempt) => {
                Err(CommitFailure::Conflict)
            }
            Err(error) => Err(CommitFailure::Refused(Box::new(error), Stamp::ZERO)),
        };
        protocol.end(&attempt);
        protocol.end_group(&mut attempt.held().borrow_mut());
        drop(attempt);
        collect_placeholders(workspace, &guard);
        collect_deleted(workspace, self.store.versions(), || u64::MAX, &guard);
        committed
    }
}

impl<'a> Body<'_, 'a> {
    fn with_target<T>(&self, id: i64, act: impl FnOnce(&Target<'_, 'a>) -> Result<T>) -> Result<T> {
        let key = self.table.encode_key(&[ValueRef::Int(id)], true)?;
        let hash = self.table.hash(&key);
        act(&Target { table: self.attempt.hold(self.table)?, key: &key, hash, found: None, declared: false })
    }

    /// Both columns.
    pub(super) fn get(&self, id: i64) -> Result<Option<(i64, i64)>> {
        self.with_target(id, |target| {
            let Some(words) = self.attempt.get(target)? else { return Ok(None) };
            // SAFETY: the row was just read, and the attempt is pinned.
            let values = unsafe { self.table.layout().values(words) };
            let [_, Value::Int(left), Value::Int(right)] = values[..] else {
                panic!("not a row: {values:?}")
            };
            Ok(Some((left, right)))
        })
    }

    pub(super) fn insert(&self, id: i64, left: i64, right: i64) -> Result<()> {
        self.with_target(id, |target| {
            self.attempt.insert(target, &[ValueRef::Int(id), ValueRef::Int(left), ValueRef::Int(right)])
        })
    }

    pub(super) fn set(&self, id: i64, left: i64, right: i64) -> Result<()> {
        self.with_target(id, |target| {
            self.attempt.update(target, &[(1, ValueRef::Int(left)), (2, ValueRef::Int(right))])
        })
    }

    pub(super) fn add(&self, id: i64, by: i64) -> Result<()> {
        self.with_target(id, |target| self.attempt.operate(target, 1, Operation::Add, ValueRef::Int(by)))
    }

    pub(super) fn delete(&self, id: i64) -> Result<bool> {
        self.with_target(id, |target| self.attempt.delete(target))
    }
}
