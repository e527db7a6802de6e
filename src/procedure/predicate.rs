//! Predicates of a call on the data, besides its keys: for the scheduler.

use std::sync::Arc;

use crate::error::Result;
use crate::storage::table::TableCore;
use crate::table::Table;
use crate::types::{Args, Value};

/// Gives a value, from a call's arguments.
pub(crate) type ValueOfArgs = Box<dyn Fn(&Args) -> Result<Value> + Send + Sync>;
/// Gives both bounds of an interval, from a call's arguments.
pub(crate) type BoundsOfArgs = Box<dyn Fn(&Args) -> Result<(i64, i64)> + Send + Sync>;

/// A predicate about a column.
pub(crate) enum Said {
    /// The column has this value.
    Equals(ValueOfArgs),
    /// The column is within these bounds.
    Between(BoundsOfArgs),
    /// The column is set to this value: a reference of its own, in every policy.
    Sets(ValueOfArgs),
}

/// The conditions of a procedure's calls on the rows of a table, besides the keys of its actions: conditions that hold
/// together, and values that are assigned or inserted.
///
/// The schedule `predict` counts conflicts by it; nothing else depends on it. It is for facts that an
/// action's key does not contain: a row that is found by another column, a range, an assigned value by which
/// rivals can be recognized.
///
/// ```
/// # use heddledb::{Action, DataType, Database, Durability, Options, Predicate, ProcedureDefinition, Range, TableDefinition, args, key, row};
/// # let db = Database::in_memory()?;
/// let phones = db.create_table(
///     TableDefinition::new("phone").column("id", DataType::Int64).column("number", DataType::Text).not_null()
///         .column("place", DataType::Int64).primary_key(["id"]).unique_index("phone_by_number", ["number"]),
/// )?;
/// # db.run(|tx| tx.insert(&phones, row![7, "070", 0]))?;
/// let own = phones.clone();
/// let moved = db.register(
///     ProcedureDefinition::new("move").parameter("number", DataType::Text).parameter("place", DataType::Int64)
///         // The row is found by its number, which no key tells.
///         .refers_to(Predicate::on(&phones).equals("number", |args| Ok(args.text(0)?.to_string())))
///         .phase([Action::write(&phones).body(move |action| {
///             let tx = action.tx();
///             let number = action.args().text(0)?;
///             let Some(row) = tx.scan_index(&own, "phone_by_number", Range::prefix(key![number]))?.next() else { return Ok(()) };
///             tx.update(&own, key![row?.int("id")?], &[("place", action.args().int(1)?.into())])
///         })]),
/// )?;
/// db.call(&moved, args!["070", 3])?;
/// # assert_eq!(db.run(|tx| tx.get(&phones, key![7])?.unwrap().int("place"))?, 3);
/// # Ok::<(), heddledb::Error>(())
/// ```
pub struct Predicate {
    pub(crate) table: Arc<TableCore>,
    pub(crate) said: Vec<(String, Said)>,
}

impl Predicate {
    /// A predicate on rows of this table, without conditions yet.
    pub fn on(table: &Table) -> Predicate {
        Predicate { table: table.shared().clone(), said: Vec::new() }
    }

    fn say(mut self, column: impl Into<String>, said: Said) -> Predicate {
        self.said.push((column.into(), said));
        self
    }

    /// The column has this value.
    #[must_use]
    pub fn equals<V: Into<Value>>(
        self,
        column: impl Into<String>,
        value: impl Fn(&Args) -> Result<V> + Send + Sync + 'static,
    ) -> Predicate {
        self.say(column, Said::Equals(Box::new(move |args| value(args).map(Into::into))))
    }

    /// The column, an integer, is within these bounds, both included. For an inequality, give one of `i64`'s
    /// bounds.
    #[must_use]
    pub fn between(
        self,
        column: impl Into<String>,
        bounds: impl Fn(&Args) -> Result<(i64, i64)> + Send + Sync + 'static,
    ) -> Predicate {
        self.say(column, Said::Between(Box::new(bounds)))
    }

    /// The column gets this value, by an update or an insert. It is not part of the condition.
    #[must_use]
    pub fn sets<V: Into<Value>>(
        self,
        column: impl Into<String>,
        value: impl Fn(&Args) -> Result<V> + Send + Sync + 'static,
    ) -> Predicate {
        self.say(column, Said::Sets(Box::new(move |args| value(args).map(Into::into))))
    }
}
