//! Support of the tests of sessions: a table of items under each protocol.

use heddledb::{
    DataType, Database, Durability, Options, ProtocolKind, Range, Result, Session, Table, TableDefinition,
    Tx, key, row,
};

/// A database with a table of items and their values: `(id, value, tag, code)`, the tag indexed, the code unique.
pub struct Rig {
    pub db: Database,
    pub items: Table,
    pub protocol: ProtocolKind,
}

/// Runs a test under every protocol, on a database in memory with items 1 to 4, each of value 10 times its id.
pub fn under_every_protocol(test: impl Fn(&Rig)) {
    ProtocolKind::ALL.iter().for_each(|&protocol| test(&Rig::again(protocol)));
}

impl Rig {
    /// A new database in memory.
    pub fn again(protocol: ProtocolKind) -> Rig {
        let options = Options::default().protocol(protocol).durability(Durability::None).workers(2);
        Rig::of(Database::in_memory_with(options).expect("options"), protocol)
    }

    pub fn of(db: Database, protocol: ProtocolKind) -> Rig {
        let definition = TableDefinition::new("item")
            .column("id", DataType::Int64)
            .column("value", DataType::Int64)
            .not_null()
            .column("tag", DataType::Int64)
            .column("code", DataType::Int64)
            .primary_key(["id"])
            .index("tag", ["tag"])
            .unique_index("code", ["code"]);
        let items = db.create_table(definition).expect("a table");
        db.run(|tx| (1..=4).try_for_each(|id| tx.insert(&items, row![id, id * 10, id % 2, id])))
            .expect("rows");
        Rig { db, items, protocol }
    }

    /// A session with an open transaction.
    pub fn begin(&self) -> Session {
        let mut session = self.db.session().expect("a session");
        session.begin().expect("a transaction");
        session
    }

    /// The value of an item as a closure reads it.
    pub fn value(&self, id: i64) -> Option<i64> {
        self.db.run(|tx| value(tx, &self.items, id)).expect("a read")
    }

    /// Changes an item's value by a closure.
    pub fn set(&self, id: i64, value: i64) {
        self.db.run(|tx| tx.update(&self.items, key![id], &[("value", value.into())])).expect("an update");
    }

    /// The value of an item as a session reads it.
    pub fn read(&self, session: &mut Session, id: i64) -> Result<Option<i64>> {
        session.run(|tx| value(tx, &self.items, id))
    }

    /// Changes an item's value in a session, without reading it.
    pub fn write(&self, session: &mut Session, id: i64, value: i64) -> Result<()> {
        session.run(|tx| tx.update(&self.items, key![id], &[("value", value.into())]))
    }

    /// Changes an item's value in a session after reading it.
    pub fn increase(&self, session: &mut Session, id: i64) -> Result<()> {
        session.run(|tx| {
            let value = value(tx, &self.items, id)?.unwrap_or(0);
            tx.update(&self.items, key![id], &[("value", (value + 1).into())])
        })
    }

    /// The identifiers and values that a session sees in a range.
    pub fn scan(&self, session: &mut Session, range: Range) -> Result<Vec<(i64, i64)>> {
        session.run(|tx| rows(tx.scan(&self.items, range.clone())?))
    }

    /// Scans the rows by the index of the tags.
    pub fn scan_tags(&self, session: &mut Session, range: Range) -> Result<Vec<(i64, i64)>> {
        session.run(|tx| rows(tx.scan_index(&self.items, "tag", range.clone())?))
    }

    /// All items.
    pub fn all(&self) -> Vec<(i64, i64)> {
        self.db.run(|tx| rows(tx.scan(&self.items, Range::all())?)).expect("a scan")
    }
}

pub fn value(tx: &Tx<'_, '_>, items: &Table, id: i64) -> Result<Option<i64>> {
    tx.get(items, key![id])?.map(|row| row.int("value")).transpose()
}

pub fn rows<'a>(scan: impl Iterator<Item = Result<heddledb::Row<'a>>>) -> Result<Vec<(i64, i64)>> {
    scan.map(|row| row.and_then(|row| Ok((row.int("id")?, row.int("value")?)))).collect()
}
