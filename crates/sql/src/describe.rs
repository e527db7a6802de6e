//! The contents of a database, for shells: relations, their columns, indexes and constraints.

use std::sync::Arc;

use crate::catalog::system::with_sequence_names;
use crate::catalog::{Catalog, ColumnOrigin, KeyAction, Relation, Table, UserType};
use crate::parse::quote_identifier;
use crate::session::Sql;
use crate::types::format_type;

/// A relation, in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelationSummary {
    /// The schema that it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// `table`, `view`, `index` or `sequence`.
    pub kind: &'static str,
    /// The table that an index belongs to.
    pub table: Option<String>,
}

/// A column, in a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDescription {
    /// Its name.
    pub name: String,
    /// Its type with its modifier, as PostgreSQL writes it.
    pub ty: String,
    /// True if NULL is allowed.
    pub nullable: bool,
    /// The expression for its values if a statement gives none.
    pub default: String,
}

/// A relation in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationDescription {
    /// The relation.
    pub relation: RelationSummary,
    /// Its columns.
    pub columns: Vec<ColumnDescription>,
    /// Indexes, as `"name" PRIMARY KEY (a, b)`.
    pub indexes: Vec<String>,
    /// Checks and foreign keys.
    pub constraints: Vec<String>,
    /// A view's query.
    pub query: Option<String>,
}

impl Sql {
    fn catalog(&self) -> Arc<Catalog> {
        self.shared.catalog()
    }

    /// All relations, sorted by schema and name.
    pub fn relations(&self) -> Vec<RelationSummary> {
        let catalog = self.catalog();
        let mut all = Vec::new();
        for schema in catalog.schemas() {
            for (name, relation) in catalog.relations_in(&schema.name) {
                all.push(summary(&catalog, &schema.name, name, relation));
            }
        }
        all.sort();
        all
    }

    /// The names of all schemas, sorted.
    pub fn schema_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.catalog().schemas().map(|schema| schema.name.clone()).collect();
        names.sort();
        names
    }

    /// The names of user-defined types, each with its kind, sorted.
    pub fn type_names(&self) -> Vec<(String, String)> {
        let catalog = self.catalog();
        let of = |ty: &UserType| match ty {
            UserType::Enum(ty) => (ty.name.clone(), format!("enum ({})", ty.labels.join(", "))),
            UserType::Composite(ty) => {
                let names: Vec<&str> = ty.attributes.iter().map(|it| it.name.as_str()).collect();
                (ty.name.clone(), format!("composite ({})", names.join(", ")))
            }
            UserType::Domain(domain) => (
                domain.name.clone(),
                format!("domain over {}", format_type(domain.ty, domain.modifier, &|_| None)),
            ),
        };
        let mut names: Vec<(String, String)> = catalog.types().map(of).collect();
        names.sort();
        names
    }

    /// A relation by its name, with or without its schema (`public` unless it is said).
    pub fn describe_relation(&self, name: &str) -> Option<RelationDescription> {
        let catalog = self.catalog();
        let (schema, name) = name.split_once('.').unwrap_or((crate::catalog::PUBLIC, name));
        let relation = catalog.relation(schema, name)?;
        let mut description = RelationDescription {
            relation: summary(&catalog, schema, name, relation),
            columns: Vec::new(),
            indexes: Vec::new(),
            constraints: Vec::new(),
            query: None,
        };
        match relation {
            Relation::Table(table) => {
                describe_table(&catalog, table, &mut description);
                description.query = table.stored_query.as_ref().map(|stored| stored.query.clone());
            }
            Relation::View(view) => {
                let column = |name: &String| ColumnDescription {
                    name: name.clone(),
                    ty: String::new(),
                    nullable: true,
                    default: String::new(),
                };
                description.columns = view.columns.iter().map(column).collect();
                description.query = Some(view.query.clone());
            }
            Relation::Sequence(_) | Relation::Index { .. } => {}
        }
        Some(description)
    }
}

fn summary(catalog: &Catalog, schema: &str, name: &str, relation: &Relation) -> RelationSummary {
    let table = match relation {
        Relation::Index { table, .. } => catalog.table_by_oid(*table).map(|table| table.name.clone()),
        _ => None,
    };
    RelationSummary { schema: schema.to_string(), name: name.to_string(), kind: relation.kind(), table }
}

fn describe_table(catalog: &Catalog, table: &Table, into: &mut RelationDescription) {
    let name_of = |oid: u32| catalog.enum_by_oid(oid).map(|ty| ty.name.clone());
    let sequence_name = |oid: u32| {
        let (schema, name) = catalog.relation_name(oid)?;
        let shown = (*schema != table.schema).then(|| format!("{}.", quote_identifier(schema)));
        Some(shown.unwrap_or_default() + &quote_identifier(name))
    };
    for column in table.visible() {
        let default = match &column.origin {
            ColumnOrigin::Nothing => String::new(),
            ColumnOrigin::Default(text) => with_sequence_names(text, sequence_name),
            ColumnOrigin::Identity { always: true, .. } => "generated always as identity".to_string(),
            ColumnOrigin::Identity { always: false, .. } => "generated by default as identity".to_string(),
            ColumnOrigin::Generated(text) => format!("generated always as ({text}) stored"),
            ColumnOrigin::IndexKey(_) | ColumnOrigin::IndexPredicate(_) => String::new(),
        };
        into.columns.push(ColumnDescription {
            name: column.name.clone(),
            ty: format_type(column.ty, column.modifier, &name_of),
            nullable: !column.not_null,
            default,
        });
    }
    let names = |columns: &mut dyn Iterator<Item = usize>| {
        columns.map(|column| table.columns[column].name.as_str()).collect::<Vec<_>>().join(", ")
    };
    if let Some(name) = &table.key_name {
        into.indexes.push(format!("\"{name}\" PRIMARY KEY ({})", names(&mut table.key.iter().copied())));
    }
    for index in &table.indexes {
        let kind = match (index.unique, index.constraint) {
            _ if index.primary => "PRIMARY KEY",
            (true, true) => "UNIQUE CONSTRAINT",
            (true, false) => "UNIQUE",
            _ => "btree",
        };
        let keys = table.index_keys(index).iter().map(|key| match table.columns[key.column].indexed() {
            Some(_) => table.column_text(key.column),
            None => table.columns[key.column].name.clone(),
        });
        let columns = keys.collect::<Vec<_>>().join(", ");
        let predicate = table.predicate(index).map_or(String::new(), |text| format!(" WHERE {text}"));
        let nulls = if index.nulls_equal { " NULLS NOT DISTINCT" } else { "" };
        into.indexes.push(format!("\"{}\" {kind} ({columns}){nulls}{predicate}", index.name));
    }
    for check in &table.checks {
        into.constraints.push(format!("\"{}\" CHECK ({})", check.name, check.condition));
    }
    for key in &table.foreign_keys {
        let parent = catalog.table_by_oid(key.table);
        let referenced = parent.map_or_else(String::new, |parent| {
            let columns: Vec<&str> =
                key.references.iter().map(|column| parent.columns[*column].name.as_str()).collect();
            format!("{}({})", parent.name, columns.join(", "))
        });
        let columns = names(&mut key.columns.iter().copied());
        let actions =
            [("DELETE", key.on_delete), ("UPDATE", key.on_update)].map(|(event, action)| match action {
                KeyAction::NoAction => String::new(),
                KeyAction::Restrict => format!(" ON {event} RESTRICT"),
                KeyAction::Cascade => format!(" ON {event} CASCADE"),
                KeyAction::SetNull => format!(" ON {event} SET NULL"),
                KeyAction::SetDefault => format!(" ON {event} SET DEFAULT"),
            });
        let actions = actions.concat();
        into.constraints
            .push(format!("\"{}\" FOREIGN KEY ({columns}) REFERENCES {referenced}{actions}", key.name));
    }
}
