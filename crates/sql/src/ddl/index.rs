//! CREATE INDEX.

use heddledb::TableChange;

use crate::catalog::store::Object;
use crate::catalog::{Index, IndexColumn, Relation, Table};
use crate::ddl::create_table::{check_key_column, free_name};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{CreateIndex, ExprKind, IndexElement};
use crate::session::{Connection, Severity};
use std::sync::Arc;

impl Connection {
    pub(crate) fn create_index(&mut self, create: &CreateIndex, _text: &str) -> Result<&'static str> {
        if create.concurrently {
            self.refuse_in_block("CREATE INDEX CONCURRENTLY")?;
        }
        let catalog = self.catalog_to_change();
        let Relation::Table(table) = self.find_relation(&create.table)? else {
            let message = format!("cannot create index on relation \"{}\"", create.table);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        if let Some(method) = &create.method
            && !matches!(method.text.as_str(), "btree" | "hash")
        {
            let message = format!("access method \"{}\" is not supported", method.text);
            return Err(SqlError::unsupported(message).with_hint("Use btree."));
        }
        if create.filter.is_some() || create.nulls_not_distinct {
            let message = "partial indexes and NULLS NOT DISTINCT are not supported";
            return Err(
                SqlError::unsupported(message).with_hint("Create the index without its WHERE clause.")
            );
        }
        let columns = self.index_columns(&create.elements, &table, create.unique)?;
        let included =
            create.include.iter().map(|name| position(&table, &name.text)).collect::<Result<Vec<_>>>()?;
        let name = match &create.name {
            Some(name) => name.text.clone(),
            None => {
                let parts: Vec<&str> =
                    columns.iter().map(|column| table.columns[column.column].name.as_str()).collect();
                let base = format!("{}_{}_idx", table.name, parts.join("_"));
                free_name(&base, |name| catalog.relation(&table.schema, name).is_some())
            }
        };
        if !self.is_free(&table.schema.clone(), &name, create.if_not_exists)? {
            return Ok("CREATE INDEX");
        }
        let names: Vec<&str> =
            columns.iter().map(|column| table.columns[column.column].name.as_str()).collect();
        let change = if create.unique {
            TableChange::new().add_unique_index(name.as_str(), names)
        } else {
            TableChange::new().add_index(name.as_str(), names)
        };
        let engine = self.change_engine(&table, change, &name)?;
        let mut catalog = self.catalog_to_change();
        let index = Index {
            oid: catalog.new_oid(),
            name: name.clone(),
            columns,
            unique: create.unique,
            constraint: false,
            included,
        };
        let mut changed = Table { engine, ..table.as_ref().clone() };
        changed.indexes.push(index);
        let changed = Arc::new(changed);
        catalog.put_table(changed.clone());
        self.publish(&[Object::table(&changed)], catalog)?;
        Ok("CREATE INDEX")
    }

    fn index_columns(
        &mut self,
        elements: &[IndexElement],
        table: &Table,
        unique: bool,
    ) -> Result<Vec<IndexColumn>> {
        let mut columns = Vec::with_capacity(elements.len());
        for element in elements {
            let ExprKind::Column(parts) = &element.expr.expr.kind else {
                let message = "indexes on expressions are not supported";
                let hint = "Add a generated column, and index that.";
                return Err(SqlError::unsupported(message).with_hint(hint));
            };
            let name = parts.last().map_or("", |part| part.text.as_str());
            let column = position(table, name)?;
            if unique {
                check_key_column(&table.columns[column], "unique index")?;
            }
            if columns.iter().any(|known: &IndexColumn| known.column == column) {
                continue;
            }
            let class = element.class.as_ref().map(|class| class.last().to_string());
            columns.push(IndexColumn { column, descending: element.descending, class });
        }
        Ok(columns)
    }

    /// Changes a table in the engine, and has the transaction's catalog use what it is then. Rows that do not fit are reported
    /// by the constraint's name.
    pub(crate) fn change_engine(
        &mut self,
        table: &Table,
        change: TableChange,
        constraint: &str,
    ) -> Result<heddledb::Table> {
        let engine_name = self.current(table.oid)?.engine.definition().name().to_string();
        let changed = self.session_mut().change_table(&engine_name, change);
        let engine = changed.map_err(|error| match &error {
            heddledb::Error::NotUnique { .. } | heddledb::Error::DuplicateKey { .. } => {
                let message = format!("could not create unique index \"{constraint}\"");
                SqlError::new(SqlState::UNIQUE_VIOLATION, message)
                    .with_detail("Rows with equal values were found.")
                    .with_table(table.schema.clone(), table.name.clone())
                    .with_constraint(constraint)
            }
            _ => SqlError::from(error),
        })?;
        let engine = engine.fixed();
        let mut catalog = self.catalog_to_change();
        if let Some(current) = catalog.table_by_oid(table.oid).cloned() {
            catalog.put_table(Arc::new(Table { engine: engine.clone(), ..current.as_ref().clone() }));
            self.publish_catalog(catalog);
        }
        Ok(engine)
    }

    /// A notice that something was skipped because of IF EXISTS.
    pub(crate) fn skip_missing(&mut self, kind: &str, name: &str) {
        let message = format!("{kind} \"{name}\" does not exist, skipping");
        self.environment_mut().add_notice(Severity::Notice, SqlState::SUCCESSFUL_COMPLETION, message);
    }
}

fn position(table: &Table, name: &str) -> Result<usize> {
    table
        .columns
        .iter()
        .position(|column| column.name == name)
        .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")))
}
