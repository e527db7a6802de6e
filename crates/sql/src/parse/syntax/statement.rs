//! Statements.

use crate::parse::syntax::{
    AlterDomain, AlterRoutine, AlterTable, AlterType, At, AttributeDefinition, CallStatement, Comment, Copy,
    CreateDomain, CreateIndex, CreateRoutine, CreateTable, CreateTableAs, CreateTrigger, CreateView, Delete,
    Do, Drop, DropRoutines, Expr, ExtensionStatement, Insert, Merge, Name, ObjectKind, ObjectName,
    PrivilegeStatement, Query, Refresh, RoleName, RoleStatement, RoutineName, SequenceStatement,
    TriggerChange, TypeName, Update,
};

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Statement {
    Query(Box<Query>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Merge(Box<Merge>),
    Copy(Box<Copy>),
    CreateTable(Box<CreateTable>),
    CreateTableAs(Box<CreateTableAs>),
    AlterTable(Box<AlterTable>),
    CreateIndex(Box<CreateIndex>),
    CreateView(Box<CreateView>),
    CreateSequence(Box<SequenceStatement>),
    AlterSequence(Box<SequenceStatement>),
    CreateSchema {
        /// `None` for the owner's name.
        name: Option<Name>,
        /// AUTHORIZATION.
        owner: Option<RoleName>,
        if_not_exists: bool,
        /// CREATE and GRANT statements for the objects in it.
        elements: Vec<Statement>,
    },
    CreateEnum {
        name: ObjectName,
        labels: Vec<String>,
    },
    CreateComposite {
        name: ObjectName,
        attributes: Vec<AttributeDefinition>,
    },
    AlterType {
        name: ObjectName,
        change: AlterType,
    },
    CreateDomain(Box<CreateDomain>),
    AlterDomain(Box<AlterDomain>),
    Extension(Box<ExtensionStatement>),
    CreateRoutine(Box<CreateRoutine>),
    AlterRoutine(Box<AlterRoutine>),
    DropRoutines(DropRoutines),
    CreateTrigger(Box<CreateTrigger>),
    ChangeTrigger(TriggerChange),
    Do(Do),
    Call(Box<CallStatement>),
    Drop(Drop),
    Rename {
        kind: ObjectKind,
        name: ObjectName,
        if_exists: bool,
        to: Name,
    },
    /// ALTER … SET SCHEMA of an object that is neither a table nor a routine.
    SetSchema {
        kind: ObjectKind,
        name: ObjectName,
        if_exists: bool,
        to: Name,
    },
    Comment(Comment),
    /// REFRESH MATERIALIZED VIEW.
    Refresh(Refresh),
    Truncate {
        tables: Vec<ObjectName>,
        restart_identity: bool,
        cascade: bool,
    },
    /// BEGIN or START TRANSACTION.
    Begin {
        modes: TransactionModes,
        tag: &'static str,
    },
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(Name),
    RollbackTo(Name),
    Release(Name),
    LockTable {
        tables: Vec<ObjectName>,
        mode: String,
        no_wait: bool,
    },
    Set {
        scope: SetScope,
        name: String,
        value: SetValue,
    },
    /// SET TRANSACTION SNAPSHOT.
    SetSnapshot(String),
    SetTransaction {
        modes: TransactionModes,
        session: bool,
    },
    /// No names: ALL.
    SetConstraints {
        names: Vec<ObjectName>,
        deferred: bool,
    },
    /// ALTER SYSTEM SET and RESET. No name: RESET ALL.
    AlterSystem {
        name: Option<String>,
        value: SetValue,
    },
    Show(String),
    /// `None`: RESET ALL.
    Reset(Option<String>),
    Discard(String),
    Prepare {
        name: Name,
        types: Vec<TypeName>,
        statement: Box<Statement>,
        text: String,
    },
    Execute {
        name: Name,
        args: Vec<Expr>,
    },
    /// `None`: DEALLOCATE ALL.
    Deallocate(Option<Name>),
    Declare(DeclareCursor),
    Fetch(Fetch),
    /// `None`: CLOSE ALL.
    Close(Option<Name>),
    Explain {
        options: ExplainOptions,
        statement: Box<Statement>,
        text: String,
    },
    /// EXPLAIN FUNCTION and EXPLAIN PROCEDURE: the flow graph of a routine.
    ExplainRoutine {
        kind: ObjectKind,
        name: RoutineName,
    },
    Vacuum(Maintenance),
    Analyze(Maintenance),
    Checkpoint,
    Reorganize(Reorganize),
    Listen(Name),
    Notify {
        channel: Name,
        payload: Option<String>,
    },
    /// `None`: UNLISTEN *.
    Unlisten(Option<Name>),
    /// CREATE, ALTER and DROP ROLE; GRANT of a role.
    Role(Box<RoleStatement>),
    /// GRANT, REVOKE, ALTER DEFAULT PRIVILEGES, ALTER … OWNER TO.
    Privilege(Box<PrivilegeStatement>),
    /// A statement that is refused with 0A000.
    Unsupported {
        what: String,
        hint: Option<&'static str>,
        at: At,
    },
}

/// A statement among several, and its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParsedStatement {
    pub statement: Statement,
    /// The range from its first token to the end of its last.
    pub start: usize,
    pub end: usize,
    /// The highest number of a parameter.
    pub parameters: u32,
}

/// The modes of BEGIN and SET TRANSACTION; `None` if not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransactionModes {
    pub isolation: Option<Isolation>,
    pub read_only: Option<bool>,
    pub deferrable: Option<bool>,
}

/// The isolation levels that can be requested. All are served as serializable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    /// Returns the level as SHOW prints it.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadUncommitted => "read uncommitted",
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}

/// The scope of SET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetScope {
    Session,
    Local,
}

/// The value of a SET.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SetValue {
    Default,
    /// One value or a list; each as text.
    Values(Vec<String>),
}

impl SetValue {
    /// The value of a setting as a text, its names quoted where it is a list of names; `None` for the default.
    pub fn text(&self, name: &str) -> Option<String> {
        let SetValue::Values(values) = self else { return None };
        let quoted = || values.iter().map(|value| crate::parse::quote_identifier(value)).collect::<Vec<_>>();
        Some(if name == "search_path" { quoted().join(", ") } else { values.join(", ") })
    }
}

/// DECLARE CURSOR.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeclareCursor {
    pub name: Name,
    pub binary: bool,
    /// `None`: not said.
    pub scroll: Option<bool>,
    pub hold: bool,
    /// Its query.
    pub query: Box<Statement>,
    pub text: String,
}

/// FETCH and MOVE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fetch {
    pub cursor: Name,
    pub direction: FetchDirection,
    /// True if rows are only skipped.
    pub moves: bool,
}

/// The rows that a FETCH returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchDirection {
    /// Negative: backward; `i64::MAX` and `i64::MIN`: all.
    Forward(i64),
    Absolute(i64),
    Relative(i64),
}

/// The options of EXPLAIN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExplainOptions {
    pub analyze: bool,
    pub verbose: bool,
    pub json: bool,
    /// `COSTS OFF` and `TIMING OFF` leave those figures out.
    pub costs: bool,
    pub timing: bool,
}

impl Statement {
    /// The name that a CREATE gives to a relation.
    pub fn created_name(&self) -> Option<&ObjectName> {
        match self {
            Statement::CreateTable(create) => Some(&create.name),
            Statement::CreateView(create) => Some(&create.name),
            Statement::CreateSequence(create) => Some(&create.name),
            _ => None,
        }
    }
}

/// REINDEX and CLUSTER, which have nothing to do: the objects that they name must exist and belong to the role.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reorganize {
    pub tag: &'static str,
    pub target: ReorganizeTarget,
    /// The index of CLUSTER.
    pub index: Option<Name>,
    pub concurrently: bool,
}

/// The target of REINDEX and CLUSTER.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReorganizeTarget {
    /// All tables that CLUSTER has been run for.
    All,
    Relation(ObjectKind, ObjectName),
    Schema(Name),
    Database {
        name: Name,
        /// True if only its catalogs are named.
        is_system: bool,
    },
}

/// The request of VACUUM or ANALYZE.
#[derive(Clone, Debug, PartialEq)]
pub struct Maintenance {
    /// The tables, each with the columns that are named; empty for all.
    pub tables: Vec<(ObjectName, Vec<Name>)>,
    pub analyze: bool,
    pub verbose: bool,
}
