//! Errors and notices as the fields of a message; errors for which the operator must act go to the log, too.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use heddle_sql::{Notice, SqlError, SqlState};
use parking_lot::Mutex;

use crate::wire::encode::Output;

/// Least time between two logged errors of one SQLSTATE: clients retry, and the metrics count all of them.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// The last time at which an error of each SQLSTATE was logged.
static LOGGED: Mutex<BTreeMap<SqlState, Instant>> = Mutex::new(BTreeMap::new());

/// Appends an ErrorResponse; `severity` is ERROR, or FATAL where the connection ends.
pub(super) fn error(output: &mut Output, severity: &str, error: &SqlError) {
    let position = error.position().map(|position| position.to_string());
    let state = error.state();
    log_fault(error);
    let mut fields =
        vec![(b'S', severity), (b'V', severity), (b'C', state.as_str()), (b'M', error.message())];
    let optional = [
        (b'D', error.detail()),
        (b'H', error.hint()),
        (b'W', error.context()),
        (b'P', position.as_deref()),
        (b's', error.schema()),
        (b't', error.table()),
        (b'c', error.column()),
        (b'd', error.data_type()),
        (b'n', error.constraint()),
        (b'F', error.file()),
        (b'R', error.routine()),
    ];
    fields.extend(optional.into_iter().filter_map(|(code, value)| Some((code, value?))));
    output.error(&fields);
}

/// Logs an error that is the server's, and not the client's: a full or failed disk, damage, a defect.
fn log_fault(error: &SqlError) {
    let state = error.state();
    let message = match state {
        // Any user's function can raise them, with values of statements in the message.
        _ if error.is_raised() => return,
        SqlState::DISK_FULL | SqlState::IO_ERROR | SqlState::DATA_CORRUPTED => error.message(),
        // The message may quote values of the statement, which never appear in the log.
        SqlState::INTERNAL_ERROR => "a defect: the client has received the message",
        _ => return,
    };
    if is_due(state) {
        tracing::error!(sqlstate = state.as_str(), "{message}");
    }
}

/// Returns true if an error of this state is to be logged now. Writing to the log may block: the lock is not
/// held meanwhile.
fn is_due(state: SqlState) -> bool {
    let now = Instant::now();
    let mut logged = LOGGED.lock();
    let is_due = logged.get(&state).is_none_or(|last| now.duration_since(*last) >= LOG_INTERVAL);
    if is_due {
        logged.insert(state, now);
    }
    is_due
}

/// Appends a NoticeResponse.
pub(super) fn notice(output: &mut Output, notice: &Notice) {
    let severity = notice.severity.as_str();
    let mut fields = vec![
        (b'S', severity),
        (b'V', severity),
        (b'C', notice.state.as_str()),
        (b'M', notice.message.as_str()),
    ];
    fields.extend(notice.detail.as_deref().map(|detail| (b'D', detail)));
    fields.extend(notice.hint.as_deref().map(|hint| (b'H', hint)));
    output.notice(&fields);
}
