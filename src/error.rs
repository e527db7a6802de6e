//! All errors of the engine, as one enum.

mod application;
mod classes;
pub(crate) mod failure;
mod sqlstate;
mod standby;
mod timeout;

pub use application::ApplicationError;
pub(crate) use application::OwnError;
pub use standby::StandbyError;
pub use timeout::Timeout;

/// A result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason for which a call was refused or failed.
///
/// Every message says how to proceed. [`Error::is_retryable`] tells whether the same call may succeed when it
/// is made again.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value has another type than its column or parameter.
    #[error("{what} is {expected}, but was given {found}; give it a value of that type")]
    WrongType {
        /// The column or parameter.
        what: String,
        /// The type that it has.
        expected: String,
        /// The kind of the value that was given.
        found: String,
    },
    /// A column was read as another type than the one that it holds.
    #[error(
        "{what} holds {holds}, but was read as {read_as}; use the getter of its type, or is_null or get first"
    )]
    WrongRead {
        /// The column.
        what: String,
        /// Its type, or NULL.
        holds: String,
        /// The type as which it was read.
        read_as: &'static str,
    },
    /// A number does not fit its type.
    #[error("{what} is out of range: {detail}; use a wider type or a smaller value")]
    Overflow {
        /// The column, parameter or expression.
        what: String,
        /// The bounds and the value.
        detail: String,
    },
    /// A text that is not a value of the requested type.
    #[error("{text:?} is not a {expected}; write it as {example}")]
    Unparsable {
        /// The text that was given.
        text: String,
        /// The requested type.
        expected: &'static str,
        /// A text that is valid.
        example: &'static str,
    },
    /// Bytes that are not of this format.
    #[error("these bytes are no {what}: {detail}; they are damaged, or another program's")]
    Malformed {
        /// The format that they should have.
        what: &'static str,
        /// The fault in them.
        detail: String,
    },
    /// A number was divided by zero.
    #[error("{what} divides by zero; give it another value")]
    DivisionByZero {
        /// The operation that has divided.
        what: &'static str,
    },
    /// A row that a check of its table refuses.
    #[error("the row ({row}) of table {table:?} violates the check {constraint:?}; give it values that pass")]
    CheckViolation {
        /// The table.
        table: String,
        /// The check.
        constraint: String,
        /// The row's values, as text.
        row: String,
    },
    /// A row that refers to one which does not exist.
    #[error("table {table:?} violates the foreign key {constraint:?}: {detail}; insert that first")]
    NoReferencedRow {
        /// The table of the row that refers.
        table: String,
        /// The foreign key.
        constraint: String,
        /// The row that refers, and the one that it refers to.
        detail: String,
    },
    /// A row that others refer to is to be deleted, or to get other values.
    #[error(
        "rows of table {table:?} refer by the foreign key {constraint:?} to {row}, which is to go; delete or change those first"
    )]
    StillReferenced {
        /// The table of the referring rows.
        table: String,
        /// The foreign key.
        constraint: String,
        /// The row that is referred to, as text.
        row: String,
    },
    /// A change of a table that a foreign key of another table forbids.
    #[error(
        "table {table:?} cannot be changed so: the foreign key {constraint:?} of table {referring:?} refers to it; drop that first"
    )]
    TableReferenced {
        /// The table that is referred to.
        table: String,
        /// The foreign key.
        constraint: String,
        /// The table that it belongs to.
        referring: String,
    },
    /// There is no such constraint.
    #[error("table {table:?} has no constraint {constraint:?}; its constraints are: {known}")]
    UnknownConstraint {
        /// The table.
        table: String,
        /// The name asked for.
        constraint: String,
        /// The names that there are.
        known: String,
    },
    /// NULL, where a value is required.
    #[error("{what} must have a value, but was given NULL; give it one")]
    NullValue {
        /// The column, parameter or member.
        what: String,
    },
    /// A value of the right type that the engine does not store.
    #[error("{what} cannot hold this value: {detail}")]
    InvalidValue {
        /// The column, parameter or member.
        what: String,
        /// The fault in the value, and the way out.
        detail: String,
    },
    /// An exact number that its column or parameter could hold only rounded.
    #[error("{what} would lose digits: {detail}; round it first, or use a larger scale")]
    Inexact {
        /// The column, parameter or expression.
        what: String,
        /// The value and the digits that there is room for.
        detail: String,
    },
    /// A type that no column can have.
    #[error("{text:?} is no type of a column: {detail}")]
    InvalidType {
        /// The type, as it was written.
        text: String,
        /// The fault in it, and a valid form.
        detail: String,
    },
    /// A commutative operation on a column for which it has no meaning.
    #[error("{operation} does not apply to a column of type {data_type}; it takes {accepted}")]
    WrongOperation {
        /// The operation.
        operation: &'static str,
        /// The column's type.
        data_type: String,
        /// The types that are accepted.
        accepted: &'static str,
    },
    /// There is no such table.
    #[error("there is no table {table:?}; the tables are: {known}")]
    UnknownTable {
        /// The name asked for.
        table: String,
        /// The names that there are.
        known: String,
    },
    /// The table was dropped while a handle of it was kept.
    #[error("table {table:?} was dropped; look tables up again with Database::table")]
    TableDropped {
        /// The name that it had.
        table: String,
    },
    /// A schema change has replaced the table by another one, with which a procedure registered before cannot
    /// work.
    #[error(
        "table {table:?} has changed since it was first used here; register the procedure again, or retry the transaction"
    )]
    TableChanged {
        /// The table.
        table: String,
    },
    /// A snapshot was requested of a table that a later schema change has created.
    #[error("table {table:?} was changed or created after the snapshot was taken; take a new snapshot")]
    TableNewer {
        /// The table.
        table: String,
    },
    /// Rows that exist already share the values of an index that is to be unique.
    #[error(
        "index {index:?} cannot be unique: rows of table {table:?} share its values; delete or change one of them"
    )]
    NotUnique {
        /// The table.
        table: String,
        /// The index.
        index: String,
    },
    /// A table of this name exists already.
    #[error("table {table:?} exists already; open it with Database::open_table, or choose another name")]
    TableExists {
        /// The name.
        table: String,
    },
    /// The table of this name has another definition than the one that it was opened with.
    #[error(
        "table {table:?} exists with another definition: {difference}; change the table (Database::change_table), correct the \
         definition, or open the table as it is with Database::table"
    )]
    TableDiffers {
        /// The name.
        table: String,
        /// The difference between the stored definition and the one that was given.
        difference: String,
    },
    /// A handle of one database was used with another.
    #[error("table {table:?} belongs to another database; ask this one for it with Database::table")]
    ForeignTable {
        /// The table.
        table: String,
    },
    /// There is no such column.
    #[error("table {table:?} has no column {column:?}; its columns are: {known}")]
    UnknownColumn {
        /// The table.
        table: String,
        /// The name asked for.
        column: String,
        /// The names that there are.
        known: String,
    },
    /// There is no such secondary index.
    #[error("table {table:?} has no index {index:?}; its indexes are: {known}")]
    UnknownIndex {
        /// The table.
        table: String,
        /// The name asked for.
        index: String,
        /// The names that there are.
        known: String,
    },
    /// A table definition that makes no sense.
    #[error("table {table:?} cannot be made: {detail}")]
    InvalidDefinition {
        /// The table.
        table: String,
        /// The fault, and the way out.
        detail: String,
    },
    /// A procedure definition that makes no sense.
    #[error("procedure {procedure:?} cannot be registered: {detail}")]
    InvalidProcedure {
        /// The procedure.
        procedure: String,
        /// The fault, and the way out.
        detail: String,
    },
    /// A procedure of this name is registered already.
    #[error(
        "procedure {procedure:?} is registered already; find it with Database::procedure, choose another name, or drop \
         its last handle first"
    )]
    ProcedureExists {
        /// The name.
        procedure: String,
    },
    /// A key of the wrong number of values.
    #[error(
        "a key of {table} has the columns ({expected}), but {given} values were given; give one for each, in order"
    )]
    WrongKey {
        /// The table.
        table: String,
        /// Its key columns.
        expected: String,
        /// Number of values that were given.
        given: usize,
    },
    /// A row of the wrong number of values.
    #[error(
        "a row of {table:?} has {expected} columns, but {given} values were given; give one for each, in order"
    )]
    WrongRow {
        /// The table.
        table: String,
        /// Number of its columns.
        expected: usize,
        /// Number of values that were given.
        given: usize,
    },
    /// The wrong number of arguments.
    #[error(
        "procedure {procedure:?} takes {expected} arguments, but {given} were given; give one for each parameter, \
         in order"
    )]
    WrongArguments {
        /// The procedure.
        procedure: String,
        /// Number of its parameters.
        expected: usize,
        /// Number of arguments that were given.
        given: usize,
    },
    /// Ranges need an ordered index.
    #[error(
        "table {table:?} has no ordered index, so no range of it can be read; make it with \
             PrimaryIndex::Ordered or Both, or read Range::all()"
    )]
    NoOrderedIndex {
        /// The table.
        table: String,
    },
    /// A row with this key exists already.
    #[error("{table} has a row with the key ({key}) already; update it, or choose another key")]
    DuplicateKey {
        /// The table, and the index if it is a secondary one.
        table: String,
        /// The key.
        key: String,
    },
    /// No row has this key.
    #[error("{table} has no row with the key ({key}); insert it first")]
    MissingKey {
        /// The table.
        table: String,
        /// The key.
        key: String,
    },
    /// A row or a key over the size limit.
    #[error("{what} has {bytes} bytes, over the limit of {maximum}; split it into smaller ones")]
    RowTooLarge {
        /// The row or key that is too large.
        what: String,
        /// Its size.
        bytes: usize,
        /// The largest size.
        maximum: usize,
    },
    /// A transaction takes more memory than one may until it commits.
    #[error(
        "a transaction's {what} takes {bytes} bytes, over the limit of {maximum}; write less in each transaction"
    )]
    TransactionTooLarge {
        /// The part that is too large: its write set, or its redo.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The largest size.
        maximum: usize,
    },
    /// The rows take as much memory as they are allowed to. Reads, deletes, and updates without long values
    /// still succeed.
    #[error(
        "the rows take {used} bytes of memory, and may take {limit}: delete some, or raise the limit (MemoryOptions::limit, a server's max_row_bytes)"
    )]
    MemoryFull {
        /// Bytes that they take.
        used: u64,
        /// Bytes that they may take.
        limit: u64,
    },
    /// A snapshot needed versions of rows that were released because all versions together exceeded their limit.
    #[error(
        "the snapshot is too old: the rows that changed since it was taken exceed the limit of {limit} bytes; take a new one, \
         use it for less time, or raise MemoryOptions::snapshot_limit"
    )]
    SnapshotTooOld {
        /// Bytes that versions for snapshots may take.
        limit: u64,
    },
    /// A change feed was to be read from an epoch that the log no longer contains.
    #[error(
        "the feed of table {table:?} is at epoch {epoch}, {lag} epochs behind, and the log reaches back to epoch {oldest} only;          begin again with a snapshot, and read faster, or use a named feed with a larger limit"
    )]
    FeedTooOld {
        /// The table.
        table: String,
        /// The epoch from which it is to continue.
        epoch: u64,
        /// Number of epochs between that and the last durable one.
        lag: u64,
        /// The oldest epoch from which a feed can begin now.
        oldest: u64,
    },
    /// A change feed was to begin with an epoch that the database has not reached.
    #[error(
        "a feed cannot begin after epoch {epoch}: the database has only come to epoch {current};          the epoch is another database's, or was lost with a crash before it was durable: begin again with a snapshot"
    )]
    FeedNotReached {
        /// The epoch that was given.
        epoch: u64,
        /// The present epoch.
        current: u64,
    },
    /// There is no named feed of this name.
    #[error("there is no feed {feed:?}; create it with Database::create_feed")]
    UnknownFeed {
        /// The name.
        feed: String,
    },
    /// There is a named feed of this name.
    #[error("there is a feed {feed:?} already; choose another name, or open it with Database::feed")]
    FeedExists {
        /// The name.
        feed: String,
    },
    /// A procedure's body asked for a value that no action of an earlier phase has set.
    #[error("value {number} was set by no earlier phase; set it there with ActionContext::set_value")]
    ValueNotSet {
        /// The value's number.
        number: usize,
    },
    /// A body accessed rows that its action does not declare.
    #[error("{what}; declare it in the procedure's actions (table, key, mode), or use Database::run")]
    OutsideFootprint {
        /// The attempted access, and the declaration.
        what: String,
    },
    /// A call, a wait or a schema change inside a transaction's body.
    #[error("{what} cannot be done inside a transaction; do it before or after")]
    Nested {
        /// The attempted operation.
        what: &'static str,
    },
    /// Every worker context is held by a thread between transactions, so that waiting for one could last
    /// forever.
    #[error(
        "all {slots} worker contexts are kept by workers; drop a Worker, or raise ThreadOptions::max_worker_contexts"
    )]
    NoFreeSlot {
        /// Number of worker contexts.
        slots: usize,
    },
    /// Too many calls are in flight.
    #[error("{in_flight} calls are under way, the limit; wait for one, or raise QueueOptions::max_in_flight")]
    Busy {
        /// The limit.
        in_flight: usize,
    },
    /// The transaction's own error: it left no trace.
    #[error("{message}")]
    Failed {
        /// The transaction's message.
        message: String,
    },
    /// An error of the application's own, from a procedure's body: it left no trace.
    #[error("{error}")]
    Application {
        /// The error that was passed to [`Error::application`].
        error: ApplicationError,
    },
    /// The transaction's body panicked: it left no trace.
    #[error("the transaction panicked: {message}; it left no trace, and the database goes on")]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// An internal thread panicked, whose work the database can do without.
    #[error(
        "{what} panicked: {message}; this is a fault of the engine's: please report it; the database goes on"
    )]
    Broken {
        /// The thread's work.
        what: &'static str,
        /// The panic's message.
        message: String,
    },
    /// The transaction met a rival's change, and must be retried.
    #[error("the transaction met a concurrent change; run it again")]
    Conflict,
    /// The session's transaction was in a cycle of waits, and was the youngest one in it.
    #[error("the transaction was rolled back to resolve a deadlock between sessions; run it again")]
    Deadlock,
    /// The session's transaction took longer than it may.
    #[error("{what} timed out: the transaction was rolled back; run it again, or raise the timeout")]
    TimedOut {
        /// The limit that was exceeded.
        what: Timeout,
    },
    /// The session's transaction was canceled.
    #[error("the transaction was canceled on request; it was rolled back")]
    Canceled,
    /// A session has no transaction to commit or roll back.
    #[error("the session has no open transaction; begin one first")]
    NoTransaction,
    /// A session has a transaction already.
    #[error("the session has an open transaction; commit it or roll it back first")]
    TransactionOpen,
    /// A savepoint that no longer exists.
    #[error(
        "the savepoint does not exist any more: the transaction has gone back to a point before it, or released it, or ended; \
         set a new one"
    )]
    UnknownSavepoint,
    /// There is no such sequence.
    #[error("there is no sequence {sequence:?}; make it with Database::create_sequence")]
    UnknownSequence {
        /// The name asked for.
        sequence: String,
    },
    /// A sequence of this name exists already.
    #[error(
        "there is a sequence {sequence:?} already; open it with Database::sequence, or choose another name"
    )]
    SequenceExists {
        /// The name.
        sequence: String,
    },
    /// A write to a table whose rows have rules that the engine cannot evaluate.
    #[error(
        "rows of table {table:?} have rules that {evaluator} evaluates (checks, generated columns, triggers, foreign keys), and the \
         engine alone would violate: open {evaluator} on the database, or write the table through it"
    )]
    NeedsEvaluator {
        /// The table.
        table: String,
        /// The evaluator of the rules.
        evaluator: String,
    },
    /// A row that an evaluator refuses, because it violates a rule of its table.
    #[error("table {table:?} refuses {message}; write what passes")]
    RuleViolation {
        /// The table.
        table: String,
        /// The row, the rule that refuses it, and why.
        message: String,
        /// The SQLSTATE.
        state: &'static str,
    },
    /// A value for an identity column whose values always are its sequence's.
    #[error(
        "column {column:?} of table {table:?} gets its values from a sequence always; use insert_new, leave it NULL in an insert, or \
         use insert_overriding to copy rows"
    )]
    GeneratedAlways {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A sequence whose definition, or whose next value, makes no sense.
    #[error("sequence {sequence:?} cannot be so: {detail}")]
    InvalidSequence {
        /// The sequence.
        sequence: String,
        /// The fault, and the way out.
        detail: String,
    },
    /// A sequence has given all its values.
    #[error("sequence {sequence:?} has reached its bound; set it to another value, or make one that cycles")]
    SequenceExhausted {
        /// The sequence.
        sequence: String,
    },
    /// The operating system failed to do something with a file.
    #[error("cannot {action} {path}: {detail}; check the disk, then open the database again")]
    Io {
        /// The operation that was tried: a verb.
        action: &'static str,
        /// The file or directory.
        path: String,
        /// The kind of the failure.
        kind: std::io::ErrorKind,
        /// The operating system's words.
        detail: String,
    },
    /// The system has refused memory.
    #[error(
        "the system has no memory for {bytes} more bytes; use smaller rows or transactions, or free some memory"
    )]
    OutOfMemory {
        /// Number of bytes that were requested.
        bytes: usize,
    },
    /// The process, or the system, has too many files open.
    #[error("cannot {action} {path}: {detail}; raise the limit of open files (ulimit -n), then try again")]
    TooManyFiles {
        /// The operation that was tried: a verb.
        action: &'static str,
        /// The file or directory.
        path: String,
        /// The operating system's words.
        detail: String,
    },
    /// The user may not read the database's files.
    #[error(
        "cannot read {path}: {detail}; run as the owner of the database's files, or change their permissions"
    )]
    NotReadable {
        /// The file or directory.
        path: String,
        /// The operating system's words.
        detail: String,
    },
    /// The disk, or the user's share of it, is full.
    #[error("no space left to write {path}: {detail}; free some space and try again")]
    StorageFull {
        /// The file that did not fit.
        path: String,
        /// The operating system's words.
        detail: String,
    },
    /// The database's files cannot be written.
    #[error(
        "cannot write {path}: {detail}; the database needs a writable file system and its owner's permissions"
    )]
    NotWritable {
        /// The file or directory.
        path: String,
        /// The operating system's words.
        detail: String,
    },
    /// A directory that contains something other than a database.
    #[error(
        "{path} is not a database: {detail}; give the path of a database, or of an empty or new directory"
    )]
    NotADatabase {
        /// The directory.
        path: String,
        /// The content that was found there.
        detail: String,
    },
    /// The directory for a backup or a restored database is not empty.
    #[error("{path} is not empty: it holds {found:?}; give the path of an empty or new directory")]
    NotEmpty {
        /// The directory.
        path: String,
        /// The content that was found there.
        found: String,
    },
    /// Another process, or another part of this one, has the database open.
    #[error("the database {path} is in use; close it there first, only one process at a time may open it")]
    InUse {
        /// The database directory.
        path: String,
    },
    /// A file that a later version of this program wrote.
    #[error(
        "{path} has format version {found}, and this program knows versions up to {supported}; nothing was \
         changed; use a newer program"
    )]
    NewerFormat {
        /// The file.
        path: String,
        /// Its version.
        found: u32,
        /// The newest version known here.
        supported: u32,
    },
    /// A file of the database is not as it was written.
    #[error("{path} is damaged at byte {offset}: {detail}; restore the database from a backup")]
    Damaged {
        /// The file.
        path: String,
        /// The offset in the file at which the damage begins.
        offset: u64,
        /// The fault at that place.
        detail: String,
    },
    /// A file of the database is gone.
    #[error("{path} is missing: {detail}; put it back, or restore the database from a backup")]
    MissingFile {
        /// The file.
        path: String,
        /// The evidence that it is missing.
        detail: String,
    },
    /// A file of another database lies among this one's.
    #[error("{path} belongs to another database; put this database's own file back in its place")]
    ForeignFile {
        /// The file.
        path: String,
    },
    /// A directory for a log that has another database's in it.
    #[error(
        "{path} has the log of the database {owner}; give each database a directory of its own for its log, and make \
         copies of a database with heddle backup"
    )]
    ForeignLog {
        /// The log's directory.
        path: String,
        /// The directory of the database that it belongs to.
        owner: String,
    },
    /// A directory for parts of checkpoints in which another copy of the same database has its parts.
    #[error(
        "{path} has parts of checkpoints of {owner}, of which this is a copy: it may be read only (Options::read_only), or it would \
         remove them. Make copies of a database with heddle backup, and give each one directories of its own for its checkpoints"
    )]
    ForeignCheckpoints {
        /// The directory.
        path: String,
        /// The directory of the database that it belongs to.
        owner: String,
    },
    /// The log has no room prepared for this group; nothing was written.
    #[error(
        "the log needs room for {needed} bytes and has {available}; free disk space, or wait until a segment is \
         prepared"
    )]
    LogFull {
        /// Bytes that the group may take.
        needed: u64,
        /// Bytes that are prepared.
        available: u64,
    },
    /// The log could not be written, and is closed for good.
    #[error(
        "the log failed: {reason}; results that waited for it are unknown, nothing more is written; open the \
         database again"
    )]
    LogFailed {
        /// The first failure.
        reason: String,
    },
    /// There is no space for the log: updates wait until there is.
    #[error("there is no space for the log ({reason}): updates are refused until there is; reads go on")]
    NoLogSpace {
        /// The disk's message.
        reason: String,
    },
    /// The log cannot be extended, for another reason than a full disk: updates wait until it can.
    #[error("the log cannot be extended ({reason}): updates are refused until it can; reads go on")]
    LogNotExtended {
        /// The disk's message.
        reason: String,
    },
    /// The database was opened for reading only.
    #[error("the database was opened read-only; open it without Options::read_only to change it")]
    ReadOnly,
    /// A call on a standby, or for one, was refused or failed.
    #[error(transparent)]
    Standby(StandbyError),
    /// The database has been closed.
    #[error("the database has been closed; open it again")]
    Closed,
    /// An option out of range.
    #[error("option {option} cannot be {given}: it takes {expected}")]
    InvalidOption {
        /// The option.
        option: &'static str,
        /// The value that was given.
        given: String,
        /// The values that it takes.
        expected: String,
    },
    /// The system refused to start a thread.
    #[error(
        "the system does not start the thread {thread} ({reason}); raise its limit of threads, or use fewer workers"
    )]
    ThreadRefused {
        /// The thread's name.
        thread: String,
        /// The system's message.
        reason: String,
    },
    /// A follower could not do what it is there for.
    #[error(
        "the follower failed: {reason}; the database writes its checkpoints itself until one comes again"
    )]
    FollowerFailed {
        /// The follower's message, or the fault in its work.
        reason: String,
    },
    /// A follower found no database to follow, or lost it.
    #[error(
        "no database to follow at {socket}: {reason}; open it with that follower_socket, and start the follower again"
    )]
    DatabaseLost {
        /// The socket at which the database should listen.
        socket: String,
        /// The event that ended the attempt.
        reason: String,
    },
    /// A fault that `Database::check` has found.
    #[error("the database is not consistent: {detail}")]
    Inconsistent {
        /// The fault, and its place.
        detail: String,
    },
}
