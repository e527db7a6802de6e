//! A workload's transactions as SQL functions, and the conversion of a call's arguments to theirs.
//!
//! The functions are in `crates/workloads/sql`, one file for each workload. They work on the tables that the
//! workload makes, and leave the same marks as its procedures. The caller decides how they are executed: a
//! workload knows no SQL.

use heddledb::Args;

/// The functions of a workload.
#[derive(Clone, Debug)]
pub struct Functions {
    /// Statements that create them, or replace what has their names.
    pub script: &'static str,
    /// The function that corresponds to each of the generator's procedures.
    pub calls: Vec<FunctionCall>,
}

/// The call of a function.
#[derive(Clone, Debug)]
pub struct FunctionCall {
    /// Its name.
    pub name: &'static str,
    /// Sources of its arguments, in order.
    pub arguments: Vec<Argument>,
}

/// An argument of a function, from those of a procedure's call, which are integers and referred to by their places.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    /// The integer itself.
    Integer(usize),
    /// The text that the integer is a number of.
    Text(usize, fn(i64) -> String),
    /// The integer in cents, as a number with two decimals.
    Cents(usize),
    /// The integer in microseconds since 1970, as a time.
    Time(usize),
    /// An array: the integers at `first`, `first + step` and so on, as many as the integer at `count` says.
    Integers {
        /// The first integer's place.
        first: usize,
        /// Distance from one integer's place to the next.
        step: usize,
        /// The place of their number.
        count: usize,
    },
    /// NULL.
    Null,
}

impl FunctionCall {
    /// A function that takes the procedure's first arguments as they are.
    pub fn of_integers(name: &'static str, arguments: usize) -> Self {
        Self { name, arguments: (0..arguments).map(Argument::Integer).collect() }
    }

    /// A function with these arguments.
    pub fn new(name: &'static str, arguments: impl Into<Vec<Argument>>) -> Self {
        Self { name, arguments: arguments.into() }
    }

    /// The query that calls the function with parameters `$1`, `$2` and so on.
    pub fn statement(&self) -> String {
        let parameters: Vec<String> =
            (1..=self.arguments.len()).map(|parameter| format!("${parameter}")).collect();
        format!("select {}({})", self.name, parameters.join(", "))
    }
}

/// The integers that an array argument has.
///
/// # Errors
/// A call whose arguments are not those of the procedure.
pub fn integers(args: &Args, first: usize, step: usize, count: usize) -> heddledb::Result<Vec<i64>> {
    let count = usize::try_from(args.int(count)?).unwrap_or_default();
    (0..count).map(|number| args.int(first + number * step)).collect()
}

#[cfg(test)]
mod tests {
    use heddledb::args;

    use super::*;

    #[test]
    fn a_call_has_a_parameter_for_each_argument() {
        assert_eq!(FunctionCall::of_integers("pay", 3).statement(), "select pay($1, $2, $3)");
        assert_eq!(FunctionCall::new("look", [Argument::Null]).statement(), "select look($1)");
        assert_eq!(FunctionCall::of_integers("nothing", 0).statement(), "select nothing()");
    }

    #[test]
    fn arrays_are_read_in_steps() {
        let args = args![2, 10, 11, 12, 13];
        assert_eq!(integers(&args, 1, 2, 0).unwrap(), [10, 12]);
        assert_eq!(integers(&args, 2, 1, 0).unwrap(), [11, 12]);
        assert!(integers(&args, 4, 1, 0).is_err(), "there is one only");
    }

    #[test]
    fn every_procedure_of_a_workload_has_its_function() {
        let with_functions = ["debit-credit", "like", "flash-sale", "tatp", "smallbank", "tpcc"];
        for workload in crate::all() {
            let functions = workload.functions();
            assert_eq!(functions.is_some(), with_functions.contains(&workload.name()), "{}", workload.name());
            let Some(functions) = functions else { continue };
            for (procedure, call) in functions.calls.iter().enumerate() {
                let created = format!("create or replace function {}(", call.name);
                assert!(functions.script.contains(&created), "{created}");
                assert!(workload.transaction_of(procedure) < workload.transactions().len());
            }
        }
    }
}
