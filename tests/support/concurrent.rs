//! Support of the tests of concurrency: databases, an account table, and a watch that fails instead of
//! hanging.

#![allow(dead_code)] // each test binary uses a part of it

use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use heddledb::testing::SimulatedDisk;
use heddledb::{
    Action, DataType, Database, Durability, Options, Procedure, ProcedureDefinition, Range, Table,
    TableDefinition, Value, fail, row,
};

/// Far longer than any test takes: a test that needs it hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs a test on a thread of its own, and fails if it hangs.
pub fn watched(test: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let thread = thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    match finished.recv_timeout(LIMIT) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the test hangs"),
        // Done, or it panicked and dropped the sender: joining tells.
        _ => {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// A database without files.
pub fn in_memory(options: Options) -> Database {
    Database::in_memory_with(options.durability(Durability::None)).expect("options")
}

/// A database with group commit on a simulated disk.
pub fn on_disk(options: Options) -> (Database, SimulatedDisk) {
    let disk = SimulatedDisk::new();
    (open(&disk, options), disk)
}

/// Opens the database of a simulated disk.
pub fn open(disk: &SimulatedDisk, options: Options) -> Database {
    let options = options.log(|log| log.segment_bytes(1 << 20)).disk(Arc::new(disk.clone()));
    Database::open("/db", options).expect("a database")
}

/// A small log buffer, so that little is prepared on the disk.
pub fn small() -> Options {
    Options::default().log(|log| log.buffer_bytes(1 << 18))
}

/// Accounts 0 to `count`, each with a balance of 100.
pub fn accounts(db: &Database, count: i64) -> Table {
    let table = db
        .create_table(
            TableDefinition::new("account")
                .column("id", DataType::Int64)
                .column("balance", DataType::Int64)
                .not_null()
                .primary_key(["id"]),
        )
        .expect("a table");
    db.run(|tx| (0..count).try_for_each(|id| tx.insert(&table, row![id, 100]))).expect("rows");
    table
}

/// The sum of all balances.
pub fn total(db: &Database, table: &Table) -> i64 {
    db.run(|tx| {
        let mut sum = 0;
        for row in tx.scan(table, Range::all())? {
            sum += row?.int("balance")?;
        }
        Ok(sum)
    })
    .expect("a sum")
}

/// One account's balance.
pub fn balance(db: &Database, table: &Table, id: i64) -> Option<i64> {
    db.run(|tx| tx.get(table, heddledb::key![id])?.map(|row| row.int("balance")).transpose()).expect("a read")
}

/// `deposit(id, amount)`: adds to one account.
pub fn deposit(db: &Database, table: &Table) -> Procedure {
    let definition = ProcedureDefinition::new("deposit")
        .parameter("id", DataType::Int64)
        .parameter("amount", DataType::Int64)
        .phase([Action::commute(table)
            .key(|args, key| key.push(args.int(0)?))
            .body(|action| action.add("balance", action.args().int(1)?))]);
    db.register(definition).expect("a procedure")
}

/// `transfer(from, to, amount)`: fails below zero, without a trace.
pub fn transfer(db: &Database, table: &Table) -> Procedure {
    let definition = ProcedureDefinition::new("transfer")
        .parameter("from", DataType::Int64)
        .parameter("to", DataType::Int64)
        .parameter("amount", DataType::Int64)
        .phase([
            Action::commute(table)
                .key(|args, key| key.push(args.int(1)?))
                .body(|action| action.add("balance", action.args().int(2)?)),
            Action::write(table).key(|args, key| key.push(args.int(0)?)).body(|action| {
                action.add("balance", -action.args().int(2)?)?;
                let left = action.get()?.ok_or_else(|| fail("no account"))?.int("balance")?;
                if left < 0 { Err(fail("insufficient funds")) } else { Ok(()) }
            }),
        ]);
    db.register(definition).expect("a procedure")
}

/// `audit()`: returns the sum of all balances.
pub fn audit(db: &Database, table: &Table) -> Procedure {
    let all = table.clone();
    let definition = ProcedureDefinition::new("audit").phase([Action::read(table).body(move |action| {
        let mut sum = 0;
        for row in action.tx().scan(&all, Range::all())? {
            sum += row?.int("balance")?;
        }
        action.return_row(vec![Value::Int(sum)]);
        Ok(())
    })]);
    db.register(definition).expect("a procedure")
}

/// Bodies wait here until the test opens it.
#[derive(Default)]
pub struct Gate {
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    /// Waits until the gate is open.
    pub fn pass(&self) {
        let mut state = self.state.lock().expect("gate");
        state.1 += 1;
        self.changed.notify_all();
        while !state.0 {
            state = self.changed.wait(state).expect("gate");
        }
    }

    /// Waits until this many have come.
    pub fn wait_for_arrivals(&self, count: usize) {
        let mut state = self.state.lock().expect("gate");
        while state.1 < count {
            state = self.changed.wait(state).expect("gate");
        }
    }

    /// Lets everybody pass.
    pub fn open(&self) {
        self.state.lock().expect("gate").0 = true;
        self.changed.notify_all();
    }
}
