//! Definitions of procedures.

use std::sync::Arc;

use crate::error::Result;
use crate::procedure::context::{ActionContext, KeyBuilder, Values};
use crate::procedure::long_values::LongOfArgs;
use crate::procedure::predicate::Predicate;
use crate::procedure::repeat::{Each, EachAction};
use crate::procedure::with::ParameterList;
use crate::protocol::footprint::Mode;
use crate::storage::table::TableCore;
use crate::table::Table;
use crate::types::{Args, DataType};

/// Pushes a key's values, from the arguments.
pub(crate) type KeyOfArgs = Box<dyn Fn(&Args, &mut KeyBuilder<'_>) -> Result<()> + Send + Sync>;
/// Pushes a key's values, from the arguments and from what earlier phases found.
pub(crate) type KeyOfValues = Box<dyn Fn(&Args, &Values, &mut KeyBuilder<'_>) -> Result<()> + Send + Sync>;
/// The body of an action.
pub(crate) type ActionBody = Box<dyn Fn(&ActionContext<'_, '_>) -> Result<()> + Send + Sync>;

/// A procedure's work on one table: the rows, the mode, and the body.
///
/// Without [`key`](Self::key) the rows are the whole table.
pub struct Action {
    pub(crate) table: Arc<TableCore>,
    pub(crate) mode: Mode,
    pub(crate) key: Option<KeyOfArgs>,
    pub(crate) key_from: Option<KeyOfValues>,
    pub(crate) body: Option<ActionBody>,
    /// The long values that the body will read.
    pub(crate) long: Option<LongOfArgs>,
    /// The parts that a repeated action has instead of `key` and `body`.
    pub(crate) each: Option<Box<Each>>,
    /// The parameters that it was given with [`with`](Self::with).
    pub(crate) parameters: Option<ParameterList>,
}

impl Action {
    fn new(table: &Table, mode: Mode) -> Action {
        let table = table.shared().clone();
        Action {
            table,
            mode,
            key: None,
            key_from: None,
            body: None,
            long: None,
            each: None,
            parameters: None,
        }
    }

    /// Returns true if its rows depend on values of earlier phases.
    #[inline]
    pub(crate) fn is_led(&self) -> bool {
        self.key_from.is_some() || self.each.as_ref().is_some_and(|each| each.key_from.is_some())
    }

    /// An action that only reads.
    pub fn read(table: &Table) -> Action {
        Action::new(table, Mode::Read)
    }

    /// An action that reads and writes.
    pub fn write(table: &Table) -> Action {
        Action::new(table, Mode::Write)
    }

    /// An action that uses commutative operations only: add, max, min, multiply, ordered put, top-K insert.
    /// It reads nothing, so it cannot write tables with rules for which an evaluator must see the row
    /// ([`Error::OutsideFootprint`](crate::Error::OutsideFootprint)): use [`write`](Self::write) for those.
    pub fn commute(table: &Table) -> Action {
        Action::new(table, Mode::Commute)
    }

    /// Declares the rows: the whole primary key, or its first columns, which mean all rows whose keys begin
    /// with them.
    #[must_use]
    pub fn key(
        mut self,
        key: impl Fn(&Args, &mut KeyBuilder<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Action {
        self.key = Some(Box::new(key));
        self
    }

    /// Declares the rows, if they depend on values of an earlier phase. The part of the key that the
    /// arguments alone determine, if any, is also declared, with [`key`](Self::key): the key must begin with
    /// it.
    #[must_use]
    pub fn key_from(
        mut self,
        key: impl Fn(&Args, &Values, &mut KeyBuilder<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Action {
        self.key_from = Some(Box::new(key));
        self
    }

    /// Repeats the action as many times as the arguments say, each time on other rows: `key` receives the number of the
    /// instance it names, counted from 0, and so does the body. Every instance is declared before the call runs, and
    /// looked up and fetched like an action of its own. Instances may name one row: they run in the order of their
    /// numbers, and each sees what the ones before it wrote.
    ///
    /// ```
    /// # use heddledb::{Action, DataType, Database, Durability, Options, ProcedureDefinition, TableDefinition, args, row};
    /// # let db = Database::in_memory()?;
    /// # let stock = db.create_table(
    /// #     TableDefinition::new("stock").column("item", DataType::Int64).column("n", DataType::Int64).primary_key(["item"]),
    /// # )?;
    /// # db.run(|tx| (1..=9).try_for_each(|item| tx.insert(&stock, row![item, 100])))?;
    /// // The number of lines, then an item for each line that is used.
    /// let mut order = ProcedureDefinition::new("order").parameter("lines", DataType::Int64);
    /// for line in 0..3 {
    ///     order = order.parameter(format!("item_{line}"), DataType::Int64);
    /// }
    /// let order = db.register(order.phase([Action::commute(&stock)
    ///     .each(|args| Ok(args.int(0)?.clamp(0, 3) as usize), |args, line, key| key.push(args.int(1 + line)?))
    ///     .body(|action, _line| action.add("n", -1))]))?;
    /// db.call(&order, args![2, 7, 9, None::<i64>])?;
    /// # assert_eq!(db.run(|tx| tx.get(&stock, heddledb::key![9])?.unwrap().int("n"))?, 99);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn each(
        self,
        count: impl Fn(&Args) -> Result<usize> + Send + Sync + 'static,
        key: impl Fn(&Args, usize, &mut KeyBuilder<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> EachAction {
        EachAction { action: self, count: Box::new(count), key: Box::new(key), key_from: None }
    }

    /// Sets the body. It may be executed several times, and on any thread.
    #[must_use]
    pub fn body(
        mut self,
        body: impl Fn(&ActionContext<'_, '_>) -> Result<()> + Send + Sync + 'static,
    ) -> Action {
        self.body = Some(Box::new(body));
        self
    }
}

/// A procedure's definition, for `Database::register`.
///
/// ```
/// use heddledb::{Action, DataType, Database, Durability, Options, ProcedureDefinition, TableDefinition, args, row};
/// let db = Database::in_memory()?;
/// let counters = db.create_table(
///     TableDefinition::new("counter").column("id", DataType::Int64).column("n", DataType::Int64).primary_key(["id"]),
/// )?;
/// db.run(|tx| tx.insert(&counters, row![7, 0]))?;
/// let n = counters.column("n")?;
/// let count = db.register(
///     ProcedureDefinition::new("count").parameter("id", DataType::Int64).phase([Action::commute(&counters)
///         .key(|args, key| key.push(args.int(0)?))
///         .body(move |action| action.add(n, 1))]),
/// )?;
/// db.call(&count, args![7])?;
/// # Ok::<(), heddledb::Error>(())
/// ```
pub struct ProcedureDefinition {
    pub(crate) name: String,
    pub(crate) parameters: Vec<(String, DataType)>,
    pub(crate) takes_any_arguments: bool,
    pub(crate) phases: Vec<Vec<Action>>,
    pub(crate) predicates: Vec<Predicate>,
}

impl ProcedureDefinition {
    /// A procedure of this name, without phases yet.
    pub fn new(name: impl Into<String>) -> Self {
        ProcedureDefinition {
            name: name.into(),
            parameters: Vec::new(),
            takes_any_arguments: false,
            phases: Vec::new(),
            predicates: Vec::new(),
        }
    }

    /// Adds a parameter; a call must give a value of this type, or NULL.
    #[must_use]
    pub fn parameter(mut self, name: impl Into<String>, data_type: DataType) -> Self {
        self.parameters.push((name.into(), data_type));
        self
    }

    /// Lets calls have any number of arguments of any types: for procedures that programs generate, whose
    /// keys are their arguments.
    #[must_use]
    pub fn any_arguments(mut self) -> Self {
        self.takes_any_arguments = true;
        self
    }

    /// Describes the rows that its calls touch beyond the keys of its actions: for the scheduler.
    #[must_use]
    pub fn refers_to(mut self, predicate: Predicate) -> Self {
        self.predicates.push(predicate);
        self
    }

    /// Adds a phase: actions that don't depend on each other.
    #[must_use]
    pub fn phase(mut self, actions: impl IntoIterator<Item = Action>) -> Self {
        self.phases.push(actions.into_iter().collect());
        self
    }
}
