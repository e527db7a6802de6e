//! A standby, seen from outside: it shows whole groups of another database's log, follows changes of its schema, and takes its place.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Error, ForeignKey, LogPosition, Options, PhasedOptions, Range, Result, Snapshot,
    StandbyError, TableChange, TableDefinition, Value, key, row, set,
};

use crate::support::tables::{DATABASE, account_definition, counter_definition, on_disk, open};

/// Longer than anything takes here, so that a test which waits for it has failed.
const LONG: Duration = Duration::from_secs(60);

pub fn standby(disk: &SimulatedDisk) -> Database {
    Database::standby(DATABASE, on_disk(disk)).expect("a standby")
}

/// Waits until the standby has all that the database has acknowledged.
pub fn follow(db: &Database, standby: &Database) {
    let position = db.position().expect("it is logged");
    standby.wait_for_position(position, LONG).expect("it follows");
}

/// All tables of a database: definitions, and rows by the primary key and by each index.
fn state(db: &Database) -> String {
    db.read(|snapshot| {
        let mut tables = db.tables();
        tables.sort_by_key(|table| table.definition().name().to_string());
        let mut state = String::new();
        for table in &tables {
            state += &format!("{:?} {:?}\n", table.definition(), rows(snapshot, table)?);
            for index in table.definition().indexes() {
                let rows = snapshot.scan_index(table, &index.name, Range::all())?;
                let rows: Vec<_> = rows.map(|row| Ok(row?.to_values())).collect::<Result<_>>()?;
                state += &format!("{} {rows:?}\n", index.name);
            }
        }
        Ok(state)
    })
    .expect("read")
}

fn rows(snapshot: &Snapshot, table: &heddledb::Table) -> Result<Vec<Vec<Value>>> {
    let mut rows: Vec<_> =
        snapshot.scan(table, Range::all())?.map(|row| Ok(row?.to_values())).collect::<Result<_>>()?;
    rows.sort_by_key(|row| format!("{row:?}"));
    Ok(rows)
}

pub fn assert_same(db: &Database, standby: &Database, when: &str) {
    follow(db, standby);
    assert_eq!(state(db), state(standby), "{when}");
    standby.check().expect(when);
}

#[test]
fn what_was_there_and_what_comes_is_read_and_nothing_is_written() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let accounts = db.create_table(account_definition()).expect("created");
    db.run(|tx| tx.insert(&accounts, row![1, "Ada", 1, 100, 0])).expect("committed");
    db.checkpoint().expect("whole");
    db.run(|tx| tx.insert(&accounts, row![2, "Bob", 1, 50, 0])).expect("committed");
    let standby = standby(&disk);
    assert_same(&db, &standby, "what was there");
    let copies = standby.table("account").expect("it follows");
    db.run(|tx| {
        tx.update(&accounts, key![1], set! { balance: 70, branch: 2 })?;
        tx.delete(&accounts, key![2])?;
        tx.insert(&accounts, row![3, "a name that is longer than a word of a row", 2, 1, 0])
    })
    .expect("committed");
    assert_same(&db, &standby, "what has come");
    let refused = [
        standby.run(|tx| tx.insert(&copies, row![4, "Eve", 1, 1, 1])),
        standby.run(|tx| tx.add(&copies, key![1], "balance", 1)),
        standby.create_table(counter_definition()).map(drop),
        standby.checkpoint().map(drop),
        standby.set_protocol(heddledb::ProtocolKind::Serial),
    ];
    assert!(
        refused.iter().all(|refused| *refused == Err(Error::Standby(StandbyError::OnlyRead))),
        "{refused:?}"
    );
    assert_same(&db, &standby, "after refused writes");
    let status = standby.standby_status().expect("it is one");
    assert!(status.failure.is_none() && status.groups >= 1, "{status:?}");
    assert_eq!(db.standby_status(), None);
    standby.close().expect("it has nothing to lose");
    db.close().expect("durable");
}

#[test]
fn unique_values_that_change_owners_are_followed() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let accounts = db.create_table(account_definition()).expect("created");
    db.run(|tx| {
        tx.insert(&accounts, row![1, "Ada", 1, 100, 0])?;
        tx.insert(&accounts, row![2, "Bob", 1, 100, 0])
    })
    .expect("committed");
    let standby = standby(&disk);
    for _ in 0..3 {
        db.run(|tx| {
            tx.update(&accounts, key![1], set! { name: "nobody" })?;
            tx.update(&accounts, key![2], set! { name: "Ada" })?;
            tx.update(&accounts, key![1], set! { name: "Bob" })?;
            tx.delete(&accounts, key![1])?;
            tx.insert(&accounts, row![1, "Bob", 2, 1, 1])
        })
        .expect("committed");
        assert_same(&db, &standby, "exchanged");
        db.run(|tx| {
            tx.delete(&accounts, key![2])?;
            tx.update(&accounts, key![1], set! { name: "Ada" })?;
            tx.insert(&accounts, row![2, "Bob", 1, 1, 1])
        })
        .expect("committed");
        assert_same(&db, &standby, "and back");
    }
}

/// Moves money between accounts until it is stopped; what is there stays the same.
fn move_money(db: &Database, ended: &AtomicBool, seed: i64) {
    let accounts = db.table("account").expect("there");
    let mut number = seed;
    while !ended.load(Ordering::Relaxed) {
        number = number.wrapping_mul(25_214_903_917).wrapping_add(11) & 0xFFFF_FFFF;
        let (from, to, amount) = (number % 20, (number >> 8) % 20, number % 7);
        db.run(|tx| {
            tx.add(&accounts, key![from], "balance", -amount)?;
            tx.add(&accounts, key![to], "balance", amount)
        })
        .expect("committed");
    }
}

fn readers_see_whole_groups(protocol: impl Fn(Options) -> Options) {
    let disk = SimulatedDisk::new();
    let db = Database::open(DATABASE, protocol(on_disk(&disk))).expect("opened");
    let accounts = db.create_table(account_definition()).expect("created");
    db.run(|tx| (0..20).try_for_each(|id| tx.insert(&accounts, row![id, &format!("name {id}"), 1, 100, 0])))
        .expect("committed");
    let standby = standby(&disk);
    let copies = standby.table("account").expect("there");
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..2 {
            let (db, ended) = (&db, &ended);
            scope.spawn(move || move_money(db, ended, seed));
        }
        for _ in 0..100 {
            let sum = standby.read(|snapshot| {
                let mut sum = 0;
                for account in snapshot.scan(&copies, Range::all())? {
                    sum += account?.int("balance")?;
                }
                Ok(sum)
            });
            assert_eq!(sum, Ok(2_000));
        }
        // Some of what was written meanwhile is there.
        follow(&db, &standby);
        ended.store(true, Ordering::Relaxed);
    });
    assert_same(&db, &standby, "at the end");
}

#[test]
fn readers_see_whole_groups_while_they_are_written() {
    readers_see_whole_groups(|options| options);
}

#[test]
fn readers_see_whole_groups_of_split_columns() {
    readers_see_whole_groups(|options| {
        options.protocol(PhasedOptions::default().phase_milliseconds(2.0)).workers(1)
    });
}

#[test]
fn what_was_acknowledged_is_read_by_its_position() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let counters = db.create_table(counter_definition()).expect("created");
    let standby = standby(&disk);
    for number in 0..200 {
        db.run(|tx| tx.insert(&counters, row![number, number])).expect("committed");
        follow(&db, &standby);
        let copies = standby.table("counter").expect("it is there");
        let found = standby.read(|snapshot| snapshot.exists(&copies, key![number]));
        assert_eq!(found, Ok(true));
    }
    let reached = standby.position().expect("a position");
    assert_eq!(reached, db.position().expect("a position"));
    let next = LogPosition::new(reached.term(), reached.epoch() + 1_000_000);
    let late = standby.wait_for_position(next, Duration::ZERO);
    assert!(matches!(late, Err(Error::Standby(StandbyError::PositionNotReached { .. }))), "{late:?}");
    let late = db.wait_for_position(next, Duration::ZERO);
    assert!(matches!(late, Err(Error::Standby(StandbyError::PositionNotReached { .. }))), "{late:?}");
    db.wait_for_position(reached, Duration::ZERO).expect("it has it");
    drop(db);
    // The next term's groups take the place of what was never written.
    let db = open(&disk);
    let counters = db.table("counter").expect("there");
    db.run(|tx| tx.insert(&counters, row![1_000, 0])).expect("committed");
    follow(&db, &standby);
    standby.wait_for_position(reached, Duration::ZERO).expect("it has it");
    for lost in [standby.wait_for_position(next, LONG), db.wait_for_position(next, LONG)] {
        assert!(matches!(lost, Err(Error::Standby(StandbyError::PositionLost { .. }))), "{lost:?}");
    }
}

fn changes() -> Vec<(&'static str, TableChange)> {
    let change = TableChange::new;
    let doubled = |value: Value| match value {
        Value::Int(code) => Ok(Value::Text(format!("code {code}"))),
        other => Ok(other),
    };
    vec![
        ("rename", change().rename("renamed")),
        ("name again", change().rename("item")),
        ("add column", change().add_column("more", DataType::Int64, 7).not_null("more")),
        ("add another", change().add_column("text", DataType::Text, "a text that is rather long for a word")),
        ("add index", change().add_index("by_kind", ["kind", "code"])),
        ("add unique index", change().add_unique_index("by_code", ["code"])),
        ("rename column", change().rename_column("kind", "sort")),
        ("set default", change().set_default("sort", 2)),
        ("drop index", change().drop_index("by_name")),
        ("add check", change().add_check("small", "code <= 1000")),
        ("drop check", change().drop_constraint("positive")),
        ("add foreign key", change().add_foreign_key(ForeignKey::new("item_sort", ["sort"], "kind"))),
        ("drop column", change().drop_column("name")),
        ("add a column to the copy", change().add_column("last", DataType::Int32, 1)),
        (
            "change type",
            change().drop_index("by_code").drop_constraint("small").convert("code", DataType::Text, doubled),
        ),
    ]
}

#[test]
fn schema_changes_are_followed_between_groups() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    let standby = standby(&disk);
    let kinds = TableDefinition::new("kind").column("id", DataType::Int64).primary_key(["id"]);
    let kinds = db.create_table(kinds).expect("created");
    let items = TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("code", DataType::Int64)
        .not_null()
        .column("name", DataType::Text)
        .column("kind", DataType::Int64)
        .primary_key(["id"])
        .index("by_name", ["name"])
        .check("positive", "code >= 0");
    let items = db.create_table(items).expect("created");
    db.run(|tx| {
        (0..3).try_for_each(|id| tx.insert(&kinds, row![id]))?;
        (0..12).try_for_each(|id| tx.insert(&items, row![id, id * 10, &format!("name {}", id / 2), id % 3]))
    })
    .expect("filled");
    assert_same(&db, &standby, "created and filled");
    for (number, (name, change)) in changes().into_iter().enumerate() {
        let table =
            db.tables().into_iter().find(|table| table.name().ends_with("em") || table.name() == "renamed");
        let table = table.expect("there").name().to_string();
        if number.is_multiple_of(2) || name == "add foreign key" {
            db.change_table(&table, change).expect(name);
        } else {
            let mut session = db.session().expect("open");
            session.begin().expect("begun");
            session.change_table(&table, change).expect(name);
            session.commit().expect(name);
        }
        assert_same(&db, &standby, name);
        let items = db.table("item").or_else(|_| db.table("renamed")).expect("there");
        db.run(|tx| tx.delete(&items, key![number as i64 % 12])).expect("deleted");
        assert_same(&db, &standby, name);
    }
    db.truncate(&["item"]).expect("emptied");
    assert_same(&db, &standby, "truncate");
    db.drop_table("item").expect("dropped");
    assert_same(&db, &standby, "drop");
    assert_eq!(standby.standby_status().and_then(|status| status.failure), None);
}

#[test]
fn a_transaction_that_changes_tables_and_rows_is_followed() {
    let disk = SimulatedDisk::new();
    let db = open(&disk);
    db.create_table(counter_definition().index("by_n", ["n"])).expect("created");
    let standby = standby(&disk);
    let mut session = db.session().expect("open");
    session.begin().expect("begun");
    let fresh = session.create_table(account_definition()).expect("created");
    let counters = session.table("counter").expect("there");
    session
        .run(|tx| tx.insert(&counters, row![1, 5]).and_then(|()| tx.insert(&counters, row![2, 5])))
        .expect("inserted");
    session.run(|tx| tx.insert(&fresh, row![1, "Ada", 1, 100, 0])).expect("inserted");
    let more = TableChange::new().add_column("more", DataType::Int64, 3);
    session.change_table("counter", more).expect("extended");
    let counters = session.table("counter").expect("there");
    session.run(|tx| tx.insert(&counters, row![3, 6, 9])).expect("inserted");
    session.run(|tx| tx.delete(&counters, key![2]).map(drop)).expect("deleted");
    session.change_table("counter", TableChange::new().add_unique_index("once", ["n"])).expect("unique now");
    session.commit().expect("committed");
    assert_same(&db, &standby, "changed as one");
    let mut session = db.session().expect("open");
    session.begin().expect("begun");
    session
        .create_table(TableDefinition::new("gone").column("id", DataType::Int64).primary_key(["id"]))
        .expect("created");
    session.drop_table("gone").expect("dropped");
    session.drop_table("account").expect("dropped");
    session.commit().expect("committed");
    assert_same(&db, &standby, "dropped");
}

#[test]
fn checkpoints_and_new_segments_do_not_stop_it() {
    let disk = SimulatedDisk::new();
    let options = || on_disk(&disk).log(|log| log.segment_bytes(64 << 10).buffer_bytes(8 << 10));
    let db = Database::open(DATABASE, options()).expect("opened");
    let counters = db.create_table(counter_definition()).expect("created");
    let standby = Database::standby(DATABASE, options()).expect("a standby");
    for round in 0..30 {
        let rows = (0..40).map(|number| round * 40 + number);
        for id in rows {
            db.run(|tx| tx.insert(&counters, row![id, id])).expect("committed");
        }
        follow(&db, &standby);
        if round % 5 == 0 {
            db.checkpoint().expect("whole");
        }
    }
    assert_same(&db, &standby, "at the end");
    // Another one begins with the checkpoint, and what the log has behind it.
    let second = Database::standby(DATABASE, options()).expect("a standby");
    assert!(second.recovery().checkpoint > 0);
    assert_same(&db, &second, "a second standby");
}

#[test]
fn a_standby_whose_log_was_shortened_before_it_was_read_stops_and_another_one_has_all() {
    let disk = SimulatedDisk::new();
    let options = || on_disk(&disk).log(|log| log.segment_bytes(64 << 10).buffer_bytes(8 << 10));
    let db = Database::open(DATABASE, options()).expect("opened");
    let counters = db.create_table(counter_definition()).expect("created");
    let standby = Database::standby(DATABASE, options()).expect("a standby");
    follow(&db, &standby);
    let copies = standby.table("counter").expect("there");
    // While definitions are read, nothing is replayed.
    let read = standby.follow_definitions(&copies, || {
        for id in 0..200 {
            db.run(|tx| tx.insert(&counters, row![id, id])).expect("committed");
        }
        let removed = db.checkpoint().expect("whole").log_segments_removed;
        assert!(removed > 2, "{removed}");
        Err(Error::Conflict)
    });
    assert_eq!(read, Err(Error::Conflict), "it follows no definitions");
    let last = db.position().expect("a position");
    let stopped = standby.wait_for_position(last, LONG);
    assert!(matches!(stopped, Err(Error::Standby(StandbyError::Stopped { .. }))), "{stopped:?}");
    standby.check().expect("what it has is read, and sound");
    drop(db);
    assert!(matches!(standby.fence(), Err(Error::Standby(StandbyError::Stopped { .. }))), "it has not all");
    let db = Database::open(DATABASE, options()).expect("it is not locked");
    let again = Database::standby(DATABASE, options()).expect("a standby");
    assert_same(&db, &again, "loaded again");
}

#[test]
fn what_is_no_log_is_refused() {
    let disk = SimulatedDisk::new();
    let refused = Database::standby("nowhere/log", on_disk(&disk));
    assert!(matches!(refused, Err(Error::NotADatabase { .. })), "{refused:?}");
    let db = open(&disk);
    db.close().expect("durable");
    let path = std::path::Path::new(DATABASE).join("log");
    let standby = Database::standby(path, on_disk(&disk)).expect("by the log's path");
    assert_eq!(standby.tables().len(), 0);
}
