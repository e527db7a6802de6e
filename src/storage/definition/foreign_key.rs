//! Foreign keys of a definition: their form, and the checks of them that do not need the referenced table.
//!
//! Invariant: a settled definition has an index that begins with the columns of each of its foreign keys, in any order, so
//! that the rows which refer to a given one are found without a scan of the table.

use super::{PrimaryIndex, TableDefinition};
use crate::error::{Error, Result};

/// The treatment of the rows that refer to a row which is deleted, or whose referenced columns change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReferentialAction {
    /// It is refused, unless the referring rows are gone at the end of the access; for a deferred foreign
    /// key, at the end of the transaction.
    #[default]
    NoAction,
    /// It is refused at once.
    Restrict,
    /// The referring rows are deleted with it, or changed accordingly.
    Cascade,
    /// The referring columns become NULL.
    SetNull,
    /// The referring columns are set to their defaults.
    SetDefault,
}

impl ReferentialAction {
    /// All actions.
    pub const ALL: &'static [ReferentialAction] = &[
        ReferentialAction::NoAction,
        ReferentialAction::Restrict,
        ReferentialAction::Cascade,
        ReferentialAction::SetNull,
        ReferentialAction::SetDefault,
    ];

    /// Its name in SQL, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            ReferentialAction::NoAction => "no action",
            ReferentialAction::Restrict => "restrict",
            ReferentialAction::Cascade => "cascade",
            ReferentialAction::SetNull => "set null",
            ReferentialAction::SetDefault => "set default",
        }
    }

    /// The action of that name.
    pub(crate) fn from_name(name: &str) -> Option<ReferentialAction> {
        Self::ALL.iter().copied().find(|action| action.name() == name)
    }

    /// Returns true if it changes other rows instead of refusing the change.
    pub(crate) fn changes_rows(self) -> bool {
        !matches!(self, ReferentialAction::NoAction | ReferentialAction::Restrict)
    }
}

/// A foreign key: the values of some columns, if none of them is NULL, are those of a row of another table, or of the same
/// one (MATCH SIMPLE).
///
/// ```
/// use heddledb::{DataType, Database, Error, ForeignKey, ReferentialAction, TableDefinition, key, row};
/// # let db = Database::in_memory()?;
/// let customers = db.create_table(
///     TableDefinition::new("customer").column("id", DataType::Int64).primary_key(["id"]),
/// )?;
/// let orders = db.create_table(
///     TableDefinition::new("order")
///         .column("id", DataType::Int64)
///         .column("customer", DataType::Int64)
///         .primary_key(["id"])
///         .foreign_key(
///             ForeignKey::new("order_customer", ["customer"], "customer").on_delete(ReferentialAction::Cascade),
///         ),
/// )?;
/// db.run(|tx| tx.insert(&customers, row![7]))?;
/// db.run(|tx| tx.insert(&orders, row![1, 7]))?;
/// let refused = db.run(|tx| tx.insert(&orders, row![2, 8]));
/// assert!(matches!(refused, Err(Error::NoReferencedRow { constraint, .. }) if constraint == "order_customer"));
/// db.run(|tx| tx.delete(&customers, key![7]))?;
/// assert!(!db.run(|tx| tx.exists(&orders, key![1]))?);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    pub(crate) name: String,
    pub(crate) columns: Vec<String>,
    pub(crate) table: String,
    /// Empty: the primary key.
    pub(crate) referenced: Vec<String>,
    pub(crate) on_delete: ReferentialAction,
    pub(crate) on_update: ReferentialAction,
    pub(crate) is_deferred: bool,
}

fn owned<'a>(columns: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    columns.into_iter().map(str::to_string).collect()
}

impl ForeignKey {
    /// Creates a foreign key of these columns to the primary key of a table, in the order of its columns.
    /// Changes that would break it are refused.
    pub fn new<'a>(
        name: impl Into<String>,
        columns: impl IntoIterator<Item = &'a str>,
        table: impl Into<String>,
    ) -> ForeignKey {
        ForeignKey {
            name: name.into(),
            columns: owned(columns),
            table: table.into(),
            referenced: Vec::new(),
            on_delete: ReferentialAction::default(),
            on_update: ReferentialAction::default(),
            is_deferred: false,
        }
    }

    /// Chooses the referenced columns, which are the primary key or have a unique index.
    #[must_use]
    pub fn to_columns<'a>(mut self, columns: impl IntoIterator<Item = &'a str>) -> ForeignKey {
        self.referenced = owned(columns);
        self
    }

    /// Chooses the action when a referenced row is deleted.
    #[must_use]
    pub fn on_delete(mut self, action: ReferentialAction) -> ForeignKey {
        self.on_delete = action;
        self
    }

    /// Chooses the action when the referenced columns of a row change. If the referring columns are in their
    /// table's primary key, the referring rows get new keys, and those that refer to them follow by their own
    /// foreign keys.
    #[must_use]
    pub fn on_update(mut self, action: ReferentialAction) -> ForeignKey {
        self.on_update = action;
        self
    }

    /// Defers the check that every row has its referenced row from the end of each access to the end of the
    /// transaction. [`ReferentialAction::Restrict`] and the actions that change rows are not deferred.
    #[must_use]
    pub fn deferred(mut self) -> ForeignKey {
        self.is_deferred = true;
        self
    }

    /// Its name, unique among the table's constraints.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The columns that refer.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The table that they refer to.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The columns that they refer to; empty: the primary key's.
    pub fn referenced_columns(&self) -> &[String] {
        &self.referenced
    }

    /// The action when a referenced row is deleted.
    pub fn delete_action(&self) -> ReferentialAction {
        self.on_delete
    }

    /// The action when the referenced columns of a row change.
    pub fn update_action(&self) -> ReferentialAction {
        self.on_update
    }

    /// Returns true if it is checked at the end of the transaction.
    pub fn is_deferred(&self) -> bool {
        self.is_deferred
    }

    /// A description of the foreign key, for messages.
    pub(crate) fn describe(&self) -> String {
        let referenced = match self.referenced.is_empty() {
            true => String::new(),
            false => format!(" ({})", self.referenced.join(", ")),
        };
        format!(
            "{:?} ({}) to {:?}{referenced} on delete {} on update {}{}",
            self.name,
            self.columns.join(", "),
            self.table,
            self.on_delete.name(),
            self.on_update.name(),
            if self.is_deferred { " deferred" } else { "" }
        )
    }
}

/// An index of a table that begins with the columns of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyIndex {
    /// Its primary key.
    Primary,
    /// The secondary index at this position.
    Secondary(usize),
}

impl TableDefinition {
    /// Adds a foreign key. The table gets an index of its columns, of the same name as the foreign key,
    /// unless it has one.
    #[must_use]
    pub fn foreign_key(mut self, foreign_key: ForeignKey) -> Self {
        self.foreign_keys.push(foreign_key);
        self
    }

    /// Its foreign keys.
    pub fn foreign_keys(&self) -> &[ForeignKey] {
        &self.foreign_keys
    }

    /// The columns of an index.
    pub(crate) fn columns_of(&self, index: KeyIndex) -> &[usize] {
        match index {
            KeyIndex::Primary => &self.key,
            KeyIndex::Secondary(position) => &self.indexes[position].columns,
        }
    }

    /// An index in whose order the rows with given values in these columns are together.
    pub(crate) fn index_beginning_with(&self, columns: &[usize]) -> Option<KeyIndex> {
        let primary = (self.primary_index != PrimaryIndex::Hash).then_some(KeyIndex::Primary);
        let mut indexes = primary.into_iter().chain((0..self.indexes.len()).map(KeyIndex::Secondary));
        indexes.find(|&index| {
            let beginning = self.columns_of(index).get(..columns.len());
            beginning.is_some_and(|beginning| columns.iter().all(|column| beginning.contains(column)))
        })
    }

    /// An index in which no two rows have the same values of exactly these columns.
    pub(crate) fn unique_index_of(&self, columns: &[usize]) -> Option<KeyIndex> {
        let unique = (0..self.indexes.len()).filter(|&position| self.indexes[position].unique);
        std::iter::once(KeyIndex::Primary).chain(unique.map(KeyIndex::Secondary)).find(|&index| {
            let of = self.columns_of(index);
            of.len() == columns.len() && columns.iter().all(|column| of.contains(column))
        })
    }

    /// The positions of a foreign key's columns; the definition has been validated.
    pub(crate) fn referring_columns(&self, foreign_key: &ForeignKey) -> Result<Vec<usize>> {
        foreign_key.columns.iter().map(|column| self.position(column)).collect()
    }

    /// Checks that every foreign key has a name of its own, and refers by different, existing columns.
    pub(super) fn validate_foreign_keys(&self) -> Result<()> {
        let wrong = |detail: String| Err(Error::InvalidDefinition { table: self.name.clone(), detail });
        for (position, foreign_key) in self.foreign_keys.iter().enumerate() {
            let ForeignKey { name, columns, referenced, .. } = foreign_key;
            if name.is_empty() || columns.is_empty() {
                return wrong(format!("foreign key {name:?} needs a name and at least one column"));
            }
            let others = self.foreign_keys[..position].iter().map(|other| &other.name);
            if others.chain(self.checks.iter().map(|check| &check.name)).any(|other| other == name) {
                return wrong(format!("two constraints are called {name:?}; rename one"));
            }
            if !referenced.is_empty() && referenced.len() != columns.len() {
                return wrong(format!(
                    "foreign key {name:?} has {} columns and refers to {}; name as many",
                    columns.len(),
                    referenced.len()
                ));
            }
            for (at, column) in columns.iter().enumerate() {
                self.position(column)?;
                if columns[..at].contains(column) {
                    return wrong(format!("column {column:?} is named twice in foreign key {name:?}"));
                }
            }
        }
        Ok(())
    }

    /// Adds the indexes that the foreign keys need; the definition has been validated.
    pub(super) fn index_foreign_keys(&mut self) -> Result<()> {
        for at in 0..self.foreign_keys.len() {
            let columns = self.referring_columns(&self.foreign_keys[at])?;
            if self.index_beginning_with(&columns).is_none() {
                let name = self.foreign_keys[at].name.clone();
                self.indexes.push(super::IndexDefinition { name, columns, unique: false });
            }
        }
        self.validate_keys()
    }
}
