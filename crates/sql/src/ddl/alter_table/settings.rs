//! The settings of tables and columns by ALTER TABLE: they are kept for readers of definitions, and change at most a
//! column's statistics, and whether the engine splits it.

use std::sync::Arc;

use crate::catalog::Table;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::ColumnSetting;
use crate::session::Connection;
use crate::session::split_policies::{SPLIT, policy_named};
use crate::types::Type;

/// The name of `name=value`.
fn name_of(option: &str) -> &str {
    option.split('=').next().unwrap_or(option)
}

/// Sets options, or resets them.
pub(in crate::ddl) fn change_settings(options: &mut Vec<String>, changed: &[String], is_reset: bool) {
    options.retain(|known| !changed.iter().any(|new| name_of(new) == name_of(known)));
    if !is_reset {
        options.extend(changed.iter().cloned());
    }
}

impl Connection {
    pub(super) fn set_column_setting(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        setting: &ColumnSetting,
    ) -> Result<()> {
        let position = self.column_of(table, name)?;
        let mut settings = table.columns[position].settings.clone();
        match setting {
            ColumnSetting::Options { options, is_reset } => {
                let unknown = options
                    .iter()
                    .find(|it| !matches!(name_of(it), "n_distinct" | "n_distinct_inherited" | SPLIT));
                if let Some(unknown) = unknown {
                    let message = format!("unrecognized parameter \"{}\"", name_of(unknown));
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
                }
                let values =
                    options.iter().filter_map(|option| option.strip_prefix(SPLIT)?.strip_prefix('='));
                if let Some(wrong) = values.filter(|_| !is_reset).find(|value| policy_named(value).is_none())
                {
                    let message = format!("invalid value for enum option \"{SPLIT}\": {wrong}");
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                        .with_detail("Valid values are \"auto\", \"always\", and \"never\"."));
                }
                change_settings(&mut settings.options, options, *is_reset);
            }
            ColumnSetting::Statistics(target) => settings.statistics = Some(*target).filter(|it| *it >= 0),
            ColumnSetting::Storage(kind) => {
                settings.storage = Some(match kind.to_ascii_lowercase().as_str() {
                    "plain" => 'p',
                    "external" => 'e',
                    "main" => 'm',
                    "extended" => 'x',
                    _ => {
                        let message = format!("invalid storage type \"{kind}\"");
                        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
                    }
                });
                let ty = table.columns[position].ty;
                if settings.storage != Some('p') && ty.length() > 0 && ty != Type::Name {
                    let message = format!(
                        "column data type {} can only have storage PLAIN",
                        self.environment().catalog.type_display(ty)
                    );
                    return Err(SqlError::unsupported(message));
                }
            }
            ColumnSetting::Compression(method) => {
                settings.compression = match method.to_ascii_lowercase().as_str() {
                    "pglz" => Some('p'),
                    "lz4" => Some('l'),
                    "default" => None,
                    _ => {
                        let message = format!("invalid compression method \"{method}\"");
                        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
                    }
                };
            }
        }
        self.redefine(table, |table| table.columns[position].settings = settings)
    }
}
