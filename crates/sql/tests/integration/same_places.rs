//! A workload's function goes where its procedure in Rust goes: the schedule `predict` counts both by the same references, and
//! under `partitioned` the same executors touch the rows.

#[allow(dead_code, reason = "the benchmark uses the rest")]
#[path = "../../benches/support/calls.rs"]
mod calls;

use std::collections::BTreeSet;

use heddle_sql::types::Value;
use heddle_sql::{Connection, PreparedStatement, Sql};
use heddle_workloads::Workload;
use heddle_workloads::smallbank::SmallBank;
use heddledb::{Args, Database, Durability, Options, PredictOptions, Procedure, ProtocolKind, TracedThread};

/// Calls of a workload that are compared.
const COMPARED: usize = 400;

/// The workloads, and how many of their procedures, from the first on, declare every key.
const WORKLOADS: [(&str, usize); 4] = [("debit-credit", 1), ("tatp", 7), ("smallbank", 5), ("tpcc", 2)];

fn workload(name: &str) -> Box<dyn Workload> {
    match name {
        "smallbank" => Box::new(SmallBank { accounts: 200, hot: 0, ..SmallBank::default() }),
        _ => calls::workload(name),
    }
}

/// A workload in a database, by its procedures and by its functions.
struct Both {
    name: &'static str,
    db: Database,
    procedures: Vec<Procedure>,
    calls: Vec<(usize, Args)>,
    connection: Connection,
    statements: Vec<PreparedStatement>,
    arguments: Vec<heddle_workloads::functions::FunctionCall>,
}

impl Both {
    fn new(name: &'static str, options: Options) -> Both {
        let db = Database::in_memory_with(options.durability(Durability::None)).expect("it opens");
        let workload = workload(name);
        workload.load(&db).expect("rows");
        let functions = workload.functions().expect("functions");
        let sql = Sql::new(&db).expect("SQL");
        let mut connection = sql.connect(Default::default()).expect("a connection");
        connection.query(functions.script).expect("functions");
        let statements = functions.calls.iter().map(|call| connection.prepared(&call.statement()));
        let statements = statements.collect::<Result<_, _>>().expect("they are prepared");
        let (procedures, calls) = calls::calls_of(&*workload, &db);
        Both { name, db, procedures, calls, connection, statements, arguments: functions.calls }
    }

    fn parameters(&self, (number, args): &(usize, Args)) -> Vec<Value> {
        let arguments = &self.arguments[*number].arguments;
        arguments.iter().map(|one| calls::value_of(*one, args).expect("an argument")).collect()
    }

    fn compared(&self, most: usize) -> Vec<(usize, Args)> {
        let compared = self.calls.iter().filter(|(number, _)| *number < most);
        compared.take(COMPARED).cloned().collect()
    }
}

/// Functions that know more of their keys before they run: a loop over an array of constants, and the row that a lookup finds,
/// where the procedure declares the beginning of the keys.
const KNOW_MORE: [&str; 3] = ["get_new_destination", "insert_call_forwarding", "delete_call_forwarding"];

#[test]
fn predict_counts_a_function_by_the_references_of_its_procedure() {
    for (name, most) in WORKLOADS {
        let options = Options::default().workers(2).schedule(PredictOptions::default().history_seconds(0.0));
        let mut both = Both::new(name, options);
        let compared = both.compared(most);
        let kinds: BTreeSet<usize> = compared.iter().map(|(number, _)| *number).collect();
        assert_eq!(kinds.len(), most, "{name}: each is called");
        for call in &compared {
            let (number, args) = call;
            let function = both.arguments[*number].name;
            let parameters = both.parameters(call);
            let declared = both.connection.declared(&both.statements[*number], &parameters).expect("a plan");
            let (procedure, derived) = declared.unwrap_or_else(|| panic!("{function} declares nothing"));
            let references = |procedure: &Procedure, args: &Args| -> BTreeSet<u64> {
                both.db.placing(procedure, args.clone()).expect("it fits").references().into_iter().collect()
            };
            let of_procedure = references(&both.procedures[*number], args);
            let of_function = references(&procedure, &derived);
            assert!(of_function.is_superset(&of_procedure), "{name}: {function} of {parameters:?}");
            assert!(
                KNOW_MORE.contains(&function) || of_function == of_procedure,
                "{name}: {function} of {parameters:?}: {of_function:?} {of_procedure:?}"
            );
        }
    }
}

/// The executors that touch rows while something is done.
fn executors(db: &Database, run: impl FnOnce()) -> BTreeSet<usize> {
    db.take_access_trace();
    run();
    let trace = db.take_access_trace().expect("it is traced");
    let samples = trace.tables.iter().flat_map(|table| &table.samples);
    let executor = |thread: TracedThread| match thread {
        TracedThread::Executor(number) => Some(number),
        TracedThread::Worker(_) => None,
    };
    samples.filter_map(|sample| executor(sample.thread)).collect()
}

#[test]
fn executors_that_run_a_function_are_those_that_run_its_procedure() {
    for (name, most) in WORKLOADS {
        let options = Options::default().protocol(ProtocolKind::Partitioned).workers(3);
        let mut both = Both::new(name, options.diagnostics(|traced| traced.access_trace(true)));
        let mut of_one = 0;
        for call in &both.compared(most) {
            let (number, args) = call;
            let parameters = both.parameters(call);
            let procedure = both.procedures[*number].clone();
            let (db, statement) = (both.db.clone(), both.statements[*number].clone());
            // Either may fail by itself: what it touched until then counts.
            let call = || executors(&db, || drop(db.call(&procedure, args.clone())));
            let mut of_procedure = call();
            let connection = &mut both.connection;
            let of_function =
                executors(&db, || drop(connection.run(&statement, &parameters, &mut |_| Ok(()))));
            // Boundaries may have moved between the two.
            of_procedure.extend(call());
            let what = both.arguments[*number].statement();
            // A procedure's actions run on several executors; a function's body runs on one that owns some of its keys.
            assert!(
                of_function.is_subset(&of_procedure),
                "{what} of {parameters:?}: {of_function:?} {of_procedure:?}"
            );
            assert_eq!(of_function.len(), 1, "{what} of {parameters:?}");
            of_one += usize::from(of_procedure.len() == 1);
        }
        assert!(of_one > 0, "{}: some are of one executor", both.name);
    }
}
