//! Triggers after an update that does not read its row.
//!
//! A trigger after the row sees OLD and NEW. The text of its function, and of its condition, tells which of their columns it names. The
//! update reads these, and the trigger gets rows in which all other columns are NULL.
//!
//! # Invariants
//! - A row that is used in any way but as `old.column` or `new.column` is used as a whole. That a function returns it is no use:
//!   what a trigger after the row returns is ignored.
//! - The function's definition is noted among what the plan depends on.

use std::collections::BTreeSet;

use super::{Reads, because};
use crate::bind::tree::BoundExpr;
use crate::catalog::{Event, Language, Trigger, TriggerTime};
use crate::parse::fields_of_trigger_rows;
use crate::plan::planner::Planner;
use crate::plan::statement::RowRules;

/// The columns that the triggers after a row see.
#[derive(Default)]
pub(super) struct TriggerViews {
    /// True if any trigger fires for the row.
    pub(super) fires: bool,
    /// Columns of OLD and of NEW, each with the name of the trigger that sees it.
    old: Vec<(usize, String)>,
    new: Vec<(usize, String)>,
}

impl TriggerViews {
    /// Adds the columns whose values have to be read: an operation must change none that a trigger sees, and what is written is known.
    pub(super) fn add_reads(
        &self,
        operated: &BTreeSet<usize>,
        sets: &[(usize, BoundExpr)],
        seen: &mut BTreeSet<usize>,
    ) -> Result<(), Reads> {
        let mut all = self.old.iter().chain(&self.new);
        if let Some((_, trigger)) = all.find(|(column, _)| operated.contains(column)) {
            return because(format!("trigger {trigger} reads what it changes"));
        }
        let is_set = |column: usize| sets.iter().any(|(set, _)| *set == column);
        seen.extend(self.old.iter().map(|(column, _)| *column));
        seen.extend(self.new.iter().map(|(column, _)| *column).filter(|&column| !is_set(column)));
        Ok(())
    }
}

impl Planner<'_> {
    /// The columns that triggers see of a row whose columns are set; an error says which trigger sees the row as a whole.
    pub(super) fn trigger_views(
        &self,
        rules: &RowRules,
        sets: &[(usize, BoundExpr)],
    ) -> Result<TriggerViews, Reads> {
        let is_set = |name: &str| sets.iter().any(|(column, _)| rules.table.columns[*column].name == *name);
        let mut views = TriggerViews::default();
        for trigger in rules.triggers.iter().filter(|trigger| trigger.fires_on(Event::Update, is_set)) {
            if trigger.time != TriggerTime::After || trigger.has_transition_tables() || trigger.is_deferrable
            {
                return because(format!("trigger {} sees the row", trigger.name));
            }
            if trigger.for_each_row {
                self.add_view(rules, trigger, &mut views)?;
            }
        }
        Ok(views)
    }

    fn add_view(&self, rules: &RowRules, trigger: &Trigger, views: &mut TriggerViews) -> Result<(), Reads> {
        let routine = self.known.routine(trigger.function);
        let body = routine.as_ref().filter(|routine| routine.language == Language::Plpgsql);
        let texts =
            [body.map(|routine| routine.body.as_str()), Some(trigger.condition.as_deref().unwrap_or(""))];
        for text in texts {
            let Some(fields) = text.and_then(fields_of_trigger_rows) else {
                return because(format!("trigger {} sees the row as a whole", trigger.name));
            };
            for (is_old, name) in fields {
                let column = rules.table.columns.iter().position(|column| column.name == name);
                let view = if is_old { &mut views.old } else { &mut views.new };
                view.extend(column.map(|column| (column, trigger.name.clone())));
            }
        }
        views.fires = true;
        Ok(())
    }
}
