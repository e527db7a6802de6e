//! Random writes, with snapshots taken in between: each of them shows what a model of its moment shows, however much has
//! changed since, in whatever order they are dropped. And what was kept for them is gone with them.

use std::collections::BTreeMap;

use heddledb::{
    DataType, Database, Durability, Options, OwnedRow, PrimaryIndex, ProtocolKind, Range, Result, Snapshot,
    SnapshotScan, Table, TableDefinition, key, row,
};

/// Few, so that rows come back after they were deleted.
const KEYS: i64 = 40;

/// A row's number, group and text.
type Row = (i64, i64, String);
type Rows = BTreeMap<i64, Row>;

fn definition(index: PrimaryIndex) -> TableDefinition {
    TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("n", DataType::Int64)
        .not_null()
        .column("group", DataType::Int64)
        .column("text", DataType::Text)
        .primary_key(["id"])
        .primary_index(index)
        .index("by_group", ["group"])
        .unique_index("by_n", ["n"])
}

struct World {
    db: Database,
    table: Table,
    rows: Rows,
    random: fastrand::Rng,
    next: i64,
    is_ordered: bool,
}

fn values(row: &OwnedRow) -> Result<(i64, Row)> {
    Ok((row.int("id")?, (row.int("n")?, row.int("group")?, row.text("text")?.to_string())))
}

fn read(scan: SnapshotScan) -> Vec<(i64, Row)> {
    scan.map(|row| values(&row.expect("a row")).expect("its values")).collect()
}

impl World {
    fn new(protocol: ProtocolKind, index: PrimaryIndex, seed: u64) -> World {
        let db = Database::in_memory_with(Options::default().protocol(protocol).durability(Durability::None));
        let db = db.expect("options");
        let table = db.create_table(definition(index)).expect("a table");
        let random = fastrand::Rng::with_seed(seed);
        World { db, table, rows: Rows::new(), random, next: 0, is_ordered: index != PrimaryIndex::Hash }
    }

    /// A text that lies in its word, or in a block.
    fn text(&mut self) -> String {
        "x".repeat(self.random.usize(0..40))
    }

    /// One transaction of some writes.
    fn write(&mut self) {
        let mut after = self.rows.clone();
        let mut steps: Vec<(i64, Option<Row>)> = Vec::new();
        for _ in 0..self.random.usize(1..4) {
            let id = self.random.i64(0..KEYS);
            self.next += 1;
            let new = (self.next, self.random.i64(0..5), self.text());
            let new = match after.get(&id) {
                Some(_) if self.random.u32(0..3) == 0 => None,
                // Often only a number changes.
                Some(old) if self.random.bool() => Some((self.next, old.1, old.2.clone())),
                _ => Some(new),
            };
            match &new {
                Some(new) => drop(after.insert(id, new.clone())),
                None => drop(after.remove(&id)),
            }
            steps.push((id, new));
        }
        let table = &self.table;
        self.db
            .run(|tx| {
                for (id, new) in &steps {
                    match (tx.get(table, key![*id])?.is_some(), new) {
                        (true, None) => drop(tx.delete(table, key![*id])?),
                        (true, Some((n, group, text))) => tx.update(
                            table,
                            key![*id],
                            &[("n", (*n).into()), ("group", (*group).into()), ("text", text.as_str().into())],
                        )?,
                        (false, Some((n, group, text))) => {
                            tx.insert(table, row![*id, *n, *group, text.as_str()])?;
                        }
                        (false, None) => {}
                    }
                }
                Ok(())
            })
            .expect("a write");
        self.rows = after;
    }

    /// Everything that a snapshot shows is what the model says.
    fn compare(&self, snapshot: &Snapshot, rows: &Rows) {
        let expected: Vec<_> = rows.iter().map(|(id, values)| (*id, values.clone())).collect();
        for id in 0..KEYS {
            let found = snapshot.get(&self.table, key![id]).expect("a look");
            assert_eq!(found.map(|row| values(&row).expect("values").1), rows.get(&id).cloned());
            assert_eq!(snapshot.exists(&self.table, key![id]), Ok(rows.contains_key(&id)));
        }
        let mut all = read(snapshot.scan(&self.table, Range::all()).expect("a scan"));
        if self.is_ordered {
            assert_eq!(all, expected);
            let mut backward = read(snapshot.scan(&self.table, Range::all().reverse()).expect("a scan"));
            backward.reverse();
            assert_eq!(backward, expected);
            let middle = Range::from(key![10]).to_inclusive(key![25]).limit(7);
            let some: Vec<_> = expected.iter().filter(|row| (10..=25).contains(&row.0)).take(7).collect();
            assert_eq!(
                read(snapshot.scan(&self.table, middle).expect("a scan")).iter().collect::<Vec<_>>(),
                some
            );
        } else {
            all.sort_unstable();
            assert_eq!(all, expected);
        }
        self.compare_indexes(snapshot, &expected);
        for parts in [1, 2, 7] {
            let scans = snapshot.scan_parts(&self.table, Range::all(), parts).expect("scans");
            assert!(scans.len() <= parts);
            let mut together: Vec<_> = scans.into_iter().flat_map(read).collect();
            if !self.is_ordered {
                together.sort_unstable();
            }
            assert_eq!(together, expected, "{parts} parts");
        }
    }

    fn compare_indexes(&self, snapshot: &Snapshot, expected: &[(i64, Row)]) {
        let mut by_group = expected.to_vec();
        by_group.sort_by_key(|(id, (_, group, _))| (*group, *id));
        let scan = |range| read(snapshot.scan_index(&self.table, "by_group", range).expect("a scan"));
        assert_eq!(scan(Range::all()), by_group);
        let mut backward = scan(Range::all().reverse());
        backward.reverse();
        assert_eq!(backward, by_group);
        let third: Vec<_> = by_group.iter().filter(|row| row.1.1 == 3).cloned().collect();
        assert_eq!(scan(Range::prefix(key![3])), third);
        let mut by_n = expected.to_vec();
        by_n.sort_by_key(|row| row.1.0);
        let scans = snapshot.scan_index_parts(&self.table, "by_n", Range::all().reverse(), 5).expect("scans");
        let mut together: Vec<_> = scans.into_iter().flat_map(read).collect();
        together.reverse();
        assert_eq!(together, by_n);
    }

    fn run(&mut self) {
        self.write();
        // Open all the time, so that versions are kept whichever snapshots are drawn.
        let first = (self.db.snapshot().expect("a snapshot"), self.rows.clone());
        let mut open: Vec<(Snapshot, Rows)> = Vec::new();
        for step in 0..400 {
            self.write();
            if self.random.u32(0..12) == 0 {
                let snapshot = self.db.snapshot().expect("a snapshot");
                open.push((snapshot, self.rows.clone()));
            }
            if open.len() > 6 || self.random.u32(0..40) == 0 && !open.is_empty() {
                let (snapshot, rows) = open.swap_remove(self.random.usize(0..open.len()));
                self.compare(&snapshot, &rows);
            }
            if step % 100 == 99 {
                open.iter().for_each(|(snapshot, rows)| self.compare(snapshot, rows));
            }
        }
        self.compare(&first.0, &first.1);
        assert!(self.db.statistics().snapshot_versions > 0);
        drop((first, open));
        let now = self.db.statistics();
        assert_eq!((now.snapshots_open, now.snapshot_versions, now.snapshot_bytes), (0, 0, 0));
        assert_eq!(now.snapshots_failed, 0);
        self.db.check().expect("consistent");
    }
}

#[test]
fn every_snapshot_shows_its_moment_and_leaves_nothing_behind() {
    let seeds = std::env::var("HEDDLE_SEED").ok().and_then(|seed| seed.parse().ok());
    for &protocol in ProtocolKind::ALL {
        for index in [PrimaryIndex::Hash, PrimaryIndex::Ordered, PrimaryIndex::Both] {
            let seed = seeds.unwrap_or_else(|| fastrand::u64(..));
            println!("HEDDLE_SEED={seed} {protocol} {index:?}");
            World::new(protocol, index, seed).run();
        }
    }
}
