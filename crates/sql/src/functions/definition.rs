//! Definition of an entry of the function tables.
//!
//! Entries are written as signatures in SQL's words, `"substr(text, int4) text"`, and parsed once.

use std::any::Any;
use std::ops::Range;

use smallvec::SmallVec;

use crate::error::{Result, SqlError};
use crate::types::environment::FormatSettings;
use crate::types::{Environment, Type, Value};

/// The code of a function that makes one value of its arguments.
pub type ScalarFunction = fn(&mut FunctionContext<'_>, &[Value]) -> Result<Value>;
/// The code of a function that makes rows: one value each, a record for several columns.
pub type SetFunction = fn(&mut FunctionContext<'_>, &[Value]) -> Result<Box<dyn Rows>>;
/// Starts the state of an aggregate.
pub type AggregateStart = fn(&FunctionContext<'_>) -> Box<dyn Accumulator>;
/// The code of a window function: the value for one row of a partition.
pub type WindowFunction = fn(&mut dyn WindowPartition, usize) -> Result<Value>;

/// The context of a function call: all that it sees besides its arguments.
pub struct FunctionContext<'a> {
    /// The session.
    pub environment: &'a mut dyn Environment,
    /// The types of the arguments, after coercion: the type of `anyelement` is decided.
    pub argument_types: &'a [Type],
    /// The type of the result.
    pub result_type: Type,
}

impl FunctionContext<'_> {
    /// The settings for printing and reading values.
    pub fn formats(&self) -> &FormatSettings {
        self.environment.formats()
    }

    /// The type of an argument; `text` beyond the last.
    pub fn argument_type(&self, at: usize) -> Type {
        self.argument_types.get(at).copied().unwrap_or(Type::Text)
    }
}

/// Rows that a set-returning function produces one by one.
pub trait Rows: Send {
    /// The next row, or none after the last.
    fn next(&mut self) -> Result<Option<Value>>;
}

/// Rows from any iterator over values.
pub struct RowsOf<I>(pub I);

impl<I: Iterator<Item = Result<Value>> + Send> Rows for RowsOf<I> {
    fn next(&mut self) -> Result<Option<Value>> {
        self.0.next().transpose()
    }
}

/// The state of an aggregate over some rows.
///
/// Rows are accumulated in any order where the aggregate has no ORDER BY. States over disjoint rows merge into one over
/// both, so that parts of a table can be aggregated in parallel.
pub trait Accumulator: Send + Any {
    /// Takes one row in. A strict aggregate is never given NULL.
    fn accumulate(&mut self, context: &mut FunctionContext<'_>, arguments: &[Value]) -> Result<()>;

    /// Merges another state of the same aggregate; the other's rows follow this one's.
    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()>;

    /// The result so far; may be called several times. An ordered-set aggregate is given its direct arguments.
    fn finish(&self, context: &mut FunctionContext<'_>, direct: &[Value]) -> Result<Value>;

    /// Approximate number of bytes that the state occupies.
    fn size(&self) -> usize;
}

/// Another state of the same aggregate, as its concrete type.
pub fn same_state<T: Accumulator>(other: Box<dyn Accumulator>) -> Result<T> {
    let any: Box<dyn Any> = other;
    match any.downcast::<T>() {
        Ok(state) => Ok(*state),
        Err(_) => Err(SqlError::internal("states of different aggregates cannot be merged")),
    }
}

/// The rows of a frame, as ranges; nearly always one.
pub type Frame = SmallVec<[Range<usize>; 1]>;

/// The rows of a window's partition, as a window function sees them.
pub trait WindowPartition {
    /// Number of rows.
    fn rows(&self) -> usize;
    /// An argument of the call, evaluated for a row.
    fn argument(&mut self, row: usize, argument: usize) -> Result<Value>;
    /// The rows that equal the current one in the window's ORDER BY.
    fn peers(&self, row: usize) -> Range<usize>;
    /// Index of the peer group of the current row, from 0.
    fn peer_group(&self, row: usize) -> usize;
    /// The rows of the current row's frame, in order, as ranges: several where some are excluded.
    fn frame(&self, row: usize) -> Frame;
    /// Number of arguments of the call.
    fn arguments(&self) -> usize;
}

/// The conditions under which a function may be evaluated ahead of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volatility {
    /// Same arguments, same result, forever.
    Immutable,
    /// Same arguments, same result, within a statement.
    Stable,
    /// Every call counts.
    Volatile,
}

/// The way in which an aggregate receives its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateKind {
    /// `sum(x)`
    Plain,
    /// `percentile_cont(0.5) WITHIN GROUP (ORDER BY x)`: the first arguments are direct ones, the rest arrive in the
    /// order of WITHIN GROUP.
    OrderedSet {
        /// Number of direct arguments.
        direct: usize,
    },
    /// `rank(x) WITHIN GROUP (ORDER BY y)`: direct arguments, and as many in the order of WITHIN GROUP.
    Hypothetical,
}

/// The implementation of a function.
#[derive(Clone, Copy)]
pub enum FunctionKind {
    /// One value of its arguments.
    Scalar(ScalarFunction),
    /// Rows.
    Set(SetFunction),
    /// One value of many rows.
    Aggregate {
        /// The way in which it receives its arguments.
        kind: AggregateKind,
        /// Starts a state.
        start: AggregateStart,
    },
    /// One value for each row of a window.
    Window(WindowFunction),
}

/// A function, operator, aggregate or window function.
pub struct Function {
    /// The name, or an operator's symbol.
    pub name: &'static str,
    /// The declared arguments; some may be polymorphic. The last one of a variadic function is its array, or `any`.
    pub arguments: Vec<Type>,
    /// Names of the arguments that have them, for `f(name => value)`.
    pub argument_names: Vec<&'static str>,
    /// Texts of the defaults of the last arguments.
    pub defaults: Vec<&'static str>,
    /// True if the last argument may be repeated.
    pub is_variadic: bool,
    /// The declared type of the result, or of a row.
    pub result: Type,
    /// The columns of a row of several.
    pub columns: Vec<(&'static str, Type)>,
    /// True if NULL among the arguments makes the result NULL (or skips the row, in an aggregate).
    pub is_strict: bool,
    /// The conditions under which it may be evaluated ahead of time.
    pub volatility: Volatility,
    /// The code.
    pub kind: FunctionKind,
    /// The signature as it was written in the tables.
    pub signature: &'static str,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.signature)
    }
}

impl PartialEq for Function {
    /// Entries live as long as the process: the same entry is the same place.
    fn eq(&self, other: &Function) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Function {
    /// Returns true if a call over constants may be evaluated when it is planned. `age` depends on the session's time
    /// zone, although PostgreSQL calls it immutable.
    pub fn is_foldable(&self) -> bool {
        self.volatility == Volatility::Immutable && self.signature != "age(timestamptz, timestamptz) interval"
    }

    /// The code of a scalar function.
    pub fn scalar(&self) -> Option<ScalarFunction> {
        match self.kind {
            FunctionKind::Scalar(run) => Some(run),
            _ => None,
        }
    }

    /// Returns true if it is an aggregate.
    pub fn is_aggregate(&self) -> bool {
        matches!(self.kind, FunctionKind::Aggregate { .. })
    }
}

/// A line of a function table.
#[derive(Clone, Copy)]
pub struct Definition {
    signature: &'static str,
    kind: FunctionKind,
    is_strict: bool,
    volatility: Volatility,
}

/// A strict and immutable scalar function: the usual case.
pub const fn scalar(signature: &'static str, run: ScalarFunction) -> Definition {
    let kind = FunctionKind::Scalar(run);
    Definition { signature, kind, is_strict: true, volatility: Volatility::Immutable }
}

/// A strict and immutable set-returning function.
pub const fn set(signature: &'static str, run: SetFunction) -> Definition {
    let kind = FunctionKind::Set(run);
    Definition { signature, kind, is_strict: true, volatility: Volatility::Immutable }
}

/// An aggregate that skips rows with NULL.
pub const fn aggregate(signature: &'static str, start: AggregateStart) -> Definition {
    let kind = FunctionKind::Aggregate { kind: AggregateKind::Plain, start };
    Definition { signature, kind, is_strict: true, volatility: Volatility::Immutable }
}

/// A window function.
pub const fn window(signature: &'static str, run: WindowFunction) -> Definition {
    let kind = FunctionKind::Window(run);
    Definition { signature, kind, is_strict: false, volatility: Volatility::Immutable }
}

impl Definition {
    /// Called with NULLs, too.
    pub const fn nullable(mut self) -> Definition {
        self.is_strict = false;
        self
    }

    /// Depends on the session's settings or the statement's time.
    pub const fn stable(mut self) -> Definition {
        self.volatility = Volatility::Stable;
        self
    }

    /// Every call counts.
    pub const fn volatile(mut self) -> Definition {
        self.volatility = Volatility::Volatile;
        self
    }

    /// An aggregate that reads rows in an order, with direct arguments.
    pub const fn ordered_set(mut self, aggregate: AggregateKind) -> Definition {
        if let FunctionKind::Aggregate { start, .. } = self.kind {
            self.kind = FunctionKind::Aggregate { kind: aggregate, start };
        }
        self
    }

    /// The entry that the signature describes.
    ///
    /// # Panics
    /// Panics if the signature is not well-formed: a fault in the table, which every test finds.
    pub(crate) fn parse(self) -> Function {
        let malformed = || -> ! { panic!("malformed signature: {}", self.signature) };
        let Some((name, rest)) = self.signature.split_once('(') else { malformed() };
        let Some((arguments, result)) = rest.split_once(')') else { malformed() };
        let mut function = Function {
            name: name.trim(),
            arguments: Vec::new(),
            argument_names: Vec::new(),
            defaults: Vec::new(),
            is_variadic: false,
            result: Type::Void,
            columns: Vec::new(),
            is_strict: self.is_strict,
            volatility: self.volatility,
            kind: self.kind,
            signature: self.signature,
        };
        for argument in arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty()) {
            if parse_argument(argument, &mut function).is_none() {
                malformed()
            }
        }
        if parse_result(result.trim(), &mut function).is_none() {
            malformed()
        }
        function
    }
}

/// `int4`, `variadic text[]`, `days int4 = 0`
fn parse_argument(text: &'static str, function: &mut Function) -> Option<()> {
    let text = match text.strip_prefix("variadic ") {
        Some(rest) => {
            function.is_variadic = true;
            rest
        }
        None => text,
    };
    let (text, default) = match text.split_once('=') {
        Some((argument, default)) => (argument.trim(), Some(default.trim())),
        None => (text, None),
    };
    function.defaults.extend(default);
    let (name, kind) = text.split_once(' ').unwrap_or(("", text));
    function.argument_names.push(name);
    function.arguments.push(Type::from_name(kind.trim())?);
    Some(())
}

/// `int4`, `setof text`, `setof record key text; value json`
fn parse_result(text: &'static str, function: &mut Function) -> Option<()> {
    let text = text.strip_prefix("setof ").unwrap_or(text);
    let (kind, columns) = text.split_once(' ').unwrap_or((text, ""));
    function.result = Type::from_name(kind)?;
    for column in columns.split(';').map(str::trim).filter(|column| !column.is_empty()) {
        let (name, kind) = column.split_once(' ')?;
        function.columns.push((name, Type::from_name(kind)?));
    }
    Some(())
}
