//! Schema changes.

use crate::parse::syntax::{At, Name, ObjectName, Query, TextExpr, TypeName};

/// CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateTable {
    pub name: ObjectName,
    pub persistence: PersistenceName,
    pub if_not_exists: bool,
    pub columns: Vec<ColumnDefinition>,
    pub constraints: Vec<TableConstraint>,
    pub likes: Vec<LikeClause>,
    /// `ON COMMIT`, for temporary tables.
    pub on_commit: OnCommit,
    /// Storage parameters: `fillfactor=70`.
    pub options: Vec<String>,
}

/// CREATE TABLE … AS.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateTableAs {
    pub name: ObjectName,
    pub persistence: PersistenceName,
    pub if_not_exists: bool,
    pub columns: Vec<Name>,
    pub on_commit: OnCommit,
    pub query: Box<Query>,
    pub with_data: bool,
}

/// TEMPORARY, UNLOGGED, or neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PersistenceName {
    #[default]
    Permanent,
    Temporary,
    Unlogged,
}

/// The action on a temporary table at COMMIT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnCommit {
    #[default]
    PreserveRows,
    DeleteRows,
    Drop,
}

/// `LIKE table INCLUDING …`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LikeClause {
    pub table: ObjectName,
    /// Its position among the columns.
    pub position: usize,
    /// Parts that are included, in lower case: `defaults`, `constraints`, `indexes`, `identity`, `generated`, `all`, …
    pub including: Vec<String>,
}

/// A column of CREATE TABLE or ADD COLUMN.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnDefinition {
    pub name: Name,
    pub ty: TypeName,
    pub collation: Option<ObjectName>,
    pub constraints: Vec<ColumnConstraint>,
}

/// A constraint of a column, perhaps with a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnConstraint {
    pub name: Option<Name>,
    pub kind: ColumnConstraintKind,
    pub at: At,
}

/// The kinds of column constraints.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ColumnConstraintKind {
    Null,
    NotNull,
    Default(TextExpr),
    Identity {
        always: bool,
        options: Vec<SequenceOption>,
    },
    Generated(TextExpr),
    Check(TextExpr),
    Unique {
        /// NULLS NOT DISTINCT.
        nulls_equal: bool,
        timing: Timing,
    },
    PrimaryKey(Timing),
    References(Reference),
}

/// DEFERRABLE and INITIALLY DEFERRED.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timing {
    pub deferrable: bool,
    pub initially_deferred: bool,
}

/// The target of a foreign key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reference {
    pub table: ObjectName,
    pub columns: Vec<Name>,
    /// MATCH FULL.
    pub is_full: bool,
    pub on_delete: ReferenceAction,
    pub on_update: ReferenceAction,
    pub deferrable: bool,
    pub initially_deferred: bool,
}

/// The action on referencing rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReferenceAction {
    #[default]
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

/// A constraint of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableConstraint {
    pub name: Option<Name>,
    pub kind: TableConstraintKind,
    /// `NOT VALID`.
    pub not_valid: bool,
    pub at: At,
}

/// The kinds of table constraints.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TableConstraintKind {
    Check(TextExpr),
    Unique {
        columns: Vec<Name>,
        include: Vec<Name>,
        /// NULLS NOT DISTINCT.
        nulls_equal: bool,
        timing: Timing,
    },
    PrimaryKey {
        columns: Vec<Name>,
        include: Vec<Name>,
        timing: Timing,
    },
    /// `UNIQUE` or `PRIMARY KEY USING INDEX`.
    UsingIndex {
        index: Name,
        primary: bool,
        timing: Timing,
    },
    ForeignKey {
        columns: Vec<Name>,
        reference: Reference,
    },
}

/// ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlterTable {
    /// The kind of relation that the statement says; ALTER TABLE is for others, too.
    pub kind: ObjectKind,
    pub name: ObjectName,
    pub if_exists: bool,
    pub actions: Vec<AlterAction>,
}

/// The action of ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AlterAction {
    /// `SET (name = value, …)` and `RESET (name, …)`; of tables without effect.
    Parameters {
        resets: bool,
        parameters: Vec<(String, Option<String>)>,
    },
    AddColumn {
        column: ColumnDefinition,
        if_not_exists: bool,
    },
    DropColumn {
        name: Name,
        if_exists: bool,
        cascade: bool,
    },
    AddConstraint(TableConstraint),
    DropConstraint {
        name: Name,
        if_exists: bool,
        cascade: bool,
    },
    ValidateConstraint(Name),
    SetDefault {
        column: Name,
        default: Option<TextExpr>,
    },
    SetNotNull {
        column: Name,
        not_null: bool,
    },
    SetType {
        column: Name,
        ty: TypeName,
        collation: Option<ObjectName>,
        using: Option<TextExpr>,
    },
    AddIdentity {
        column: Name,
        always: bool,
        options: Vec<SequenceOption>,
    },
    ChangeIdentity {
        column: Name,
        always: Option<bool>,
        options: Vec<SequenceOption>,
    },
    DropIdentity {
        column: Name,
        if_exists: bool,
    },
    DropExpression {
        column: Name,
        if_exists: bool,
    },
    RenameTable(Name),
    RenameColumn {
        from: Name,
        to: Name,
    },
    RenameConstraint {
        from: Name,
        to: Name,
    },
    /// Sets whether it is deferrable, and initially deferred.
    AlterConstraint {
        name: Name,
        timing: (bool, bool),
    },
    SetSchema(Name),
    SetPersistence(PersistenceName),
    /// A setting of a column that changes nothing here.
    ColumnSetting {
        column: Name,
        setting: ColumnSetting,
    },
    /// ENABLE or DISABLE TRIGGER; no name: all.
    EnableTrigger {
        name: Option<Name>,
        is_enabled: bool,
    },
    /// Storage parameters, statistics targets, owners: accepted without effect.
    Ignored,
}

/// A setting of a column that changes nothing here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ColumnSetting {
    /// `n_distinct=-0.5`: set, or reset.
    Options {
        options: Vec<String>,
        is_reset: bool,
    },
    Statistics(i32),
    Storage(String),
    Compression(String),
}

/// CREATE INDEX.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateIndex {
    pub name: Option<Name>,
    pub table: ObjectName,
    pub unique: bool,
    pub concurrently: bool,
    pub if_not_exists: bool,
    /// `USING method`.
    pub method: Option<Name>,
    pub elements: Vec<IndexElement>,
    pub include: Vec<Name>,
    pub filter: Option<TextExpr>,
    pub nulls_equal: bool,
    pub at: At,
}

/// An element of an index.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IndexElement {
    pub expr: TextExpr,
    pub class: Option<ObjectName>,
    pub descending: bool,
    pub nulls_first: Option<bool>,
}

/// CREATE VIEW.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateView {
    pub name: ObjectName,
    pub or_replace: bool,
    pub temporary: bool,
    pub materialized: bool,
    pub if_not_exists: bool,
    pub columns: Vec<Name>,
    /// WITH: names and values.
    pub options: Vec<(String, Option<String>)>,
    /// True if the query of a materialized view is run.
    pub with_data: bool,
    pub query: Box<Query>,
    /// The query as it was written.
    pub text: String,
    /// The origin, in that text, of positions in the query.
    pub text_at: At,
}

/// REFRESH MATERIALIZED VIEW.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refresh {
    pub name: ObjectName,
    pub concurrently: bool,
    pub with_data: bool,
}

/// CREATE SEQUENCE and ALTER SEQUENCE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SequenceStatement {
    pub name: ObjectName,
    /// IF NOT EXISTS of CREATE, IF EXISTS of ALTER.
    pub tolerant: bool,
    pub temporary: bool,
    pub options: Vec<SequenceOption>,
}

/// An option of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SequenceOption {
    As(TypeName),
    Start(i64),
    /// `RESTART [WITH n]`.
    Restart(Option<i64>),
    Increment(i64),
    /// `None`: NO MINVALUE.
    Minimum(Option<i64>),
    Maximum(Option<i64>),
    Cycle(bool),
    Cache(i64),
    /// `None`: OWNED BY NONE.
    OwnedBy(Option<ObjectName>),
    /// SEQUENCE NAME of an identity column.
    Name(ObjectName),
}

/// CREATE DOMAIN.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateDomain {
    pub name: ObjectName,
    pub ty: TypeName,
    pub default: Option<TextExpr>,
    pub not_null: bool,
    pub checks: Vec<(Option<Name>, TextExpr)>,
}

/// ALTER DOMAIN.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlterDomain {
    pub name: ObjectName,
    pub change: DomainChange,
}

/// The action of ALTER DOMAIN.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DomainChange {
    /// SET DEFAULT, or DROP DEFAULT.
    Default(Option<TextExpr>),
    /// SET NOT NULL, or DROP NOT NULL.
    NotNull(bool),
    AddCheck {
        name: Option<Name>,
        condition: TextExpr,
        is_valid: bool,
    },
    DropConstraint {
        name: Name,
        if_exists: bool,
    },
    RenameConstraint {
        from: Name,
        to: Name,
    },
    Validate(Name),
}

/// The kinds of objects that DROP, COMMENT and RENAME name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Table,
    Index,
    View,
    MaterializedView,
    Sequence,
    Schema,
    Type,
    Domain,
    Column,
    Constraint,
    Database,
    Trigger,
    Function,
    Procedure,
    /// DROP ROUTINE: a function or a procedure.
    Routine,
    Extension,
    Other,
}

/// DROP.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Drop {
    pub kind: ObjectKind,
    pub names: Vec<ObjectName>,
    pub if_exists: bool,
    pub cascade: bool,
    pub concurrently: bool,
}

/// COMMENT ON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comment {
    pub kind: ObjectKind,
    pub name: ObjectName,
    /// The table of a constraint or a trigger, or the domain of a constraint.
    pub on: Option<ObjectName>,
    /// True if it is a domain.
    pub on_domain: bool,
    pub text: Option<String>,
}

/// An attribute of a composite type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AttributeDefinition {
    pub name: Name,
    pub ty: TypeName,
    pub collation: Option<ObjectName>,
}

/// The action of ALTER TYPE on an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AttributeChange {
    Add(AttributeDefinition),
    Drop { name: Name, if_exists: bool },
    Alter(AttributeDefinition),
}

/// The action of ALTER TYPE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AlterType {
    AddValue { value: String, if_not_exists: bool, place: Option<(bool, String)> },
    RenameValue { from: String, to: String },
    Rename(Name),
    RenameAttribute { from: Name, to: Name, cascade: bool },
    Attributes(Vec<AttributeChange>),
}

/// CREATE and ALTER EXTENSION.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExtensionStatement {
    Create(CreateExtension),
    /// An update; without a version, to the newest.
    Update {
        name: Name,
        to: Option<String>,
    },
    SetSchema {
        name: Name,
        schema: Name,
    },
}

/// CREATE EXTENSION.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateExtension {
    pub name: Name,
    pub if_not_exists: bool,
    pub schema: Option<Name>,
    pub version: Option<String>,
    pub cascade: bool,
}
