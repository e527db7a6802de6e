//! `heddle check`: verifies a database directory.

use std::path::PathBuf;

use clap::Args;
use heddle_workloads::driver::read_acknowledgements;
use heddle_workloads::{Workload, catalog};
use heddledb::{Database, Durability, Options};

use crate::backup::described;
use crate::bar::Bar;
use crate::failure::{Failure, Result};
use crate::{output, recovering};

/// Verify a database: the checksums of its files, its rows, its indexes, and the books of the workloads in it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The database directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Check this workload's invariants [default: those of every workload that created its tables here]
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Check that everything acknowledged in this file (see heddle bench --acks) is in the database
    #[arg(long, value_name = "FILE")]
    acks: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  heddle check bank.heddle
  heddle check bank.heddle --acks acknowledged.txt";

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result {
    let bar = Bar::new("opening the database");
    let db = open(&arguments.directory)?;
    bar.say("reading its files");
    let files = db.check_files(&mut |done, total| bar.show(true, done, total))?;
    bar.say("looking at rows and indexes");
    let report = db.check_with(&mut |done, total| bar.show(false, done, total))?;
    drop(bar);
    output::print(format_args!("files: ok, {}", described(&files)))?;
    output::print(format_args!(
        "engine: ok, {} rows in {} tables, {} index entries",
        report.rows, report.tables, report.index_entries
    ))?;
    let recovery = db.recovery();
    if let Some(cut) = &recovery.cut {
        output::print(format_args!("torn tail: {cut}"))?;
    }
    if let Some(why) = &recovery.passed_over {
        output::print(format_args!("a newer checkpoint was passed over: {why}"))?;
    }
    if recovery.checkpoint > 0 {
        output::print(format_args!(
            "checkpoint {}: ok, {} records",
            recovery.checkpoint, recovery.checkpoint_records
        ))?;
    }
    let workloads = chosen(arguments, &db)?;
    for workload in &workloads {
        workload.check(&db, None).map_err(|wrong| failed(workload.as_ref(), &wrong))?;
        output::print(format_args!("{}: ok, {} committed calls", workload.name(), workload.marks(&db)?))?;
    }
    if let Some(path) = &arguments.acks {
        let keys = read_acknowledgements(path)?;
        let [workload] = &workloads[..] else {
            return no_single_workload(&workloads, keys.len());
        };
        workload.check_acknowledged(&db, &keys).map_err(|wrong| failed(workload.as_ref(), &wrong))?;
        output::print(format_args!("acknowledged: ok, all {} are there", keys.len()))?;
    }
    Ok(db.close()?)
}

/// Opens a database to look at, and changes nothing in it.
pub fn open(directory: &std::path::Path) -> Result<Database> {
    if !directory.is_dir() {
        return Err(Failure::Usage(format!(
            "{}: not a directory; give the path of a database",
            directory.display()
        )));
    }
    let options = Options::default().durability(Durability::Group).read_only(true);
    Ok(Database::open(directory, recovering::shown(options))?)
}

/// A database to look at, and the copy that it is in, if it is one.
pub struct Opened {
    database: Database,
    _copy: Option<tempfile::TempDir>,
}

impl Opened {
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Closes it, and removes the copy.
    pub fn close(self) -> Result {
        Ok(self.database.close()?)
    }
}

/// Opens a database that another process may have open: if one has, a copy of its files is opened, with the
/// state that is durable now.
pub fn open_beside(directory: &std::path::Path) -> Result<Opened> {
    let options = Options::default().durability(Durability::Group).read_only(true);
    match Database::open(directory, recovering::shown(options)) {
        Err(heddledb::Error::InUse { .. }) if directory.is_dir() => {}
        // Where there is none, the usual message says it.
        Err(_) => return Ok(Opened { database: open(directory)?, _copy: None }),
        Ok(database) => return Ok(Opened { database, _copy: None }),
    }
    let copy = tempfile::Builder::new().prefix("heddle-copy-").tempdir()?;
    Database::backup_directory(directory, copy.path(), &Options::default(), &mut |_, _| ())?;
    output::report(format_args!(
        "{} is open in another process: this is what is durable now",
        directory.display()
    ));
    Ok(Opened { database: open(copy.path())?, _copy: Some(copy) })
}

fn failed(workload: &dyn Workload, wrong: &str) -> Failure {
    Failure::Failed(format!("{}: the check failed: {wrong}", workload.name()))
}

/// The workload that was named, or those that created their tables in the database.
fn chosen(arguments: &Arguments, db: &Database) -> Result<Vec<Box<dyn Workload>>> {
    let Some(name) = &arguments.workload else { return Ok(catalog::loaded(db)?) };
    let mut workloads = heddle_workloads::all();
    let mut names: Vec<&str> = workloads.iter().map(|workload| workload.name()).collect();
    names.dedup();
    if !names.contains(&name.as_str()) {
        let known = names.join(", ");
        return Err(Failure::Usage(format!("there is no workload {name:?}; the workloads are {known}")));
    }
    workloads.retain(|workload| workload.name() == name);
    Ok(workloads)
}

fn no_single_workload(workloads: &[Box<dyn Workload>], acknowledged: usize) -> Result {
    match (workloads.len(), acknowledged) {
        (0, 0) => Ok(()),
        (0, _) => {
            Err(Failure::Failed(format!("{acknowledged} calls were acknowledged, but no workload is there")))
        }
        _ => Err(Failure::Usage("several workloads are there; name the one with --workload".to_owned())),
    }
}
