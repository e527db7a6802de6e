//! Access methods of indexes: those that are B-trees here, and those that the catalogs show and queries do not use.
//!
//! `hash` and `brin` find and order by the values of columns: a B-tree does both. `gin`, `gist` and `spgist` find by elements, parts
//! and distances: their definitions are kept, and queries read the table.
//!
//! Source: PostgreSQL 15, `DefineIndex` and `ResolveOpClass` in `indexcmds.c`.

use std::sync::Arc;

use crate::bind::Clause;
use crate::catalog::store::Object;
use crate::catalog::{Catalog, Method, NominalIndex, NominalKey, Table};
use crate::ddl::create_table::free_name;
use crate::ddl::index_expressions::key_name;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::quote_identifier;
use crate::parse::syntax::{CreateIndex, ExprKind, IndexElement};
use crate::session::Connection;
use crate::types::Type;

/// The access method that a CREATE INDEX names.
///
/// # Errors
/// 42704: there is none of this name; 0A000: it cannot do what the statement asks.
pub(super) fn index_method(create: &CreateIndex) -> Result<Method> {
    let Some(name) = &create.method else { return Ok(Method::Btree) };
    // PostgreSQL knows gist under its old name, too.
    let name = if name.text == "rtree" { "gist" } else { name.text.as_str() };
    let Some(method) = Method::ALL.into_iter().find(|method| method.name() == name) else {
        let message = format!("access method \"{name}\" does not exist");
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
    };
    let refused =
        |what: &str| Err(SqlError::unsupported(format!("access method \"{name}\" does not support {what}")));
    let is_ordered = |element: &IndexElement| element.descending || element.nulls_first.is_some();
    match method {
        Method::Btree => Ok(method),
        _ if create.unique => refused("unique indexes"),
        Method::Hash | Method::Gin | Method::Brin if !create.include.is_empty() => {
            refused("included columns")
        }
        Method::Hash | Method::Spgist if create.elements.len() > 1 => refused("multicolumn indexes"),
        _ if create.elements.iter().any(is_ordered) => refused("ASC/DESC options"),
        _ => Ok(method),
    }
}

/// Returns true if an operator class is one of BRIN's.
pub(super) fn is_brin_class(name: &str) -> bool {
    ["_minmax_ops", "_minmax_multi_ops", "_bloom_ops", "_inclusion_ops"].iter().any(|end| name.ends_with(end))
}

impl Connection {
    /// CREATE INDEX by a method that queries do not use.
    pub(super) fn create_nominal_index(
        &mut self,
        create: &CreateIndex,
        table: &Arc<Table>,
        method: Method,
        text: &str,
    ) -> Result<&'static str> {
        let catalog = self.current_catalog();
        let (mut keys, mut names) = (Vec::new(), Vec::new());
        for element in &create.elements {
            let (key, ty, name) = self.nominal_key(element, table, text)?;
            check_class(&catalog, method, key.class.as_deref(), ty)?;
            keys.push(key);
            names.push(name);
        }
        let predicate = match &create.filter {
            Some(filter) => Some(self.bind_index_part(table, filter, Clause::IndexPredicate, text)?.1),
            None => None,
        };
        let name = match &create.name {
            Some(name) => name.text.clone(),
            None => {
                let taken = |name: &str| catalog.relation(&table.schema, name).is_some();
                free_name(&table.name, &names.join("_"), "idx", taken)
            }
        };
        if !self.is_free(&table.schema.clone(), &name, create.if_not_exists)? {
            return Ok("CREATE INDEX");
        }
        let mut catalog = self.catalog_to_change();
        let index = NominalIndex { oid: catalog.new_oid(), name, method, keys, predicate };
        let mut changed = self.current(table.oid)?.as_ref().clone();
        changed.nominal_indexes.push(index);
        let changed = Arc::new(changed);
        catalog.put_table(changed.clone());
        self.publish(&[Object::table(&changed)], catalog)?;
        Ok("CREATE INDEX")
    }

    /// A key, its type, and what it contributes to the index's name.
    fn nominal_key(
        &mut self,
        element: &IndexElement,
        table: &Arc<Table>,
        text: &str,
    ) -> Result<(NominalKey, Type, String)> {
        let class = element.class.as_ref().map(|class| class.last().to_string());
        if let ExprKind::Column(parts) = &element.expr.expr.kind {
            let name = parts.last().map_or("", |part| part.text.as_str());
            let Some(column) = table.visible().iter().find(|column| column.name == name) else {
                let message = format!("column \"{name}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
            };
            let key = NominalKey { text: quote_identifier(name).to_string(), is_column: true, class };
            return Ok((key, column.ty, name.to_string()));
        }
        let (ty, stored) = self.bind_index_part(table, &element.expr, Clause::IndexExpression, text)?;
        Ok((NominalKey { text: stored, is_column: false, class }, ty, key_name(&element.expr.expr)))
    }
}

/// Checks that a method has an operator class for a type.
///
/// # Errors
/// 42704: there is none, or none of this name; 42804: it is another type's.
fn check_class(catalog: &Catalog, method: Method, class: Option<&str>, ty: Type) -> Result<()> {
    let has = |extension: &str| catalog.extension(extension).is_some();
    let is_text = matches!(ty, Type::Text | Type::Varchar | Type::Bpchar);
    let is_plain =
        !ty.is_array() && ty.row_relation().is_none() && !matches!(ty, Type::Json | Type::Jsonb | Type::TopK);
    let known: &[(&str, bool)] = match method {
        Method::Gin => &[
            ("array_ops", ty.is_array()),
            ("jsonb_ops", ty == Type::Jsonb),
            ("jsonb_path_ops", ty == Type::Jsonb),
            ("gin_trgm_ops", is_text && has("pg_trgm")),
        ],
        Method::Gist => &[
            ("inet_ops", matches!(ty, Type::Inet | Type::Cidr)),
            ("gist_trgm_ops", is_text && has("pg_trgm")),
        ],
        _ => &[("text_ops", is_text), ("inet_ops", matches!(ty, Type::Inet | Type::Cidr))],
    };
    let by_extension = match method {
        Method::Gin => has("btree_gin"),
        Method::Gist => has("btree_gist"),
        _ => false,
    };
    let name = method.name();
    let Some(class) = class else {
        let by_default = match method {
            Method::Gin => ty.is_array() || ty == Type::Jsonb,
            Method::Spgist => is_text || ty == Type::Inet,
            _ => false,
        };
        if by_default || by_extension && is_plain {
            return Ok(());
        }
        let ty = catalog.type_display(ty);
        let message = format!("data type {ty} has no default operator class for access method \"{name}\"");
        let hint = "You must specify an operator class for the index or define a default operator class for the data type.";
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).with_hint(hint));
    };
    let is_scalar_class = by_extension && class.ends_with("_ops");
    match known.iter().find(|(known, _)| *known == class) {
        Some((_, true)) => Ok(()),
        None if is_scalar_class && is_plain => Ok(()),
        Some(_) if !class.ends_with("_trgm_ops") || is_text == has("pg_trgm") => {
            let ty = catalog.type_display(ty);
            let message = format!("operator class \"{class}\" does not accept data type {ty}");
            Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
        }
        _ => {
            let message = format!("operator class \"{class}\" does not exist for access method \"{name}\"");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
        }
    }
}
