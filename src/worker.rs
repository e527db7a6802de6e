//! Workers of the caller's own: a thread that makes calls and runs them itself, without a queue.
//!
//! A call through a queue costs two context switches, which take longer than a short transaction. A worker holds a
//! worker context and runs the calls of its thread in groups, so that the next calls' records are fetched while one
//! runs. Where executors own the data, it sends a group to them in batches instead.

use smallvec::SmallVec;

use crate::database::Shared;
use crate::diagnostics::activity::{Activity, at};
use crate::error::{Error, Result};
use crate::pipeline::call::{Output, Routine, Submitted};
use crate::pipeline::execute::{Outcome, keep_panics_in};
use crate::pipeline::group_clock::GroupClock;
use crate::pipeline::nesting;
use crate::pipeline::partition::Executors;
use crate::pipeline::partition::batch::{Incoming, Sink};
use crate::pipeline::partition::key_resolution::KeyResolver;
use crate::pipeline::partition::worker_group::{GroupMember, GroupMemory, closed};
use crate::pipeline::worker_thread::{GROUP_CALLS, GroupScratch, Pending, execute_group};
use crate::procedure::{Procedure, Registered};
use crate::protocol::Held;
use crate::protocol::footprint::Footprint;
use crate::storage::worker_context::{Counters, SlotGuard, SlotUse};
use crate::types::Args;

/// A worker context of the caller: it executes its own calls, one group at a time, and their results are
/// released when they are durable.
///
/// ```
/// # use heddledb::{Action, DataType, Database, Durability, Options, ProcedureDefinition, TableDefinition, args, row};
/// # let db = Database::in_memory()?;
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
    slot_guard: SlotGuard<'db>,
    held: Held,
    scratch: GroupScratch,
    clock: GroupClock,
    /// The footprints of a group's calls; kept for their memory.
    footprints: Vec<Footprint>,
    /// The memory of groups that executors run.
    group: GroupMemory,
}

/// A call of a group, with its footprint.
struct Prepared<'c> {
    routine: &'c Registered,
    args: &'c Args,
    footprint: &'c Footprint,
}

impl Pending for Prepared<'_> {
    type Routine = Registered;

    #[inline]
    fn parts(&self) -> (&Registered, &Args, &Footprint) {
        (self.routine, self.args, self.footprint)
    }
}

/// A transaction of a group whose data executors own.
struct Member<'c> {
    procedure: &'c Procedure,
    args: &'c Args,
    footprint: &'c mut Footprint,
}

impl GroupMember for Member<'_> {
    #[inline]
    fn parts_mut(&mut self) -> (&(dyn Routine + 'static), &Args, &mut Footprint) {
        (self.procedure.registered(), self.args, self.footprint)
    }

    fn send(&mut self) -> Incoming {
        let (routine, args) = (self.procedure.routine(), self.args.clone());
        Incoming { routine, args, footprint: std::mem::take(self.footprint), sink: Sink::Batch }
    }

    fn take_back(&mut self, incoming: Incoming) {
        *self.footprint = incoming.footprint;
    }
}

/// A call that was executed, and whose result is released when everything that it wrote and read is durable.
#[must_use = "the result, and whether it is durable, is known once it was waited for"]
pub struct Executed<'db> {
    shared: &'db Shared,
    epoch: u64,
    attempts: u32,
    delivery: Delivery,
}

enum Delivery {
    /// An error in a box: so a group's results, nearly all of which are none, are small.
    Ready(std::result::Result<Output, Box<Error>>),
    /// The call waits for the end of a split phase (`phased`); one of the database's workers runs it then.
    Stashed(Submitted),
}

impl Executed<'_> {
    /// The epoch that must be durable before the result is released; 0 if it waits for none, or the call is
    /// stashed.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Number of attempts: 1 if it met no conflict.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns true if it ended in an error, which [`wait`](Self::wait) returns.
    pub fn failed(&self) -> bool {
        matches!(self.delivery, Delivery::Ready(Err(_)))
    }

    /// Returns true if it has not run yet, but waits for the end of a split phase (under `phased`): then
    /// [`is_released`](Self::is_released) returns true once its result is available.
    pub fn is_stashed(&self) -> bool {
        matches!(self.delivery, Delivery::Stashed(_))
    }

    /// Returns true if the result is available without waiting.
    pub fn is_released(&self) -> bool {
        match &self.delivery {
            Delivery::Ready(_) => self.shared.engine().progress().is_released(self.epoch),
            Delivery::Stashed(submitted) => submitted.is_done(),
        }
    }

    /// Waits until the result may be released.
    ///
    /// # Errors
    /// The call's own error; [`Error::LogFailed`] if its outcome is unknown.
    pub fn wait(self) -> Result<Output> {
        nesting::check("waiting for a call")?;
        match self.delivery {
            Delivery::Ready(result) => {
                self.shared.engine().progress().wait(self.epoch)?;
                result.map_err(|error| *error)
            }
            Delivery::Stashed(submitted) => submitted.wait(),
        }
    }
}

impl<'db> Worker<'db> {
    pub(crate) fn new(shared: &'db Shared) -> Result<Worker<'db>> {
        let slot_guard =
            shared.engine().store().worker_contexts().take_for(SlotUse::Worker).map_err(|error| *error)?;
        Ok(Worker {
            shared,
            slot_guard,
            held: Held::default(),
            scratch: GroupScratch::default(),
            clock: GroupClock::default(),
            footprints: Vec::new(),
            group: GroupMemory::default(),
        })
    }

    /// The highest epoch whose results are available without waiting: `u64::MAX` if results wait for no log.
    pub fn durable_epoch(&self) -> u64 {
        self.shared.engine().progress().released()
    }

    /// Executes one call.
    pub fn execute(&mut self, procedure: &Procedure, args: Args) -> Executed<'db> {
        let mut done = Vec::with_capacity(1);
        self.execute_group(std::slice::from_ref(procedure), &[(0, args)], &mut done);
        done.pop().unwrap_or_else(|| self.refused(Error::Closed))
    }

    /// Executes calls in order, as one group, and appends a result for each to `done`. Each call names its
    /// procedure by its position in `procedures`.
    ///
    /// Within a group the keys of later calls are looked up while an earlier one runs. Calls take effect in their order,
    /// and so do calls, and instances of a repeated action, that name one key: each sees what the ones before it wrote.
    /// There are exceptions, which are serializable all the same; wait for the earlier results where they
    /// matter:
    ///
    /// - Under `phased`, a stashed call ([`Executed::is_stashed`]) runs after the split phase: behind all calls of its
    ///   group that were not stashed, and in any order with other stashed ones, also of the same key.
    /// - Under `partitioned`, calls whose rows belong to different executors run at the same time. A call whose rows an
    ///   earlier phase finds by a secondary index may take effect before or behind others of its group that change what
    ///   the index shows. Where a unique index does not contain all routing columns, a call may fail with a duplicate key
    ///   that an earlier call of its group at another executor has yet to remove. A call over several executors whose
    ///   actions return [`Error::Conflict`] again and again may take effect behind later ones.
    /// - An action that names a key reads by a secondary index the rows of that key only; what else it finds there fails
    ///   the call. An action without a key reads all rows, and sees what earlier calls of its group wrote.
    pub fn execute_group(
        &mut self,
        procedures: &[Procedure],
        calls: &[(usize, Args)],
        done: &mut Vec<Executed<'db>>,
    ) {
        if let Err(error) = nesting::check("running a call") {
            return done.extend(calls.iter().map(|_| self.refused(error.clone())));
        }
        let (engine, worker_context) = (self.shared.engine(), self.slot_guard.worker_context());
        worker_context.set_executing(true);
        engine.show(worker_context, Activity::Work, || self.execute_in_groups(procedures, calls, done));
        worker_context.set_executing(false);
    }

    fn execute_in_groups(
        &mut self,
        procedures: &[Procedure],
        calls: &[(usize, Args)],
        done: &mut Vec<Executed<'db>>,
    ) {
        let start = self.clock.begin();
        let mut footprints = std::mem::take(&mut self.footprints);
        let together = calls.len().min(GROUP_CALLS);
        if footprints.len() < together {
            footprints.resize_with(together, Footprint::default);
        }
        let (mut wrote, mut left) = (false, calls);
        while !left.is_empty() {
            let (ready, refusal) = self.prepare(procedures, left, &mut footprints);
            wrote |= self.run(procedures, &left[..ready], &mut footprints, done);
            left = &left[ready..];
            if let Some(error) = refusal {
                // Results are in the order of the calls: those before the refused one have run.
                done.push(self.refused(error));
                left = &left[1..];
            }
        }
        self.footprints = footprints;
        self.clock.end(start, self.shared.engine().clocks());
        if wrote {
            let _handover = at(Activity::Handover);
            self.shared.engine().notify_log();
        }
    }

    /// Computes what the first calls touch: as many as run together, or up to the first that is refused. Gives their
    /// number, and why the one after them is refused.
    fn prepare(
        &self,
        procedures: &[Procedure],
        calls: &[(usize, Args)],
        footprints: &mut [Footprint],
    ) -> (usize, Option<Error>) {
        let together = calls.iter().zip(footprints).take(GROUP_CALLS);
        let mut ready = 0;
        // A panic ends the call whose turn it is, as an error does.
        let prepared = keep_panics_in(|| {
            let mut checked = None;
            for ((place, args), footprint) in together {
                let procedure = match checked {
                    Some((of, procedure)) if of == *place => procedure,
                    _ => checked.insert((*place, self.procedure(procedures, *place)?)).1,
                };
                procedure.registered().footprint(args, footprint)?;
                ready += 1;
            }
            Ok(())
        });
        (ready, prepared.err())
    }

    /// Same as [`run`](Self::run), where executors own the data: they run the transactions.
    fn run_at(
        &mut self,
        executors: &Executors,
        procedures: &[Procedure],
        calls: &[(usize, Args)],
        footprints: &mut [Footprint],
        done: &mut Vec<Executed<'db>>,
    ) {
        let shared = self.shared;
        let members = calls.iter().zip(&mut *footprints).map(|((place, args), footprint)| Member {
            procedure: &procedures[*place],
            args,
            footprint,
        });
        let mut members: SmallVec<[Member<'_>; GROUP_CALLS]> = members.collect();
        let Worker { slot_guard, held, group, .. } = self;
        executors.execute_group(
            KeyResolver { engine: shared.engine(), slot_guard, held },
            group,
            &mut members,
        );
        drop(members);
        // For the next group: which of them is which does not matter.
        let sent = footprints.iter_mut().filter(|footprint| footprint.references.capacity() == 0);
        sent.zip(group.spare_footprints.drain(..)).for_each(|(footprint, spare)| *footprint = spare);
        group.spare_footprints.clear();
        done.extend(group.outcomes.drain(..).map(|outcome| {
            let (outcome, output) = outcome.unwrap_or_else(closed);
            let delivery = Delivery::Ready(outcome.failure.map_or(Ok(output), Err));
            Executed { shared, epoch: outcome.epoch, attempts: outcome.attempts, delivery }
        }));
    }

    fn procedure<'p>(&self, procedures: &'p [Procedure], place: usize) -> Result<&'p Procedure> {
        let Some(procedure) = procedures.get(place) else {
            return Err(Error::InvalidProcedure {
                procedure: format!("number {place}"),
                detail: format!("the group was given {} procedures, counted from 0", procedures.len()),
            });
        };
        self.shared.check_procedure(procedure)?;
        Ok(procedure)
    }

    fn refused(&self, error: Error) -> Executed<'db> {
        Executed {
            shared: self.shared,
            epoch: 0,
            attempts: 1,
            delivery: Delivery::Ready(Err(Box::new(error))),
        }
    }

    /// Runs calls whose footprints are known; returns true if one of them wrote.
    fn run(
        &mut self,
        procedures: &[Procedure],
        calls: &[(usize, Args)],
        footprints: &mut [Footprint],
        done: &mut Vec<Executed<'db>>,
    ) -> bool {
        if let Some(executors) = self.shared.input().executors() {
            let _handover = at(Activity::Handover);
            self.run_at(executors, procedures, calls, footprints, done);
            // The executors have notified the log.
            return false;
        }
        if calls.is_empty() {
            return false;
        }
        // Combined at each look at a call: a list of them would cost a call that arrives alone more than that.
        let group = calls.iter().zip(&*footprints).map(|((place, args), footprint)| Prepared {
            routine: procedures[*place].registered(),
            args,
            footprint,
        });
        let engine = self.shared.engine();
        let counters = &self.slot_guard.worker_context().counters;
        let mut wrote = false;
        let tell = |number: usize, outcome: Outcome, output| {
            let (epoch, attempts) = (outcome.epoch, outcome.attempts);
            if outcome.stashed {
                let (place, args) = &calls[number];
                let footprint = footprints[number].clone();
                let submitted = self.shared.stash(&procedures[*place], args.clone(), footprint);
                let delivery = Delivery::Stashed(submitted);
                return done.push(Executed { shared: self.shared, epoch, attempts, delivery });
            }
            wrote |= outcome.wrote;
            if !outcome.wrote && !engine.progress().is_released(outcome.epoch) {
                Counters::count(&counters.readers_waited);
            }
            let delivery = Delivery::Ready(outcome.failure.map_or(Ok(output), Err));
            done.push(Executed { shared: self.shared, epoch, attempts, delivery });
        };
        execute_group(engine, &mut self.slot_guard, &mut self.held, &mut self.scratch, group, tell);
        wrote
    }
}
