//! Settings that last as long as the call of a routine: SET in its definition.
//!
//! # Invariants
//! - When a scope ends, its settings are as before, also after an error. A plain SET inside of it overrides it, and stays; SET
//!   LOCAL ends with the scope.
//!
//! Source: PostgreSQL 15, `fmgr_security_definer` in `fmgr.c`, `AtEOXact_GUC` in `guc.c`.

use super::Settings;
use crate::error::Result;

/// What a scope has to restore.
#[derive(Default)]
pub(crate) struct SettingsScope {
    /// The values before, in the order in which they were replaced.
    before: Vec<(String, Option<String>)>,
    /// How much of what the transaction's end takes back is older than the scope.
    local: usize,
    transaction: usize,
}

impl Settings {
    /// Begins a scope with these settings.
    ///
    /// # Errors
    /// 42704 and 22023 for what cannot be set.
    pub fn begin_scope(&mut self, settings: &[(String, String)]) -> Result<SettingsScope> {
        let mut scope = SettingsScope {
            before: Vec::with_capacity(settings.len()),
            local: self.local.len(),
            transaction: self.transaction.len(),
        };
        for (name, value) in settings {
            let set = self.checked(name, value, false).and_then(|(name, value)| {
                scope.before.push((name.clone(), self.values.get(&name).cloned()));
                self.store(&name, Some(value))
            });
            if let Err(error) = set {
                self.end_scope(scope);
                return Err(error);
            }
        }
        Ok(scope)
    }

    /// Ends a scope.
    pub fn end_scope(&mut self, scope: SettingsScope) {
        for (name, value) in scope.before.into_iter().rev() {
            let first = self.local.len().min(scope.local);
            let mut later = self.local.split_off(first);
            later.retain(|(other, _)| *other != name);
            self.local.append(&mut later);
            let first = self.transaction.len().min(scope.transaction);
            match self.transaction[first..].iter_mut().find(|(other, _)| *other == name) {
                // A rollback restores what was before the scope.
                Some((_, restored)) => *restored = value,
                None => {
                    // It was valid when it was stored.
                    let _ = self.store(&name, value);
                }
            }
        }
    }
}
