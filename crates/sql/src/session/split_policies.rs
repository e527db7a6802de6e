//! The policies for splitting that columns are set to (`heddle.split`), as the engine has them.
//!
//! SQL keeps the settings with the definitions; the engine has them in memory. They are set when the database is opened, and whenever
//! definitions are published, for tables that have a setting, and for those that had one.

use std::collections::BTreeSet;

use heddledb::{Database, SplitPolicy};
use parking_lot::Mutex;

use crate::catalog::{Catalog, Column};

/// The name of the setting.
pub(crate) const SPLIT: &str = "heddle.split";

/// Returns the policy of a name, in any case of letters.
pub(crate) fn policy_named(name: &str) -> Option<SplitPolicy> {
    SplitPolicy::ALL.into_iter().find(|policy| policy.name().eq_ignore_ascii_case(name))
}

/// The policy of a column.
fn policy_of(column: &Column) -> SplitPolicy {
    let value = |option: &String| policy_named(option.strip_prefix(SPLIT)?.strip_prefix('=')?);
    column.settings.options.iter().find_map(value).unwrap_or_default()
}

/// The tables of which columns have a policy in the engine, by oid.
#[derive(Default)]
pub(crate) struct SplitPolicies(Mutex<BTreeSet<u32>>);

impl SplitPolicies {
    /// Gives the engine the policies of a catalog.
    pub fn publish(&self, database: &Database, catalog: &Catalog) {
        let mut known = self.0.lock();
        for table in catalog.tables() {
            let has_any = table.columns.iter().any(|column| policy_of(column) != SplitPolicy::Auto);
            if !has_any && !known.contains(&table.oid) {
                continue;
            }
            for (position, column) in table.columns.iter().enumerate() {
                let set = |handle| database.set_split_policy(&table.engine, handle, policy_of(column));
                // A column that the engine's table does not have is not split either.
                let _ = table.engine_column(position).and_then(set);
            }
            if has_any {
                known.insert(table.oid);
            } else {
                known.remove(&table.oid);
            }
        }
    }
}
