//! Changes of a table, as given to `Database::change_table`.

mod changed;

use std::fmt;
use std::sync::Arc;

use self::changed::Source;
use crate::error::Result;
use crate::storage::definition::{ForeignKey, Identity, TableDefinition};
use crate::types::{DataType, Value};

pub(crate) use changed::Changed;

/// Makes a column's new value from its old one.
type Convert = Arc<dyn Fn(Value) -> Result<Value> + Send + Sync>;
/// Gives the next row's number.
type NextNumber = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Changes of one table that take effect together, in the order in which they are named.
#[derive(Clone, Default)]
#[must_use = "it changes nothing until it is given to Database::change_table"]
pub struct TableChange {
    steps: Vec<Step>,
}

#[derive(Clone)]
enum Step {
    RenameTable(String),
    AddColumn(String, DataType, Value),
    DropColumn(String),
    RenameColumn(String, String),
    SetDefault(String, Value),
    SetNotNull(String, bool),
    SetType(String, DataType, Option<Convert>),
    ReplaceColumn(String, String),
    PrimaryKey(Vec<String>),
    NumberedKey(String, NextNumber),
    AddIndex(String, Vec<String>, bool),
    DropIndex(String),
    RenameIndex(String, String),
    AddCheck(String, String),
    AddForeignKey(ForeignKey),
    DropConstraint(String),
    RenameConstraint(String, String),
    SetIdentity(String, Option<Identity>),
    SetEvaluator(Option<String>),
}

fn owned<'a>(columns: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    columns.into_iter().map(str::to_string).collect()
}

impl TableChange {
    /// An empty change.
    pub fn new() -> TableChange {
        TableChange { steps: Vec::new() }
    }

    fn step(mut self, step: Step) -> TableChange {
        self.steps.push(step);
        self
    }

    /// Renames the table.
    pub fn rename(self, name: impl Into<String>) -> TableChange {
        self.step(Step::RenameTable(name.into()))
    }

    /// Adds a column at the end. Existing rows have the default there, even if the default changes later.
    /// They are not rewritten, so that the time does not depend on the number of rows, unless the same change
    /// copies the table for another reason.
    pub fn add_column(
        self,
        name: impl Into<String>,
        data_type: DataType,
        default: impl Into<Value>,
    ) -> TableChange {
        self.step(Step::AddColumn(name.into(), data_type, default.into()))
    }

    /// Drops a column, and the indexes, checks and foreign keys that contain it. The primary key's columns cannot be dropped.
    pub fn drop_column(self, name: impl Into<String>) -> TableChange {
        self.step(Step::DropColumn(name.into()))
    }

    /// Renames a column.
    pub fn rename_column(self, name: impl Into<String>, new_name: impl Into<String>) -> TableChange {
        self.step(Step::RenameColumn(name.into(), new_name.into()))
    }

    /// Sets the value that a column gets from now on when a row is inserted without a value for it; NULL is no default.
    pub fn set_default(self, column: impl Into<String>, value: impl Into<Value>) -> TableChange {
        self.step(Step::SetDefault(column.into(), value.into()))
    }

    /// Makes a column refuse NULL from now on; existing rows must have no NULL there.
    pub fn not_null(self, column: impl Into<String>) -> TableChange {
        self.step(Step::SetNotNull(column.into(), true))
    }

    /// Lets a column hold NULL from now on.
    pub fn nullable(self, column: impl Into<String>) -> TableChange {
        self.step(Step::SetNotNull(column.into(), false))
    }

    /// Changes a column's type; existing values must fit it unchanged.
    pub fn data_type(self, column: impl Into<String>, data_type: DataType) -> TableChange {
        self.step(Step::SetType(column.into(), data_type, None))
    }

    /// Changes a column's type, and converts existing values other than NULL.
    pub fn convert(
        self,
        column: impl Into<String>,
        data_type: DataType,
        convert: impl Fn(Value) -> Result<Value> + Send + Sync + 'static,
    ) -> TableChange {
        self.step(Step::SetType(column.into(), data_type, Some(Arc::new(convert))))
    }

    /// Replaces a column's type and values by those of another one, which is dropped. Keys, indexes and
    /// constraints of the column stay.
    pub fn replace_column(self, column: impl Into<String>, by: impl Into<String>) -> TableChange {
        self.step(Step::ReplaceColumn(column.into(), by.into()))
    }

    /// Changes the primary key; existing rows must differ in it.
    pub fn primary_key<'a>(self, columns: impl IntoIterator<Item = &'a str>) -> TableChange {
        self.step(Step::PrimaryKey(owned(columns)))
    }

    /// Puts a 64-bit integer column in front of the others and makes it the primary key, which is ordered.
    /// `number` returns the value for each existing row, a different one at each call.
    pub fn numbered_key(
        self,
        name: impl Into<String>,
        number: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> TableChange {
        self.step(Step::NumberedKey(name.into(), Arc::new(number)))
    }

    /// Adds a secondary index, in which rows may share values.
    pub fn add_index<'a>(
        self,
        name: impl Into<String>,
        columns: impl IntoIterator<Item = &'a str>,
    ) -> TableChange {
        self.step(Step::AddIndex(name.into(), owned(columns), false))
    }

    /// Adds a secondary index that keeps its values unique; existing rows must differ in them.
    pub fn add_unique_index<'a>(
        self,
        name: impl Into<String>,
        columns: impl IntoIterator<Item = &'a str>,
    ) -> TableChange {
        self.step(Step::AddIndex(name.into(), owned(columns), true))
    }

    /// Drops a secondary index.
    pub fn drop_index(self, name: impl Into<String>) -> TableChange {
        self.step(Step::DropIndex(name.into()))
    }

    /// Renames a secondary index.
    pub fn rename_index(self, name: impl Into<String>, new_name: impl Into<String>) -> TableChange {
        self.step(Step::RenameIndex(name.into(), new_name.into()))
    }

    /// Adds a check (see [`TableDefinition::check`]); existing rows must pass it.
    pub fn add_check(self, name: impl Into<String>, condition: impl Into<String>) -> TableChange {
        self.step(Step::AddCheck(name.into(), condition.into()))
    }

    /// Adds a foreign key (see [`TableDefinition::foreign_key`]); existing rows must have their referenced rows.
    pub fn add_foreign_key(self, foreign_key: ForeignKey) -> TableChange {
        self.step(Step::AddForeignKey(foreign_key))
    }

    /// Drops a check or a foreign key. The index of a foreign key stays.
    pub fn drop_constraint(self, name: impl Into<String>) -> TableChange {
        self.step(Step::DropConstraint(name.into()))
    }

    /// Renames a check or a foreign key.
    pub fn rename_constraint(self, name: impl Into<String>, new_name: impl Into<String>) -> TableChange {
        self.step(Step::RenameConstraint(name.into(), new_name.into()))
    }

    /// Makes a sequence give a column's values from now on (see [`TableDefinition::identity`]), beginning
    /// with 1: `Database::identity` sets it behind the existing values. For an identity column this changes
    /// the kind, and keeps the sequence.
    pub fn identity(self, column: impl Into<String>, kind: Identity) -> TableChange {
        self.step(Step::SetIdentity(column.into(), Some(kind)))
    }

    /// Makes a column no identity column any more; its sequence is dropped.
    pub fn drop_identity(self, column: impl Into<String>) -> TableChange {
        self.step(Step::SetIdentity(column.into(), None))
    }

    /// Declares that the table's rows have rules that this evaluator knows (see
    /// [`TableDefinition::evaluator`]); `None`: they no longer have any.
    pub fn evaluator(self, name: Option<&str>) -> TableChange {
        self.step(Step::SetEvaluator(name.map(str::to_string)))
    }

    /// The definition that this makes of another one, and the sources of rows' values.
    ///
    /// # Errors
    /// A column or index that does not exist; what a definition can be refused for.
    pub(crate) fn apply(self, definition: &TableDefinition) -> Result<Changed> {
        let sources = (0..definition.columns.len()).map(Source::Old).collect();
        let mut changed = Changed { definition: definition.clone(), sources, renamed: Vec::new() };
        self.steps.into_iter().try_for_each(|step| changed.step(step))?;
        changed.definition = changed.definition.settled()?;
        changed.note_added()?;
        Ok(changed)
    }
}

impl fmt::Debug for TableChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TableChange").field("steps", &self.steps.len()).finish()
    }
}
