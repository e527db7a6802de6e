//! CH-benCHmark: threads that ask the 22 queries one after the other while the load runs.
//!
//! # Invariants
//! - Every query is asked in a read-only session, so on a snapshot: it meets no transaction. It would be asked again only if
//!   its snapshot had become too old, which is counted; any other error ends the run.
//! - Analysts begin at different queries, and start over after the last. When the load ends, each ends the query that it
//!   is at by canceling it: that one does not count.

use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

use heddle_sql::error::SqlState;
use heddle_sql::{Canceller, Connection, Sql, SqlError};
use heddle_workloads::tpcc::reports::{self, Query};
use heddledb::Database;
use serde_json::{Value, json};

use super::sql_interface::connect;
use crate::failure::{Failure, Result};

/// The response times of one query.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Number of its answers.
    pub count: u64,
    /// The sum of its response times.
    pub total: Duration,
    /// The longest.
    pub max: Duration,
    /// Number of its repetitions after the snapshot had become too old.
    pub run_again: u64,
}

impl Times {
    fn add(&mut self, other: &Times) {
        self.count += other.count;
        self.total += other.total;
        self.max = self.max.max(other.max);
        self.run_again += other.run_again;
    }

    /// The mean response time in milliseconds; 0 where there was none.
    pub fn mean_milliseconds(&self) -> f64 {
        self.total.as_secs_f64() * 1e3 / self.count.max(1) as f64
    }
}

/// Results of all analysts.
pub struct Analysis {
    /// Number of analysts.
    pub analysts: usize,
    /// The queries with their response times.
    pub queries: Vec<(Query, Times)>,
}

impl Analysis {
    /// All queries together.
    pub fn total(&self) -> Times {
        let mut total = Times::default();
        self.queries.iter().for_each(|(_, times)| total.add(times));
        total
    }

    /// The JSON: queries answered, their mean, number of repetitions, and each query's own times.
    pub fn json(&self) -> Value {
        let total = self.total();
        let of_query = |(query, times): &(Query, Times)| {
            let max_ms = times.max.as_secs_f64() * 1e3;
            let times =
                json!({ "count": times.count, "mean_ms": times.mean_milliseconds(), "max_ms": max_ms });
            (format!("q{}", query.number), times)
        };
        json!({
            "analysts": self.analysts,
            "queries": total.count,
            "mean_ms": total.mean_milliseconds(),
            "run_again": total.run_again,
            "by_query": self.queries.iter().map(of_query).collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// Does `work` while this many analysts ask queries; none of them: only the work.
///
/// # Errors
/// A query's error; the tables can't be made.
pub fn beside<T>(db: &Database, analysts: usize, work: impl FnOnce() -> T) -> Result<(T, Option<Analysis>)> {
    if analysts == 0 {
        return Ok((work(), None));
    }
    let sql = Sql::new(db).map_err(failed)?;
    let queries = reports::queries();
    let connections = (0..analysts).map(|_| reader(&sql)).collect::<Result<Vec<_>>>()?;
    let cancellers: Vec<Canceller> = connections.iter().map(Connection::canceller).collect();
    let ended = std::sync::atomic::AtomicBool::new(false);
    let (done, times) = scope(|scope| {
        let mut threads = Vec::new();
        for (number, connection) in connections.into_iter().enumerate() {
            let (queries, ended) = (&queries, &ended);
            let first = number * queries.len() / analysts;
            let name = format!("analyst-{number}");
            let thread =
                Builder::new().name(name).spawn_scoped(scope, move || ask(connection, queries, first, ended));
            threads.push(thread);
        }
        let done = work();
        // Relaxed: nothing is read on the strength of it.
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut times = Vec::new();
        for (thread, canceller) in threads.into_iter().zip(&cancellers) {
            let thread =
                thread.map_err(|reason| Failure::Failed(format!("cannot start an analyst: {reason}")))?;
            // A query that begins after a cancellation is canceled again.
            while !thread.is_finished() {
                canceller.cancel();
                std::thread::sleep(Duration::from_millis(5));
            }
            times.push(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok::<_, Failure>((done, times))
    })?;
    let mut all: Vec<(Query, Times)> = queries.into_iter().map(|query| (query, Times::default())).collect();
    for of_one in times {
        all.iter_mut().zip(&of_one).for_each(|((_, times), more)| times.add(more));
    }
    Ok((done, Some(Analysis { analysts, queries: all })))
}

/// A connection whose queries are read on snapshots.
fn reader(sql: &Sql) -> Result<Connection> {
    let mut connection = connect(sql)?;
    connection.query("set default_transaction_read_only = on").map_err(failed)?;
    Ok(connection)
}

fn failed(error: SqlError) -> Failure {
    Failure::Failed(format!("{}: {}", error.state().as_str(), error.message()))
}

fn is_of_old_snapshot(error: &SqlError) -> bool {
    matches!(error.engine(), Some(heddledb::Error::SnapshotTooOld { .. }))
}

/// One analyst: asks the queries in turn until the load has ended.
fn ask(
    mut connection: Connection,
    queries: &[Query],
    first: usize,
    ended: &std::sync::atomic::AtomicBool,
) -> Result<Vec<Times>> {
    let mut times = vec![Times::default(); queries.len()];
    let mut at = first;
    loop {
        let start = Instant::now();
        let answer = connection.query(queries[at].text);
        // Relaxed: see above.
        if ended.load(std::sync::atomic::Ordering::Relaxed) {
            return match answer {
                Err(error) if error.state() != SqlState::QUERY_CANCELED => Err(failed(error)),
                _ => Ok(times),
            };
        }
        let took = start.elapsed();
        let mut at_next = at;
        times[at].add(&match answer {
            Ok(_) => {
                at_next = (at + 1) % queries.len();
                Times { count: 1, total: took, max: took, run_again: 0 }
            }
            Err(error) if is_of_old_snapshot(&error) => Times { run_again: 1, ..Times::default() },
            Err(error) => return Err(Failure::Failed(format!("query {}: {error}", queries[at].number))),
        });
        at = at_next;
    }
}
