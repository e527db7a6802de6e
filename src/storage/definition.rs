//! Definitions of tables: their columns, primary keys, indexes and constraints.
//!
//! A [`TableDefinition`] is what a user writes and what the catalog stores; [`TableDefinition::validate`]
//! checks that it makes sense before anything is built from it.

mod added_columns;
mod check_definition;
mod difference;
mod foreign_key;
mod identity;

use crate::error::{Error, Result};
use crate::expression::Expression;
use crate::types::{DataType, Value, assignment};

pub(crate) use self::added_columns::AddedColumns;
pub(crate) use self::check_definition::ColumnLimit;
pub(crate) use self::foreign_key::KeyIndex;
pub use self::foreign_key::{ForeignKey, ReferentialAction};
pub use self::identity::Identity;
pub(crate) use self::identity::{IdentityColumn, IdentitySequence};

/// The most columns that a table may have.
pub(crate) const MAXIMAL_COLUMNS: usize = 2_048;

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ColumnDefinition {
    /// Its name, unique in the table.
    pub name: String,
    /// The type of its values.
    pub data_type: DataType,
    /// True if NULL is refused. Columns of the primary key never hold NULL.
    pub not_null: bool,
    /// The value of the column in a row that is inserted without one.
    pub default: Value,
    /// The table whose primary key this column refers to. It is information about the data, from which the
    /// scheduler derives its domains, and is not enforced: a [`ForeignKey`] is.
    pub references: Option<String>,
    /// The domain that this column shares with others, if no reference determines it.
    pub domain: Option<String>,
    /// The kind of identity, if a sequence of the column gives its values.
    pub identity: Option<Identity>,
}

/// A secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexDefinition {
    /// Its name, unique in the table.
    pub name: String,
    /// The positions of the columns that it orders by.
    pub columns: Vec<usize>,
    /// True if two rows may not share the same values. NULLs are distinct: they never collide.
    pub unique: bool,
}

/// A check: a condition that every row must not fail.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckDefinition {
    pub(crate) name: String,
    pub(crate) condition: Expression,
}

/// The primary indexes that a table keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrimaryIndex {
    /// A hash index: the fastest access to one row; no ranges.
    Hash,
    /// An ordered index: ranges, and slightly slower access to one row; cheap for keys that grow.
    Ordered,
    /// Both: access to one row as fast as with `Hash`, ranges as with `Ordered`; an insert maintains two.
    #[default]
    Both,
}

impl PrimaryIndex {
    /// Its name in the catalog.
    pub(crate) fn name(self) -> &'static str {
        match self {
            PrimaryIndex::Hash => "hash",
            PrimaryIndex::Ordered => "ordered",
            PrimaryIndex::Both => "both",
        }
    }

    /// The index kind of that name.
    pub(crate) fn from_name(name: &str) -> Option<PrimaryIndex> {
        [PrimaryIndex::Hash, PrimaryIndex::Ordered, PrimaryIndex::Both]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// A table's definition, as given to `Database::create_table`.
///
/// Modifiers ([`not_null`](Self::not_null), [`default`](Self::default), [`references`](Self::references),
/// [`domain`](Self::domain)) apply to the column that was named last, as in SQL:
///
/// ```
/// use heddledb::{DataType, TableDefinition};
/// let accounts = TableDefinition::new("account")
///     .column("id", DataType::Int64)
///     .column("branch", DataType::Int64).not_null().references("branch")
///     .column("balance", DataType::Int64).not_null().default(0)
///     .primary_key(["id"])
///     .index("account_by_branch", ["branch"]);
/// assert_eq!(accounts.columns().len(), 3);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TableDefinition {
    pub(crate) name: String,
    pub(crate) columns: Vec<ColumnDefinition>,
    pub(crate) key: Vec<usize>,
    pub(crate) primary_index: PrimaryIndex,
    pub(crate) indexes: Vec<IndexDefinition>,
    pub(crate) checks: Vec<CheckDefinition>,
    pub(crate) foreign_keys: Vec<ForeignKey>,
    /// The columns by which rows are divided among executors; empty: the key's first.
    pub(crate) routing: Vec<usize>,
    /// The sequence of its identity column, once it has been made.
    pub(crate) identity_sequence: IdentitySequence,
    /// The name of the evaluator of rules that its rows have besides those of this definition; `None` if there are no
    /// others.
    pub(crate) evaluator: Option<String>,
    /// The last columns, if they were added to records that are there.
    pub(crate) added: AddedColumns,
    /// The first thing that was wrong while it was built; `validate` reports it.
    pub(crate) problem: Option<Error>,
}

impl TableDefinition {
    /// A table of this name, without columns yet.
    pub fn new(name: impl Into<String>) -> Self {
        TableDefinition {
            name: name.into(),
            columns: Vec::new(),
            key: Vec::new(),
            primary_index: PrimaryIndex::default(),
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            routing: Vec::new(),
            identity_sequence: IdentitySequence::default(),
            evaluator: None,
            added: AddedColumns::default(),
            problem: None,
        }
    }

    /// Adds a column, which may hold NULL unless [`not_null`](Self::not_null) follows.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, data_type: DataType) -> Self {
        self.columns.push(ColumnDefinition {
            name: name.into(),
            data_type,
            not_null: false,
            default: Value::Null,
            references: None,
            domain: None,
            identity: None,
        });
        self
    }

    /// Adds a column of a type that is given as text: `decimal(12, 2)`, `top_k(100; int64; text)`.
    ///
    /// ```
    /// use heddledb::{DataType, TableDefinition};
    /// let items = TableDefinition::new("item").column_of("id", "int64").column_of("price", "decimal(12, 2)");
    /// assert_eq!(items.columns()[1].data_type, DataType::Decimal { precision: 12, scale: 2 });
    /// ```
    #[must_use]
    pub fn column_of(mut self, name: impl Into<String>, data_type: &str) -> Self {
        let data_type = data_type.parse().unwrap_or_else(|error| {
            self.problem.get_or_insert(error);
            DataType::Bool
        });
        self.column(name, data_type)
    }

    fn change_last(mut self, what: &str, change: impl FnOnce(&mut ColumnDefinition)) -> Self {
        match self.columns.last_mut() {
            Some(column) => change(column),
            None => self.blame(format!("{what} comes before any column; name a column first")),
        }
        self
    }

    /// Makes the column named last refuse NULL.
    #[must_use]
    pub fn not_null(self) -> Self {
        self.change_last("not_null", |column| column.not_null = true)
    }

    /// Sets the value of the column named last in a row that is inserted without one.
    #[must_use]
    pub fn default(self, value: impl Into<Value>) -> Self {
        self.change_last("default", |column| column.default = value.into())
    }

    /// Declares that the column named last refers to this table's primary key. It is information for the
    /// scheduler, and is not enforced: see [`foreign_key`](Self::foreign_key).
    #[must_use]
    pub fn references(self, table: impl Into<String>) -> Self {
        self.change_last("references", |column| column.references = Some(table.into()))
    }

    /// Names the domain of the values of the column named last.
    #[must_use]
    pub fn domain(self, domain: impl Into<String>) -> Self {
        self.change_last("domain", |column| column.domain = Some(domain.into()))
    }

    /// The columns of the primary key, in the order by which rows are sorted.
    #[must_use]
    pub fn primary_key<'a>(mut self, columns: impl IntoIterator<Item = &'a str>) -> Self {
        self.key = self.positions(columns);
        for &position in &self.key {
            self.columns[position].not_null = true;
        }
        self
    }

    /// Chooses the primary indexes of the table. Default: [`PrimaryIndex::Both`].
    #[must_use]
    pub fn primary_index(mut self, kind: PrimaryIndex) -> Self {
        self.primary_index = kind;
        self
    }

    /// The columns by which rows are partitioned, under protocols that partition data: any of the
    /// primary key's. Default: the key's first column. Rows of all tables with equal routing columns belong
    /// to one executor: the rows that a call touches should agree in them.
    ///
    /// ```
    /// use heddledb::{DataType, TableDefinition};
    /// let entries = TableDefinition::new("entry")
    ///     .column("day", DataType::Date).column("account", DataType::Int64)
    ///     .primary_key(["day", "account"])
    ///     .routing(["account"]);
    /// assert_eq!(entries.routing_columns(), [1]);
    /// ```
    #[must_use]
    pub fn routing<'a>(mut self, columns: impl IntoIterator<Item = &'a str>) -> Self {
        self.routing = self.positions(columns);
        self
    }

    /// Adds a secondary index, in which rows may share values.
    #[must_use]
    pub fn index<'a>(self, name: impl Into<String>, columns: impl IntoIterator<Item = &'a str>) -> Self {
        self.add_index(name.into(), columns, false)
    }

    /// Adds a secondary index that keeps its values unique.
    #[must_use]
    pub fn unique_index<'a>(
        self,
        name: impl Into<String>,
        columns: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        self.add_index(name.into(), columns, true)
    }

    fn add_index<'a>(
        mut self,
        name: String,
        columns: impl IntoIterator<Item = &'a str>,
        unique: bool,
    ) -> Self {
        let columns = self.positions(columns);
        self.indexes.push(IndexDefinition { name, columns, unique });
        self
    }

    /// Declares that its rows have rules that this definition cannot express: checks, generated columns or
    /// triggers that a crate above the engine evaluates. Writes are passed to the evaluator that is
    /// registered under this name ([`RowEvaluator`](crate::RowEvaluator)), and without one are refused
    /// ([`Error::NeedsEvaluator`]), except those of a body that declares that it has evaluated them
    /// ([`Tx::set_evaluated`](crate::Tx::set_evaluated)).
    #[must_use]
    pub fn evaluator(mut self, name: impl Into<String>) -> Self {
        self.evaluator = Some(name.into());
        self
    }

    /// The name of the evaluator of its rows' rules, if it has one.
    pub fn needed_evaluator(&self) -> Option<&str> {
        self.evaluator.as_deref()
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its columns, in order.
    pub fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }

    /// The positions of the primary key's columns.
    pub fn key(&self) -> &[usize] {
        &self.key
    }

    /// The positions of the columns by which its rows are divided.
    pub fn routing_columns(&self) -> &[usize] {
        if self.routing.is_empty() { self.key.get(..1).unwrap_or_default() } else { &self.routing }
    }

    /// Its secondary indexes.
    pub fn indexes(&self) -> &[IndexDefinition] {
        &self.indexes
    }

    /// The primary indexes that it keeps.
    pub fn kind_of_primary_index(&self) -> PrimaryIndex {
        self.primary_index
    }

    /// The position of the column of this name.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`] with the existing names.
    pub fn position(&self, column: &str) -> Result<usize> {
        self.columns.iter().position(|candidate| candidate.name == column).ok_or_else(|| {
            Error::UnknownColumn {
                table: self.name.clone(),
                column: column.to_string(),
                known: self.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", "),
            }
        })
    }

    fn positions<'a>(&mut self, columns: impl IntoIterator<Item = &'a str>) -> Vec<usize> {
        let mut positions = Vec::new();
        for column in columns {
            match self.position(column) {
                Ok(position) if !positions.contains(&position) => positions.push(position),
                Ok(_) => self.blame(format!("column {column:?} is named twice in one key")),
                Err(error) => self.problem = self.problem.take().or(Some(error)),
            }
        }
        positions
    }

    fn blame(&mut self, detail: String) {
        let table = self.name.clone();
        self.problem.get_or_insert(Error::InvalidDefinition { table, detail });
    }

    /// Checks that a table can be built from this.
    ///
    /// # Errors
    /// The first thing that is wrong, with what to do about it.
    pub(crate) fn validate(&self) -> Result<()> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let wrong = |detail: String| Err(Error::InvalidDefinition { table: self.name.clone(), detail });
        if self.name.is_empty() || self.name.len() > 255 {
            return wrong("its name needs 1 to 255 bytes".to_string());
        }
        if self.columns.len() > MAXIMAL_COLUMNS {
            return wrong(format!(
                "{} columns are more than {MAXIMAL_COLUMNS}; split it",
                self.columns.len()
            ));
        }
        if self.key.is_empty() {
            return wrong("it has no primary key; add .primary_key([..])".to_string());
        }
        for (position, column) in self.columns.iter().enumerate() {
            if column.name.is_empty() {
                return wrong(format!("column {} has no name", position + 1));
            }
            if self.columns[..position].iter().any(|other| other.name == column.name) {
                return wrong(format!("two columns are called {:?}; rename one", column.name));
            }
            column.data_type.validate()?;
            if !matches!(column.default, Value::Null) {
                let what = format!("the default of {}.{}", self.name, column.name);
                assignment::check((&column.default).into(), &column.data_type, column.not_null, &what)?;
            }
        }
        self.validate_keys()?;
        self.validate_identity()?;
        self.validate_checks()?;
        self.validate_foreign_keys()
    }

    /// This definition with the indexes that its foreign keys need, and with each default as its column holds it: an
    /// integer for a decimal column is one with its scale. So the catalog returns what was stored in it.
    ///
    /// # Errors
    /// Same errors as [`validate`](Self::validate).
    pub(crate) fn settled(mut self) -> Result<Self> {
        self.validate()?;
        for column in self.columns.iter_mut().filter(|column| !column.default.is_null()) {
            let what = &column.name;
            let default =
                assignment::coerce((&column.default).into(), &column.data_type, column.not_null, what)?;
            column.default = default.to_value();
        }
        if self.routing[..] == self.key[..1] {
            self.routing.clear();
        }
        self.index_foreign_keys()?;
        Ok(self)
    }

    fn validate_keys(&self) -> Result<()> {
        let wrong = |detail: String| Err(Error::InvalidDefinition { table: self.name.clone(), detail });
        for (position, index) in self.indexes.iter().enumerate() {
            if index.columns.is_empty() || index.name.is_empty() {
                return wrong(format!("index {:?} needs a name and at least one column", index.name));
            }
            if self.indexes[..position].iter().any(|other| other.name == index.name) {
                return wrong(format!("two indexes are called {:?}; rename one", index.name));
            }
        }
        if let Some(&outside) = self.routing.iter().find(|position| !self.key.contains(position)) {
            let column = &self.columns[outside].name;
            return wrong(format!(
                "it is routed by column {column:?}, which is not in its primary key; route by columns of the key"
            ));
        }
        for &position in self.key.iter().chain(self.indexes.iter().flat_map(|index| &index.columns)) {
            let column = &self.columns[position];
            if matches!(column.data_type, DataType::OrderedTuple(_) | DataType::TopK { .. }) {
                let kind = &column.data_type;
                return wrong(format!("column {:?} is of type {kind}, which no key can hold", column.name));
            }
        }
        Ok(())
    }
}
