//! Relations: tables with their columns, indexes and constraints, views, sequences.
//!
//! Invariants: the positions in keys, indexes and constraints are positions in [`Table::columns`]; a column's place in
//! the engine's table is [`Column::engine`], because a table without a primary key has a hidden column there. The hidden
//! columns of partial indexes and of indexes on expressions follow all others in [`Table::columns`].

use crate::catalog::rights::{AclItem, Rights};
use crate::types::{Modifier, Type, Value};

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Its oid.
    pub oid: u32,
    /// The schema that it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// The columns of the primary key; empty: the engine's table has a hidden key, its column 0, a number that
    /// rises with each insert.
    pub key: Vec<usize>,
    /// The name of the primary key's constraint.
    pub key_name: Option<String>,
    /// The oid of the primary key's index.
    pub key_oid: Option<u32>,
    /// Its indexes besides the primary key's.
    pub indexes: Vec<Index>,
    /// Its indexes that queries do not use.
    pub nominal_indexes: Vec<NominalIndex>,
    /// Storage parameters, `name=value`: kept for those that read the definition.
    pub options: Vec<String>,
    /// Its CHECK constraints.
    pub checks: Vec<Check>,
    /// Its foreign keys.
    pub foreign_keys: Vec<ForeignKey>,
    /// The lifetime of its rows.
    pub persistence: Persistence,
    /// COMMENT ON TABLE.
    pub comment: Option<String>,
    /// COMMENT ON INDEX, and ON CONSTRAINT of a key, by the oid of the index or of the constraint.
    pub key_comments: Vec<(u32, String)>,
    /// Its owner, and what was granted on it.
    pub rights: Rights,
    /// The query of a materialized view.
    pub stored_query: Option<StoredQuery>,
    /// The engine's table that stores its rows.
    pub engine: heddledb::Table,
}

/// The query of a materialized view.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct StoredQuery {
    /// Its SQL text.
    pub query: String,
    /// The schemas in which the query's names were looked up.
    pub search_path: Vec<String>,
    /// True once it was run; before that the view cannot be read.
    pub populated: bool,
}

/// The lifetime of a table's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Persistence {
    /// The lifetime of the database.
    #[default]
    Permanent,
    /// The lifetime of the database, without promises after a crash.
    Unlogged,
    /// The lifetime of the session.
    Temporary,
    /// The lifetime of a transaction: ON COMMIT DELETE ROWS.
    EmptiedAtCommit,
    /// The table itself as long as the transaction that makes it: ON COMMIT DROP.
    DroppedAtCommit,
}

impl Persistence {
    /// Returns true if the table is a session's own.
    pub fn is_temporary(self) -> bool {
        matches!(self, Self::Temporary | Self::EmptiedAtCommit | Self::DroppedAtCommit)
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(with = "crate::catalog::stored::oid")]
    pub ty: Type,
    /// The type's modifier.
    #[serde(with = "crate::catalog::stored::modifier")]
    pub modifier: Modifier,
    /// True if NULL is refused.
    pub not_null: bool,
    /// The source of values that a statement does not give.
    pub origin: ColumnOrigin,
    /// The domain that the column was declared with.
    pub domain: Option<u32>,
    /// The position of the column in the engine's table.
    pub engine: usize,
    /// COMMENT ON COLUMN.
    pub comment: Option<String>,
    /// The privileges granted on it alone.
    #[serde(default)]
    pub acl: Option<Vec<AclItem>>,
    /// The collation that it was declared with, for those that read the definition: all of them compare by bytes.
    #[serde(default)]
    pub collation: Option<u32>,
    /// The settings of ALTER COLUMN SET.
    #[serde(default)]
    pub settings: ColumnSettings,
}

/// The settings of a column by ALTER COLUMN SET: targets and numbers of values are for its statistics, `heddle.split` is for the engine,
/// the others change nothing here.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct ColumnSettings {
    /// `n_distinct=-0.5`, `heddle.split=always`
    pub options: Vec<String>,
    /// SET STATISTICS.
    pub statistics: Option<i32>,
    /// SET STORAGE: `p`, `e`, `m` or `x`.
    pub storage: Option<char>,
    /// SET COMPRESSION: `p` or `l`.
    pub compression: Option<char>,
}

/// The source of a column's value if a statement does not give one. Expressions are SQL text.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum ColumnOrigin {
    /// NULL.
    #[default]
    Nothing,
    /// DEFAULT.
    Default(String),
    /// GENERATED … AS IDENTITY, with the sequence's oid; `always`: statements may not give values.
    Identity { always: bool, sequence: u32 },
    /// GENERATED ALWAYS AS (expression) STORED.
    Generated(String),
    /// A hidden column that stores the value of an index's expression.
    IndexKey(String),
    /// A hidden column that is true where a partial index's predicate holds, and NULL elsewhere.
    IndexPredicate(String),
}

impl ColumnOrigin {
    /// Returns that expression to be changed.
    pub fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            ColumnOrigin::Nothing | ColumnOrigin::Identity { .. } => None,
            ColumnOrigin::Default(text)
            | ColumnOrigin::Generated(text)
            | ColumnOrigin::IndexKey(text)
            | ColumnOrigin::IndexPredicate(text) => Some(text),
        }
    }

    /// The expression that gives the column its values, as SQL text.
    pub fn text(&self) -> Option<&str> {
        match self {
            ColumnOrigin::Nothing | ColumnOrigin::Identity { .. } => None,
            ColumnOrigin::Default(text)
            | ColumnOrigin::Generated(text)
            | ColumnOrigin::IndexKey(text)
            | ColumnOrigin::IndexPredicate(text) => Some(text),
        }
    }
}

/// An index.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Index {
    /// Its oid.
    pub oid: u32,
    /// Its name, unique in the schema; the engine's index has the same name.
    pub name: String,
    /// The columns that it orders by. In a partial index, the first one is the hidden column of its predicate.
    pub columns: Vec<IndexColumn>,
    /// True if no two rows may be equal in all columns (rows with NULLs are never equal, unless `nulls_equal`).
    pub unique: bool,
    /// True if it belongs to a UNIQUE constraint of this name.
    pub constraint: bool,
    /// Columns that are carried along (INCLUDE); they are kept as knowledge.
    pub included: Vec<usize>,
    /// The time at which a DEFERRABLE constraint is checked. The engine's index is then not a unique one.
    #[serde(default)]
    pub deferral: Option<Deferral>,
    /// NULLS NOT DISTINCT. The engine's index is then not a unique one.
    #[serde(default)]
    pub nulls_equal: bool,
    /// True if it is a deferrable primary key. The table's rows then have a hidden key.
    #[serde(default)]
    pub primary: bool,
    /// The declared method: a B-tree here in any case.
    #[serde(default)]
    pub method: Method,
}

/// An index access method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Method {
    #[default]
    Btree,
    Hash,
    Gist,
    Gin,
    Spgist,
    Brin,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 6] =
        [Method::Btree, Method::Hash, Method::Gist, Method::Gin, Method::Spgist, Method::Brin];

    /// Its oid in `pg_am`, and its name.
    pub fn oid_and_name(self) -> (u32, &'static str) {
        match self {
            Method::Btree => (403, "btree"),
            Method::Hash => (405, "hash"),
            Method::Gist => (783, "gist"),
            Method::Gin => (2742, "gin"),
            Method::Spgist => (4000, "spgist"),
            Method::Brin => (3580, "brin"),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.oid_and_name().1
    }
}

/// An index by elements or by distances. The catalogs show it; queries read the table instead, and find the same rows.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct NominalIndex {
    pub oid: u32,
    pub name: String,
    pub method: Method,
    pub keys: Vec<NominalKey>,
    /// The predicate of a partial index, as SQL text.
    pub predicate: Option<String>,
}

/// A key of a nominal index.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct NominalKey {
    /// A column's name, or an expression, as SQL text.
    pub text: String,
    /// True if it is a column's name.
    pub is_column: bool,
    /// The operator class that is named.
    pub class: Option<String>,
}

impl NominalIndex {
    /// Its keys and its predicate, as SQL texts.
    pub fn texts(&self) -> impl Iterator<Item = &String> {
        self.keys.iter().map(|key| &key.text).chain(&self.predicate)
    }

    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.keys.iter_mut().map(|key| &mut key.text).chain(&mut self.predicate)
    }
}

/// The time at which a deferrable unique constraint is checked, unless SET CONSTRAINTS says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Deferral {
    /// At the end of each statement.
    InitiallyImmediate,
    /// At COMMIT.
    InitiallyDeferred,
}

impl Index {
    /// Returns true if no statement leaves two rows with the same values behind.
    pub fn is_unique_always(&self) -> bool {
        self.unique && self.deferral.is_none()
    }

    /// Returns true if the engine refuses a second row with the same values.
    pub fn is_unique_in_engine(&self) -> bool {
        self.is_unique_always() && !self.nulls_equal
    }

    /// Returns true if statements look for a second row with the same values when they end.
    pub fn is_looked_up(&self) -> bool {
        self.unique && !self.is_unique_in_engine()
    }
}

/// One column of an index.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct IndexColumn {
    /// The column.
    pub column: usize,
    /// True if DESC was said. The engine's index ascends; scans run in both directions.
    pub descending: bool,
    /// The operator class that was named.
    pub class: Option<String>,
    /// True if NULLS FIRST or NULLS LAST was said, and differs from the direction's own rule.
    #[serde(default)]
    pub nulls_at_other_end: bool,
}

impl IndexColumn {
    /// A column in ascending order.
    pub fn ascending(column: usize) -> IndexColumn {
        IndexColumn { column, descending: false, class: None, nulls_at_other_end: false }
    }
}

/// A CHECK constraint.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Check {
    /// Its name.
    pub name: String,
    /// The condition, as SQL text.
    pub condition: String,
    /// COMMENT ON CONSTRAINT.
    #[serde(default)]
    pub comment: Option<String>,
}

/// The detail for a key with MATCH FULL of which only a part is NULL.
pub(crate) const MIXED_KEY: &str = "MATCH FULL does not allow mixing of null and nonnull key values.";

/// A foreign key.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct ForeignKey {
    /// Its name.
    pub name: String,
    /// The referencing columns.
    pub columns: Vec<usize>,
    /// The oid of the table referred to.
    pub table: u32,
    /// Its columns: those of its primary key or of a unique index.
    pub references: Vec<usize>,
    /// MATCH FULL: either all referencing columns are NULL or none is.
    #[serde(default)]
    pub is_full: bool,
    /// ON DELETE.
    pub on_delete: KeyAction,
    /// ON UPDATE.
    pub on_update: KeyAction,
    /// True if its check may wait until COMMIT.
    #[serde(default)]
    pub deferrable: bool,
    /// True if it is checked at COMMIT, unless SET CONSTRAINTS says otherwise.
    pub deferred: bool,
    /// COMMENT ON CONSTRAINT.
    #[serde(default)]
    pub comment: Option<String>,
}

/// The action on referencing rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum KeyAction {
    #[default]
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

/// A view.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct View {
    /// Its oid.
    pub oid: u32,
    /// The schema that it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// Its query, as SQL text.
    pub query: String,
    /// The schemas in which the query's names were looked up.
    pub search_path: Vec<String>,
    /// COMMENT ON VIEW.
    pub comment: Option<String>,
    /// COMMENT ON COLUMN, by the columns' positions.
    #[serde(default)]
    pub column_comments: Vec<(usize, String)>,
    /// Its owner, and what was granted on it. Its query runs with the owner's rights.
    #[serde(default)]
    pub rights: Rights,
    /// The privileges granted on single columns.
    #[serde(default)]
    pub column_acls: Vec<(usize, Vec<AclItem>)>,
    #[serde(default)]
    pub options: ViewOptions,
}

/// WITH of a view, as far as it was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct ViewOptions {
    /// `security_barrier`: nothing that could tell what it looks at is evaluated before the view's own conditions.
    pub barrier: Option<bool>,
    /// `security_invoker`: its tables are read with the rights of the role that reads the view.
    pub invoker: Option<bool>,
    /// `check_option`: rows that are written through it must be its own.
    #[serde(default)]
    pub check_option: Option<CheckOption>,
}

/// The views whose conditions rows that are written through a view must meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum CheckOption {
    /// The view itself.
    Local,
    /// The view, and all views below it.
    Cascaded,
}

impl CheckOption {
    /// The option's name in `WITH` and `pg_class.reloptions`.
    pub fn name(self) -> &'static str {
        match self {
            CheckOption::Local => "local",
            CheckOption::Cascaded => "cascaded",
        }
    }
}

/// A sequence.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Sequence {
    /// Its oid.
    pub oid: u32,
    /// The schema that it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The type of its values.
    #[serde(with = "crate::catalog::stored::oid")]
    pub ty: Type,
    /// The first value.
    pub start: i64,
    /// The step.
    pub increment: i64,
    /// The least value.
    pub minimum: i64,
    /// The greatest value.
    pub maximum: i64,
    /// True if it starts again beyond its bounds.
    pub cycle: bool,
    /// The number of values that a session fetches at a time.
    pub cache: i64,
    /// The table and column that own it: it is dropped with them.
    pub owner: Option<(u32, usize)>,
    /// The role that owns it, and what was granted on it.
    #[serde(default)]
    pub rights: Rights,
    /// COMMENT ON SEQUENCE.
    #[serde(default)]
    pub comment: Option<String>,
}

impl Column {
    /// Returns true if its values are a sequence's, GENERATED AS IDENTITY.
    pub fn is_identity(&self) -> bool {
        matches!(self.origin, ColumnOrigin::Identity { .. })
    }

    /// The predicate or expression of an index that a hidden column stores, as SQL text.
    pub fn indexed(&self) -> Option<&str> {
        match &self.origin {
            ColumnOrigin::IndexKey(text) | ColumnOrigin::IndexPredicate(text) => Some(text),
            _ => None,
        }
    }
}

impl Table {
    /// The handle of a column of the engine's table, by its position in this one.
    ///
    /// # Errors
    /// The engine's table does not have it.
    pub fn engine_column(&self, column: usize) -> heddledb::Result<heddledb::Column> {
        let columns = self.engine.definition().columns();
        let name = columns.get(self.columns[column].engine).map_or("", |column| column.name.as_str());
        self.engine.column(name)
    }

    /// Returns true if a column belongs to the primary key, deferrable or not.
    pub fn is_in_key(&self, column: usize) -> bool {
        let mut deferrable = self.indexes.iter().filter(|index| index.primary);
        self.key.contains(&column)
            || deferrable.any(|index| index.columns.iter().any(|key| key.column == column))
    }

    /// Returns true if unique constraints are checked when statements or transactions end.
    pub fn has_late_keys(&self) -> bool {
        self.indexes.iter().any(Index::is_looked_up)
    }

    /// Returns true if rows with these values may be in an index any number of times: with a NULL that equals no other,
    /// or if they do not satisfy the predicate of a partial index.
    pub fn may_repeat(&self, index: &Index, row: &[Value]) -> bool {
        let columns = match (index.nulls_equal, self.predicate(index)) {
            (false, _) => &index.columns[..],
            (true, Some(_)) => &index.columns[..1],
            (true, None) => &[],
        };
        columns.iter().any(|column| row[column.column].is_null())
    }

    /// The columns that statements see: all but the hidden ones.
    pub fn visible(&self) -> &[Column] {
        let hidden = self.columns.iter().rev().take_while(|column| column.indexed().is_some()).count();
        &self.columns[..self.columns.len() - hidden]
    }

    /// The hidden columns of an index, by their positions.
    pub fn hidden_columns(&self, index: &Index) -> Vec<usize> {
        let columns = index.columns.iter().map(|column| column.column);
        columns.filter(|&column| self.columns[column].indexed().is_some()).collect()
    }

    /// The predicate of a partial index.
    pub fn predicate(&self, index: &Index) -> Option<&str> {
        match &self.columns[index.columns.first()?.column].origin {
            ColumnOrigin::IndexPredicate(text) => Some(text),
            _ => None,
        }
    }

    /// The columns that an index orders by, without the predicate of a partial index.
    pub fn index_keys<'i>(&self, index: &'i Index) -> &'i [IndexColumn] {
        &index.columns[usize::from(self.predicate(index).is_some())..]
    }

    /// A column's name, or an index's expression, as SQL text.
    pub fn column_text(&self, column: usize) -> String {
        match &self.columns[column] {
            Column { origin: ColumnOrigin::IndexKey(text), .. } => match crate::parse::is_call(text) {
                true => text.clone(),
                false => format!("({text})"),
            },
            column => crate::parse::quote_identifier(&column.name),
        }
    }

    /// The table's kind, as in messages.
    pub fn kind(&self) -> &'static str {
        if self.stored_query.is_some() { "materialized view" } else { "table" }
    }

    /// A materialized view as the view that its query would be.
    pub fn as_view(&self) -> Option<View> {
        let stored = self.stored_query.as_ref()?;
        Some(View {
            oid: self.oid,
            schema: self.schema.clone(),
            name: self.name.clone(),
            columns: self.visible().iter().map(|column| column.name.clone()).collect(),
            query: stored.query.clone(),
            search_path: stored.search_path.clone(),
            comment: self.comment.clone(),
            column_comments: Vec::new(),
            rights: self.rights.clone(),
            column_acls: Vec::new(),
            options: ViewOptions::default(),
        })
    }

    /// Returns true if rows can be looked up by an index: one that the open transaction has added to a table with rows
    /// is filled by its commit.
    pub fn is_filled(&self, index: usize) -> bool {
        let name = &self.indexes[index].name;
        self.engine.definition().indexes().iter().any(|index| index.name == *name)
    }
}

impl PartialEq for Table {
    /// Two tables are the same if their oids are.
    fn eq(&self, other: &Table) -> bool {
        self.oid == other.oid
    }
}
