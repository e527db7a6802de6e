//! CREATE INDEX.

use heddledb::TableChange;

use crate::bind::Clause;
use crate::catalog::store::Object;
use crate::catalog::system::named_class;
use crate::catalog::{Index, IndexColumn, Method, Relation, Table};
use crate::ddl::create_table::{check_key_column, check_order, free_name};
use crate::ddl::index_expressions::{Key, KeySource, key_name, key_names};
use crate::ddl::nominal_index::{index_method, is_brin_class};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{CreateIndex, ExprKind};
use crate::session::{Connection, Severity};
use crate::types::Type;
use std::sync::Arc;

impl Connection {
    pub(crate) fn create_index(&mut self, create: &CreateIndex, text: &str) -> Result<&'static str> {
        if create.concurrently {
            self.refuse_in_block("CREATE INDEX CONCURRENTLY")?;
        }
        let catalog = self.catalog_to_change();
        let Relation::Table(table) = self.find_relation(&create.table)? else {
            let message = format!("cannot create index on relation \"{}\"", create.table);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        self.check_table_owner(&table)?;
        let method = index_method(create)?;
        if matches!(method, Method::Gin | Method::Gist | Method::Spgist) {
            return self.create_nominal_index(create, &table, method, text);
        }
        let keys = self.index_keys(create, &table, text)?;
        let included =
            create.include.iter().map(|name| position(&table, &name.text)).collect::<Result<Vec<_>>>()?;
        let name = match &create.name {
            Some(name) => name.text.clone(),
            None => {
                let columns = key_names(&keys, &table).join("_");
                let taken = |name: &str| catalog.relation(&table.schema, name).is_some();
                free_name(&table.name, &columns, "idx", taken)
            }
        };
        if !self.is_free(&table.schema.clone(), &name, create.if_not_exists)? {
            return Ok("CREATE INDEX");
        }
        let oid = self.catalog_to_change().new_oid();
        let (table, positions) = self.place_keys(&table, oid, (&keys, create.unique))?;
        let columns: Vec<IndexColumn> = positions
            .into_iter()
            .zip(&keys)
            .map(|(column, key)| IndexColumn {
                column,
                descending: key.descending,
                class: key.class.clone(),
                nulls_at_other_end: key.nulls_at_other_end,
            })
            .collect();
        let index = Index {
            oid,
            name,
            columns,
            unique: create.unique,
            constraint: false,
            included,
            deferral: None,
            nulls_equal: create.unique && create.nulls_equal,
            primary: false,
            method,
        };
        let engine = self.add_index_to_engine(&table, &index)?;
        let mut catalog = self.catalog_to_change();
        catalog.reserve_oid(oid);
        let mut changed = Table { engine, ..table.as_ref().clone() };
        changed.indexes.push(index);
        let changed = Arc::new(changed);
        catalog.put_table(changed.clone());
        self.publish(&[Object::table(&changed)], catalog)?;
        Ok("CREATE INDEX")
    }

    /// Adds an index to the engine's table. Uniqueness that the engine will not enforce is checked now.
    ///
    /// # Errors
    /// 23505 if rows are equal in a unique index.
    pub(super) fn add_index_to_engine(
        &mut self,
        table: &Arc<Table>,
        index: &Index,
    ) -> Result<heddledb::Table> {
        let names: Vec<&str> =
            index.columns.iter().map(|column| table.columns[column.column].name.as_str()).collect();
        if index.is_looked_up() {
            self.refuse_duplicates(table, index)?;
        }
        let change = if index.is_unique_in_engine() {
            TableChange::new().add_unique_index(index.name.as_str(), names)
        } else {
            TableChange::new().add_index(index.name.as_str(), names)
        };
        self.change_engine(table, change, &index.name)
    }

    /// The keys that an index orders by: its predicate first, then columns and expressions.
    fn index_keys(&mut self, create: &CreateIndex, table: &Arc<Table>, text: &str) -> Result<Vec<Key>> {
        let mut keys = Vec::with_capacity(create.elements.len() + 1);
        if let Some(filter) = &create.filter {
            let (_, text) = self.bind_index_part(table, filter, Clause::IndexPredicate, text)?;
            let source = KeySource::Predicate(text);
            keys.push(Key { source, descending: false, nulls_at_other_end: false, class: None });
        }
        for element in &create.elements {
            let source = match &element.expr.expr.kind {
                ExprKind::Column(parts) => {
                    let name = parts.last().map_or("", |part| part.text.as_str());
                    let column = position(table, name)?;
                    check_order(table.columns[column].ty)?;
                    if create.unique {
                        check_key_column(&table.columns[column], "unique index")?;
                    }
                    if keys.iter().any(|known: &Key| known.source == KeySource::Column(column)) {
                        continue;
                    }
                    KeySource::Column(column)
                }
                _ => {
                    let (ty, text) =
                        self.bind_index_part(table, &element.expr, Clause::IndexExpression, text)?;
                    KeySource::Expression { text, name: key_name(&element.expr.expr), ty }
                }
            };
            let ty = match &source {
                KeySource::Expression { ty, .. } => *ty,
                KeySource::Column(column) => table.columns[*column].ty,
                KeySource::Predicate(_) => Type::Bool,
            };
            let class = match &element.class {
                Some(class) if is_brin_class(class.last()) => {
                    // These are the default ones, which definitions leave out.
                    Some(class.last().to_string()).filter(|name| !name.ends_with("_minmax_ops"))
                }
                Some(class) => named_class(class.last(), ty)?.map(str::to_string),
                None => None,
            };
            let nulls_at_other_end =
                element.nulls_first.is_some_and(|nulls_first| nulls_first != element.descending);
            keys.push(Key { source, descending: element.descending, nulls_at_other_end, class });
        }
        Ok(keys)
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
        .visible()
        .iter()
        .position(|column| column.name == name)
        .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")))
}
