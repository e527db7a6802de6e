//! Schema changes and crashes: at whatever moment power is lost or the process is killed, a change has taken effect as a whole or
//! not at all, indexes are like rows, and no sequence gives a value again.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::tables::on_disk;
use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Error, ForeignKey, Options, ProtocolKind, Range, Result, SequenceDefinition, Table,
    TableChange, TableDefinition, Value, key, row, set,
};

fn definition() -> TableDefinition {
    TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("code", DataType::Int64)
        .not_null()
        .column("name", DataType::Text)
        .column("kind", DataType::Int64)
        .primary_key(["id"])
        .index("by_name", ["name"])
        .check("positive", "code >= 0")
}

fn kinds() -> TableDefinition {
    TableDefinition::new("kind").column("id", DataType::Int64).primary_key(["id"])
}

/// A table of twelve rows, one that it could refer to, and a sequence that has given values.
fn prepare(db: &Database) {
    let items = db.create_table(definition()).expect("created");
    let kinds = db.create_table(kinds()).expect("created");
    db.run(|tx| {
        (0..3).try_for_each(|id| tx.insert(&kinds, row![id]))?;
        (0..12).try_for_each(|id| tx.insert(&items, row![id, id * 10, &format!("name {}", id / 2), id % 3]))
    })
    .expect("filled");
    db.create_sequence(SequenceDefinition::new("number")).expect("created");
}

/// A change of the schema.
enum Change {
    Create,
    Drop,
    Truncate,
    Table(TableChange),
    /// One that sessions refuse inside a transaction.
    Linked(TableChange),
}

fn changes() -> Vec<(&'static str, Change)> {
    let change = TableChange::new;
    let doubled = |value: Value| match value {
        Value::Int(code) => Ok(Value::Text(format!("code {code}"))),
        other => Ok(other),
    };
    vec![
        ("create", Change::Create),
        ("drop", Change::Drop),
        ("truncate", Change::Truncate),
        ("rename", Change::Table(change().rename("renamed"))),
        ("add column", Change::Table(change().add_column("more", DataType::Int64, 7).not_null("more"))),
        ("drop column", Change::Table(change().drop_column("kind"))),
        ("rename column", Change::Table(change().rename_column("kind", "sort"))),
        ("set default", Change::Table(change().set_default("kind", 2))),
        ("not null", Change::Table(change().not_null("kind"))),
        ("nullable", Change::Table(change().nullable("code"))),
        (
            "convert",
            Change::Table(change().drop_constraint("positive").convert("code", DataType::Text, doubled)),
        ),
        ("primary key", Change::Table(change().primary_key(["code"]))),
        ("add index", Change::Table(change().add_index("by_kind", ["kind", "code"]))),
        ("add unique index", Change::Table(change().add_unique_index("by_code", ["code"]))),
        ("drop index", Change::Table(change().drop_index("by_name"))),
        ("rename index", Change::Table(change().rename_index("by_name", "named"))),
        ("add check", Change::Table(change().add_check("small", "code <= 1000"))),
        ("drop check", Change::Table(change().drop_constraint("positive"))),
        (
            "add foreign key",
            Change::Linked(change().add_foreign_key(ForeignKey::new("item_kind", ["kind"], "kind"))),
        ),
    ]
}

fn apply(db: &Database, change: &Change) -> Result<()> {
    match change {
        Change::Create => db
            .create_table(TableDefinition::new("fresh").column("id", DataType::Int64).primary_key(["id"]))
            .map(drop),
        Change::Drop => db.drop_table("item"),
        Change::Truncate => db.truncate(&["item"]),
        Change::Table(change) | Change::Linked(change) => db.change_table("item", change.clone()).map(drop),
    }
}

fn apply_in_session(db: &Database, change: &Change) -> Result<()> {
    let mut session = db.session()?;
    session.begin()?;
    match change {
        Change::Create => {
            drop(session.create_table(
                TableDefinition::new("fresh").column("id", DataType::Int64).primary_key(["id"]),
            )?)
        }
        Change::Drop => session.drop_table("item")?,
        Change::Truncate => session.truncate(&["item"])?,
        Change::Table(change) => drop(session.change_table("item", change.clone())?),
        Change::Linked(_) => return apply(db, change),
    }
    session.commit()
}

/// All tables: what they are, their rows, and their rows by each index.
fn state(db: &Database) -> String {
    let mut tables = db.tables();
    tables.sort_by_key(|table| table.definition().name().to_string());
    tables.iter().map(|table| format!("{:?} {:?}\n", table.definition(), rows(db, table))).collect()
}

fn rows(db: &Database, table: &Table) -> Vec<Vec<Value>> {
    db.run(|tx| {
        let mut rows: Vec<_> =
            tx.scan(table, Range::all())?.map(|row| Ok(row?.to_values())).collect::<Result<_>>()?;
        for index in table.definition().indexes() {
            let by_index = tx.scan_index(table, index.name.as_str(), Range::all())?;
            rows.extend(by_index.map(|row| Ok(row?.to_values())).collect::<Result<Vec<_>>>()?);
        }
        Ok(rows)
    })
    .expect("read")
}

/// Loses power at every operation on the disk during a change.
fn lose_power(name: &str, protocol: ProtocolKind, change: impl FnOnce(&Database) -> Result<()>) {
    let disk = SimulatedDisk::new();
    let db = Database::open("/db", on_disk(&disk).protocol(protocol)).expect("opened");
    prepare(&db);
    let sequence = db.sequence("number").expect("a sequence");
    let given = sequence.next().expect("a value");
    let before = state(&db);
    let images = Arc::new(Mutex::new(Vec::new()));
    let kept = images.clone();
    disk.watch(move |moment| kept.lock().expect("no panic").push(moment.image(moment.number())));
    change(&db).unwrap_or_else(|error| panic!("{name}, {protocol}: {error}"));
    disk.watch_no_more();
    let after = state(&db);
    assert_ne!(before, after, "{name}");
    let is_after = |image: &SimulatedDisk| {
        let db = Database::open("/db", on_disk(image).protocol(protocol)).expect("recovered");
        let found = state(&db);
        assert!(found == before || found == after, "{name}, {protocol}: {found}");
        db.check().unwrap_or_else(|error| panic!("{name}, {protocol}: {error}"));
        let next = db.sequence("number").expect("the sequence").next().expect("a value");
        assert!(next > given, "{name}, {protocol}: {next} after {given}");
        found == after
    };
    let images = std::mem::take(&mut *images.lock().expect("no panic"));
    let outcomes: Vec<bool> = images.iter().map(is_after).collect();
    assert!(outcomes.contains(&false), "{name}: power was lost before the change, too");
    assert!(is_after(&disk.crash_image(1)), "{name}: it was acknowledged");
}

#[test]
fn power_loss_at_every_boundary_of_every_change_leaves_all_of_it_or_nothing() {
    for (at, (name, change)) in changes().iter().enumerate() {
        let protocol = ProtocolKind::ALL[at % ProtocolKind::ALL.len()];
        lose_power(name, protocol, |db| apply(db, change));
    }
}

#[test]
fn power_loss_at_every_boundary_of_a_commit_with_a_change_leaves_all_of_it_or_nothing() {
    for (at, (name, change)) in changes().iter().enumerate() {
        let protocol = ProtocolKind::ALL[(at + 2) % ProtocolKind::ALL.len()];
        lose_power(name, protocol, |db| apply_in_session(db, change));
    }
}

/// Threads that insert a row.
const INSERTERS: i64 = 6;

#[test]
fn rows_of_a_table_that_was_rebuilt_beside_held_groups_are_recovered() {
    for &protocol in ProtocolKind::ALL {
        let disk = SimulatedDisk::new();
        let options = on_disk(&disk).log(|log| log.segment_bytes(1 << 20).buffer_bytes(64 << 10));
        let db = Database::open("/db", options.protocol(protocol)).expect("opened");
        prepare(&db);
        // From then on only the log syncs.
        while disk.bytes(Path::new("/db/log/00000002.log")).is_err() {
            thread::yield_now();
        }
        // While two groups are being written, all that commits comes into the next one.
        disk.hold_syncs();
        thread::scope(|scope| {
            let kind = |id: i64| db.run(|tx| tx.insert(&db.table("kind")?, row![id]));
            scope.spawn(move || kind(100).expect("inserted"));
            disk.wait_for_held_syncs(1);
            scope.spawn(move || kind(101).expect("inserted"));
            disk.wait_for_held_syncs(2);
            let change = TableChange::new().drop_column("kind").rename("narrow");
            scope.spawn(|| db.change_table("item", change).expect("changed"));
            while db.table("narrow").is_err() {
                thread::yield_now();
            }
            // Inserts read nothing: no stamp that these threads have met need be as high as the change's. They wait for the next
            // epoch, since the change of a table ends the commits of its own, and so for the groups that are being written.
            for id in 50..50 + INSERTERS {
                let db = &db;
                scope.spawn(move || {
                    let narrow = db.table("narrow").expect("the table");
                    db.run(|tx| tx.insert(&narrow, row![id, id, "new"])).expect("inserted");
                });
            }
            disk.release_syncs();
        });
        db.close().expect("closed");
        let db = Database::open("/db", on_disk(&disk).protocol(protocol)).expect("recovered");
        let narrow = db.table("narrow").expect("the table");
        let rows = db.run(|tx| Ok(tx.scan(&narrow, Range::all())?.count()));
        assert_eq!(rows, Ok(12 + INSERTERS as usize), "{protocol}");
        db.check().expect("consistent");
    }
}

/// Rows that exist from the beginning.
const FIRST_ROWS: i64 = 300;
/// Each thread of a child inserts this many rows; then it changes the last one.
const MAX_ROWS: usize = 200;

/// The next of the four changes of [`child_that_changes_the_schema_until_it_is_killed`], by the present state
/// of the table.
fn stage(table: &Table) -> usize {
    let is_indexed = table.definition().indexes().iter().any(|index| index.name == "by_code");
    match (is_indexed, is_wide(table)) {
        (false, false) => 0,
        (true, false) => 1,
        (true, true) => 2,
        (false, true) => 3,
    }
}

fn is_wide(table: &Table) -> bool {
    table.definition().columns().len() > 2
}

/// Inserts a row, and says so once it is durable.
fn insert(db: &Database, table: &Table, id: i64) {
    let inserted = db.run(|tx| match is_wide(table) {
        true => tx.insert(table, row![id, id, 0]),
        false => tx.insert(table, row![id, id]),
    });
    inserted.expect("inserted");
    println!("row {id}");
}

/// In a child process: changes the schema again and again, beside threads that insert rows and take values of a sequence.
#[test]
fn child_that_changes_the_schema_until_it_is_killed() {
    let Ok(path) = std::env::var("HEDDLE_SCHEMA_CHILD") else { return };
    let db = Database::open(path, Options::default()).expect("a database");
    let table = db.table("item").expect("a table");
    let first = db.sequence("number").expect("a sequence");
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = -1;
                for turn in 0.. {
                    let number = first.next().expect("a value");
                    println!("value {number}");
                    if turn < MAX_ROWS {
                        insert(&db, &table, number);
                        last = number;
                    } else {
                        db.run(|tx| tx.update(&table, key![last], set! { code: number })).expect("changed");
                    }
                }
            });
        }
        loop {
            let stage = stage(&table);
            println!("begins {stage}");
            let change = match stage {
                0 => TableChange::new().add_unique_index("by_code", ["code"]),
                1 => TableChange::new().add_column("extra", DataType::Int64, 1).not_null("extra"),
                2 => TableChange::new().drop_index("by_code"),
                _ => TableChange::new().drop_column("extra"),
            };
            db.change_table("item", change).expect("changed");
            println!("done {stage}");
        }
    });
}

/// The reports of a child.
#[derive(Default)]
struct Said {
    rows: Vec<i64>,
    highest: i64,
    /// The last change that was begun, and whether it was done.
    change: Option<(usize, bool)>,
}

/// Runs a child, and kills it this many lines after it has begun this many changes.
fn run_and_kill(path: &Path, changes: usize, lines: usize) -> Said {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["schema_crashes::child_that_changes_the_schema_until_it_is_killed", "--exact", "--nocapture"])
        .env("HEDDLE_SCHEMA_CHILD", path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let (mut said, mut begun, mut left) = (Said::default(), 0, lines);
    for line in output.lines().map_while(std::result::Result::ok) {
        let Some((what, number)) = line.split_once(' ') else { continue };
        let Ok(number) = number.parse::<i64>() else { continue };
        match what {
            "row" => said.rows.push(number),
            "value" => said.highest = said.highest.max(number),
            "begins" => {
                begun += 1;
                said.change = Some((number as usize, false));
            }
            "done" => said.change = Some((number as usize, true)),
            _ => {}
        }
        if begun >= changes {
            if left == 0 {
                child.kill().expect("killed");
            }
            left = left.saturating_sub(1);
        }
    }
    child.wait().expect("it has ended");
    assert!(begun >= changes, "the child ended by itself");
    said
}

#[test]
fn kills_during_schema_changes_lose_nothing() {
    let rounds = std::env::var("HEDDLE_SCHEMA_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("db");
    let db = Database::open(&path, Options::default()).expect("a database");
    let definition = TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("code", DataType::Int64)
        .primary_key(["id"]);
    let table = db.create_table(definition).expect("a table");
    db.run(|tx| (-FIRST_ROWS..0).try_for_each(|id| tx.insert(&table, row![id, id]))).expect("rows");
    db.create_sequence(SequenceDefinition::new("number")).expect("a sequence");
    drop((table, db));
    let (mut acknowledged, mut highest) = (Vec::new(), 0);
    for round in 0..rounds.unwrap_or(6) {
        // Each of the four changes comes to be the last one.
        let said = run_and_kill(&path, 1 + round % 5, round * 7 % 11);
        acknowledged.extend(said.rows);
        highest = said.highest.max(highest);
        let db = Database::open(&path, Options::default()).expect("recovered");
        let table = db.table("item").expect("the table");
        db.check().unwrap_or_else(|error| panic!("round {round}: {error}"));
        let (last, is_done) = said.change.expect("a change");
        let (found, next) = (stage(&table), (last + 1) % 4);
        assert!(found == next || !is_done && found == last, "round {round}: {last} {is_done}, {found} found");
        let missing = db.run(|tx| {
            let mut ids = acknowledged.iter().chain(&[-1, -FIRST_ROWS]).copied();
            ids.find_map(|id| match tx.exists(&table, key![id]) {
                Ok(true) => None,
                Ok(false) => Some(Ok::<_, Error>(id)),
                Err(error) => Some(Err(error)),
            })
            .transpose()
        });
        assert_eq!(missing.expect("read"), None, "round {round}: an acknowledged row");
        let value = db.sequence("number").expect("the sequence").next().expect("a value");
        assert!(value > highest, "round {round}: {value} after {highest}");
        highest = value;
        db.close().expect("closed");
    }
}
