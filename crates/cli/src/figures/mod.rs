//! `heddle figures`: the papers' experiments on one page, and tables of many benchmark runs, by one command each.
//!
//! | file | contents |
//! | --- | --- |
//! | `experiments/` | one TOML file for each experiment, and `papers.toml`: what is not measured, and why |
//! | `experiment`, `catalog` | these files as types; all of them |
//! | `shape` | checks of a figure's shape |
//! | `runs`, `results`, `measure` | one run as a process; all runs in `results.json`; their order |
//! | `outcome` | points and verdicts from the runs |
//! | `plot`, `page`, `number` | SVG, HTML, and numbers in them |
//! | `reproduce` | the command without a table's name |
//! | `policies`, `choices`, `table` | the commands with one |

mod catalog;
mod choices;
mod experiment;
mod measure;
mod number;
mod outcome;
mod page;
mod plot;
mod policies;
mod reproduce;
mod results;
mod runs;
mod shape;
mod table;
#[cfg(test)]
mod tests;

use clap::{Args, Subcommand};

use crate::failure::Result;

/// Repeat the papers' experiments, or make a table of many runs.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    table: Option<Which>,
    #[command(flatten)]
    page: reproduce::PageArguments,
}

const EXAMPLES: &str = "\
Examples:
  heddle figures --quick                             every experiment once, on little data: less than 15 minutes
  heddle figures                                     a night: three runs of each point; interrupted, it continues
  heddle figures --only doppel-8 --out hot-key       one experiment, and a page of its own
  heddle figures --only tpk --only sp --quick        two papers
  heddle figures --only doppel-8 --fresh             measured once more, whatever is there
  heddle figures policies                            table 3 of the conflict prediction paper: 36 runs of some 40 seconds
  heddle figures policies --protocol optimistic      a half of it
  heddle figures policies --quick                    a few minutes, on little data
  heddle figures policies --seconds 1 --history-seconds 1 --json
  heddle figures aborts                              its table 4: aborts by what was written, and by what was read; 6 runs, a minute
  heddle figures choices                             auto beside each fixed protocol on 14 workloads: 420 runs of some 6 seconds
  heddle figures choices --only tpcc --rounds 3
  heddle figures choices --quick                     two minutes, on little data";

/// The tables.
#[derive(Subcommand)]
enum Which {
    /// All sixteen policies, random and partition: TPC-C under optimistic and locking at one mean response time
    Policies(policies::PoliciesArguments),
    /// Aborts in writes and in reads: SmallBank, TATP and TPC-C under optimistic and locking, placed at random
    Aborts(policies::CommonArguments),
    /// The protocol auto beside each fixed one, on the workloads of the bench: transactions per second
    Choices(choices::Arguments),
}

/// Measures what was asked for.
pub fn run(arguments: &Arguments) -> Result {
    match &arguments.table {
        None => reproduce::run(&arguments.page),
        Some(Which::Policies(arguments)) => policies::policies(arguments),
        Some(Which::Aborts(arguments)) => policies::aborts(arguments),
        Some(Which::Choices(arguments)) => choices::run(arguments),
    }
}
