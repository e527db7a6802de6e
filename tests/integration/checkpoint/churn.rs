//! Checkpoints beside everything at once: rows that are split, deleted and inserted again between two split phases, in two
//! tables; rows of many sizes that come and go, so that indexes grow and shrink under the scan.
//!
//! Each thread owns one key in each table, and makes its calls one after the other. So after a crash each table has what
//! a beginning of those calls leads to; how many they are, a row of a third table says, which each call changes, too.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Durability, Error, Options, PrimaryIndex, ProtocolKind, Range, Result,
    SplitOperation, Table, TableDefinition, Tx, Value, key, row,
};

use crate::checkpoint::journal::{DIRECTORY, options};
use crate::support::split::{TOP, board, entries, in_time, insert_row, label_row};

/// This many threads, each with rows of its own.
const THREADS: i64 = 4;
/// A thread's row is gone for one call out of this many.
const LIFE: i64 = 9;
/// This many rows come and go for each thread.
const CROWD: i64 = 40;

struct Churn {
    db: Database,
    board: Table,
    sums: Table,
    crowd: Table,
    made: Table,
}

/// Sum, highest, product, and entries of a row of the board; and the sum in the other table.
type Row = (i64, i64, i64, Vec<(i64, i64)>, i64);

/// The expected result of one thread's calls.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    /// Unless it is gone.
    row: Option<Row>,
    crowd: BTreeMap<i64, usize>,
}

/// The length of the text of the row that this call inserts: mostly short, sometimes so long that few make a
/// block of copies.
fn length(number: i64) -> usize {
    match number % 23 {
        7 => 90_000,
        11 => 40,
        _ => (number % 9) as usize,
    }
}

fn expected(thread: i64, made: i64) -> Expected {
    let mut expected = Expected { row: Some((0, 0, 1, Vec::new(), 0)), crowd: BTreeMap::new() };
    for number in 0..made {
        match number % LIFE {
            7 => expected.row = None,
            8 => expected.row = Some((0, 0, 1, Vec::new(), 0)),
            _ => {
                let (sum, high, product, top, other) = expected.row.as_mut().expect("it is there");
                (*sum, *high, *product) = (*sum + number, (*high).max(number), -*product);
                *other += 2 * number;
                top.push((number, thread));
                top.sort_by(|one, other| other.cmp(one));
                top.truncate(TOP as usize);
            }
        }
        let place = number * 7 % CROWD;
        if expected.crowd.remove(&place).is_none() {
            expected.crowd.insert(place, length(number));
        }
    }
    expected
}

fn define(db: &Database) {
    board(db);
    let definition = |name: &str| TableDefinition::new(name).column("thread", DataType::Int64);
    let sums = definition("sums")
        .column("sum", DataType::Int64)
        .not_null()
        .primary_key(["thread"])
        .primary_index(PrimaryIndex::Hash);
    let crowd = definition("crowd")
        .column("place", DataType::Int64)
        .column("mark", DataType::Int64)
        .column("text", DataType::Text)
        .primary_key(["thread", "place"])
        .primary_index(PrimaryIndex::Hash)
        .unique_index("crowd_by_mark", ["mark"]);
    let made = definition("made").column("calls", DataType::Int64).primary_key(["thread"]);
    let tables = [sums, crowd, made].map(|definition| db.create_table(definition).expect("a table"));
    db.run(|tx| {
        (0..THREADS).try_for_each(|thread| {
            tx.insert(&tables[0], row![thread, 0])?;
            tx.insert(&tables[2], row![thread, 0])
        })
    })
    .expect("rows");
}

impl Churn {
    fn open(options: Options) -> Result<Churn> {
        let db = Database::open(DIRECTORY, options)?;
        if db.table("made").is_err() {
            define(&db);
        }
        let [board, sums, crowd, made] = ["board", "sums", "crowd", "made"].map(|name| db.table(name));
        let churn = Churn { board: board?, sums: sums?, crowd: crowd?, made: made?, db };
        if churn.db.phases().is_some() {
            (0..THREADS).for_each(|thread| churn.label(thread));
        }
        Ok(churn)
    }

    /// Has the thread's rows split whenever that is possible.
    fn label(&self, thread: i64) {
        label_row(&self.db, &self.board, thread);
        self.db.split(&self.sums, key![thread], "sum", SplitOperation::ADD).expect("a label");
    }

    fn call(&self, thread: i64, number: i64) -> Result<()> {
        self.db.run(|tx| {
            match number % LIFE {
                7 => {
                    tx.delete(&self.board, key![thread])?;
                    tx.delete(&self.sums, key![thread])?;
                }
                8 => {
                    insert_row(tx, &self.board, thread)?;
                    tx.insert(&self.sums, row![thread, 0])?;
                }
                _ => self.operate(tx, thread, number)?,
            }
            let place = number * 7 % CROWD;
            if !tx.delete(&self.crowd, key![thread, place])? {
                let text = "x".repeat(length(number));
                tx.insert(&self.crowd, row![thread, place, number * THREADS + thread, text.as_str()])?;
            }
            tx.update(&self.made, key![thread], &[("calls", (number + 1).into())]).map(drop)
        })
    }

    fn operate(&self, tx: &Tx<'_, '_>, thread: i64, number: i64) -> Result<()> {
        let board = &self.board;
        tx.add(board, key![thread], "n", number)?;
        tx.max(board, key![thread], "high", number)?;
        tx.multiply(board, key![thread], "product", -1)?;
        tx.top_k_insert(board, key![thread], "top", &row![number], &row![thread])?;
        if number % 2 == 0 {
            // Raises the record's word, whatever is split.
            tx.update(board, key![thread], &[("plain", number.into())])?;
        }
        tx.add(&self.sums, key![thread], "sum", 2 * number)
    }

    /// The number of calls that each thread has made; checks that everything is their result.
    fn check(&self, what: &str) -> Vec<i64> {
        self.db.check().unwrap_or_else(|error| panic!("{what}: {error}"));
        let made = |thread: i64| {
            self.db.run(|tx| tx.get(&self.made, key![thread])?.ok_or(Error::Closed)?.int("calls"))
        };
        let all: Vec<i64> = (0..THREADS).map(|thread| made(thread).expect("readable")).collect();
        for (thread, &made) in (0..).zip(&all) {
            let found = self.found(thread).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(found, expected(thread, made), "{what}: thread {thread} after {made} calls");
        }
        all
    }

    fn found(&self, thread: i64) -> Result<Expected> {
        // Nothing is judged in the body: what is split is hidden from an attempt that will be made again.
        let (values, other, crowd) = self.db.run(|tx| {
            let values = tx.get(&self.board, key![thread])?.map(|row| row.to_values());
            let other = tx.get(&self.sums, key![thread])?.map(|row| row.int("sum")).transpose()?;
            let mut crowd = BTreeMap::new();
            for row in tx.scan(&self.crowd, Range::all())? {
                let row = row?;
                if row.int("thread")? == thread {
                    crowd.insert(row.int("place")?, row.text("text")?.len());
                }
            }
            Ok((values, other, crowd))
        })?;
        assert_eq!(values.is_some(), other.is_some(), "thread {thread}: half a call");
        let columns = self.board.definition().columns();
        let at = |name: &str| columns.iter().position(|column| column.name == name).expect("a column");
        let int = |value: &Value| if let Value::Int(int) = value { *int } else { panic!("{value:?}") };
        let row = values.zip(other).map(|(values, other)| {
            let [sum, high, product] = ["n", "high", "product"].map(|name| int(&values[at(name)]));
            (sum, high, product, entries(&values[at("top")]), other)
        });
        Ok(Expected { row, crowd })
    }
}

/// Loads, checkpoints and crash images, all at once; then the same again on what the last crash has left.
fn churn(protocol: ProtocolKind, durability: Durability) {
    let settings = |disk: &SimulatedDisk| {
        options(disk, protocol).durability(durability).checkpoints(|checkpoints| checkpoints.threads(3))
    };
    let mut disk = SimulatedDisk::new();
    for round in 0..3 {
        let churn = Churn::open(settings(&disk)).expect("opens");
        let what = format!("{protocol}, {durability}, round {round}");
        let begun = churn.check(&what);
        let counts: Vec<AtomicI64> = begun.iter().map(|&made| AtomicI64::new(made)).collect();
        let stop = AtomicBool::new(false);
        let stopped = || stop.load(Ordering::SeqCst);
        let read = || counts.iter().map(|count| count.load(Ordering::SeqCst)).collect::<Vec<_>>();
        thread::scope(|scope| {
            for (thread, count) in (0..).zip(&counts) {
                let (churn, stopped, begun) = (&churn, &stopped, &begun);
                scope.spawn(move || {
                    for number in (begun[thread as usize]..).take_while(|_| !stopped()) {
                        churn.call(thread, number).expect("committed");
                        count.store(number + 1, Ordering::SeqCst);
                        thread::sleep(Duration::from_micros(300));
                    }
                });
            }
            scope.spawn(|| {
                while !stopped() {
                    churn.db.checkpoint().expect("the disk is healthy");
                }
            });
            for seed in 0..8 {
                thread::sleep(Duration::from_millis(12));
                let (durable, before) = (durability == Durability::Group, read());
                let image = disk.crash_image(seed);
                let after = read();
                let what = format!("{what}, seed {seed}");
                let crashed = Churn::open(settings(&image)).unwrap_or_else(|error| panic!("{what}: {error}"));
                let made = crashed.check(&what);
                for ((&least, &most), &made) in before.iter().zip(&after).zip(&made) {
                    let least = if durable { least } else { 0 };
                    assert!((least..=most + 1).contains(&made), "{what}: {least} to {most}, {made} found");
                }
            }
            stop.store(true, Ordering::SeqCst);
        });
        let made = churn.check(&what);
        assert_eq!(made, read(), "{what}");
        assert!(churn.db.phases().is_none_or(|phases| phases.split > 5), "{what}: {:?}", churn.db.phases());
        assert!(churn.db.checkpoints().made > 3, "{what}: {:?}", churn.db.checkpoints());
        churn.db.close().expect("durable");
        disk = disk.crash_image(0);
        assert_eq!(Churn::open(settings(&disk)).expect("opens").check(&what), made, "{what}: closed");
    }
}

#[test]
fn split_rows_that_go_and_come_again_beside_checkpoints() {
    in_time(|| churn(ProtocolKind::Phased, Durability::Group));
}

#[test]
fn nothing_is_torn_where_nobody_waits_for_the_disk() {
    in_time(|| churn(ProtocolKind::Phased, Durability::Async));
    in_time(|| churn(ProtocolKind::Optimistic, Durability::Async));
}

#[test]
fn rows_that_go_and_come_again_beside_checkpoints_under_the_other_protocols() {
    for &protocol in ProtocolKind::ALL.iter().filter(|&&protocol| protocol != ProtocolKind::Phased) {
        in_time(move || churn(protocol, Durability::Group));
    }
}
