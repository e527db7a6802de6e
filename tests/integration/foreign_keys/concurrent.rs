//! Eight threads insert, change and delete parents and children by closures, procedures, sessions and operations: a full
//! scan finds no child without its parent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use heddledb::{
    Action, DataType, Database, Durability, Error, ForeignKey, Procedure, ProcedureDefinition,
    ReferentialAction, Result, Table, TableDefinition, args, key, row,
};

use crate::foreign_keys::rig::{every_protocol, orphans};

const THREADS: u64 = 8;
const STEPS: u64 = 150;
const KEYS: i64 = 12;

/// A random number generator, so that a failed run can be told apart by its thread and step.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % bound
    }
}

/// Parents, children that do one thing when their parent goes, and grandchildren that go with their parent.
struct Family {
    db: Database,
    parents: Table,
    children: Table,
    toys: Table,
    insert: Procedure,
    delete: Procedure,
}

impl Family {
    fn new(db: Database, action: ReferentialAction, is_deferred: bool) -> Family {
        let int = |table: TableDefinition, name: &str| table.column(name, DataType::Int64);
        let parents = int(int(int(TableDefinition::new("parent"), "id"), "code"), "n").not_null();
        let parents =
            db.create_table(parents.primary_key(["id"]).unique_index("code", ["code"])).expect("parents");
        let key = |name: &str, column: &'static str| {
            let key = ForeignKey::new(name, [column], "parent").on_delete(action).on_update(action);
            if is_deferred { key.deferred() } else { key }
        };
        let children = int(int(TableDefinition::new("child"), "id"), "parent").default(0);
        let children = int(int(children, "code").default(0), "n").not_null().primary_key(["id"]);
        let children = children
            .foreign_key(key("by_key", "parent"))
            .foreign_key(key("by_code", "code").to_columns(["code"]));
        let children = db.create_table(children).expect("children");
        let toys = int(int(TableDefinition::new("toy"), "id"), "child").primary_key(["id"]);
        let of_child = ForeignKey::new("of_child", ["child"], "child").on_delete(ReferentialAction::Cascade);
        let toys = db.create_table(toys.foreign_key(of_child)).expect("toys");
        let (insert, delete) = procedures(&db, &parents, &children);
        // The parent of the defaults stays.
        db.run(|tx| (0..KEYS).try_for_each(|id| tx.insert(&parents, row![id, id, 0]))).expect("rows");
        Family { db, parents, children, toys, insert, delete }
    }

    /// One random step of a thread. A violation is a result like any other.
    fn step(&self, random: &mut Random, session: &mut heddledb::Session) -> Result<()> {
        let (parent, child) = (1 + random.below(KEYS - 1), random.below(4 * KEYS));
        let code = 1 + random.below(KEYS - 1);
        match random.below(12) {
            0 => self.db.run(|tx| tx.insert(&self.parents, row![parent, code, 0])),
            1 => self.db.run(|tx| tx.delete(&self.parents, key![parent]).map(drop)),
            2 => self.db.run(|tx| tx.update(&self.parents, key![parent], &[("code", code.into())])),
            3 => self.db.run(|tx| tx.add(&self.parents, key![parent], "n", 1)),
            4 => self.db.run(|tx| tx.insert(&self.children, row![child, parent, code, 0])),
            5 => self.db.run(|tx| tx.update(&self.children, key![child], &[("parent", parent.into())])),
            6 => self.db.run(|tx| tx.add(&self.children, key![child], "code", 1)),
            7 => self.db.run(|tx| {
                tx.insert(&self.toys, row![random_toy(child, parent), child])?;
                tx.add(&self.children, key![child], "n", 1)
            }),
            8 => self.db.call(&self.insert, args![child, parent]).map(drop),
            9 => self.db.call(&self.delete, args![parent]).map(drop),
            10 => self.db.run(|tx| tx.delete(&self.children, key![child]).map(drop)),
            _ => self.in_session(session, (parent, child, code)),
        }
    }

    fn in_session(
        &self,
        session: &mut heddledb::Session,
        (parent, child, code): (i64, i64, i64),
    ) -> Result<()> {
        session.begin()?;
        let first = session.run(|tx| match parent % 2 {
            0 => tx.insert(&self.children, row![child, parent, code, 0]),
            _ => tx.delete(&self.parents, key![parent]).map(drop),
        });
        let second = first.and_then(|()| session.run(|tx| tx.add(&self.parents, key![code], "n", 1)));
        match second.and_then(|()| session.commit()) {
            Err(error) => {
                let _ = session.rollback();
                Err(error)
            }
            done => done,
        }
    }

    fn check(&self) {
        let found = self.db.run(|tx| {
            let (parents, children) = ((&self.parents, "id"), (&self.children, "id"));
            Ok([
                orphans(tx, (&self.children, "parent"), parents)?,
                orphans(tx, (&self.children, "code"), (&self.parents, "code"))?,
                orphans(tx, (&self.toys, "child"), children)?,
            ])
        });
        assert_eq!(found.expect("a scan"), [vec![], vec![], vec![]]);
        self.db.check().expect("the database is consistent");
    }
}

fn random_toy(child: i64, parent: i64) -> i64 {
    child * KEYS + parent
}

fn procedures(db: &Database, parents: &Table, children: &Table) -> (Procedure, Procedure) {
    let insert = Action::write(children).key(|args, key| key.push(args.int(0)?)).body(|action| {
        let (id, parent) = (action.args().int(0)?, action.args().int(1)?);
        action.insert(row![id, parent, Option::<i64>::None, 0])
    });
    let insert = ProcedureDefinition::new("insert").parameter("id", DataType::Int64).phase([insert]);
    let insert = db.register(insert.parameter("parent", DataType::Int64)).expect("registered");
    let delete = Action::write(parents).key(|args, key| key.push(args.int(0)?));
    let delete = delete.body(|action| action.delete().map(drop));
    let delete = ProcedureDefinition::new("delete").parameter("id", DataType::Int64).phase([delete]);
    (insert, db.register(delete).expect("registered"))
}

/// Returns true if a step may end with this error.
fn is_a_result(error: &Error) -> bool {
    error.is_retryable()
        || matches!(
            error,
            Error::NoReferencedRow { .. }
                | Error::StillReferenced { .. }
                | Error::DuplicateKey { .. }
                | Error::MissingKey { .. }
        )
}

fn run(action: ReferentialAction, is_deferred: bool) {
    for (number, options) in every_protocol().into_iter().enumerate() {
        let db = Database::in_memory_with(options.durability(Durability::None)).expect("options");
        let family = Family::new(db, action, is_deferred);
        let done = AtomicU64::new(0);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (family, done) = (&family, &done);
                scope.spawn(move || {
                    let mut random = Random(thread * 1_000 + number as u64 + 1);
                    let mut session = family.db.session().expect("a session");
                    for step in 0..STEPS {
                        match family.step(&mut random, &mut session) {
                            Ok(()) => _ = done.fetch_add(1, Ordering::Relaxed),
                            Err(error) => {
                                assert!(is_a_result(&error), "thread {thread}, step {step}: {error}")
                            }
                        }
                    }
                });
            }
        });
        assert!(done.load(Ordering::Relaxed) > THREADS * STEPS / 8, "hardly a step succeeds");
        family.check();
    }
}

#[test]
fn every_child_has_its_parent_without_an_action() {
    run(ReferentialAction::NoAction, false);
}

#[test]
fn every_child_has_its_parent_under_restriction() {
    run(ReferentialAction::Restrict, false);
}

#[test]
fn every_child_has_its_parent_where_children_go_with_it() {
    run(ReferentialAction::Cascade, false);
}

#[test]
fn every_child_has_its_parent_where_children_are_orphaned() {
    run(ReferentialAction::SetNull, false);
}

#[test]
fn every_child_has_its_parent_where_children_get_another() {
    run(ReferentialAction::SetDefault, false);
}

#[test]
fn every_child_has_its_parent_when_transactions_end() {
    run(ReferentialAction::NoAction, true);
    run(ReferentialAction::Cascade, true);
}
