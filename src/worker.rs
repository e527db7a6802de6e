//! Workers of the caller's own: a thread that makes calls and runs them itself, without a queue.

use std::sync::Arc;
use std::time::Instant;

use crate::database::Shared;
use crate::error::{Error, Result};
use crate::pipeline::call::{Found, Output, Routine};
use crate::pipeline::execute::work_out_footprint;
use crate::pipeline::nesting;
use crate::pipeline::statistics::Stage;
use crate::pipeline::worker::{Pending, execute_group};
use crate::procedure::Procedure;
use crate::protocol::Held;
use crate::protocol::footprint::Footprint;
use crate::storage::participant::{Counters, Seat};
use crate::types::Args;

/// A participant of the caller's: it runs its own calls, one group at a time, and their results are told when they
/// are durable.
///
/// ```
/// # use heddledb::{Action, DataType, Database, Durability, Options, ProcedureDefinition, TableDefinition, args, row};
/// # let db = Database::in_memory(Options::default().durability(Durability::None))?;
/// # let counters = db.create_table(
/// #     TableDefinition::new("counter").column("id", DataType::Int64).column("n", DataType::Int64).primary_key(["id"]),
/// # )?;
/// # db.run(|tx| tx.insert(&counters, row![7, 0]))?;
/// # let count = db.register(ProcedureDefinition::new("count").parameter("id", DataType::Int64).phase([
/// #     Action::commute(&counters).key(|args, key| key.push(args.int(0)?)).body(|action| action.add("n", 1)),
/// # ]))?;
/// let mut worker = db.worker()?;
/// let executed = worker.execute(&count, args![7]);
/// executed.wait()?;
/// # Ok::<(), heddledb::Error>(())
/// ```
pub struct Worker<'db> {
    shared: &'db Shared,
    seat: Seat<'db>,
    held: Held,
    group: Vec<Prepared>,
    /// What was found ahead for the calls of a group.
    found: Vec<Found>,
    /// Footprints of calls that have run, whose memory the next ones use.
    spare: Vec<Footprint>,
}

/// A call of a group, with its footprint.
struct Prepared {
    routine: Arc<dyn Routine>,
    args: Args,
    footprint: Footprint,
}

impl Pending for Prepared {
    fn parts(&self) -> (&dyn Routine, &Args, &Footprint) {
        (&*self.routine, &self.args, &self.footprint)
    }
}

/// A call that has run, and whose result is told when everything that it wrote and read is durable.
pub struct Executed<'db> {
    shared: &'db Shared,
    epoch: u64,
    attempts: u32,
    result: Result<Output>,
}

impl Executed<'_> {
    /// The epoch that must be durable before the result is told; 0: none.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many attempts it took: 1 if it met no rival.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Whether it ended in an error; which one is told with the result.
    pub fn failed(&self) -> bool {
        self.result.is_err()
    }

    /// Whether the result can be had without waiting.
    pub fn is_released(&self) -> bool {
        self.shared.engine().progress().is_released(self.epoch)
    }

    /// Waits until the result may be told.
    ///
    /// # Errors
    /// The call's own error; [`Error::LogFailed`] if its outcome is unknown.
    pub fn wait(self) -> Result<Output> {
        nesting::check("waiting for a call")?;
        self.shared.engine().progress().wait(self.epoch)?;
        self.result
    }
}

impl<'db> Worker<'db> {
    pub(crate) fn new(shared: &'db Shared) -> Worker<'db> {
        let seat = shared.engine().store().participants().take();
        Worker {
            shared,
            seat,
            held: Held::default(),
            group: Vec::new(),
            found: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Results up to this epoch can be had without waiting.
    pub fn durable_epoch(&self) -> u64 {
        self.shared.engine().progress().released()
    }

    /// Runs one call.
    pub fn execute(&mut self, procedure: &Procedure, args: Args) -> Executed<'db> {
        let mut calls = vec![(procedure.clone(), args)];
        let mut done = Vec::with_capacity(1);
        self.execute_group(&mut calls, &mut done);
        done.pop().unwrap_or_else(|| self.refused(Error::Closed))
    }

    /// Runs calls in order, as one group, and empties `calls`; puts a result for each into `done`.
    ///
    /// Within a group the keys of the calls to come are looked up while the present one runs.
    pub fn execute_group(&mut self, calls: &mut Vec<(Procedure, Args)>, done: &mut Vec<Executed<'db>>) {
        if let Err(error) = nesting::check("running a call") {
            return done.extend(calls.drain(..).map(|_| self.refused(error.clone())));
        }
        let start = Instant::now();
        let mut group = std::mem::take(&mut self.group);
        let mut wrote = false;
        for (procedure, args) in calls.drain(..) {
            match self.prepare(procedure, args) {
                Ok(prepared) => group.push(prepared),
                Err(error) => {
                    // Results come in the order of the calls: what is gathered so far runs first.
                    wrote |= self.run(&mut group, done);
                    done.push(self.refused(error));
                }
            }
        }
        wrote |= self.run(&mut group, done);
        self.group = group;
        self.shared.engine().clocks().add(Stage::Execute, start);
        if wrote {
            self.shared.engine().ring_log();
        }
    }

    fn prepare(&mut self, procedure: Procedure, args: Args) -> Result<Prepared> {
        self.shared.check_procedure(&procedure)?;
        let routine = procedure.into_routine();
        let mut footprint = self.spare.pop().unwrap_or_default();
        work_out_footprint(&*routine, &args, &mut footprint)?;
        Ok(Prepared { routine, args, footprint })
    }

    fn refused(&self, error: Error) -> Executed<'db> {
        Executed { shared: self.shared, epoch: 0, attempts: 1, result: Err(error) }
    }

    fn run(&mut self, group: &mut Vec<Prepared>, done: &mut Vec<Executed<'db>>) -> bool {
        let engine = self.shared.engine();
        let counters = &self.seat.participant().counters;
        let mut wrote = false;
        for part in group.chunks(crate::pipeline::worker::GROUP_CALLS) {
            execute_group(
                engine,
                &mut self.seat,
                &mut self.held,
                &mut self.found,
                part,
                |_, ending, output| {
                    wrote |= ending.wrote;
                    if !ending.wrote && !engine.progress().is_released(ending.epoch) {
                        Counters::count(&counters.readers_waited);
                    }
                    done.push(Executed {
                        shared: self.shared,
                        epoch: ending.epoch,
                        attempts: ending.attempts,
                        result: ending.result.map(|()| output),
                    });
                },
            );
        }
        self.spare.extend(group.drain(..).map(|call| call.footprint));
        wrote
    }
}
