//! The order of a benchmark: load, run, check; close, recover, check again; report.

use std::time::{Duration, Instant};

use heddle_workloads::catalog;
use heddle_workloads::contender::Contender;
use heddle_workloads::driver::{self, Report, Settings};
use heddle_workloads::tpcc::reports;
use heddledb::{
    CheckpointStatus, Choice, Database, Durability, Options, Partition, PhaseReport, Recovery,
    ScheduleReport, TableMemory,
};

use super::analysts::{self, Analysis};
use super::disk::{Files, Peak};
use super::effects::Given;
use super::flash_sale::{Audits, audited};
use super::follower::{Follower, socket_in};
use super::options::{CommonOptions, Limit};
use super::place::Place;
use super::progress::Progress;
use super::sql_interface::SqlInterface;
use super::workloads::{Plan, WorkloadArguments};
use super::{applicable, effects, json, processor, table, target, trace};
use crate::failure::{Failure, Result};
use crate::output;

/// Everything that a benchmark has found out.
pub struct Findings<'a> {
    /// The plan of the run.
    pub plan: &'a Plan,
    /// The settings that the driver used.
    pub settings: Settings,
    /// The place of the database, in words.
    pub place: String,
    /// The driver's measurements.
    pub report: Report,
    /// The first thing that is wrong, if any.
    pub check: std::result::Result<(), String>,
    /// Time of loading.
    pub load_time: Duration,
    /// Recovery's report, if there was a recovery.
    pub recovery: Option<Recovery>,
    /// Statistics of the protocol's phases, if it has any.
    pub phases: Option<PhaseReport>,
    /// The choices that the engine made of its own, since the database was opened.
    pub choices: Vec<Choice>,
    /// State of the checkpoints, if there is a log to shorten.
    pub checkpoints: Option<CheckpointStatus>,
    /// The most that log and checkpoints have taken of the disk, if they are on one.
    pub disk: Option<Peak>,
    /// Final state of the schedule, if it is one that learns.
    pub schedule: Option<ScheduleReport>,
    /// The limit on calls in flight that the engine found, if it was asked to.
    pub max_in_flight: Option<usize>,
    /// Results of the analysts alongside the run, if there were any.
    pub analysis: Option<Analysis>,
    /// Results of the audits alongside the run, if the workload has any.
    pub audits: Option<Audits>,
    /// Each executor's partition at the end, if the protocol has executors.
    pub partitions: Vec<Partition>,
    /// Memory of each table at the end.
    pub memory: Vec<(String, TableMemory)>,
}

impl Findings<'_> {
    /// Returns true if transactions had to be delayed to meet the requested mean response time. `None` if
    /// none was requested.
    pub fn is_throttled(&self) -> Option<bool> {
        self.plan.options.target_mean_ms.map(|_| self.settings.rate.is_some())
    }
}

/// Runs a benchmark from beginning to end.
pub fn run(arguments: &WorkloadArguments, given: &Given) -> Result {
    let mut plan = arguments.plan()?;
    // Before any thread is started: threads run where the one runs that starts them.
    plan.options.processor.map_or(Ok(()), processor::run_on)?;
    let settings = plan.options.settings(plan.path);
    check_options(&plan, given)?;
    if plan.contender.is_some() {
        // It keeps nothing; a durability that was given is refused.
        plan.options.durability = Durability::None;
    }
    settings.check(plan.workload.is_finite())?;
    let place = Place::choose(&plan.options)?;
    let findings = match &plan.contender {
        None => measure(&plan, settings.clone(), &place)?,
        Some(contender) => measure_contender(&plan, contender.as_ref(), settings.clone())?,
    };
    trace::draw(&findings)?;
    let reported = tell(&findings);
    match findings.check {
        Ok(()) => reported,
        Err(wrong) => {
            let kept = place
                .keep()
                .map_or_else(String::new, |path| format!("; the database is in {}", path.display()));
            Err(Failure::Failed(format!("the check failed: {wrong}{kept}")))
        }
    }
}

/// Refuses what a run would refuse before it begins.
#[cfg(test)]
pub fn check_command(arguments: &WorkloadArguments, given: &Given) -> Result {
    let plan = arguments.plan()?;
    check_options(&plan, given)?;
    Ok(plan.options.settings(plan.path).check(plan.workload.is_finite())?)
}

/// Refuses options that do not go together.
fn check_options(plan: &Plan, given: &Given) -> Result {
    plan.options.schedule.check(plan.workload.partition_key())?;
    if plan.contender.is_none() {
        applicable::check(&plan.options, plan.path)?;
    }
    effects::check(given, plan)?;
    SqlInterface::check(plan)?;
    match plan.options.target_mean_ms {
        Some(target) if !(0.001..=1e6).contains(&target) => {
            Err(Failure::Usage(format!("--target-mean-ms {target} is out of range; give 0.001 to 1000000")))
        }
        Some(_) if plan.workload.is_finite() || plan.contender.is_some() => Err(Failure::Usage(
            "--target-mean-ms needs a workload that does not end on its own, in the engine".to_owned(),
        )),
        _ => Ok(()),
    }
}

fn measure<'a>(plan: &'a Plan, settings: Settings, place: &Place) -> Result<Findings<'a>> {
    let progress = Progress::new();
    let engine = || plan.options.engine(plan.workload.partition_key());
    let (db, mut follower) = open_followed(plan, place, engine())?;
    progress.say("loading");
    let start = Instant::now();
    catalog::load(plan.workload.as_ref(), &db)?;
    if plan.analysts > 0 {
        reports::load(&db)?;
    }
    let load_time = start.elapsed();
    plan.options.split.iter().try_for_each(|label| label.put(&db))?;
    let (settings, before) = at_target(plan, &db, settings, &progress)?;
    let bound = plan.workload.bind(&db, settings.callers())?;
    let interface = SqlInterface::of(plan, &db)?;
    follower.as_mut().map_or(Ok(()), |follower| follower.wait_until_attached(&db))?;
    progress.start(plan.workload.as_ref(), &settings);
    let (report, disk) = watch_disk(plan, place, || {
        plan.options.checkpoints.beside(&db, || {
            let watch = |tick| progress.tick(tick);
            let run = || {
                let (workload, through) =
                    (plan.workload.as_ref(), interface.as_ref().map(SqlInterface::as_interface));
                driver::run_through(through, &db, workload, bound.as_ref(), &settings, &watch)
            };
            let audited = || audited(&db, plan.workload.as_ref(), run);
            let (audited, analysis) = analysts::beside(&db, plan.analysts, audited)?;
            let (report, audits) = audited?;
            Ok((report?, audits, analysis))
        })
    })?;
    let (report, audits, analysis) = report?;
    let choices = db.choices();
    let (phases, checkpoints) = (db.phases(), plan.options.is_durable().then(|| db.checkpoints()));
    let (schedule, partitions, memory) = (db.schedule(), db.partitions(), memory_of_tables(&db));
    let max_in_flight = (plan.options.max_in_flight == Some(Limit::Auto)).then(|| db.max_in_flight());
    // Whatever holds on to the database has to let go before it can be closed.
    drop((bound, interface));
    let marks = before + report.marks;
    progress.say("checking");
    let mut check = check(plan, &db, marks);
    let found_in_audits = audits.as_ref().and_then(|audits| audits.wrong.clone());
    check = found_in_audits.map_or(check, Err);
    db.close()?;
    follower.map_or(Ok(()), Follower::end)?;
    let again = check_recovered(plan, place, marks, &progress)?;
    let (recovery, again) = again.map_or((None, Ok(())), |(recovery, again)| (Some(recovery), again));
    check = check.and(again);
    progress.finish();
    let place = place.describe();
    Ok(Findings {
        plan,
        settings,
        place,
        report,
        check,
        load_time,
        recovery,
        phases,
        choices,
        checkpoints,
        disk,
        schedule,
        max_in_flight,
        analysis,
        audits,
        partitions,
        memory,
    })
}

/// The settings with the rate that gives the mean response time asked for, and how many marks there are before the run.
fn at_target(plan: &Plan, db: &Database, settings: Settings, progress: &Progress) -> Result<(Settings, u64)> {
    let before = plan.workload.marks(db)?;
    let Some(milliseconds) = plan.options.target_mean_ms else { return Ok((settings, before)) };
    let found = target::search(db, plan, &settings, milliseconds, progress)?;
    // What the schedule had to learn it has learned.
    let settings = Settings { rate: found.rate, warmup: plan.options.warmup, ..settings };
    Ok((settings, before + found.marks))
}

/// Opens the database again and checks it, if that is asked for: how it was recovered, and what the check says.
fn check_recovered(
    plan: &Plan,
    place: &Place,
    marks: u64,
    progress: &Progress,
) -> Result<Option<(Recovery, std::result::Result<(), String>)>> {
    if !plan.options.verify_recovery {
        return Ok(None);
    }
    progress.say("recovering");
    let db = place.open(plan.options.engine(plan.workload.partition_key()))?;
    let recovery = db.recovery().clone();
    progress.say("checking again");
    let again = check(plan, &db, marks);
    db.close()?;
    Ok(Some((recovery, again.map_err(|wrong| format!("after recovery: {wrong}")))))
}

/// Memory of each table.
fn memory_of_tables(db: &Database) -> Vec<(String, TableMemory)> {
    db.tables().iter().map(|table| (table.name().to_owned(), table.memory())).collect()
}

/// Opens the database, with a follower if one is wanted.
fn open_followed(plan: &Plan, place: &Place, engine: Options) -> Result<(Database, Option<Follower>)> {
    let directories = place.directories().filter(|_| plan.options.checkpoints.follower);
    let Some((directory, _)) = directories else { return Ok((place.open(engine)?, None)) };
    let socket = socket_in(directory);
    let db = place.open(engine.checkpoints(|checkpoints| checkpoints.follower_socket(&socket)))?;
    let follower = Follower::start(directory, &socket)?;
    Ok((db, Some(follower)))
}

/// Does something, and sees how much of the disk it takes, if there is a log.
fn watch_disk<T>(plan: &Plan, place: &Place, work: impl FnOnce() -> T) -> Result<(T, Option<Peak>)> {
    let directories = place.directories().filter(|_| plan.options.is_durable());
    let Some((directory, log)) = directories else { return Ok((work(), None)) };
    let files = Files::of(directory, log, &plan.options.checkpoints.checkpoint_dir);
    let (done, peak) = files.watch(work)?;
    Ok((done, Some(peak)))
}

/// Runs the calls outside of the engine.
fn measure_contender<'a>(
    plan: &'a Plan,
    contender: &dyn Contender,
    settings: Settings,
) -> Result<Findings<'a>> {
    let progress = Progress::new();
    progress.start(plan.workload.as_ref(), &settings);
    let report =
        driver::run_contender(plan.workload.as_ref(), contender, &settings, &|tick| progress.tick(tick))?;
    progress.finish();
    let check = contender.check(report.marks);
    let place = "none: outside of the engine".to_owned();
    Ok(Findings {
        plan,
        settings,
        place,
        report,
        check,
        load_time: Duration::ZERO,
        recovery: None,
        phases: None,
        choices: Vec::new(),
        checkpoints: None,
        disk: None,
        schedule: None,
        max_in_flight: None,
        analysis: None,
        audits: None,
        partitions: Vec::new(),
        memory: Vec::new(),
    })
}

/// The engine's own check, the workload's invariants, and the number of marks that released calls have left.
fn check(plan: &Plan, db: &Database, marks: u64) -> std::result::Result<(), String> {
    db.check().map_err(|error| error.to_string())?;
    plan.workload.check(db, Some(marks))
}

/// Prints the table, or the JSON.
fn tell(findings: &Findings<'_>) -> Result {
    let CommonOptions { json, .. } = &findings.plan.options;
    if *json { output::print(json::object(findings)) } else { output::print(table::text(findings)) }
}
