//! A database in which every call leaves a mark of its own, so that what must be there can be computed from how many
//! calls each thread has made.
//!
//! Each thread makes its calls one after the other and waits for each; so what is there after a crash is, for each
//! thread, a beginning of its calls: at least those that were acknowledged, at most one more. The calls use everything
//! that a checkpoint must not tear: operations on columns that are split under some protocols, other columns of the
//! same rows, rows that are inserted, changed in some columns, deleted, and inserted again, and tables that are made.

#![allow(dead_code)] // Each test file uses its own part of this one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use heddledb::testing::{Disk, SimulatedDisk};
use heddledb::{
    DataType, Database, Error, Options, PartitionedOptions, PhasedOptions, ProtocolKind, ProtocolOptions,
    Range, Result, Table, TableDefinition, Value, key, row,
};

use crate::support::split::{TOP, board, entries, label_row, wait_until};

/// The directory of the database.
pub const DIRECTORY: &str = "bank";
/// All calls are about these rows of the board.
pub const ROWS: i64 = 3;

/// Small segments, checkpoints by hand only, and split phases that are short.
pub fn options(disk: &SimulatedDisk, protocol: ProtocolKind) -> Options {
    Options::default()
        .protocol(
            ProtocolOptions::from(protocol)
                // A few rows would have one, in time.
                .partitioned(PartitionedOptions::default().executors(2))
                .phased(PhasedOptions::default().phase_milliseconds(0.5)),
        )
        .disk(Arc::new(disk.clone()))
        .log(|log| log.segment_bytes(64 << 10).buffer_bytes(4 << 10))
        .checkpoints(|checkpoints| checkpoints.log_bytes(0).threads(2))
        .workers(1)
        .threads(|threads| threads.max_worker_contexts(16))
}

/// The names of the files in one of the database's directories.
pub fn names(disk: &SimulatedDisk, folder: &str) -> Vec<String> {
    let path = Path::new(DIRECTORY).join(folder);
    let names = disk.list(&path).unwrap_or_default();
    names.into_iter().map(|name| name.into_string().expect("our names are text")).collect()
}

/// A file in one of the database's directories.
pub fn file(folder: &str, name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(folder).join(name)
}

/// Bytes of all files of log and checkpoints.
pub fn bytes_on_disk(disk: &SimulatedDisk) -> u64 {
    let of = |folder: &str| {
        let sizes = names(disk, folder).into_iter().map(|name| disk.bytes(&file(folder, &name)));
        sizes.map(|bytes| bytes.map_or(0, |bytes| bytes.len() as u64)).sum::<u64>()
    };
    of("log") + of("checkpoint")
}

/// Room that a database with these [`options`] always has prepared: twice its buffer, and a segment.
const ROOM: usize = (8 + 64) << 10;

/// Waits until the thread that prepares segments has nothing to do: there is room enough, in a further segment too, and
/// the last segment's name is durable. From here on only checkpoints make, name and remove files, until calls need room.
pub fn wait_for_room(disk: &SimulatedDisk) {
    const PAGE: usize = 4_096;
    wait_until("room in the log", || {
        let durable = disk.crash_image(0);
        let (mut room, mut prepared) = (0, 0);
        for name in names(&durable, "log").iter().rev().filter(|name| name.ends_with(".log")) {
            let bytes = durable.bytes(&file("log", name)).expect("it is there");
            let free = bytes.rchunks(PAGE).take_while(|page| page.iter().all(|&byte| byte == 0)).count();
            room += free * PAGE;
            // But for its header nothing is in one that is only prepared.
            if (free + 1) * PAGE < bytes.len() {
                break;
            }
            prepared += 1;
        }
        prepared > 0 && room >= ROOM + PAGE
    });
}

/// Returns true if an update was refused because the log had no room, which may be so for a moment after a disk has failed: the
/// thread that prepares segments tries again a little later.
pub fn is_refused(error: &Error) -> bool {
    matches!(error, Error::NoLogSpace { .. } | Error::LogNotExtended { .. })
}

/// The database, open.
pub struct Journal {
    pub db: Database,
    board: Table,
    events: Table,
}

/// The number of calls of each thread, and of tables that were created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub calls: Vec<i64>,
    pub tables: i64,
}

/// The row of the board that a call is about.
fn row_of(thread: i64, number: i64) -> i64 {
    1 + (thread + number) % ROWS
}

/// A value that no other call sets.
fn mark(thread: i64, number: i64) -> i64 {
    number * 100 + thread + 1
}

fn text_of(thread: i64, number: i64) -> String {
    format!("call {number} of thread {thread}, longer than a word")
}

impl Journal {
    pub fn create(options: Options) -> Journal {
        let db = Database::open(DIRECTORY, options).expect("a new database");
        let board = board(&db);
        let events = TableDefinition::new("event")
            .column("thread", DataType::Int64)
            .column("number", DataType::Int64)
            .column("changes", DataType::Int64)
            .not_null()
            .column("note", DataType::Text)
            .not_null()
            .primary_key(["thread", "number"])
            .unique_index("event_by_note", ["note"]);
        let events = db.create_table(events).expect("a table");
        Journal { db, board, events }
    }

    pub fn open(options: Options) -> Result<Journal> {
        let db = Database::open(DIRECTORY, options)?;
        let (board, events) = (db.table("board")?, db.table("event")?);
        if db.phases().is_some() {
            (1..=ROWS).for_each(|id| label_row(&db, &board, id));
        }
        Ok(Journal { db, board, events })
    }

    /// One call.
    pub fn call(&self, thread: i64, number: i64) -> Result<()> {
        let (board, events, id) = (&self.board, &self.events, row_of(thread, number));
        let note = text_of(thread, number);
        self.db.run(|tx| {
            if number % 4 == 1 {
                let changes = [("plain", mark(thread, number).into()), ("note", note.as_str().into())];
                tx.update(board, key![id], &changes)?;
            }
            tx.add(board, key![id], "n", 1)?;
            tx.max(board, key![id], "high", mark(thread, number))?;
            tx.multiply(board, key![id], "product", -1)?;
            tx.top_k_insert(board, key![id], "top", &row![number], &row![thread])?;
            if number % 8 == 7 {
                tx.get(board, key![id])?.ok_or(Error::Closed)?.int("n")?;
            }
            tx.insert(events, row![thread, number, 0, note.as_str()])?;
            match number % 5 {
                // Some columns of one row; some of another that goes soon, and goes.
                2 => tx.add(events, key![thread, number - 1], "changes", number)?,
                3 => tx.add(events, key![thread, number - 3], "changes", 1)?,
                4 => drop(tx.delete(events, key![thread, number - 4])?),
                0 if number >= 5 => {
                    // What went comes again.
                    let again = text_of(thread, -number);
                    tx.insert(events, row![thread, number - 5, number, again.as_str()])?;
                }
                _ => {}
            }
            Ok(())
        })
    }

    /// Makes the next table, and fills it.
    pub fn make_table(&self, number: i64) -> Result<()> {
        let definition = TableDefinition::new(format!("extra_{number}"))
            .column("id", DataType::Int64)
            .column("text", DataType::Text)
            .primary_key(["id"]);
        let table = self.db.create_table(definition)?;
        self.db.run(|tx| (0..3).try_for_each(|id| tx.insert(&table, row![id, "new"])))?;
        self.db.run(|tx| tx.update(&table, key![1], &[("text", "changed".into())]).map(drop))
    }

    /// Reads the numbers of calls and tables from the database.
    pub fn made(&self, threads: usize) -> Made {
        let last = |thread: i64| {
            self.db.run(|tx| {
                let mut rows = tx.scan(&self.events, Range::prefix(key![thread]).reverse().limit(1))?;
                rows.next().map_or(Ok(0), |row| Ok(row?.int("number")? + 1))
            })
        };
        let calls = (0..threads as i64).map(|thread| last(thread).expect("readable")).collect();
        let tables = (0..).take_while(|number| self.db.table(&format!("extra_{number}")).is_ok()).count();
        Made { calls, tables: tables as i64 }
    }

    /// Everything must be what these calls lead to.
    pub fn check(&self, made: &Made, what: &str) {
        self.db.check().unwrap_or_else(|error| panic!("{what}: {error}"));
        for id in 1..=ROWS {
            let calls = (0..)
                .zip(&made.calls)
                .flat_map(|(thread, &made)| (0..made).map(move |number| (thread, number)));
            let of_row: Vec<_> = calls.filter(|&(thread, number)| row_of(thread, number) == id).collect();
            self.check_row(id, &of_row, what);
        }
        let events = self.db.run(|tx| {
            tx.scan(&self.events, Range::all())?.map(|row| Ok(row?.to_values())).collect::<Result<Vec<_>>>()
        });
        let expected = (0..).zip(&made.calls).flat_map(|(thread, &made)| events_of(thread, made)).collect();
        assert_eq!(events, Ok(expected), "{what}: the events");
    }

    fn check_row(&self, id: i64, calls: &[(i64, i64)], what: &str) {
        let values = self
            .db
            .run(|tx| Ok(tx.get(&self.board, key![id])?.ok_or(Error::Closed)?.to_values()))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let columns = self.board.definition().columns();
        let value =
            |column: &str| &values[columns.iter().position(|other| other.name == column).expect("a column")];
        let count = calls.len() as i64;
        assert_eq!(*value("n"), Value::Int(count), "{what}: row {id}");
        let highest = calls.iter().map(|&(thread, number)| mark(thread, number)).max().unwrap_or(0);
        assert_eq!(*value("high"), Value::Int(highest), "{what}: row {id}");
        assert_eq!(*value("product"), Value::Int(if count % 2 == 0 { 1 } else { -1 }), "{what}: row {id}");
        let mut top: Vec<_> = calls.iter().map(|&(thread, number)| (number, thread)).collect();
        top.sort_by(|one, other| other.cmp(one));
        top.truncate(TOP as usize);
        assert_eq!(entries(value("top")), top, "{what}: row {id}");
        let is_whole = |&&(thread, number): &&(i64, i64)| {
            *value("plain") == Value::Int(mark(thread, number))
                && *value("note") == Value::from(text_of(thread, number).as_str())
        };
        let setters = || calls.iter().filter(|(_, number)| number % 4 == 1);
        let untouched = setters().next().is_none() && *value("plain") == Value::Int(0);
        assert!(setters().any(|call| is_whole(&call)) || untouched, "{what}: row {id}: half a call");
    }

    /// Tables that were acknowledged are there and filled; one more may be, as far as it was filled.
    pub fn check_tables(&self, acknowledged: i64, what: &str) {
        let there = self.made(0).tables;
        assert!(
            (acknowledged..=acknowledged + 1).contains(&there),
            "{what}: {acknowledged} tables, {there} found"
        );
        for number in 0..there {
            let table = self.db.table(&format!("extra_{number}")).expect("it is there");
            let rows = self.db.run(|tx| {
                tx.scan(&table, Range::all())?.map(|row| row?.text("text").map(str::to_string)).collect()
            });
            let rows: Vec<String> = rows.unwrap_or_else(|error| panic!("{what}: {error}"));
            let whole = rows == ["new", "changed", "new"];
            let partly = rows.is_empty() || rows == ["new"; 3];
            assert!(whole || number == acknowledged && partly, "{what}: table {number}: {rows:?}");
        }
    }

    /// Opens what a crash has left, and looks that it holds what was acknowledged, and of each thread one call more at
    /// most.
    pub fn survives(options: Options, acknowledged: &Made, what: &str) -> Journal {
        let journal = Journal::open(options).unwrap_or_else(|error| panic!("{what}: {error}"));
        let passed_over = &journal.db.recovery().passed_over;
        assert_eq!(*passed_over, None, "{what}: no crash leaves a checkpoint that is named and not whole");
        let made = journal.made(acknowledged.calls.len());
        for (&made, &least) in made.calls.iter().zip(&acknowledged.calls) {
            assert!(made == least || made == least + 1, "{what}: {least} acknowledged, {made} found");
        }
        journal.check(&made, what);
        journal.check_tables(acknowledged.tables, what);
        journal
    }
}

/// The events that this many calls of a thread lead to.
fn events_of(thread: i64, made: i64) -> Vec<Vec<Value>> {
    let mut events: BTreeMap<i64, (i64, String)> = BTreeMap::new();
    for number in 0..made {
        events.insert(number, (0, text_of(thread, number)));
        match number % 5 {
            2 => events.entry(number - 1).or_default().0 += number,
            3 => events.entry(number - 3).or_default().0 += 1,
            4 => drop(events.remove(&(number - 4))),
            0 if number >= 5 => drop(events.insert(number - 5, (number, text_of(thread, -number)))),
            _ => {}
        }
    }
    let row = |(number, (changes, note)): (i64, (i64, String))| {
        vec![Value::Int(thread), Value::Int(number), Value::Int(changes), Value::Text(note)]
    };
    events.into_iter().map(row).collect()
}

/// Inserts rows of about 200 bytes each, which fill several blocks of a checkpoint.
#[allow(dead_code, reason = "each test program uses its own part")]
pub fn fill_blocks(db: &Database) {
    let definition =
        TableDefinition::new("long").column("id", DataType::Int64).column("text", DataType::Text);
    let table = db.create_table(definition.primary_key(["id"])).expect("made");
    for thousand in 0..10_i64 {
        let insert = |tx: &heddledb::Tx<'_, '_>, id: i64| {
            tx.insert(&table, heddledb::row![thousand * 1_000 + id, "x".repeat(180)])
        };
        db.run(|tx| (0..1_000).try_for_each(|id| insert(tx, id))).expect("inserted");
    }
}

/// The bytes of all parts of checkpoints in a directory.
#[allow(dead_code, reason = "each test program uses its own part")]
pub fn bytes_of_parts(disk: &SimulatedDisk, path: &str) -> usize {
    let names = heddledb::testing::Disk::list(disk, path.as_ref()).expect("a directory");
    let parts = names.iter().filter(|name| name.to_str().is_some_and(|name| name.ends_with(".part")));
    parts.map(|name| disk.bytes(&std::path::Path::new(path).join(name)).expect("a part").len()).sum()
}
