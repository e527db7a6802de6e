//! The cost of snapshots for writers: one after the other that is read whole, and a hundred a second that are
//! hardly read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use heddle_workloads::like::Like;
use heddledb::{Database, ProtocolKind, Range, key};

use crate::Result;
use crate::arguments::Arguments;
use crate::figures::{Asked, Figures, Rates};
use crate::load::{Load, Slices, options};

/// The balance of a new account, in cents: the workload's.
const OPENING_BALANCE: i64 = 100_000;

/// Debit-credit beside scans of all accounts.
pub fn scans(arguments: &mut Arguments) -> Result<Figures> {
    let slices = Slices::read(arguments, 6, 1.0)?;
    let accounts: u32 = arguments.get("accounts", 1_000_000)?;
    let threads = arguments.get("threads", 1)?;
    let options = options(arguments, ProtocolKind::Optimistic, threads)?;
    arguments.finish()?;
    let mut load = Load::bank(Database::in_memory_with(options)?, accounts, threads)?;
    let (mut rates, mut scanned, mut seconds) = (Rates::default(), 0, Duration::ZERO);
    for _ in 0..slices.rounds {
        rates.push(0, load.run(slices.seconds)?.throughput());
        let scan = |db: &Database, over: &AtomicBool| scan_until(db, over, accounts);
        let (report, (scans, time)) = load.run_beside(slices.seconds, scan)?;
        rates.push(1, report.throughput());
        (scanned, seconds) = (scanned + scans, seconds + time);
    }
    load.check()?;
    let statistics = load.db.statistics();
    if statistics.snapshots_failed > 0 {
        return Err(format!("{} snapshots failed", statistics.snapshots_failed).into());
    }
    let mut figures = Figures::default();
    figures.add_ratio(["alone", "beside scans"], &rates, Asked::AtLeast(0.85));
    figures.add("rows scanned, per second", scanned as f64 * f64::from(accounts) / seconds.as_secs_f64());
    figures.add("whole scans, each exact", scanned as f64);
    figures.add("transactions retried", statistics.aborted as f64);
    Ok(figures)
}

/// Scans all accounts of the only branch on one snapshot after the other: how many, and in which time. Each must agree with the
/// branch's own balance.
fn scan_until(db: &Database, over: &AtomicBool, accounts: u32) -> Result<(u64, Duration)> {
    let (account, branch) = (db.table("account")?, db.table("branch")?);
    let balance = account.column("balance")?;
    let (start, mut scans) = (Instant::now(), 0);
    loop {
        let snapshot = db.snapshot()?;
        let (mut sum, mut count) = (0, 0);
        for row in snapshot.scan(&account, Range::all())? {
            sum += row?.row().int(balance)?;
            count += 1;
        }
        let of_branch = snapshot.get(&branch, key![1])?.ok_or("the branch is missing")?.int("balance")?;
        let deposited = sum - i64::from(accounts) * OPENING_BALANCE;
        if (count, deposited) != (accounts, of_branch) {
            return Err(format!(
                "epoch {}: {count} accounts with {deposited} deposited, but the branch says {of_branch}",
                snapshot.epoch()
            )
            .into());
        }
        scans += 1;
        // Relaxed: a late look costs one more scan.
        if over.load(Ordering::Relaxed) {
            return Ok((scans, start.elapsed()));
        }
    }
}

/// `like` beside a number of snapshots each second.
pub fn frequent(arguments: &mut Arguments) -> Result<Figures> {
    let slices = Slices::read(arguments, 6, 1.0)?;
    let per_second: f64 = arguments.get("snapshots", 100.0)?;
    let threads = arguments.get("threads", 2)?;
    let size = arguments.get("pages", 200_000)?;
    let options = options(arguments, ProtocolKind::Phased, threads)?;
    arguments.finish()?;
    if !(0.001..=1e6).contains(&per_second) {
        return Err(format!("--snapshots {per_second} is out of range; give 0.001 to 1000000").into());
    }
    let like = Like { users: size, pages: size, ..Like::default() };
    let mut load = Load::new(Database::in_memory_with(options)?, like, threads)?;
    let (mut rates, mut taken) = (Rates::default(), Vec::new());
    for _ in 0..slices.rounds {
        rates.push(0, load.run(slices.seconds)?.throughput());
        let between = Duration::from_secs_f64(1.0 / per_second);
        let take = |db: &Database, over: &AtomicBool| take_until(db, over, between);
        let (report, rate) = load.run_beside(slices.seconds, take)?;
        rates.push(1, report.throughput());
        taken.push(rate);
    }
    load.check()?;
    let mut figures = Figures::default();
    figures.add_ratio(["alone", "beside snapshots"], &rates, Asked::AtLeast(0.8));
    figures.add("snapshots, per second", crate::figures::median(&taken));
    Ok(figures)
}

/// Takes a snapshot at every interval, and reads the most popular page in it: how many were taken in a second. Its likes never
/// become fewer, and two reads in one snapshot are equal.
fn take_until(db: &Database, over: &AtomicBool, between: Duration) -> Result<f64> {
    let page = db.table("page")?;
    let (start, mut taken, mut before) = (Instant::now(), 0_u32, 0);
    // Relaxed: a late look costs one more snapshot.
    while !over.load(Ordering::Relaxed) {
        let snapshot = db.snapshot()?;
        let likes = || -> Result<i64> {
            Ok(snapshot.get(&page, key![1])?.ok_or("the page is missing")?.int("likes")?)
        };
        let (first, second) = (likes()?, likes()?);
        if first < before || first != second {
            return Err(format!("a page has {before}, then {first} and {second} likes").into());
        }
        (taken, before) = (taken + 1, first);
        thread::sleep((start + between * taken).saturating_duration_since(Instant::now()));
    }
    Ok(f64::from(taken) / start.elapsed().as_secs_f64())
}
