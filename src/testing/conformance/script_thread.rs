//! A transaction on a dedicated thread, which does its next step on request.
//!
//! Invariants: a step that was done once is reported once; an attempt that is retried does the steps that were
//! allowed so far unprompted, from the first, and waits only where it goes beyond them. So whatever the protocol does,
//! the transaction ends once all of its steps are allowed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use heddledb::{
    Action, ActionContext, Database, Error, Procedure, ProcedureDefinition, Result, Savepoint, Session,
    SessionSavepoint, SessionState, Table, Tx, args, fail,
};
use parking_lot::Mutex;

use super::model::Outcome;
use super::perform::{Reach, perform};
use super::step::Step;

/// The way in which a transaction is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A closure.
    Closure,
    /// A procedure that declares the whole table.
    WholeTable,
    /// A procedure with a phase and an action for each step, which declares the step's key.
    EachKey,
    /// A session with an access for each step.
    Session,
}

impl Way {
    pub const ALL: [Way; 4] = [Way::Closure, Way::WholeTable, Way::EachKey, Way::Session];
}

/// The course of a transaction, as its last attempt saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The ticks of one clock at which it was called and its result was returned.
    pub begin: u64,
    pub end: u64,
    pub steps: Vec<Step>,
    pub outcome: Outcome,
    /// The number of executions of its body.
    pub attempts: usize,
}

/// A session's report to the code that drives it.
#[derive(Debug)]
pub enum Reply {
    /// One more step was done.
    Step,
    /// The transaction has ended.
    Ended(Seen),
}

/// A session's transaction, and how far it is.
pub struct Player {
    pub number: usize,
    pub db: Database,
    pub table: Table,
    pub steps: Vec<Step>,
    /// One for each step that is allowed.
    pub tokens: Receiver<()>,
    pub replies: Sender<(usize, Reply)>,
    pub progress: Progress,
}

/// The progress of a session.
#[derive(Default)]
pub struct Progress {
    allowed: usize,
    reported: usize,
    attempts: usize,
    answers: Vec<String>,
    savepoints: HashMap<char, Savepoint>,
}

impl Player {
    /// Waits until a step is allowed.
    fn wait_for(&mut self, at: usize) -> Result<()> {
        while self.progress.allowed <= at {
            self.tokens.recv().map_err(|_| fail("the script was abandoned"))?;
            self.progress.allowed += 1;
        }
        Ok(())
    }

    /// Begins an attempt if the step of this number is the first, and waits until it is allowed.
    fn come_to(&mut self, at: usize) -> Result<()> {
        if at == 0 {
            self.progress.answers.clear();
            self.progress.savepoints.clear();
            self.progress.attempts += 1;
        }
        self.wait_for(at)
    }

    /// Notes what a step has answered, and tells once that it is done.
    fn answered(&mut self, at: usize, answer: String) {
        self.progress.answers.push(answer);
        if at >= self.progress.reported {
            self.progress.reported = at + 1;
            let _ = self.replies.send((self.number, Reply::Step));
        }
    }

    /// The answer of a step, or the error that ends the transaction.
    fn answer_of(&mut self, performed: Result<String>) -> Result<String> {
        if let Err(Error::Overflow { .. }) = performed {
            // At the statement or at the commit: which, is the engine's choice.
            self.progress.answers.push("ok".to_string());
        }
        performed
    }

    /// Does the step of this number, once it is allowed.
    fn play<'a>(&mut self, at: usize, tx: &Tx<'_, 'a>, own: Option<&ActionContext<'_, 'a>>) -> Result<()> {
        self.come_to(at)?;
        let answer = match &self.steps[at] {
            Step::Commit => return Ok(()),
            Step::Fail => return Err(fail("its own")),
            // Without the panic's message on the terminal.
            Step::Panic => std::panic::resume_unwind(Box::new("its own")),
            Step::Nested => nested(&self.db),
            step => {
                let performed =
                    perform(&Reach { tx, table: &self.table, own }, step, &mut self.progress.savepoints);
                self.answer_of(performed)?
            }
        };
        self.answered(at, answer);
        Ok(())
    }

    /// Same as `play`, as an access of a session.
    fn play_in_session(
        &mut self,
        at: usize,
        session: &mut Session,
        savepoints: &mut HashMap<char, SessionSavepoint>,
    ) -> Result<()> {
        self.come_to(at)?;
        let answer = match &self.steps[at] {
            Step::Commit => return Ok(()),
            Step::Fail => return session.run(|_| Err(fail("its own"))),
            Step::Panic => return session.run(|_| std::panic::resume_unwind(Box::new("its own"))),
            Step::Nested => session.run(|_| Ok(nested(&self.db)))?,
            Step::Save(name) => {
                savepoints.insert(*name, session.savepoint()?);
                "ok".to_string()
            }
            Step::Back(name) => {
                session.rollback_to(&savepoints[name])?;
                "ok".to_string()
            }
            step => {
                let performed = session.run(|tx| {
                    let reach = Reach { tx, table: &self.table, own: None };
                    perform(&reach, step, &mut HashMap::new())
                });
                self.answer_of(performed)?
            }
        };
        self.answered(at, answer);
        Ok(())
    }
}

/// The answer of a transaction inside a transaction.
fn nested(db: &Database) -> String {
    match db.run(|_| Ok(())) {
        Err(Error::Nested { .. }) => "nested".to_string(),
        other => format!("{other:?}"),
    }
}

/// Plays the steps in a session, and again after each conflict.
fn in_session(db: &Database, count: usize, player: &Mutex<Player>) -> Result<()> {
    let (mut session, mut savepoints) = (db.session()?, HashMap::new());
    loop {
        session.begin()?;
        let played =
            (0..count).try_for_each(|at| player.lock().play_in_session(at, &mut session, &mut savepoints));
        let ended = played.and_then(|()| session.commit());
        if session.state() != SessionState::Idle {
            session.rollback()?;
        }
        if !ended.as_ref().is_err_and(Error::is_retryable) {
            return ended;
        }
    }
}

/// Runs a session to its end, on this thread.
pub fn run(mut player: Player, way: Way, clock: &AtomicU64) {
    if player.wait_for(0).is_err() {
        return;
    }
    let (db, table, steps) = (player.db.clone(), player.table.clone(), player.steps.clone());
    let (number, replies) = (player.number, player.replies.clone());
    let player = Arc::new(Mutex::new(player));
    let begin = clock.fetch_add(1, Ordering::SeqCst);
    let result = match way {
        Way::Closure => db.run(|tx| {
            let mut player = player.lock();
            (0..steps.len()).try_for_each(|at| player.play(at, tx, None))
        }),
        Way::Session => in_session(&db, steps.len(), &player),
        Way::WholeTable | Way::EachKey => {
            let procedure = match way {
                Way::EachKey => each_key(&db, &table, &steps, &player),
                _ => whole_table(&db, &table, &steps, &player),
            };
            let mut worker = db.worker().expect("a slot");
            worker.execute(&procedure, args![]).wait().map(drop)
        }
    };
    let outcome = match result {
        Ok(()) => "ok".to_string(),
        Err(Error::Failed { .. }) => "failed".to_string(),
        Err(Error::Panicked { .. }) => "panicked".to_string(),
        Err(Error::Overflow { .. }) => "overflow".to_string(),
        Err(error) => error.to_string(),
    };
    let end = clock.fetch_add(1, Ordering::SeqCst);
    let (answers, attempts) = {
        let progress = &mut player.lock().progress;
        (std::mem::take(&mut progress.answers), progress.attempts)
    };
    drop(player);
    let seen = Seen { begin, end, steps, outcome: Outcome { answers, outcome }, attempts };
    let _ = replies.send((number, Reply::Ended(seen)));
}

fn whole_table(db: &Database, table: &Table, steps: &[Step], player: &Arc<Mutex<Player>>) -> Procedure {
    let (player, count) = (player.clone(), steps.len());
    let reads = steps.iter().all(Step::only_reads);
    let action = if reads { Action::read(table) } else { Action::write(table) };
    let action = action.body(move |action| {
        let mut player = player.lock();
        (0..count).try_for_each(|at| player.play(at, &action.tx(), None))
    });
    db.register_anonymous(ProcedureDefinition::new("script").phase([action])).expect("a procedure")
}

fn each_key(db: &Database, table: &Table, steps: &[Step], player: &Arc<Mutex<Player>>) -> Procedure {
    // A step without a key of its own declares one that the transaction reaches anyway.
    let some_key = steps.iter().find_map(Step::key);
    let mut definition = ProcedureDefinition::new("script");
    for (at, step) in steps.iter().enumerate() {
        let action = match step {
            step if step.only_reads() => Action::read(table),
            step if step.commutes() => Action::commute(table),
            _ => Action::write(table),
        };
        let action = match step.key().or(some_key).filter(|_| !step.is_scan()) {
            Some(key) => action.key(move |_, builder| builder.push(key)),
            None => action,
        };
        let (player, own_row) = (player.clone(), step.key().is_some());
        definition =
            definition
                .phase([action
                    .body(move |action| player.lock().play(at, &action.tx(), own_row.then_some(action)))]);
    }
    db.register_anonymous(definition).expect("a procedure")
}
