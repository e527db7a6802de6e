//! `heddle bench`: sets a workload up, runs it, checks it, and reports.
//!
//! | file | what is there |
//! | --- | --- |
//! | `options` | options that all workloads share, and what they mean to the engine and the driver |
//! | `workloads`, `microbenchmarks`, `oltp` | the options of each workload |
//! | `applicable` | refuses options that a run would ignore |
//! | `split_label` | labels by hand, for a protocol that splits records |
//! | `schedule`, `target` | who places calls, and where; the rate for a response time |
//! | `checkpoints`, `follower` | when checkpoints are made, and by which process |
//! | `partitions`, `shift` | what executors own, for the protocol that has them; what a load that shifts does to it |
//! | `place` | where the database is: in memory, in a temporary directory, in a given one |
//! | `processor` | the one processor that everything runs on, if so |
//! | `run` | the order of things: load, run, check, close, recover, check |
//! | `beside` | a thread that works beside the run |
//! | `disk` | how much of the disk was taken |
//! | `json`, `table`, `stages`, `format`, `progress` | output formats |
//! | `trace` | the access trace as a picture |

mod applicable;
mod beside;
mod bookings;
mod checkpoints;
mod disk;
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
mod run;
mod schedule;
mod shift;
mod split_label;
mod stages;
mod table;
mod target;
mod trace;
mod workloads;

use clap::Args;

use crate::failure::Result;

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
  heddle bench probe --help";

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result {
    run::run(&arguments.workload)
}
