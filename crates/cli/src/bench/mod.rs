//! `heddle bench`: loads a workload, runs it, checks its invariants, and prints a report.
//!
//! | file | contents |
//! | --- | --- |
//! | `options` | options common to all workloads, and how they map to the engine's and the driver's settings |
//! | `workloads`, `microbenchmarks`, `oltp` | the options of each workload |
//! | `applicable`, `effects` | reject options that would have no effect on the run |
//! | `split_label` | labels (splits chosen by hand), for a protocol that splits records |
//! | `sql_interface` | makes the calls as functions in SQL |
//! | `schedule`, `target` | which threads place calls, and in which queues; the highest rate within a response time |
//! | `checkpoints`, `follower` | when checkpoints are taken, and by which process |
//! | `partitions`, `shift` | the executors' partitions, for the partitioned protocol; throughput when the load shifts |
//! | `place` | where the database is stored: in memory, in a temporary directory, or in a given one |
//! | `processor` | pins the whole run to one processor, if asked to |
//! | `run` | the sequence of steps: load, run, check, close, recover, check |
//! | `analysts` | CH-benCHmark: reports alongside the load of TPC-C |
//! | `beside` | a background thread for the duration of the run |
//! | `disk` | disk usage |
//! | `json`, `table`, `stages`, `format`, `progress` | output formats |
//! | `trace` | draws the access trace |

mod analysts;
mod applicable;
mod beside;
mod bookings;
mod checkpoints;
mod disk;
mod effects;
mod flash_sale;
mod follower;
mod format;
mod json;
mod microbenchmarks;
mod oltp;
mod options;
mod partitions;
mod place;
mod processor;
mod progress;

mod rubis;
mod run;
mod schedule;
mod shift;
mod split_label;
mod sql_interface;
mod stages;
mod table;
mod target;
mod trace;
mod workloads;

use clap::Args;

use crate::failure::Result;

pub use effects::Given;
pub use options::think_range;

/// Run a workload.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    workload: workloads::WorkloadArguments,
}

const EXAMPLES: &str = "\
Examples:
  heddle bench debit-credit
  heddle bench debit-credit --clients 32 --seconds 10 --json
  heddle bench incr1 --hot-percent 100 --durability none
  heddle bench like --protocol phased --phase-ms 5
  heddle bench tatp --only update-location
  heddle bench smallbank --schedule predict --threads 20 --think-us 100
  heddle bench flights --input flights.csv.gz --protocol locking --lock-conflict no-wait
  heddle bench tpcc --protocol partitioned --access-trace trace.svg --access-trace-table district
  heddle bench debit-credit --interface sql --durability none            the transactions as functions in PL/pgSQL
  heddle bench probe --help";

/// Refuses options that a run would refuse, and runs nothing.
#[cfg(test)]
pub fn check(arguments: &Arguments, given: &Given) -> Result {
    run::check_command(&arguments.workload, given)
}

/// Runs the command.
pub fn run(arguments: &Arguments, given: &Given) -> Result {
    run::run(&arguments.workload, given)
}
