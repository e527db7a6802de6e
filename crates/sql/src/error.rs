//! The error of every SQL statement: a SQLSTATE, a message, and where it applies a position, a detail and a hint.
//!
//! Invariants: an error is one pointer wide, so that results stay small; the SQLSTATE is one of the constants here or
//! one that the engine reported, always five ASCII characters.

#[cfg(test)]
mod tests;

use std::fmt;

/// A result of SQL.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

/// The five characters by which clients know a kind of error.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SqlState([u8; 5]);

macro_rules! states {
    ($($code:literal $name:ident),* $(,)?) => {
        impl SqlState {
            $(
                #[doc = concat!("`", $code, "`, as PostgreSQL names it.")]
                pub const $name: SqlState = SqlState::new($code);
            )*
            /// Every state that this crate reports, with its name.
            pub const ALL: &'static [(&'static str, SqlState)] =
                &[$((stringify!($name), SqlState::$name)),*];
        }
    };
}

impl SqlState {
    /// The state with these five characters; shorter codes are filled up with zeros.
    pub const fn new(code: &str) -> SqlState {
        let bytes = code.as_bytes();
        let mut state = [b'0'; 5];
        let mut at = 0;
        while at < 5 && at < bytes.len() {
            state[at] = bytes[at];
            at += 1;
        }
        SqlState(state)
    }

    /// The five characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }

    /// The first two characters: the class.
    pub fn class(&self) -> &str {
        &self.as_str()[..2]
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

states! {
    "00000" SUCCESSFUL_COMPLETION,
    "01000" WARNING,
    "02000" NO_DATA,
    "08P01" PROTOCOL_VIOLATION,
    "0A000" FEATURE_NOT_SUPPORTED,
    "20000" CASE_NOT_FOUND,
    "21000" CARDINALITY_VIOLATION,
    "22000" DATA_EXCEPTION,
    "22001" STRING_DATA_RIGHT_TRUNCATION,
    "22003" NUMERIC_VALUE_OUT_OF_RANGE,
    "22004" NULL_VALUE_NOT_ALLOWED,
    "22007" INVALID_DATETIME_FORMAT,
    "22008" DATETIME_FIELD_OVERFLOW,
    "22009" INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
    "2200B" ESCAPE_CHARACTER_CONFLICT,
    "2200C" INVALID_USE_OF_ESCAPE_CHARACTER,
    "2200D" INVALID_ESCAPE_OCTET,
    "2200G" MOST_SPECIFIC_TYPE_MISMATCH,
    "2200H" SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
    "22011" SUBSTRING_ERROR,
    "22012" DIVISION_BY_ZERO,
    "22013" INVALID_PRECEDING_OR_FOLLOWING_SIZE,
    "22014" INVALID_ARGUMENT_FOR_NTILE,
    "22015" INTERVAL_FIELD_OVERFLOW,
    "22016" INVALID_ARGUMENT_FOR_NTH_VALUE,
    "22018" INVALID_CHARACTER_VALUE_FOR_CAST,
    "22019" INVALID_ESCAPE_CHARACTER,
    "2201B" INVALID_REGULAR_EXPRESSION,
    "2201E" INVALID_ARGUMENT_FOR_LOGARITHM,
    "2201F" INVALID_ARGUMENT_FOR_POWER_FUNCTION,
    "2201G" INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION,
    "2201W" INVALID_ROW_COUNT_IN_LIMIT_CLAUSE,
    "2201X" INVALID_ROW_COUNT_IN_OFFSET_CLAUSE,
    "22021" CHARACTER_NOT_IN_REPERTOIRE,
    "22023" INVALID_PARAMETER_VALUE,
    "22025" INVALID_ESCAPE_SEQUENCE,
    "22026" STRING_DATA_LENGTH_MISMATCH,
    "22027" TRIM_ERROR,
    "2202E" ARRAY_SUBSCRIPT_ERROR,
    "2202G" INVALID_TABLESAMPLE_REPEAT,
    "2202H" INVALID_TABLESAMPLE_ARGUMENT,
    "22030" DUPLICATE_JSON_OBJECT_KEY_VALUE,
    "22031" INVALID_ARGUMENT_FOR_SQL_JSON_DATETIME_FUNCTION,
    "22032" INVALID_JSON_TEXT,
    "22033" INVALID_SQL_JSON_SUBSCRIPT,
    "22036" NON_NUMERIC_SQL_JSON_ITEM,
    "22038" SINGLETON_SQL_JSON_ITEM_REQUIRED,
    "22039" SQL_JSON_ARRAY_NOT_FOUND,
    "2203A" SQL_JSON_MEMBER_NOT_FOUND,
    "2203B" SQL_JSON_NUMBER_NOT_FOUND,
    "2203C" SQL_JSON_OBJECT_NOT_FOUND,
    "22P01" FLOATING_POINT_EXCEPTION,
    "22P02" INVALID_TEXT_REPRESENTATION,
    "22P03" INVALID_BINARY_REPRESENTATION,
    "22P04" BAD_COPY_FILE_FORMAT,
    "22P05" UNTRANSLATABLE_CHARACTER,
    "23000" INTEGRITY_CONSTRAINT_VIOLATION,
    "23001" RESTRICT_VIOLATION,
    "23502" NOT_NULL_VIOLATION,
    "23503" FOREIGN_KEY_VIOLATION,
    "23505" UNIQUE_VIOLATION,
    "23514" CHECK_VIOLATION,
    "0LP01" INVALID_GRANT_OPERATION,
    "0P000" INVALID_ROLE_SPECIFICATION,
    "24000" INVALID_CURSOR_STATE,
    "25000" INVALID_TRANSACTION_STATE,
    "25001" ACTIVE_SQL_TRANSACTION,
    "25006" READ_ONLY_SQL_TRANSACTION,
    "25P01" NO_ACTIVE_SQL_TRANSACTION,
    "25P02" IN_FAILED_SQL_TRANSACTION,
    "28000" INVALID_AUTHORIZATION_SPECIFICATION,
    "26000" INVALID_SQL_STATEMENT_NAME,
    "2BP01" DEPENDENT_OBJECTS_STILL_EXIST,
    "27000" TRIGGERED_DATA_CHANGE_VIOLATION,
    "2D000" INVALID_TRANSACTION_TERMINATION,
    "34000" INVALID_CURSOR_NAME,
    "39000" EXTERNAL_ROUTINE_INVOCATION,
    "3B001" INVALID_SAVEPOINT_SPECIFICATION,
    "3D000" INVALID_CATALOG_NAME,
    "3F000" INVALID_SCHEMA_NAME,
    "40001" SERIALIZATION_FAILURE,
    "40003" STATEMENT_COMPLETION_UNKNOWN,
    "40P01" DEADLOCK_DETECTED,
    "42501" INSUFFICIENT_PRIVILEGE,
    "42601" SYNTAX_ERROR,
    "42602" INVALID_NAME,
    "42611" INVALID_COLUMN_DEFINITION,
    "42622" NAME_TOO_LONG,
    "42701" DUPLICATE_COLUMN,
    "42702" AMBIGUOUS_COLUMN,
    "42703" UNDEFINED_COLUMN,
    "42704" UNDEFINED_OBJECT,
    "42710" DUPLICATE_OBJECT,
    "42712" DUPLICATE_ALIAS,
    "42723" DUPLICATE_FUNCTION,
    "42725" AMBIGUOUS_FUNCTION,
    "42803" GROUPING_ERROR,
    "42804" DATATYPE_MISMATCH,
    "42809" WRONG_OBJECT_TYPE,
    "42830" INVALID_FOREIGN_KEY,
    "42846" CANNOT_COERCE,
    "42883" UNDEFINED_FUNCTION,
    "428C9" GENERATED_ALWAYS,
    "42939" RESERVED_NAME,
    "42P01" UNDEFINED_TABLE,
    "42P02" UNDEFINED_PARAMETER,
    "42P03" DUPLICATE_CURSOR,
    "42P05" DUPLICATE_PREPARED_STATEMENT,
    "42P06" DUPLICATE_SCHEMA,
    "42P07" DUPLICATE_TABLE,
    "42P08" AMBIGUOUS_PARAMETER,
    "42P09" AMBIGUOUS_ALIAS,
    "42P10" INVALID_COLUMN_REFERENCE,
    "42P11" INVALID_CURSOR_DEFINITION,
    "42P13" INVALID_FUNCTION_DEFINITION,
    "42P15" INVALID_SCHEMA_DEFINITION,
    "42P16" INVALID_TABLE_DEFINITION,
    "42P17" INVALID_OBJECT_DEFINITION,
    "42P18" INDETERMINATE_DATATYPE,
    "42P19" INVALID_RECURSION,
    "42P20" WINDOWING_ERROR,
    "42P22" INDETERMINATE_COLLATION,
    "44000" WITH_CHECK_OPTION_VIOLATION,
    "53000" INSUFFICIENT_RESOURCES,
    "53100" DISK_FULL,
    "53200" OUT_OF_MEMORY,
    "53300" TOO_MANY_CONNECTIONS,
    "54000" PROGRAM_LIMIT_EXCEEDED,
    "54001" STATEMENT_TOO_COMPLEX,
    "54011" TOO_MANY_COLUMNS,
    "54023" TOO_MANY_ARGUMENTS,
    "55000" OBJECT_NOT_IN_PREREQUISITE_STATE,
    "55006" OBJECT_IN_USE,
    "55P02" CANT_CHANGE_RUNTIME_PARAM,
    "55P03" LOCK_NOT_AVAILABLE,
    "57014" QUERY_CANCELED,
    "57P01" ADMIN_SHUTDOWN,
    "57P03" CANNOT_CONNECT_NOW,
    "58000" SYSTEM_ERROR,
    "58030" IO_ERROR,
    "P0001" RAISE_EXCEPTION,
    "P0002" NO_DATA_FOUND,
    "P0003" TOO_MANY_ROWS,
    "P0004" ASSERT_FAILURE,
    "XX000" INTERNAL_ERROR,
    "XX001" DATA_CORRUPTED,
}

/// The report of a failed statement that a client receives.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlError(Box<Fields>);

/// The fields of an error, as the PostgreSQL protocol has them.
#[derive(Clone, Debug, PartialEq)]
struct Fields {
    state: SqlState,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    context: Option<String>,
    position: Option<u32>,
    schema: Option<String>,
    table: Option<String>,
    column: Option<String>,
    constraint: Option<String>,
    data_type: Option<String>,
    routine: Option<&'static str>,
    engine: Option<heddledb::Error>,
    is_raised: bool,
}

/// The PostgreSQL function that reports nearly all errors of a state.
fn routine_of(state: SqlState) -> Option<&'static str> {
    Some(match state {
        SqlState::UNIQUE_VIOLATION => "_bt_check_unique",
        SqlState::NOT_NULL_VIOLATION | SqlState::CHECK_VIOLATION => "ExecConstraints",
        SqlState::FOREIGN_KEY_VIOLATION => "ri_ReportViolation",
        SqlState::UNDEFINED_TABLE => "parserOpenTable",
        SqlState::UNDEFINED_COLUMN => "errorMissingColumn",
        SqlState::UNDEFINED_FUNCTION => "ParseFuncOrColumn",
        SqlState::SYNTAX_ERROR => "scanner_yyerror",
        SqlState::DEADLOCK_DETECTED => "DeadLockReport",
        SqlState::QUERY_CANCELED => "ProcessInterrupts",
        _ => return None,
    })
}

/// The state of [`SqlError::stale_plan`].
const STALE: SqlState = SqlState::new("HDSTL");

impl SqlError {
    /// An error of this state; the message is lower case, cause first.
    pub fn new(state: SqlState, message: impl Into<String>) -> SqlError {
        SqlError(Box::new(Fields {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            context: None,
            position: None,
            schema: None,
            table: None,
            column: None,
            constraint: None,
            data_type: None,
            routine: None,
            engine: None,
            is_raised: false,
        }))
    }

    /// A feature that is refused (0A000).
    pub fn unsupported(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    }

    /// A fault of this crate's own (XX000).
    pub fn internal(message: impl Into<String>) -> SqlError {
        SqlError::new(SqlState::INTERNAL_ERROR, message)
    }

    /// Adds a detail: a sentence about the values in question.
    pub fn with_detail(mut self, detail: impl Into<String>) -> SqlError {
        self.0.detail = Some(detail.into());
        self
    }

    /// Adds a hint: a sentence about the way out.
    pub fn with_hint(mut self, hint: impl Into<String>) -> SqlError {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds one more line about where it happened, beneath those that it has.
    pub fn with_context(mut self, line: impl Into<String>) -> SqlError {
        let line = line.into();
        self.0.context = Some(match self.0.context.take() {
            Some(context) => context + "\n" + &line,
            None => line,
        });
        self
    }

    /// Sets the position in the statement's text, in characters from 1, unless there is one already.
    pub fn at(mut self, position: u32) -> SqlError {
        self.0.position.get_or_insert(position);
        self
    }

    /// Removes the detail.
    pub fn without_detail(mut self) -> SqlError {
        self.0.detail = None;
        self
    }

    /// Removes the position: its text is not what the client sent.
    pub fn without_position(mut self) -> SqlError {
        self.0.position = None;
        self
    }

    /// Marks the error as handled by the client: the statement must not be retried as a whole.
    pub(crate) fn without_engine(mut self) -> SqlError {
        self.0.engine = None;
        self
    }

    /// Marks the error as made by RAISE.
    pub(crate) fn raised(mut self) -> SqlError {
        self.0.is_raised = true;
        self
    }

    /// Adds the table that it is about.
    pub fn with_table(mut self, schema: impl Into<String>, table: impl Into<String>) -> SqlError {
        self.0.schema = Some(schema.into());
        self.0.table = Some(table.into());
        self
    }

    /// Adds the column that it is about.
    pub fn with_column(mut self, column: impl Into<String>) -> SqlError {
        self.0.column = Some(column.into());
        self
    }

    /// Adds the constraint that it is about.
    pub fn with_constraint(mut self, constraint: impl Into<String>) -> SqlError {
        self.0.constraint = Some(constraint.into());
        self
    }

    /// Adds the type that it is about.
    pub fn with_data_type(mut self, data_type: impl Into<String>) -> SqlError {
        self.0.data_type = Some(data_type.into());
        self
    }

    /// Adds the domain that it is about, and its schema.
    pub fn with_domain(mut self, schema: impl Into<String>, domain: impl Into<String>) -> SqlError {
        self.0.schema = Some(schema.into());
        self.with_data_type(domain)
    }

    /// Adds the function of PostgreSQL that reports it.
    pub(crate) fn with_routine(mut self, routine: &'static str) -> SqlError {
        self.0.routine = Some(routine);
        self
    }

    /// The function of PostgreSQL's source that reports such an error, for clients that tell errors of one state apart
    /// by it; `None` if it is not known.
    pub fn routine(&self) -> Option<&'static str> {
        let known = self.0.routine;
        known.or_else(|| if self.is_raised() { Some("exec_stmt_raise") } else { routine_of(self.state()) })
    }

    /// The file of PostgreSQL's source that this function is in.
    pub fn file(&self) -> Option<&'static str> {
        Some(match self.routine()? {
            "_bt_check_unique" => "nbtinsert.c",
            "ExecConstraints" => "execMain.c",
            "ri_ReportViolation" => "ri_triggers.c",
            "parserOpenTable" | "errorMissingColumn" => "parse_relation.c",
            "ParseFuncOrColumn" => "parse_func.c",
            "scanner_yyerror" => "scan.l",
            "DeadLockReport" => "deadlock.c",
            "ProcessInterrupts" => "postgres.c",
            "exec_stmt_raise" => "pl_exec.c",
            "RevalidateCachedQuery" => "plancache.c",
            "pg_strtoint32" => "numutils.c",
            _ => return None,
        })
    }

    /// The kind of the error.
    pub fn state(&self) -> SqlState {
        self.0.state
    }

    /// Returns the description of the fault.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// More about the values in question.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// The way out.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Returns where it happened: one line for each function and statement, the innermost first.
    pub fn context(&self) -> Option<&str> {
        self.0.context.as_deref()
    }

    /// Returns the position in the statement's text, in characters from 1.
    pub fn position(&self) -> Option<u32> {
        self.0.position
    }

    /// The schema of the object that the error is about.
    pub fn schema(&self) -> Option<&str> {
        self.0.schema.as_deref()
    }

    /// The table that the error is about.
    pub fn table(&self) -> Option<&str> {
        self.0.table.as_deref()
    }

    /// The column that the error is about.
    pub fn column(&self) -> Option<&str> {
        self.0.column.as_deref()
    }

    /// The constraint that the error is about.
    pub fn constraint(&self) -> Option<&str> {
        self.0.constraint.as_deref()
    }

    /// The type that the error is about.
    pub fn data_type(&self) -> Option<&str> {
        self.0.data_type.as_deref()
    }

    /// The engine's error that this one was made from: a conflict must reach the engine as it was.
    pub fn engine(&self) -> Option<&heddledb::Error> {
        self.0.engine.as_ref()
    }

    /// Returns true if RAISE made it: its state and its message are what a function's author chose, and say nothing of
    /// the server.
    pub fn is_raised(&self) -> bool {
        self.0.is_raised
    }

    /// Returns true if an operation did not fit the value that it met when it was applied.
    pub(crate) fn is_of_values_met(&self) -> bool {
        use heddledb::Error;
        matches!(&self.0.engine, Some(Error::Overflow { .. } | Error::CheckViolation { .. }))
    }

    /// Returns true if the engine found a number beyond its column, or beyond a guard.
    pub(crate) fn is_overflow(&self) -> bool {
        matches!(self.0.engine, Some(heddledb::Error::Overflow { .. }))
    }

    /// Returns true if a row that was to be changed does not exist.
    pub(crate) fn is_missing_key(&self) -> bool {
        matches!(self.0.engine, Some(heddledb::Error::MissingKey { .. }))
    }

    /// Returns true if a call has accessed something that it has not declared.
    pub(crate) fn is_outside_footprint(&self) -> bool {
        matches!(self.0.engine, Some(heddledb::Error::OutsideFootprint { .. }))
    }

    /// The error of an attempt whose plan is of a catalog that a schema change has replaced: no client sees it.
    pub(crate) fn stale_plan() -> SqlError {
        SqlError::new(STALE, "definitions have changed")
    }

    /// Returns true if it results from a plan for definitions that a schema change has since changed or dropped.
    pub(crate) fn is_of_stale_plan(&self) -> bool {
        use heddledb::Error::{TableChanged, TableDropped, TableNewer};
        self.0.state == STALE
            || matches!(self.engine(), Some(TableChanged { .. } | TableDropped { .. } | TableNewer { .. }))
    }

    /// Returns true if the same transaction may succeed when it is retried.
    pub fn is_retryable(&self) -> bool {
        // A function may raise an error with such a state: it would raise it again.
        let is_of_engine = self.0.engine.is_some();
        is_of_engine && matches!(self.0.state, SqlState::SERIALIZATION_FAILURE | SqlState::DEADLOCK_DETECTED)
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.0.state, self.0.message)?;
        if let Some(detail) = &self.0.detail {
            write!(formatter, " ({detail})")?;
        }
        if let Some(hint) = &self.0.hint {
            write!(formatter, "; {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SqlError {}

impl SqlError {
    /// `lock_timeout` was exceeded (55P03).
    pub(crate) fn lock_timeout() -> SqlError {
        SqlError::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout")
    }

    /// `statement_timeout` was exceeded (57014).
    pub(crate) fn statement_timeout() -> SqlError {
        SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to statement timeout")
    }
}

impl From<heddledb::Error> for SqlError {
    fn from(error: heddledb::Error) -> SqlError {
        let message = match &error {
            heddledb::Error::Overflow { detail, .. } => type_out_of_range(detail),
            _ => None,
        };
        let message = message.map_or_else(|| error.to_string(), str::to_string);
        let mut made = SqlError::new(SqlState::new(error.sqlstate()), message);
        if let heddledb::Error::Overflow { detail, .. } = &error
            && let Some(detail) = decimal_bound(detail)
        {
            made = made.with_detail(detail);
        }
        made.0.engine = Some(error);
        made
    }
}

/// PostgreSQL's detail of a value that the engine finds beyond `decimal(precision,scale)`.
fn decimal_bound(detail: &str) -> Option<String> {
    let (_, rest) = detail.split_once("within decimal(")?;
    let (precision, scale) = rest.strip_suffix(')')?.split_once(',')?;
    let (precision, scale): (u32, u32) = (precision.parse().ok()?, scale.parse().ok()?);
    let digits = precision.checked_sub(scale)?;
    let bound = if digits == 0 { "1".to_string() } else { format!("10^{digits}") };
    Some(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
    ))
}

/// PostgreSQL's message for a value that the engine finds beyond a column's type, by the bounds that the engine names.
fn type_out_of_range(detail: &str) -> Option<&'static str> {
    match () {
        () if detail.contains("within decimal(") => Some("numeric field overflow"),
        () if detail.ends_with("within -32768 and 32767") => Some("smallint out of range"),
        () if detail.ends_with("within -2147483648 and 2147483647") => Some("integer out of range"),
        () if detail.ends_with("beyond the column's type") => Some("bigint out of range"),
        () => None,
    }
}
