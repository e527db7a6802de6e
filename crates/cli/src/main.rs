//! `heddle`: the command line of HeddleDB.
//!
//! Exit codes: 0 all is well, 1 a check failed or something broke, 2 wrong usage. Results go to standard output,
//! progress and errors to standard error.

// Both panic where standard output or standard error cannot be written: see `output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod archive;
mod backup;
mod bar;
mod bench;
mod check;
mod dump;
mod failure;
mod figures;
mod follow;
mod inspect;
mod output;
mod recovering;
mod serve;
mod sql;
mod transfer;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// The binary's allocator; the library leaves the choice to the embedding program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// An in-memory, durable, serializable database engine that stays fast when every transaction touches the same rows.
#[derive(Parser)]
#[command(name = "heddle", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  heddle bench debit-credit                 the 1985 benchmark, durable, verified before and after recovery
  heddle bench incr1 --hot-percent 100 --protocol phased    all add to one row, under phase reconciliation
  heddle bench probe --clients 35 --protocol serial --json
  heddle bench flights --input flights.csv.gz --dir flights.heddle
  heddle figures --quick                    the papers' experiments on one page, with plots
  heddle check flights.heddle               verify a database and the workloads in it
  heddle inspect flights.heddle             what is in it
  heddle dump flights.heddle carrier        a table as CSV
  heddle dump --sql flights.heddle          the whole database as a script of SQL
  heddle export flights.heddle carrier carrier.parquet      a table as CSV, JSON or Parquet
  heddle import shop.heddle item items.csv  the rows of such a file into a table
  heddle sql flights.heddle                 a shell that speaks SQL
  heddle serve flights.heddle               serve PostgreSQL clients
  heddle backup flights.heddle copy.heddle  copy a database, while it runs
  heddle follow flights.heddle              write its checkpoints, while it runs
  heddle restore copy.heddle other.heddle   verify a copy, and make a database of it
  heddle archive list archive/              what was archived by heddle serve --archive";

#[expect(clippy::large_enum_variant, reason = "made once per process")]
#[derive(Subcommand)]
enum Command {
    /// Run a workload, measure it, and verify the database afterwards
    Bench(bench::Arguments),
    /// Repeat the papers' experiments: plots, a page, and tables of many runs
    Figures(figures::Arguments),
    /// Verify a database, and the invariants of the workloads that were run in it
    Check(check::Arguments),
    /// Copy a database, while it runs
    Backup(backup::BackupArguments),
    /// List, verify and prune an archive
    Archive(archive::Arguments),
    /// Make a database of a backup, which is verified, or of an archive
    Restore(backup::RestoreArguments),
    /// Write the checkpoints of a database that another process has open
    Follow(follow::Arguments),
    /// Show what is in a database directory
    Inspect(inspect::Arguments),
    /// Print a table as CSV, or the whole database as SQL
    Dump(dump::Arguments),
    /// Write a table as a CSV, JSON or Parquet file
    Export(transfer::export::Arguments),
    /// Insert the rows of a CSV, JSON or Parquet file into a table
    Import(transfer::import::Arguments),
    /// Run SQL on a database: from the command line, a file, standard input, or a terminal
    Sql(sql::Arguments),
    /// Serve a database to PostgreSQL clients
    Serve(serve::Arguments),
    /// Make a standby the database that it replays
    Promote(serve::PromoteArguments),
    /// Users that may connect to a served database
    User(serve::UserArguments),
}

fn main() -> ExitCode {
    let matches = Arguments::command().get_matches();
    let given = bench::Given::of(&matches);
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let result = match arguments.command {
        Command::Bench(arguments) => bench::run(&arguments, &given),
        Command::Figures(arguments) => figures::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Backup(arguments) => backup::back_up(&arguments),
        Command::Archive(arguments) => archive::run(&arguments),
        Command::Restore(arguments) => backup::restore(&arguments),
        Command::Follow(arguments) => follow::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::Export(arguments) => transfer::export::run(&arguments),
        Command::Import(arguments) => transfer::import::run(&arguments),
        Command::Sql(arguments) => sql::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Promote(arguments) => serve::promote(&arguments),
        Command::User(arguments) => serve::user(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::report(format_args!("heddle: {failure}"));
            failure.exit_code()
        }
    }
}
