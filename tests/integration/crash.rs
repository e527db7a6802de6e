//! Power loss: at every boundary of every operation, under load, in recovery, and again and again.
//!
//! Invariants: every acknowledged transaction is there, none is half there, and those whose outcome is
//! unknown are there as a whole or not at all.

mod boundaries;
mod log_tail;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use crate::support::logged::*;
use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, DataType, Database, Durability, Options, PartitionedOptions, Procedure, ProcedureDefinition,
    ProtocolKind, ProtocolOptions, Range, Result, Table, TableDefinition, Value, ValueRef, args, key, row,
};

/// Number of accounts, and each one's initial balance.
const ACCOUNTS: i64 = 8;
const START: i64 = 1_000;

fn accounts() -> TableDefinition {
    TableDefinition::new("account")
        .column("id", DataType::Int64)
        .column("balance", DataType::Int64)
        .not_null()
        .column("note", DataType::Text)
        .primary_key(["id"])
        .index("account_by_note", ["note"])
}

fn transfers() -> TableDefinition {
    TableDefinition::new("transfer")
        .column("thread", DataType::Int64)
        .column("number", DataType::Int64)
        .column("amount", DataType::Int64)
        .primary_key(["thread", "number"])
}

struct Ledger {
    db: Database,
    accounts: Table,
    transfers: Table,
    /// A transfer; and one that takes an earlier one's row away.
    procedures: [Procedure; 2],
}

/// Transfers as procedures: where executors own the rows, each one's actions run beside the others', at several.
fn register(db: &Database, accounts: &Table, transfers: &Table) -> Result<[Procedure; 2]> {
    let account = |which| Action::write(accounts).key(move |args, key| key.push(args.int(which)?));
    let transfer = |which| {
        Action::write(transfers).key(move |args, key| {
            key.push(args.int(3)?)?;
            key.push(args.int(which)?)
        })
    };
    let actions = || {
        [
            account(0).body(|action| action.add("balance", -action.args().int(2)?)),
            account(1).body(|action| {
                action.add("balance", action.args().int(2)?)?;
                action.update(&[("note", action.args().text(6)?.into())])
            }),
            transfer(4).body(|action| {
                let args = action.args();
                action.insert(row![args.int(3)?, args.int(4)?, args.int(2)?])
            }),
        ]
    };
    let delete = transfer(5).body(|action| action.delete().map(drop));
    let define = |name| {
        let parameters = ["from", "to", "amount", "thread", "number", "earlier"];
        let define = |all: ProcedureDefinition, one| all.parameter(one, DataType::Int64);
        parameters.into_iter().fold(ProcedureDefinition::new(name), define).parameter("note", DataType::Text)
    };
    let deleting = actions().into_iter().chain([delete]);
    let definitions = [define("transfer").phase(actions()), define("transfer and delete").phase(deleting)];
    let [plain, deleting] = definitions.map(|definition| db.register(definition));
    Ok([plain?, deleting?])
}

impl Ledger {
    fn create(options: Options) -> Result<Ledger> {
        let db = Database::open(DIRECTORY, options)?;
        let (accounts, transfers) = (db.create_table(accounts())?, db.create_table(transfers())?);
        db.run(|tx| (0..ACCOUNTS).try_for_each(|id| tx.insert(&accounts, row![id, START, "new"])))?;
        let procedures = register(&db, &accounts, &transfers)?;
        Ok(Ledger { db, accounts, transfers, procedures })
    }

    fn open(options: Options) -> Result<Ledger> {
        let db = Database::open(DIRECTORY, options)?;
        let (accounts, transfers) = (db.table("account")?, db.table("transfer")?);
        let procedures = register(&db, &accounts, &transfers)?;
        Ok(Ledger { db, accounts, transfers, procedures })
    }

    /// Moves an amount between two accounts, notes that in both, and in the list of transfers. Three of four are closures.
    fn transfer(&self, thread: i64, number: i64) -> Result<()> {
        let (from, to) = ((thread + number) % ACCOUNTS, (thread + number * 3 + 1) % ACCOUNTS);
        let amount = number % 7 + 1;
        let note = format!("transfer {number} of thread {thread}");
        if number % 4 == 0 {
            let procedure = &self.procedures[usize::from(number % 5 == 4)];
            let args = args![from, to, amount, thread, number, number - 2, note.as_str()];
            return self.db.call(procedure, args).map(drop);
        }
        self.db.run(|tx| {
            tx.add(&self.accounts, key![from], "balance", -amount)?;
            tx.add(&self.accounts, key![to], "balance", amount)?;
            tx.update(&self.accounts, key![to], &[("note", note.as_str().into())])?;
            tx.insert(&self.transfers, row![thread, number, amount])?;
            if number % 5 == 4 {
                // A row goes in the same transaction as its neighbor comes.
                tx.delete(&self.transfers, key![thread, number - 2])?;
            }
            Ok(())
        })
    }

    /// Checks everything, and that the transfers of each thread are a beginning of those that it made: at least those
    /// that were acknowledged, at most one more.
    fn check(&self, acknowledged: &[i64], what: &str) {
        self.db.check().unwrap_or_else(|error| panic!("{what}: {error}"));
        let (balances, transfers) = self
            .db
            .run(|tx| {
                let balances: Result<Vec<i64>> =
                    tx.scan(&self.accounts, Range::all())?.map(|row| row?.int("balance")).collect();
                let transfers: Result<Vec<Vec<Value>>> =
                    tx.scan(&self.transfers, Range::all())?.map(|row| Ok(row?.to_values())).collect();
                Ok((balances?, transfers?))
            })
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut expected = vec![START; balances.len()];
        for (thread, &least) in acknowledged.iter().enumerate() {
            let thread = thread as i64;
            let there: Vec<i64> = transfers
                .iter()
                .filter(|row| row[0] == Value::Int(thread))
                .map(|row| if let Value::Int(number) = row[1] { number } else { panic!("no number") })
                .collect();
            let made = there.last().map_or(0, |last| last + 1);
            assert!(made == least || made == least + 1, "{what}: {least} acknowledged, {made} found");
            let kept = (0..made).filter(|number| {
                let deleter = number + 2;
                !(deleter % 5 == 4 && deleter < made)
            });
            assert!(
                kept.eq(there.iter().copied()),
                "{what}: half a transaction of thread {thread}: {there:?}"
            );
            for number in 0..made {
                let (from, to) = ((thread + number) % ACCOUNTS, (thread + number * 3 + 1) % ACCOUNTS);
                expected[from as usize] -= number % 7 + 1;
                expected[to as usize] += number % 7 + 1;
            }
        }
        assert_eq!(balances, expected, "{what}");
    }
}

/// The smallest segments, and groups that fill them soon.
fn tiny(disk: &SimulatedDisk) -> Options {
    small_options(disk).threads(|threads| threads.max_worker_contexts(16))
}

/// Small options under a protocol; if executors own the rows, there are several, and transfers are over two
/// of them.
fn tiny_under(protocol: ProtocolKind, disk: &SimulatedDisk) -> Options {
    tiny(disk)
        .protocol(ProtocolOptions::from(protocol).partitioned(PartitionedOptions::default().executors(3)))
}

/// Threads make transfers; images of the disk are taken in between, and each must hold what had been acknowledged
/// before it was taken, and nothing half.
fn images_under_load(protocol: ProtocolKind, threads: usize, images: u64) {
    let options = |disk: &SimulatedDisk| tiny_under(protocol, disk);
    let disk = SimulatedDisk::new();
    let ledger = Arc::new(Ledger::create(options(&disk)).expect("a new ledger"));
    let acknowledged: Arc<Vec<AtomicI64>> = Arc::new((0..threads).map(|_| AtomicI64::new(0)).collect());
    let stop = Arc::new(AtomicBool::new(false));
    let running: Vec<_> = (0..threads)
        .map(|thread| {
            let (ledger, acknowledged, stop) = (ledger.clone(), acknowledged.clone(), stop.clone());
            thread::spawn(move || {
                for number in 0..i64::MAX {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    // Recovery of each image reads the whole log: it shall not grow without bounds meanwhile.
                    thread::sleep(std::time::Duration::from_millis(2));
                    ledger.transfer(thread as i64, number).expect("committed");
                    acknowledged[thread].store(number + 1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for seed in 0..images {
        thread::sleep(std::time::Duration::from_millis(4));
        let before: Vec<i64> = acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect();
        let image = disk.crash_image(seed);
        let after: Vec<i64> = acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect();
        let crashed =
            Ledger::open(options(&image)).unwrap_or_else(|error| panic!("{protocol}, seed {seed}: {error}"));
        // What was acknowledged while the image was taken may be in it or not: the image decides.
        let found: Vec<i64> = (0..threads).map(|thread| crashed.transfers_of(thread as i64)).collect();
        for ((&least, &most), &found) in before.iter().zip(&after).zip(&found) {
            assert!((least..=most + 1).contains(&found), "seed {seed}: {least} acknowledged, {found} found");
        }
        crashed.check(&found, &format!("{protocol}, seed {seed}"));
    }
    stop.store(true, Ordering::SeqCst);
    running.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let counts: Vec<i64> = acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect();
    Ledger::open(options(&disk.crash_image(0))).expect("opens").check(&counts, "at the end");
}

impl Ledger {
    /// The number of transfers that a thread has made.
    fn transfers_of(&self, thread: i64) -> i64 {
        self.db
            .run(|tx| {
                let mut rows = tx.scan(&self.transfers, Range::prefix(key![thread]).reverse().limit(1))?;
                rows.next().map_or(Ok(0), |row| Ok(row?.int("number")? + 1))
            })
            .expect("readable")
    }
}

#[test]
fn one_thread_loses_nothing_acknowledged_in_any_crash() {
    for &protocol in ProtocolKind::ALL {
        in_time("one thread", move || images_under_load(protocol, 1, 10));
    }
}

#[test]
fn four_threads_lose_nothing_acknowledged_in_any_crash() {
    for &protocol in ProtocolKind::ALL {
        in_time("four threads", move || images_under_load(protocol, 4, 10));
    }
}

impl Ledger {
    fn handles(&self) -> Ledger {
        Ledger {
            db: self.db.clone(),
            accounts: self.accounts.clone(),
            transfers: self.transfers.clone(),
            procedures: self.procedures.clone(),
        }
    }
}

trait Quiet {
    fn wait_for_quiet(&self);
}

impl Quiet for SimulatedDisk {
    /// Waits until the thread that prepares segments has nothing to do: then only the log syncs.
    fn wait_for_quiet(&self) {
        loop {
            let before = self.operations();
            thread::sleep(std::time::Duration::from_millis(20));
            if self.operations() == before {
                return;
            }
        }
    }
}

/// Recovery does the same each time, writes nothing that changes what the next one finds, and the epochs go on.
#[test]
fn recovery_is_idempotent_and_epochs_rise() {
    let disk = SimulatedDisk::new();
    let ledger = Ledger::create(tiny(&disk)).expect("new");
    for number in 0..20 {
        ledger.transfer(0, number).expect("committed");
    }
    drop(ledger);
    let mut epoch = 0;
    let mut before = None;
    for _ in 0..4 {
        let ledger = Ledger::open(tiny(&disk)).expect("opens");
        ledger.check(&[20], "the same");
        let recovery = ledger.db.recovery().clone();
        assert!(recovery.durable_epoch >= epoch && recovery.cut.is_none());
        epoch = recovery.durable_epoch;
        let found = (recovery.groups, recovery.transactions, recovery.bytes, recovery.durable_epoch);
        assert_eq!(*before.get_or_insert(found), found);
    }
    let ledger = Ledger::open(tiny(&disk)).expect("opens");
    ledger.transfer(0, 20).expect("committed");
    assert!(ledger.db.durable_epoch() > epoch, "a new commit has a new epoch");
}

/// Tables and indexes come in every life of the database; all of them are there in the next one.
#[test]
fn tables_made_in_many_lives_are_all_recovered() {
    let disk = SimulatedDisk::new();
    for life in 0..6_i64 {
        let db = Database::open(DIRECTORY, tiny(&disk)).expect("opens");
        assert_eq!(db.tables().len() as i64, life);
        let definition = TableDefinition::new(format!("table_{life}"))
            .column("id", DataType::Int64)
            .column("name", DataType::Text)
            .not_null()
            .default("nameless")
            .column("price", DataType::Decimal { precision: 10, scale: 2 })
            .primary_key(["id"])
            .index(format!("index_{life}"), ["name", "price"])
            .unique_index(format!("unique_{life}"), ["price"]);
        let table = db.create_table(definition.clone()).expect("new");
        assert_eq!(*table.definition(), definition);
        for other in 0..=life {
            let table = db.table(&format!("table_{other}")).expect("recovered");
            assert_eq!(table.definition().name(), format!("table_{other}"));
            db.run(|tx| {
                tx.insert(&table, row![life * 10, format!("name {life}").as_str(), ValueRef::Null])?;
                tx.insert(&table, row![life * 10 + 1, "second", ValueRef::Null])
            })
            .expect("inserted");
            if life > other {
                db.run(|tx| tx.delete(&table, key![(life - 1) * 10 + 1])).expect("deleted");
            }
        }
        db.check().expect("consistent");
        if life % 2 == 0 {
            db.close().expect("durable");
        }
    }
    let db = Database::open(DIRECTORY, tiny(&disk.crash_image(0))).expect("opens");
    let report = db.check().expect("consistent");
    for table in db.tables() {
        let number: i64 = table.name()["table_".len()..].parse().expect("a number");
        let rows = db.run(|tx| Ok(tx.scan(&table, Range::all())?.count())).expect("readable");
        assert_eq!(rows as i64, 6 - number + 1, "{}", table.name());
    }
    assert!(report.index_entries > 0);
}

/// With `Async` a crash keeps a beginning of each thread's transfers, and of all together: the total is right.
#[test]
fn with_async_a_crash_keeps_a_consistent_beginning() {
    in_time("async", || {
        let disk = SimulatedDisk::new();
        drop(Ledger::create(tiny(&disk)).expect("new"));
        let options = |disk: &SimulatedDisk| {
            tiny(disk).durability(Durability::Async).log(|log| log.group_milliseconds(2.0))
        };
        let ledger = Arc::new(Ledger::open(options(&disk)).expect("opens"));
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let ledger = ledger.clone();
                thread::spawn(move || {
                    for number in 0..80 {
                        ledger.transfer(thread, number).expect("reported at once");
                    }
                })
            })
            .collect();
        for seed in 0..15 {
            thread::sleep(std::time::Duration::from_millis(3));
            let crashed = Ledger::open(tiny(&disk.crash_image(seed))).expect("opens");
            let found: Vec<i64> = (0..3).map(|thread| crashed.transfers_of(thread)).collect();
            crashed.check(&found, &format!("seed {seed}"));
        }
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        Arc::into_inner(ledger).expect("the threads have ended").db.close().expect("durable");
        Ledger::open(tiny(&disk.crash_image(0))).expect("opens").check(&[80, 80, 80], "after closing");
    });
}

/// The proof that these tests would notice: a disk that reports syncs and does nothing loses what was acknowledged.
#[test]
fn a_disk_that_lies_about_syncs_is_noticed() {
    let disk = SimulatedDisk::new();
    let ledger = Ledger::create(tiny(&disk)).expect("new");
    ledger.transfer(0, 0).expect("committed");
    disk.lie_about_syncs();
    for number in 1..5 {
        ledger.transfer(0, number).expect("acknowledged by a lie");
    }
    let crashed = Ledger::open(tiny(&disk.crash_image(0))).expect("opens");
    assert_eq!(crashed.transfers_of(0), 1, "the crash image keeps what was never synced");
    assert!(disk.bytes(Path::new(DIRECTORY).join("MANIFEST").as_path()).is_ok());
}

/// Two worker contexts' parts of one group stand one behind the other in it: what the second one wrote first must be
/// replayed first.
#[test]
fn a_group_is_replayed_in_the_order_of_its_commits_whoever_made_them() {
    let disk = SimulatedDisk::new();
    let bank = bank(&disk);
    bank.wait_for_segments(&disk);
    let (mut first, mut second) = (bank.db.worker().expect("open"), bank.db.worker().expect("open"));
    let held = HeldSyncs::of(&disk);
    // While two groups are in flight, what comes makes up one group.
    let before = first.execute(&bank.set, args![9, 1]);
    disk.wait_for_held_syncs(1);
    let beside = first.execute(&bank.set, args![8, 1]);
    disk.wait_for_held_syncs(2);
    let groups = bank.db.statistics().log_groups;
    let calls = [
        second.execute(&bank.insert, args![50, 5]),
        first.execute(&bank.set, args![50, 6]),
        second.execute(&bank.delete, args![1, 0]),
        first.execute(&bank.insert, args![1, 11]),
        second.execute(&bank.set, args![1, 12]),
    ];
    held.release();
    before.wait().expect("committed");
    beside.wait().expect("committed");
    for call in calls {
        call.wait().expect("committed");
    }
    assert_eq!(bank.db.statistics().log_groups, groups + 1, "they were to be in one group");
    let crashed = reopened(&disk.crash_image(0));
    let row_of = |id: i64| {
        crashed
            .db
            .run(|tx| Ok(tx.get(&crashed.items, key![id])?.map(|row| row.to_values())))
            .expect("readable")
    };
    assert_eq!(row_of(50), Some(vec![Value::Int(50), Value::Int(6), Value::Int(5_000)]));
    assert_eq!(row_of(1), Some(vec![Value::Int(1), Value::Int(12), Value::Int(100)]));
    crashed.db.check().expect("consistent");
}
