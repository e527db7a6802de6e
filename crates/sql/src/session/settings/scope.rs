//! Settings that last as long as the call of a routine: SET in its definition.
//!
//! # Invariants
//! - When a scope ends, its settings are as before, also after an error. A plain SET inside of it overrides it, and stays; SET
//!   LOCAL ends with the scope.
//!
//! Source: PostgreSQL 15, `fmgr_security_definer` in `fmgr.c`, `AtEOXact_GUC` in `guc.c`.

use super::Settings;
use crate::error::Result;

/// The level of the settings that a scope began; 0 if it sets none.
#[derive(Default)]
pub(crate) struct SettingsScope(u32);

impl Settings {
    /// Begins a scope with these settings.
    ///
    /// # Errors
    /// 42704 and 22023 for what cannot be set.
    pub fn begin_scope(&mut self, settings: &[(String, String)]) -> Result<SettingsScope> {
        if settings.is_empty() {
            return Ok(SettingsScope::default());
        }
        let scope = SettingsScope(self.nesting.begin());
        for (name, value) in settings {
            let set = self.checked(name, value, false).and_then(|(name, value)| {
                self.nesting.save(&name, self.values.get(&name).cloned());
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
        if scope.0 > 0 {
            self.end_level(scope.0, true);
        }
    }
}
