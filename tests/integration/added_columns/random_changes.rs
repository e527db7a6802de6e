//! Random changes of a table beside a model, with restarts and power loss in between: rows change, columns are added, and columns
//! become nullable or NOT NULL, also in tables in which no column could be NULL when their rows were made.

use fastrand::Rng;
use heddledb::testing::SimulatedDisk;
use heddledb::{
    DataType, Database, Error, Options, ProtocolKind, Range, Snapshot, Table, TableChange, TableDefinition,
    Value, key,
};

use super::{all, change, text};
use crate::support::tables::{DATABASE, on_disk};

/// The expected rows, by key: the values of all columns but the key.
type Model = std::collections::BTreeMap<i64, Vec<Value>>;

/// A column but the key.
#[derive(Clone, Copy)]
struct Column {
    is_text: bool,
    not_null: bool,
}

fn random_value(random: &mut Rng, column: Column) -> Value {
    match random.u8(0..4) {
        0 if !column.not_null => Value::Null,
        _ if !column.is_text => Value::Int(random.i64(0..100)),
        1 => text("short"),
        _ => text(&format!("a text that is longer than a word: {}", random.u8(0..100))),
    }
}

/// Has a column refuse NULL, or hold it, if the rows allow it.
fn change_null(db: &Database, model: &Model, columns: &mut [Column], random: &mut Rng) {
    let at = random.usize(0..columns.len());
    let not_null = !columns[at].not_null;
    let name = format!("c{at}");
    let step = TableChange::new();
    let changed = change(db, if not_null { step.not_null(name) } else { step.nullable(name) });
    if not_null && model.values().any(|row| row[at] == Value::Null) {
        assert!(matches!(changed, Err(Error::NullValue { .. })), "{changed:?}");
    } else {
        changed.expect("changed");
        columns[at].not_null = not_null;
    }
}

/// One random step, done to the database and to the model.
fn step(db: &Database, model: &mut Model, columns: &mut Vec<Column>, random: &mut Rng) {
    let items = db.table("item").expect("the table");
    let id = random.i64(0..12);
    let name = |column: usize| format!("c{column}");
    match random.u8(0..11) {
        0 if columns.len() < 40 => {
            let column = Column { is_text: random.bool(), not_null: random.bool() };
            let data_type = if column.is_text { DataType::Text } else { DataType::Int64 };
            let (value, name) = (random_value(random, column), name(columns.len()));
            let add = TableChange::new().add_column(&name, data_type, value.clone());
            change(db, if column.not_null { add.not_null(name) } else { add }).expect("added");
            model.values_mut().for_each(|row| row.push(value.clone()));
            columns.push(column);
        }
        10 => change_null(db, model, columns, random),
        1 => {
            db.run(|tx| tx.delete(&items, key![id])).expect("deleted");
            model.remove(&id);
        }
        2 | 3 => {
            let row: Vec<Value> = columns.iter().map(|&column| random_value(random, column)).collect();
            let values = [Value::Int(id)].into_iter().chain(row.clone()).collect::<Vec<_>>();
            db.run(|tx| {
                tx.delete(&items, key![id])?;
                tx.insert(&items, values.iter().map(heddledb::ValueRef::from).collect::<Vec<_>>())
            })
            .expect("inserted");
            model.insert(id, row);
        }
        _ => {
            let Some(row) = model.get_mut(&id) else { return };
            let column = random.usize(0..columns.len());
            let value = random_value(random, columns[column]);
            let changes = [(name(column), value.clone())];
            let changes: Vec<_> = changes
                .iter()
                .map(|(name, value)| (name.as_str(), heddledb::ValueRef::from(value)))
                .collect();
            db.run(|tx| tx.update(&items, key![id], &changes)).expect("updated");
            row[column] = value;
        }
    }
}

/// A database that comes back from whatever happens to it, where it is, and its snapshots with what they are to show.
struct Life {
    protocol: ProtocolKind,
    disk: SimulatedDisk,
    place: String,
    db: Option<Database>,
    snapshots: Vec<(Snapshot, Table, Vec<Vec<Value>>)>,
}

impl Life {
    fn begin(protocol: ProtocolKind) -> Life {
        let (disk, place) = (SimulatedDisk::new(), DATABASE.to_string());
        let mut life = Life { protocol, disk, place, db: None, snapshots: Vec::new() };
        life.open();
        life
    }

    fn db(&self) -> &Database {
        self.db.as_ref().expect("it is open")
    }

    fn options(&self) -> Options {
        on_disk(&self.disk).protocol(self.protocol)
    }

    fn open(&mut self) {
        self.db = Some(Database::open(&self.place, self.options()).expect("opened"));
    }

    fn close(&mut self) {
        self.snapshots.clear();
        self.db.take().expect("it is open").close().expect("closed");
    }

    fn lose_power(&mut self, seed: u64) {
        self.snapshots.clear();
        let image = self.disk.crash_image(seed);
        self.db = None;
        self.disk = image;
        self.open();
    }

    /// From here on it is what a backup has kept.
    fn restore(&mut self, number: usize) {
        let backup = format!("backup {number}");
        self.db().backup(&backup).expect("backed up");
        self.close();
        self.place = format!("restored {number}");
        Database::restore(&backup, &self.place, self.options(), &mut |_, _| ()).expect("restored");
        self.open();
    }

    fn keep_snapshot(&mut self, rows: Vec<Vec<Value>>) {
        let items = self.db().table("item").expect("the table");
        let snapshot = self.db().snapshot().expect("a snapshot");
        self.snapshots.truncate(3);
        self.snapshots.insert(0, (snapshot, items, rows));
    }

    fn check(&self, expected: &[Vec<Value>], context: &str) {
        assert_eq!(all(self.db()), expected, "{context}");
        for (snapshot, items, expected) in &self.snapshots {
            let rows = snapshot.scan(items, Range::all()).expect("a scan");
            let rows: Vec<_> = rows.map(|row| row.expect("a row").to_values()).collect();
            assert_eq!(rows, *expected, "{context}, in a snapshot");
        }
        self.db().check().expect("consistent");
    }
}

#[test]
fn random_changes_leave_what_a_model_has_whatever_happens_to_the_database() {
    for seed in 0..12 {
        let mut random = Rng::with_seed(seed);
        let mut life = Life::begin(ProtocolKind::ALL[seed as usize % ProtocolKind::ALL.len()]);
        let definition =
            TableDefinition::new("item").column("id", DataType::Int64).column("c0", DataType::Int64);
        let not_null = random.u8(0..3) > 0;
        let definition = if not_null { definition.not_null() } else { definition };
        life.db().create_table(definition.primary_key(["id"])).expect("created");
        let (mut model, mut columns) = (Model::new(), vec![Column { is_text: false, not_null }]);
        for at in 0..200 {
            step(life.db(), &mut model, &mut columns, &mut random);
            let rows = || -> Vec<Vec<Value>> {
                let row = |(&id, row): (&i64, &Vec<Value>)| {
                    [Value::Int(id)].into_iter().chain(row.iter().cloned()).collect()
                };
                model.iter().map(row).collect()
            };
            match random.u8(0..120) {
                0 => drop(life.db().checkpoint().expect("a checkpoint")),
                1 => {
                    life.close();
                    life.open();
                }
                2 => life.lose_power(random.u64(..)),
                3 => life.restore(at),
                4..16 => life.keep_snapshot(rows()),
                _ => {}
            }
            if at % 10 == 0 {
                life.check(&rows(), &format!("seed {seed}, step {at}"));
            }
        }
    }
}
