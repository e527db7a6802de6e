//! `heddle archive`, and what `heddle serve` and `heddle restore` do with archives.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use heddle_server::settings::Settings;
use heddledb::{Database, Options, Timestamp, Uuid};
use heddledb_archive::{
    ArchiveError, ArchiveSettings, Archiver, Credentials, Listing, Objects, RestorePoint, Retention, Uploader,
};

use crate::failure::{Failure, Result};
use crate::output;

/// List, verify and prune an archive.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
An archive is s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, file:///DIRECTORY, or a directory. Credentials are
in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT, GOOGLE_SERVICE_ACCOUNT,
AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY, …) or in a file of lines NAME=VALUE.

Examples:
  heddle archive list /backup/shop
  heddle archive verify s3://backup/shop --credentials s3.env
  heddle archive prune /backup/shop --keep-days 30 --keep-checkpoints 7";

#[derive(Subcommand)]
enum Command {
    /// Show the databases, timelines and checkpoints in an archive
    List(Place),
    /// Read every object of an archive, and name what is damaged or missing
    Verify(Place),
    /// Remove what need not be kept: never the last verified checkpoint, and the log since
    Prune {
        #[command(flatten)]
        place: Place,
        /// Keep this many checkpoints, and the log since the oldest of them
        #[arg(long, value_name = "N")]
        keep_checkpoints: Option<u32>,
        /// Keep what is needed to restore to any moment of the last N days
        #[arg(long, value_name = "N", required_unless_present = "keep_checkpoints")]
        keep_days: Option<u32>,
    },
}

/// An archive, and a database in it.
#[derive(Args)]
pub struct Place {
    /// The archive: a URL, or a directory
    #[arg(value_name = "URL")]
    url: String,
    /// The database that is meant, if several are archived there
    #[arg(long, value_name = "UUID", value_parser = identity)]
    database: Option<Uuid>,
    /// A file with credentials, lines of NAME=VALUE
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
}

/// An archive from which a database is restored, and the moment.
#[derive(Args)]
pub struct Source {
    /// Restore from this archive: a URL, or a directory
    #[arg(long = "from", value_name = "URL")]
    url: Option<String>,
    /// Restore the last state that was written by this time, such as "2026-11-29 12:00:00+01:00"
    #[arg(long, value_name = "TIME", requires = "url")]
    to_time: Option<Timestamp>,
    /// Restore the state as of this position, TERM/EPOCH or EPOCH alone
    #[arg(long, value_name = "POSITION", requires = "url", conflicts_with = "to_time", value_parser = position)]
    to_position: Option<RestorePoint>,
    /// Restore from this timeline [default: the last one]
    #[arg(long, value_name = "N", requires = "url")]
    timeline: Option<u32>,
    /// The database that is meant, if several are archived there
    #[arg(long, value_name = "UUID", requires = "url", value_parser = identity)]
    database: Option<Uuid>,
    /// A file with credentials, lines of NAME=VALUE
    #[arg(long, value_name = "FILE", requires = "url")]
    credentials: Option<PathBuf>,
}

fn identity(text: &str) -> std::result::Result<Uuid, String> {
    let digits = text.replace('-', "");
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32);
    number.map(|number| Uuid::from_bytes(number.to_be_bytes())).ok_or_else(|| "it is no UUID".to_owned())
}

fn position(text: &str) -> std::result::Result<RestorePoint, String> {
    let (term, epoch) = text.split_once('/').unwrap_or(("0", text));
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let point = number(term).zip(number(epoch));
    let point = point.map(|(term, epoch)| RestorePoint::Position { term, epoch });
    point.ok_or_else(|| "it is no position, such as 3/117".to_owned())
}

/// Runs `heddle archive`.
pub fn run(arguments: &Arguments) -> Result {
    match &arguments.command {
        Command::List(place) => list(place),
        Command::Verify(place) => verify(place),
        Command::Prune { place, keep_checkpoints, keep_days } => {
            prune(place, &retention(*keep_checkpoints, *keep_days))
        }
    }
}

fn retention(checkpoints: Option<u32>, days: Option<u32>) -> Retention {
    let day = |days: u32| Duration::from_secs(u64::from(days) * 86_400);
    Retention { age: days.map(day), checkpoints }
}

fn open(url: &str, credentials: Option<&Path>, create: bool) -> Result<Arc<dyn Objects>> {
    let credentials = Credentials::load(credentials).map_err(usage)?;
    heddledb_archive::open(url, &credentials, create).map_err(usage)
}

impl Place {
    fn open(&self) -> Result<Arc<dyn Objects>> {
        open(&self.url, self.credentials.as_deref(), false)
    }
}

fn list(place: &Place) -> Result {
    let listed = heddledb_archive::list(&*place.open()?).map_err(failure)?;
    let wanted = |line: &&Listing| place.database.is_none_or(|wanted| wanted == line.timeline.database);
    let mut database = None;
    for line in listed.iter().filter(wanted) {
        if database != Some(line.timeline.database) {
            output::print(format_args!("database {}", line.timeline.database))?;
            database = Some(line.timeline.database);
        }
        show(line)?;
    }
    match database {
        Some(_) => Ok(()),
        None => Err(Failure::Failed("no database is archived there".to_owned())),
    }
}

/// Prints a timeline.
fn show(line: &Listing) -> Result {
    let parent = line.parent.map_or(String::new(), |(number, term, epoch)| match epoch {
        0 => format!(", behind timeline {number}"),
        epoch => format!(", restored from timeline {number} at {term}/{epoch}"),
    });
    output::print(format_args!(
        "  timeline {}: begun {}{parent}; {} objects, {} bytes",
        line.timeline.number,
        time(line.begun),
        line.objects,
        line.bytes
    ))?;
    let Some(catalog) = &line.catalog else { return output::print("    nothing is archived yet") };
    for checkpoint in catalog.checkpoints() {
        output::print(format_args!(
            "    checkpoint {}: archived {}, {} bytes, for epoch {} and later ones",
            checkpoint.number,
            time(checkpoint.archived),
            checkpoint.bytes,
            checkpoint.log_epoch
        ))?;
    }
    let through = match catalog.last_group() {
        Some((term, epoch, 0)) => format!("through position {term}/{epoch}"),
        Some((term, epoch, at)) => format!("through position {term}/{epoch}, {}", time(at)),
        None => "empty".to_owned(),
    };
    output::print(format_args!("    log: {} objects, {through}", catalog.log_objects()))
}

fn time(microseconds: u64) -> String {
    let microseconds = i64::try_from(microseconds).unwrap_or(i64::MAX);
    Timestamp::from_microseconds(microseconds).map_or_else(|_| "?".to_owned(), |at| at.to_string())
}

fn verify(place: &Place) -> Result {
    let report = heddledb_archive::verify(&*place.open()?, place.database).map_err(failure)?;
    output::print(format_args!(
        "{} timelines, {} objects are as they were written, {} bytes in them",
        report.timelines, report.objects, report.bytes
    ))?;
    if !report.unneeded.is_empty() {
        output::print(format_args!("{} objects are not needed", report.unneeded.len()))?;
    }
    for problem in &report.problems {
        output::print(problem)?;
    }
    match report.problems.len() {
        0 => output::print("archive: ok"),
        count => Err(Failure::Failed(format!("{count} problems were found in the archive"))),
    }
}

fn prune(place: &Place, retention: &Retention) -> Result {
    let pruned = heddledb_archive::prune(&*place.open()?, place.database, retention).map_err(failure)?;
    for (line, report) in &pruned {
        match report.objects {
            0 => output::print(format_args!("{line}: nothing to remove"))?,
            objects => {
                output::print(format_args!(
                    "{line}: {objects} objects removed, back to checkpoint {}",
                    report.base
                ))?;
            }
        }
    }
    Ok(())
}

impl Source {
    /// The archive's address, if there is one.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }
}

/// Restores from an archive.
pub fn restore(source: &Source, url: &str, directory: &Path) -> Result {
    let objects = open(url, source.credentials.as_deref(), false)?;
    let by_time = source.to_time.map(|time| RestorePoint::Time(time.microseconds().try_into().unwrap_or(0)));
    let point = source.to_position.or(by_time).unwrap_or(RestorePoint::End);
    let (database, timeline) = (source.database, source.timeline);
    let restored =
        heddledb_archive::restore(&*objects, database, timeline, point, directory, &Options::default());
    let report = restored.map_err(failure)?;
    let (term, epoch) = report.position;
    let written = if report.time > 0 { format!(", written {}", time(report.time)) } else { String::new() };
    output::print(format_args!("restored: {}", crate::backup::described(&report.files)))?;
    output::print(format_args!("{}, through position {term}/{epoch}{written}", report.timeline))
}

/// The archive that a server's settings name.
pub fn of(settings: &Settings) -> Result<Option<Arc<dyn Objects>>> {
    let credentials = settings.archive_credentials.as_deref();
    settings.archive.as_deref().map(|url| open(url, credentials, true)).transpose()
}

/// Starts to archive a server's database.
pub fn start(
    objects: Arc<dyn Objects>,
    settings: &Settings,
    db: &Database,
    directory: &Path,
) -> Result<Uploader> {
    let mut archive = ArchiveSettings::default();
    archive.interval = Duration::from_secs(settings.archive_interval_s);
    archive.checkpoint_interval = Duration::from_secs(settings.archive_checkpoint_s);
    archive.hold_bytes = settings.archive_hold_bytes;
    let given = |number: u32| (number > 0).then_some(number);
    archive.retention =
        retention(given(settings.archive_keep_checkpoints), given(settings.archive_keep_days));
    let archiver = Archiver::new(objects, db.archive_source()?, directory, archive);
    Uploader::start(archiver).map_err(failure)
}

fn failure(error: ArchiveError) -> Failure {
    match error {
        ArchiveError::Database(error) => error.into(),
        other => Failure::Failed(other.to_string()),
    }
}

fn usage(error: ArchiveError) -> Failure {
    Failure::Usage(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_and_identities_are_read_as_they_are_printed() {
        assert_eq!(position("3/117"), Ok(RestorePoint::Position { term: 3, epoch: 117 }));
        assert_eq!(position("117"), Ok(RestorePoint::Position { term: 0, epoch: 117 }));
        for text in ["", "/", "3/", "/1", "-1", "+1", "1/2/3", "x"] {
            assert!(position(text).is_err(), "{text}");
        }
        let uuid = Uuid::from_bytes([0xa1; 16]);
        assert_eq!(identity(&uuid.to_string()), Ok(uuid));
        assert!(identity("a1").is_err());
    }
}
