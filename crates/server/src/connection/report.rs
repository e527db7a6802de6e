//! Errors and notices as the fields of a message.

use heddle_sql::{Notice, SqlError};

use crate::wire::encode::Output;

/// Appends an ErrorResponse; `severity` is ERROR, or FATAL where the connection ends.
pub(super) fn error(output: &mut Output, severity: &str, error: &SqlError) {
    let position = error.position().map(|position| position.to_string());
    let state = error.state();
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
    ];
    fields.extend(optional.into_iter().filter_map(|(code, value)| Some((code, value?))));
    output.error(&fields);
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
