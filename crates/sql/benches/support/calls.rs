//! The calls of the papers' workloads, as `heddle bench … --interface sql` makes them, and as procedures of a worker.
//!
//! Invariants: both make the same calls in the same order, on tables that were filled alike.

use heddle_sql::types::Value;
use heddle_sql::types::array::ArrayValue;
use heddle_sql::types::numeric::Numeric;
use heddle_sql::{Connection, PreparedStatement, Sql, SqlError, Type};
use heddle_workloads::Workload;
use heddle_workloads::calls::Calls;
use heddle_workloads::debit_credit::DebitCredit;
use heddle_workloads::functions::{Argument, FunctionCall, integers};
use heddle_workloads::tatp::Tatp;
use heddle_workloads::tpcc::Tpcc;
use heddledb::{Args, Database, Procedure};

/// Calls that are made beforehand.
pub const CALLS: usize = 4_096;

/// A loaded workload, small enough to be filled under valgrind.
pub fn workload(name: &str) -> Box<dyn Workload> {
    match name {
        "tatp" => Box::new(Tatp { subscribers: 1_000, ..Tatp::default() }),
        "tpcc" => Box::new(Tpcc { items: 500, customers: 60, home: false, ..Tpcc::default() }),
        _ => Box::new(DebitCredit { branches: 4, accounts_per_branch: 1_000, ..DebitCredit::default() }),
    }
}

/// The calls of one caller, in memory.
pub fn calls_of(workload: &dyn Workload, db: &Database) -> (Vec<Procedure>, Vec<(usize, Args)>) {
    let bound = workload.bind(db, 1).expect("a workload that binds");
    let mut generator = bound.generator(7, 0).expect("a generator");
    let mut calls = Calls::default();
    generator.fill(&mut calls, CALLS).expect("calls");
    (generator.procedures().to_vec(), calls.made().to_vec())
}

/// Makes the calls as procedures, one at a time.
pub fn by_procedure(db: &Database, name: &str) -> Result<Box<dyn FnMut(i64)>, SqlError> {
    let workload = workload(name);
    workload.load(db).expect("rows");
    let (procedures, calls) = calls_of(&*workload, db);
    let db: &'static Database = Box::leak(Box::new(db.clone()));
    let (mut worker, mut results) = (db.worker()?, Vec::new());
    Ok(Box::new(move |number| {
        let call = &calls[number as usize % CALLS];
        worker.execute_group(&procedures, std::slice::from_ref(call), &mut results);
        results.clear();
    }))
}

/// Makes the calls as functions in SQL.
pub fn by_function(db: &Database, name: &str) -> Result<Box<dyn FnMut(i64)>, SqlError> {
    let workload = workload(name);
    workload.load(db).expect("rows");
    let functions = workload.functions().expect("functions");
    let mut connection: Connection = Sql::new(db)?.connect(Default::default())?;
    connection.query(functions.script)?;
    let prepare = |call: &FunctionCall| connection.prepared(&call.statement());
    let statements: Vec<PreparedStatement> = functions.calls.iter().map(prepare).collect::<Result<_, _>>()?;
    let value = |argument: &Argument, args: &Args| value_of(*argument, args).expect("an argument");
    let calls: Vec<(PreparedStatement, Vec<Value>)> = calls_of(&*workload, db)
        .1
        .iter()
        .map(|(procedure, args)| {
            let arguments = &functions.calls[*procedure].arguments;
            (statements[*procedure].clone(), arguments.iter().map(|one| value(one, args)).collect())
        })
        .collect();
    Ok(Box::new(move |number| {
        let (statement, parameters) = &calls[number as usize % CALLS];
        // Some calls fail by themselves, as their procedures do.
        let _ = std::hint::black_box(connection.run(statement, parameters, &mut |_| Ok(())));
    }))
}

/// An argument as a value of SQL. Times are not those of PostgreSQL, which does not matter here.
pub fn value_of(argument: Argument, args: &Args) -> heddledb::Result<Value> {
    Ok(match argument {
        Argument::Integer(place) => Value::Int8(args.int(place)?),
        Argument::Text(place, text) => Value::text(text(args.int(place)?)),
        Argument::Cents(place) => {
            Value::Numeric(Numeric::from_small(args.int(place)?, 2).expect("an amount of money"))
        }
        Argument::Time(place) => Value::Timestamptz(args.int(place)?),
        Argument::Integers { first, step, count } => {
            let values = integers(args, first, step, count)?.into_iter().map(Value::Int8).collect();
            Value::array(ArrayValue::list(Type::Int8, values))
        }
        Argument::Null => Value::Null,
    })
}
