//! The tree of a PL/pgSQL body: variables by their numbers, expressions and statements as queries that are planned once.

use std::sync::{Arc, OnceLock};

use crate::bind::NameConflict;
use crate::catalog::ResultColumn;
use crate::error::SqlState;
use crate::routine::query::Query;
use crate::routine::value::record;
use crate::types::record::RecordField;
use crate::types::{Modifier, Type, Value};

/// A body.
#[derive(Debug)]
pub(crate) struct Program {
    pub block: Block,
    pub variables: Vec<Variable>,
    pub scopes: Vec<Scope>,
    pub conflict: NameConflict,
    /// The number of the variable FOUND.
    pub found: usize,
    /// The numbers of the arguments' variables, in the order of all arguments.
    pub arguments: Vec<usize>,
    /// The numbers of the arguments that are given values, in their order.
    pub inputs: Vec<usize>,
    /// The columns of the routine's result, if it has several.
    pub result: RowType,
    /// The routine with its arguments, as the contexts of errors name it.
    pub signature: String,
}

/// The columns of rows, and the fields that records of them have.
#[derive(Debug)]
pub(crate) struct RowType {
    pub columns: Vec<ResultColumn>,
    pub fields: Arc<[RecordField]>,
    /// The row of NULLs.
    pub empty: Value,
    /// The domain over the row type whose value it is.
    pub domain: Option<u32>,
    /// Fields of which it is known that rows of them are rows of this type as they are.
    held: OnceLock<Arc<[RecordField]>>,
}

impl RowType {
    pub(crate) fn new(columns: Vec<ResultColumn>) -> RowType {
        let field = |it: &ResultColumn| RecordField { name: it.name.as_str().into(), kind: it.ty };
        let fields: Arc<[RecordField]> = columns.iter().map(field).collect();
        let empty = record(&fields, vec![Value::Null; columns.len()]);
        RowType { fields, empty, columns, domain: None, held: OnceLock::new() }
    }

    /// Returns true if the values of a row of these fields are values of the columns as they are.
    pub(crate) fn holds(&self, fields: &Arc<[RecordField]>) -> bool {
        if self.held.get().is_some_and(|held| Arc::ptr_eq(held, fields)) {
            return true;
        }
        let holds = fields.len() == self.columns.len()
            && fields.iter().zip(&self.columns).all(|(field, column)| {
                field.kind == column.ty
                    && column.modifier.is_none()
                    && column.domain.is_none()
                    && column.ty != Type::Record
            });
        if holds {
            let _ = self.held.set(fields.clone());
        }
        holds
    }
}

/// A variable.
#[derive(Debug)]
pub(crate) struct Variable {
    pub name: String,
    pub kind: VariableKind,
    pub is_constant: bool,
    pub is_not_null: bool,
    pub default: Option<Fragment>,
}

/// The kind of a variable: the values that it can hold.
#[derive(Debug)]
pub(crate) enum VariableKind {
    Value {
        ty: Type,
        modifier: Modifier,
        /// The domain whose value it is.
        domain: Option<u32>,
    },
    /// A row of these columns; `None`: of any (`record`).
    Row(Option<Arc<RowType>>),
    /// A cursor, perhaps with its query and the variables of its arguments.
    Cursor { query: Option<Fragment>, arguments: Vec<usize> },
}

/// The names that a block declares.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    pub parent: Option<usize>,
    /// The block's or loop's label; the routine's name for the outermost.
    pub label: Option<String>,
    pub names: Vec<(String, usize)>,
}

/// An expression or a statement, and the scope whose variables it sees.
#[derive(Debug)]
pub(crate) struct Fragment {
    pub query: Query,
    pub scope: usize,
}

/// BEGIN … END.
#[derive(Debug)]
pub(crate) struct Block {
    pub label: Option<String>,
    /// The variables that it declares, in order.
    pub declared: Vec<usize>,
    pub body: Vec<Statement>,
    pub handlers: Vec<Handler>,
    /// The variables SQLSTATE and SQLERRM of its handlers.
    pub error_variables: Option<(usize, usize)>,
}

/// WHEN condition [OR …] THEN.
#[derive(Debug)]
pub(crate) struct Handler {
    pub conditions: Vec<Condition>,
    pub body: Vec<Statement>,
}

/// The errors that a handler catches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Others,
    State(SqlState),
}

/// A statement and its line.
#[derive(Debug)]
pub(crate) struct Statement {
    pub line: u32,
    pub kind: Kind,
}

/// The target to which a value is assigned.
#[derive(Debug)]
pub(crate) struct Target {
    pub slot: usize,
    /// A field of a row variable.
    pub field: Option<String>,
    /// Fields of that field, from the outermost one on.
    pub inner: Vec<String>,
    /// Subscripts of an array.
    pub subscripts: Vec<Fragment>,
}

impl Target {
    /// Returns true if it is a whole variable.
    pub(crate) fn is_variable(&self) -> bool {
        self.field.is_none() && self.subscripts.is_empty()
    }
}

/// The targets to which a row is assigned: one row variable, or variables one by one.
#[derive(Debug)]
pub(crate) struct Into {
    pub targets: Vec<Target>,
    pub is_strict: bool,
}

/// The source of rows.
#[derive(Debug)]
pub(crate) enum Source {
    Query(Fragment),
    /// EXECUTE text USING values.
    Dynamic {
        text: Fragment,
        using: Vec<Fragment>,
    },
}

#[derive(Debug)]
pub(crate) enum Kind {
    Block(Block),
    Assign {
        target: Target,
        value: Fragment,
    },
    If {
        arms: Vec<(Fragment, Vec<Statement>)>,
        otherwise: Vec<Statement>,
    },
    /// The operand is assigned to a row variable of one field, which the conditions name. `otherwise` is `None` without
    /// ELSE.
    Case {
        operand: Option<(usize, Fragment)>,
        arms: Vec<(Fragment, Vec<Statement>)>,
        otherwise: Option<Vec<Statement>>,
    },
    /// LOOP, and WHILE with its condition.
    Loop {
        label: Option<String>,
        condition: Option<Fragment>,
        body: Vec<Statement>,
    },
    ForInteger(Box<ForInteger>),
    ForRows {
        label: Option<String>,
        into: Into,
        source: Source,
        body: Vec<Statement>,
    },
    ForCursor {
        label: Option<String>,
        row: usize,
        cursor: usize,
        arguments: Vec<Fragment>,
        body: Vec<Statement>,
    },
    Foreach {
        label: Option<String>,
        target: Target,
        slice: usize,
        array: Fragment,
        body: Vec<Statement>,
    },
    Exit {
        is_continue: bool,
        label: Option<String>,
        condition: Option<Fragment>,
    },
    Return(Option<Fragment>),
    ReturnNext(Option<Fragment>),
    ReturnQuery(Source),
    Raise(Box<Raise>),
    Assert {
        condition: Fragment,
        message: Option<Fragment>,
    },
    Run {
        query: Fragment,
        into: Option<Into>,
    },
    /// CALL: for each argument the variable that it is, if it is one.
    Call {
        query: Fragment,
        targets: Vec<Option<Target>>,
    },
    Perform(Fragment),
    Execute {
        source: Source,
        into: Option<Into>,
    },
    Diagnostics {
        is_stacked: bool,
        items: Vec<(Target, Diagnostic)>,
    },
    Open {
        cursor: usize,
        source: Option<Source>,
        arguments: Vec<Fragment>,
    },
    Fetch {
        cursor: usize,
        direction: Direction,
        into: Option<Into>,
    },
    Close(usize),
    Null,
    /// COMMIT and ROLLBACK, also with AND CHAIN.
    EndTransaction {
        name: &'static str,
        chains: bool,
    },
}

/// FOR over integers.
#[derive(Debug)]
pub(crate) struct ForInteger {
    pub label: Option<String>,
    pub slot: usize,
    pub is_reverse: bool,
    pub from: Fragment,
    pub to: Fragment,
    pub step: Option<Fragment>,
    pub body: Vec<Statement>,
}

/// The row to which a cursor moves.
#[derive(Debug)]
pub(crate) enum Direction {
    /// Forward or backward by this many rows.
    By {
        count: Option<Fragment>,
        is_backward: bool,
    },
    Absolute(Fragment),
    Relative(Fragment),
    First,
    Last,
    /// FORWARD ALL and BACKWARD ALL, of MOVE.
    All {
        is_backward: bool,
    },
}

/// The severity of a RAISE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    Exception,
}

/// RAISE.
#[derive(Debug)]
pub(crate) struct Raise {
    pub level: Level,
    /// The error that the handler around has caught is raised again.
    pub is_again: bool,
    pub state: Option<SqlState>,
    /// The condition's name, which is the message if there is no other.
    pub condition: Option<String>,
    pub format: Option<String>,
    pub arguments: Vec<Fragment>,
    pub options: Vec<(RaiseOption, Fragment)>,
}

/// An option behind USING.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RaiseOption {
    Message,
    Detail,
    Hint,
    Errcode,
    Column,
    Constraint,
    Datatype,
    Table,
    Schema,
}

/// An item of GET DIAGNOSTICS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Diagnostic {
    RowCount,
    Context,
    ReturnedSqlstate,
    Message,
    Detail,
    Hint,
    ErrorContext,
    Column,
    Constraint,
    Table,
    Schema,
    Datatype,
}

impl Kind {
    /// The statement's name in the context of an error.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Kind::Block(_) => "statement block",
            Kind::Assign { .. } => "assignment",
            Kind::If { .. } => "IF",
            Kind::Case { .. } => "CASE",
            Kind::Loop { condition: None, .. } => "LOOP",
            Kind::Loop { .. } => "WHILE",
            Kind::ForInteger(_) => "FOR with integer loop variable",
            Kind::ForRows { source: Source::Query(_), .. } => "FOR over SELECT rows",
            Kind::ForRows { .. } => "FOR over EXECUTE statement",
            Kind::ForCursor { .. } => "FOR over cursor",
            Kind::Foreach { .. } => "FOREACH over array",
            Kind::Exit { is_continue: true, .. } => "CONTINUE",
            Kind::Exit { .. } => "EXIT",
            Kind::Return(_) => "RETURN",
            Kind::ReturnNext(_) => "RETURN NEXT",
            Kind::ReturnQuery(_) => "RETURN QUERY",
            Kind::Raise(_) => "RAISE",
            Kind::Assert { .. } => "ASSERT",
            Kind::Run { .. } => "SQL statement",
            Kind::Call { .. } => "CALL",
            Kind::Perform(_) => "PERFORM",
            Kind::Execute { .. } => "EXECUTE",
            Kind::Diagnostics { is_stacked: true, .. } => "GET STACKED DIAGNOSTICS",
            Kind::Diagnostics { .. } => "GET DIAGNOSTICS",
            Kind::Open { .. } => "OPEN",
            Kind::Fetch { .. } => "FETCH",
            Kind::Close(_) => "CLOSE",
            Kind::Null => "NULL",
            Kind::EndTransaction { name, .. } => name,
        }
    }
}
