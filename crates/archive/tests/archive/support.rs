//! A database with a history that is known at each group, and its archive.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use heddledb::{DataType, Database, Options, Table, TableDefinition, key, row};
use heddledb_archive::{
    ArchiveError, ArchiveSettings, Archiver, Objects, RestorePoint, RestoreReport, Retention, Step, restore,
};
use tempfile::TempDir;

use crate::shelf::Shelf;

/// A database, its archiver, and the epoch of each of its transactions.
pub struct Bank {
    pub home: TempDir,
    pub directory: PathBuf,
    pub db: Database,
    pub archiver: Archiver,
    /// The epoch of the group of transaction i + 1.
    pub history: Vec<u64>,
}

/// As many as the environment says, or this many.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

pub fn random() -> fastrand::Rng {
    let seed = setting("HEDDLE_SEED", fastrand::u64(..));
    println!("HEDDLE_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Small segments and objects, so that a short history has many.
pub fn settings() -> ArchiveSettings {
    let mut settings = ArchiveSettings::default();
    settings.interval = Duration::ZERO;
    settings.checkpoint_interval = Duration::ZERO;
    settings.object_bytes = 20 << 10;
    settings.chunk_bytes = 4 << 10;
    settings
}

pub fn options() -> Options {
    Options::default()
        .log(|log| log.segment_bytes(64 << 10).buffer_bytes(16 << 10).archive_hold_bytes(1 << 30))
        .checkpoints(|checkpoints| checkpoints.log_bytes(0))
}

fn ledger(db: &Database) -> Table {
    let definition = TableDefinition::new("ledger")
        .column("id", DataType::Int64)
        .column("amount", DataType::Int64)
        .not_null()
        .column("text", DataType::Text)
        .primary_key(["id"]);
    db.open_table(definition).expect("opened")
}

/// Opens a database and the archiver of it.
pub fn open(directory: &Path, objects: Arc<dyn Objects>, settings: ArchiveSettings) -> (Database, Archiver) {
    let db = Database::open(directory, options()).expect("opened");
    let archiver = Archiver::new(objects, db.archive_source().expect("logged"), directory, settings);
    (db, archiver)
}

impl Bank {
    pub fn new(objects: Arc<dyn Objects>, settings: ArchiveSettings) -> Bank {
        let home = tempfile::tempdir().expect("a directory");
        let directory = home.path().join("bank");
        let (db, archiver) = open(&directory, objects, settings);
        ledger(&db);
        Bank { home, directory, db, archiver, history: Vec::new() }
    }

    /// Commits transactions, each in a group of its own: row i gets the amount i, and row 0 the number of transactions.
    pub fn work(&mut self, transactions: usize) {
        let table = ledger(&self.db);
        let source = self.db.archive_source().expect("logged");
        for _ in 0..transactions {
            let number = self.history.len() as i64 + 1;
            let text = "content ".repeat(number as usize % 900);
            self.db
                .run(|tx| {
                    tx.insert(&table, row![number, number, text.as_str()])?;
                    if number == 1 {
                        tx.insert(&table, row![0, 0, ""])?;
                    }
                    tx.add(&table, key![0], "amount", 1)
                })
                .expect("committed");
            self.history.push(source.durable_epoch());
        }
    }

    /// Archives everything that is durable.
    pub fn archive(&mut self) {
        archive(&mut self.archiver).expect("archived");
    }

    pub fn checkpoint(&self) {
        self.db.checkpoint().expect("made");
    }

    /// Ends the process as far as that is possible without ending it, and opens the database again.
    pub fn reopen(&mut self, objects: Arc<dyn Objects>, settings: ArchiveSettings) {
        let elsewhere = Database::in_memory().expect("opened");
        self.archiver = {
            let directory = self.home.path().join(format!("unused-{}", self.history.len()));
            let (db, archiver) = open(&directory, objects.clone(), settings.clone());
            let old = std::mem::replace(&mut self.db, elsewhere);
            drop(std::mem::replace(&mut self.archiver, archiver));
            old.close().expect("closed");
            db.close().expect("closed");
            let (db, archiver) = open(&self.directory, objects, settings);
            self.db = db;
            archiver
        };
    }

    /// A directory that is not there.
    pub fn fresh(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// How many transactions there were at an epoch.
    pub fn transactions_at(&self, epoch: u64) -> usize {
        self.history.partition_point(|at| *at <= epoch)
    }
}

/// Archives everything that is durable.
pub fn archive(archiver: &mut Archiver) -> Result<(), ArchiveError> {
    while archiver.step(true)? == Step::Uploaded {}
    Ok(())
}

/// How many transactions a restored database has; all of them are there whole.
pub fn transactions_in(directory: &Path) -> usize {
    let db = Database::open(directory, options().read_only(true)).expect("opened");
    let Ok(table) = db.table("ledger") else { return 0 };
    let (rows, sum, counted) = db
        .run(|tx| {
            let (mut rows, mut sum, mut counted) = (0, 0, 0);
            for row in tx.scan(&table, heddledb::Range::all())? {
                let row = row?;
                match row.int("id")? {
                    0 => counted = row.int("amount")?,
                    id => {
                        assert_eq!(row.int("amount")?, id);
                        assert_eq!(row.text("text")?.len(), id as usize % 900 * 8);
                        (rows, sum) = (rows + 1, sum + id);
                    }
                }
            }
            Ok((rows, sum, counted))
        })
        .expect("read");
    assert_eq!((rows, sum), (counted, counted * (counted + 1) / 2), "half a transaction");
    rows as usize
}

/// Restores to an epoch.
pub fn restore_to(objects: &dyn Objects, epoch: u64, to: &Path) -> Result<RestoreReport, ArchiveError> {
    restore(objects, None, None, RestorePoint::Position { term: 0, epoch }, to, &options())
}

pub fn restore_all(objects: &dyn Objects, to: &Path) -> Result<RestoreReport, ArchiveError> {
    restore(objects, None, None, RestorePoint::End, to, &options())
}

/// The newest two checkpoints are kept.
pub fn two_checkpoints() -> Retention {
    Retention { age: None, checkpoints: Some(2) }
}

/// A database that was archived with three checkpoints and closed.
pub fn archived(shelf: &Arc<Shelf>, transactions: usize) -> Bank {
    let mut bank = Bank::new(shelf.clone(), settings());
    for _ in 0..4 {
        bank.work(transactions / 4);
        bank.archive();
        bank.checkpoint();
        bank.archive();
    }
    bank.work(10);
    bank.archive();
    bank
}
