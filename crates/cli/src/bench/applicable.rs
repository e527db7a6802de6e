//! Refuses options that a run would ignore.
//!
//! Invariant: an option that cannot apply is an error that names what it belongs to.

use heddle_workloads::driver::CallPath;
use heddledb::{ScheduleKind, Stages};

use super::options::CommonOptions;
use crate::failure::{Failure, Result};

/// An option, with two facts: it was given, and it would have an effect.
struct Use {
    option: &'static str,
    is_given: bool,
    applies: bool,
}

fn option(option: &'static str, is_given: bool, applies: bool) -> Use {
    Use { option, is_given, applies }
}

/// Refuses an option that belongs to something that was not chosen.
fn check_use(Use { option, is_given, applies }: &Use, belongs_to: &str) -> Result {
    if !is_given || *applies {
        return Ok(());
    }
    Err(Failure::Usage(format!("{option} is for {belongs_to}; give both, or neither")))
}

/// Refuses an option of one protocol's under another one.
pub fn check_protocol(options: &CommonOptions, name: &'static str, is_given: bool, protocol: &str) -> Result {
    // What is for `phased` is for `auto`, too, which splits columns in the same way.
    let chosen = options.protocol.name();
    let applies = chosen == protocol || (chosen, protocol) == ("auto", "phased");
    check_use(&option(name, is_given, applies), &format!("--protocol {protocol}"))
}

/// Refuses the first of the common options that cannot apply.
pub fn check(options: &CommonOptions, path: CallPath) -> Result {
    check_protocols(options)?;
    check_stages(options)?;
    check_durability(options)?;
    check_queues(options, path)
}

fn check_protocols(options: &CommonOptions) -> Result {
    let partitions = &options.partitions;
    let all = [
        ("serial", "--sites", options.sites.is_some()),
        ("serial", "--variant", options.variant.is_some()),
        ("locking", "--lock-conflict", options.lock_conflict.is_some()),
        ("phased", "--phase-ms", options.phase_ms.is_some()),
        ("phased", "--split", !options.split.is_empty()),
        ("partitioned", "--executors", partitions.executors.is_some()),
        ("partitioned", "--boundaries", partitions.boundaries.is_some()),
        ("partitioned", "--plan", partitions.plan.is_some()),
    ];
    all.iter().try_for_each(|(protocol, name, is_given)| check_protocol(options, name, *is_given, protocol))
}

/// Checks the options of input and output threads. The layout must be given with them, because the default
/// one depends on the machine.
fn check_stages(options: &CommonOptions) -> Result {
    let stages = options.stages;
    let input = matches!(stages, Some(Stages::Staged | Stages::Single));
    let output = stages == Some(Stages::Staged);
    check_use(
        &option("--input-threads", options.input_threads.is_some(), input),
        "--stages staged or --stages single",
    )?;
    check_use(&option("--output-threads", options.output_threads.is_some(), output), "--stages staged")
}

fn check_durability(options: &CommonOptions) -> Result {
    let checkpoints = &options.checkpoints;
    let all = [
        ("--group-size", options.group_size.is_some()),
        ("--group-ms", options.group_ms.is_some()),
        ("--checkpoint", checkpoints.checkpoint.is_some()),
        ("--checkpoint-seconds", checkpoints.checkpoint_seconds.is_some()),
        ("--checkpoint-spread", checkpoints.checkpoint_spread.is_some()),
        ("--checkpoint-transactions", checkpoints.checkpoint_transactions.is_some()),
        ("--checkpoint-dir", !checkpoints.checkpoint_dir.is_empty()),
        ("--checkpoint-threads", checkpoints.checkpoint_threads.is_some()),
        ("--follower", checkpoints.follower),
        ("--follower-socket", checkpoints.follower_socket.is_some()),
        ("--verify-recovery", options.verify_recovery),
    ];
    all.iter().try_for_each(|(name, is_given)| {
        check_use(
            &option(name, *is_given, options.is_durable()),
            "a database with a log: --durability group or async",
        )
    })
}

/// Workers that make their own calls take none from a queue.
fn check_queues(options: &CommonOptions, path: CallPath) -> Result {
    let schedule = &options.schedule;
    let own_calls = matches!(path, CallPath::OwnCalls { .. });
    check_use(
        &option("--max-in-flight", options.max_in_flight.is_some(), !own_calls),
        "calls through the queues: --clients or --generators",
    )?;
    // Queues have a bound where workers may run each other's calls.
    let bounded = schedule.generators().is_some() || schedule.kind() != ScheduleKind::Random;
    check_use(
        &option("--queue-calls", schedule.queue_calls.is_some(), bounded),
        "--schedule partition or predict, or --generators",
    )
}
