//! Runs a script: tells each transaction when to do its next step, and gathers what they have seen.
//!
//! A step that does not answer in time counts as blocked, and the schedule goes on with the others' steps; the blocked
//! transaction goes on when it can. So how long a step takes decides which interleaving happens, and never whether a
//! test passes.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::{Database, Table};

use super::Subject;
use super::model::Model;
use super::perform::{contents, label, make_table};
use super::script::Script;
use super::script_thread::{Player, Progress, Reply, Seen, Way, run};

/// Far longer than any script takes: what needs it hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// The outcome of a script.
#[derive(Debug)]
pub struct Played {
    /// The observations of each transaction.
    pub seen: Vec<Seen>,
    /// The table afterwards.
    pub end: Model,
    /// The consistency check of the database.
    pub check: Result<(), String>,
}

/// A transaction, seen from the code that drives it.
struct Session {
    tokens: Sender<()>,
    allowed: usize,
    reported: usize,
    seen: Option<Seen>,
}

impl Session {
    fn is_behind(&self) -> bool {
        self.seen.is_none() && self.reported < self.allowed
    }
}

/// Plays a script in a new database. `timeout`: the time after which the schedule continues without a step.
pub fn play(subject: &Subject, script: &Script, way: Way, timeout: Duration) -> Played {
    let db = &subject.database();
    let _mover = subject.disturb(db);
    let table = make_table(db, script.index, &script.start);
    if subject.labels {
        label(db, &table);
    }
    let (replies, heard) = channel();
    let mut sessions = open_sessions(db, &table, script, way, &replies);
    for one in &script.schedule {
        let session = &mut sessions[one.transaction];
        // A transaction that is blocked already will hardly answer this one.
        let timeout = if session.is_behind() { timeout / 8 } else { timeout };
        session.allowed += 1;
        // A transaction that has ended with an error accepts no more steps.
        let _ = session.tokens.send(());
        listen(&mut sessions, &heard, timeout, |sessions| !sessions[one.transaction].is_behind());
    }
    listen(&mut sessions, &heard, LIMIT, |sessions| sessions.iter().all(|session| session.seen.is_some()));
    let hanging: Vec<_> = (1..).zip(&sessions).filter(|(_, session)| session.seen.is_none()).collect();
    if !hanging.is_empty() {
        let names: Vec<_> = hanging.iter().map(|(number, _)| format!("T{number}")).collect();
        panic!("{} hang, with every step allowed", names.join(" and "));
    }
    let seen = sessions.into_iter().filter_map(|session| session.seen).collect();
    let check = db.check().map(drop).map_err(|error| error.to_string());
    Played { seen, end: contents(db, &table, script.start.indexed), check }
}

fn open_sessions(
    db: &Database,
    table: &Table,
    script: &Script,
    way: Way,
    replies: &Sender<(usize, Reply)>,
) -> Vec<Session> {
    let clock = Arc::new(AtomicU64::new(1));
    let open = |number: usize| {
        let (give, tokens) = channel();
        let player = Player {
            number,
            db: db.clone(),
            table: table.clone(),
            steps: script.steps_of(number),
            tokens,
            replies: replies.clone(),
            progress: Progress::default(),
        };
        let clock = clock.clone();
        // Not scoped: a thread that finds that it hangs must be able to say so.
        thread::spawn(move || run(player, way, &clock));
        Session { tokens: give, allowed: 0, reported: 0, seen: None }
    };
    (0..script.transactions).map(open).collect()
}

/// Takes replies until enough is known, or for this long.
fn listen(
    sessions: &mut [Session],
    heard: &Receiver<(usize, Reply)>,
    timeout: Duration,
    enough: impl Fn(&[Session]) -> bool,
) {
    let until = Instant::now() + timeout;
    while !enough(sessions) {
        let left = until.saturating_duration_since(Instant::now());
        let Ok((number, reply)) = heard.recv_timeout(left) else { return };
        match reply {
            Reply::Step => sessions[number].reported += 1,
            Reply::Ended(seen) => sessions[number].seen = Some(seen),
        }
    }
}
