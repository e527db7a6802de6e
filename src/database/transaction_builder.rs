//! Transactions with a time limit, a way to cancel them, and a report of their attempts and waits.
//!
//! Invariants: limits are checked before each attempt and before the commit. A transaction that has begun to
//! commit ends as if it had no limit: its outcome is never in doubt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Database;
use crate::base::atomics::{AtomicBool, Ordering};
use crate::error::{Error, OwnError, Result, Timeout};
use crate::transaction::Tx;

/// A transaction that has not run yet: see [`Database::transaction`].
#[derive(Clone, Debug)]
#[must_use = "it runs with run, try_run or run_reporting"]
pub struct TransactionBuilder<'db> {
    db: &'db Database,
    deadline: Option<Instant>,
    cancellation: Option<Cancellation>,
}

/// The course of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionReport {
    /// Number of executions of the body: 1 if it met no conflict.
    pub attempts: u32,
    /// Time of the transaction as a whole.
    pub elapsed: Duration,
    /// Time that it waited for the durability of its result.
    pub log_wait: Duration,
}

impl TransactionReport {
    /// Number of retries.
    pub fn retries(&self) -> u32 {
        self.attempts.saturating_sub(1)
    }
}

/// Cancels transactions from other threads: those that received it, or a clone of it, by
/// [`TransactionBuilder::cancel_by`].
#[derive(Clone, Debug, Default)]
pub struct Cancellation {
    is_canceled: Arc<AtomicBool>,
}

impl Cancellation {
    /// A cancellation that has not been requested.
    pub fn new() -> Cancellation {
        Cancellation::default()
    }

    /// Ends all transactions that received it, and those that will, with [`Error::Canceled`], before their
    /// next attempt or their commit.
    pub fn cancel(&self) {
        // Relaxed: a flag that publishes nothing else.
        self.is_canceled.store(true, Ordering::Relaxed);
    }

    /// Returns true if it was canceled.
    pub fn is_canceled(&self) -> bool {
        // Relaxed: as in `cancel`.
        self.is_canceled.load(Ordering::Relaxed)
    }
}

impl Database {
    /// A transaction with a time limit, a way to cancel it, or a report.
    ///
    /// ```
    /// use std::time::Duration;
    /// use heddledb::Cancellation;
    /// # use heddledb::{DataType, Database, Error, TableDefinition, row};
    /// # let db = Database::in_memory()?;
    /// # let hits = db.create_table(TableDefinition::new("hit").column("id", DataType::Int64).column("n", DataType::Int64)
    /// #     .primary_key(["id"]))?;
    /// # db.run(|tx| tx.insert(&hits, row![7, 0]))?;
    /// let cancellation = Cancellation::new();
    /// let limited = db.transaction().timeout(Duration::from_secs(5)).cancel_by(&cancellation);
    /// let (result, report) = limited.clone().run_reporting(|tx| tx.add(&hits, 7, "n", 1));
    /// assert_eq!((result, report.attempts, report.retries()), (Ok(()), 1, 0));
    /// cancellation.cancel();
    /// assert_eq!(limited.run(|tx| tx.add(&hits, 7, "n", 1)), Err(Error::Canceled));
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn transaction(&self) -> TransactionBuilder<'_> {
        TransactionBuilder { db: self, deadline: None, cancellation: None }
    }

    /// Same as [`run`](Self::run), without blocking the thread for the log or for a row that a session has reserved.
    /// The body runs on the thread that polls.
    ///
    /// ```
    /// # use heddledb::{Database, Result, Table, row};
    /// async fn add_visitor(db: &Database, visitors: &Table, name: &str) -> Result<()> {
    ///     db.run_async(|tx| tx.insert(visitors, row![name])).await
    /// }
    /// ```
    ///
    /// # Errors
    /// Same errors as [`run`](Self::run).
    pub async fn run_async<T>(&self, body: impl FnMut(&Tx<'_, '_>) -> Result<T>) -> Result<T> {
        self.session()?.run_async(body).await
    }
}

impl TransactionBuilder<'_> {
    /// Fails with [`Error::TimedOut`] once this time has passed from this call on.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.deadline = Instant::now().checked_add(time);
        self
    }

    /// Fails with [`Error::TimedOut`] from this time on.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Fails with [`Error::Canceled`] once this is canceled.
    pub fn cancel_by(mut self, cancellation: &Cancellation) -> Self {
        self.cancellation = Some(cancellation.clone());
        self
    }

    /// Runs the transaction, as [`Database::run`] does.
    ///
    /// # Errors
    /// Same errors as [`Database::run`]; [`Error::TimedOut`], [`Error::Canceled`]: the transaction left no
    /// trace.
    pub fn run<T>(self, body: impl FnMut(&Tx<'_, '_>) -> Result<T>) -> Result<T> {
        self.run_reporting(body).0
    }

    /// Runs the transaction, as [`Database::try_run`] does.
    ///
    /// # Errors
    /// Same errors as [`Database::try_run`]; [`Error::TimedOut`], [`Error::Canceled`]: the transaction left
    /// no trace.
    pub fn try_run<T, E: From<Error>>(
        self,
        mut body: impl FnMut(&Tx<'_, '_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut own = OwnError::none();
        let result = self.run(|tx| own.keep(body(tx)));
        own.or_kept(result)
    }

    /// Runs the transaction, and reports its attempts and waits.
    pub fn run_reporting<T>(
        self,
        mut body: impl FnMut(&Tx<'_, '_>) -> Result<T>,
    ) -> (Result<T>, TransactionReport) {
        let begin = Instant::now();
        let mut report = TransactionReport::default();
        let result = self.db.run_measuring(&mut report.log_wait, |tx| {
            report.attempts += 1;
            self.check()?;
            let value = body(tx)?;
            self.check()?;
            Ok(value)
        });
        report.elapsed = begin.elapsed();
        (result, report)
    }

    /// Fails if the transaction was canceled, or its time is over.
    fn check(&self) -> Result<()> {
        if self.cancellation.as_ref().is_some_and(Cancellation::is_canceled) {
            return Err(Error::Canceled);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => {
                Err(Error::TimedOut { what: Timeout::Transaction })
            }
            _ => Ok(()),
        }
    }
}
