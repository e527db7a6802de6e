//! The choices that the engine has made since the database was opened, and why.

use super::Database;
use crate::pipeline::choice_log::Choice;
use crate::protocol::attempt::show_key;

impl Database {
    /// The choices since the database was opened, the oldest first: which protocol, which schedule, and which columns of which rows are
    /// split. The
    /// latest 1,000 of each kind are kept. Rows whose transactions queue are not among them:
    /// [`hot_records`](Self::hot_records) lists these.
    ///
    /// ```
    /// # use heddledb::{Database, ProtocolKind};
    /// let db = Database::in_memory()?;
    /// db.set_protocol(ProtocolKind::Serial)?;
    /// let choices = db.choices();
    /// assert_eq!(choices.last().map(|choice| (&*choice.what, &*choice.to)), Some(("protocol", "serial")));
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn choices(&self) -> Vec<Choice> {
        let (engine, log) = (self.engine(), self.shared.choices());
        let opened = log.opened();
        let mut choices = log.made();
        let splits =
            engine.protocols().built().filter_map(|protocol| Some(protocol.phases()?.report().choices));
        for split in splits.flatten() {
            // A table that was dropped since has no rows to report.
            let Some(table) = engine.store().table(split.wanted.table) else { continue };
            let Some(column) = table.definition().columns().get(split.wanted.column) else { continue };
            choices.push(Choice {
                at: split.at.saturating_duration_since(opened),
                what: format!("{}.{}", table.definition().name(), column.name),
                key: Some(show_key(&table, &split.wanted.key)),
                from: split.from.to_string(),
                to: split.to.to_string(),
                why: split.why.to_string(),
            });
        }
        choices.sort_by_key(|choice| choice.at);
        choices
    }
}
