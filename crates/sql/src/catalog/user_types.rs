//! The types that users define: enums, domains and composite types, and how a catalog finds them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::relation::{Check, Column};
use super::routine::ResultColumn;
use super::{Catalog, EnumType, Relation};
use crate::catalog::rights::Rights;
use crate::catalog::store::temporary_in;
use crate::catalog::stored;
use crate::catalog::uses::{Thing, note};
use crate::types::record::{RecordField, Shape};
use crate::types::{Modifier, ROW_TYPE, Type};

/// A user-defined type.
#[derive(Clone, Debug)]
pub(crate) enum UserType {
    Enum(Arc<EnumType>),
    Domain(Arc<Domain>),
    Composite(Arc<CompositeType>),
}

/// An attribute of a composite type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TypeAttribute {
    /// Its name.
    pub name: String,
    #[serde(with = "stored::oid")]
    pub ty: Type,
    #[serde(with = "stored::modifier")]
    pub modifier: Modifier,
    /// The oid of the collation that it is declared with, unless it is the default.
    #[serde(default)]
    pub collation: Option<u32>,
    /// COMMENT ON COLUMN.
    #[serde(default)]
    pub comment: Option<String>,
}

/// A composite type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CompositeType {
    /// Its oid: that of the entry in `pg_class`, with [`ROW_TYPE`].
    pub oid: u32,
    /// The schema that it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    pub attributes: Vec<TypeAttribute>,
    /// COMMENT ON TYPE.
    pub comment: Option<String>,
    /// Its owner, and what was granted on it.
    #[serde(default)]
    pub rights: Rights,
}

impl CompositeType {
    /// The oid of its entry in `pg_class`.
    pub fn relation(&self) -> u32 {
        self.oid & !ROW_TYPE
    }
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Domain {
    /// Its oid.
    pub oid: u32,
    /// The schema that it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The type beneath.
    #[serde(with = "stored::oid")]
    pub ty: Type,
    /// The type's modifier.
    #[serde(with = "stored::modifier")]
    pub modifier: Modifier,
    /// DEFAULT, as SQL text.
    pub default: Option<String>,
    /// True if NULL is refused.
    pub not_null: bool,
    /// Conditions over VALUE: its own, without those of the domain beneath.
    pub checks: Vec<Check>,
    /// The domain beneath, whose rules hold for this one, too. Domains that were made before this was kept have copies of
    /// the rules.
    #[serde(default)]
    pub base: Option<u32>,
    /// COMMENT ON DOMAIN.
    pub comment: Option<String>,
    /// Its owner, and what was granted on it.
    #[serde(default)]
    pub rights: Rights,
}

impl UserType {
    /// The schema that it is in.
    pub fn schema(&self) -> &str {
        match self {
            UserType::Enum(ty) => &ty.schema,
            UserType::Domain(domain) => &domain.schema,
            UserType::Composite(ty) => &ty.schema,
        }
    }

    /// Its oid.
    pub fn oid(&self) -> u32 {
        match self {
            UserType::Enum(ty) => ty.oid,
            UserType::Domain(domain) => domain.oid,
            UserType::Composite(ty) => ty.oid,
        }
    }
}

impl Catalog {
    /// All enums and domains.
    pub fn types(&self) -> impl Iterator<Item = &UserType> {
        self.types.values().flat_map(|names| names.values())
    }

    /// The type of this name in a schema.
    pub fn user_type(&self, schema: &str, name: &str) -> Option<&UserType> {
        note(self.position, Thing::Type(schema, name));
        self.types.get(schema)?.get(name)
    }

    /// The type with this oid.
    pub fn user_type_by_oid(&self, oid: u32) -> Option<&UserType> {
        note(self.position, Thing::Oid(oid));
        let (schema, name) = self.type_names.get(&oid)?;
        self.types.get(schema)?.get(name)
    }

    /// The enum with this oid.
    pub fn enum_by_oid(&self, oid: u32) -> Option<&Arc<EnumType>> {
        match self.user_type_by_oid(oid)? {
            UserType::Enum(ty) => Some(ty),
            UserType::Domain(_) | UserType::Composite(_) => None,
        }
    }

    /// The domain with this oid.
    pub fn domain_by_oid(&self, oid: u32) -> Option<&Arc<Domain>> {
        match self.user_type_by_oid(oid)? {
            UserType::Domain(domain) => Some(domain),
            _ => None,
        }
    }

    /// A domain and the domains beneath it, the innermost first.
    pub fn domains_of<'c>(&'c self, domain: &'c Domain) -> Vec<&'c Domain> {
        let beneath = |domain: &&'c Domain| Some(self.domain_by_oid(domain.base?)?.as_ref());
        let mut found: Vec<&Domain> = std::iter::successors(Some(domain), beneath).collect();
        found.reverse();
        found
    }

    /// Returns true if NULL is refused by a domain, or by one beneath it.
    pub fn domain_refuses_null(&self, domain: &Domain) -> bool {
        self.domains_of(domain).iter().any(|domain| domain.not_null)
    }

    /// The checks of a domain and of those beneath it, in the order in which PostgreSQL tests them: the innermost domain's
    /// first, each domain's by their names.
    pub fn domain_checks<'c>(&'c self, domain: &'c Domain) -> Vec<&'c Check> {
        let sorted = |domain: &'c Domain| {
            let mut checks: Vec<&Check> = domain.checks.iter().collect();
            checks.sort_by(|left, right| left.name.cmp(&right.name));
            checks
        };
        self.domains_of(domain).into_iter().flat_map(sorted).collect()
    }

    /// The first type of this name along a path of schemas, or in the schema that was given.
    pub fn find_type(&self, schema: Option<&str>, name: &str, path: &[String]) -> Option<&UserType> {
        match schema {
            Some("pg_temp") => self.user_type(temporary_in(path)?, name),
            Some(schema) => self.user_type(schema, name),
            None => path.iter().find_map(|schema| self.user_type(schema, name)),
        }
    }

    /// Adds a type, or replaces the one of this name.
    pub fn put_type(&mut self, ty: UserType) {
        let (schema, name) = match &ty {
            UserType::Enum(ty) => (ty.schema.clone(), ty.name.clone()),
            UserType::Domain(domain) => (domain.schema.clone(), domain.name.clone()),
            UserType::Composite(ty) => (ty.schema.clone(), ty.name.clone()),
        };
        self.reserve_oid(ty.oid());
        self.type_names.insert(ty.oid(), (schema.clone(), name.clone()));
        self.types.entry(schema).or_default().insert(name, ty);
    }

    pub fn remove_type(&mut self, schema: &str, name: &str) {
        if let Some(ty) = self.types.get_mut(schema).and_then(|names| names.remove(name)) {
            self.type_names.remove(&ty.oid());
        }
    }

    /// The name of a type for messages and `format_type`: users' types by their names.
    pub fn type_display(&self, ty: Type) -> String {
        match ty {
            Type::Enum(oid) => {
                self.type_names.get(&oid).map_or_else(|| ty.display_name(), |(_, name)| name.clone())
            }
            Type::Composite(_) => self.row_type_name(ty).unwrap_or_else(|| ty.display_name()),
            Type::Array(element) if element.get().user_oid().is_some() => {
                format!("{}[]", self.type_display(element.get()))
            }
            _ => ty.display_name(),
        }
    }

    /// The name of an enum or of a row type.
    pub fn user_type_name(&self, oid: u32) -> Option<String> {
        match Type::from_oid(oid)? {
            Type::Enum(_) => self.enum_by_oid(oid).map(|ty| ty.name.clone()),
            ty => self.row_type_name(ty),
        }
    }

    /// The name of a row type: that of the composite type or of the relation.
    pub fn row_type_name(&self, ty: Type) -> Option<String> {
        let of_type = self.type_names.get(&ty.oid()).map(|(_, name)| name.clone());
        of_type.or_else(|| Some(self.relation_name(ty.row_relation()?)?.1.clone()))
    }

    /// The schema and the name of a row type.
    pub fn row_type(&self, ty: Type) -> Option<&(String, String)> {
        self.type_names.get(&ty.oid()).or_else(|| self.relation_name(ty.row_relation()?))
    }

    /// The columns of the rows of a table or of a composite type, whose entry in `pg_class` has this oid.
    pub fn row_columns(&self, relation: u32) -> Option<Vec<ResultColumn>> {
        if let Some(table) = self.table_by_oid(relation) {
            let column = |column: &Column| ResultColumn {
                name: column.name.clone(),
                ty: column.ty,
                modifier: column.modifier,
                domain: column.domain,
            };
            return Some(table.visible().iter().map(column).collect());
        }
        let column = |attribute: &TypeAttribute| ResultColumn {
            name: attribute.name.clone(),
            ty: attribute.ty,
            modifier: attribute.modifier,
            domain: None,
        };
        match self.user_type_by_oid(Type::row_of(relation).oid())? {
            UserType::Composite(ty) => Some(ty.attributes.iter().map(column).collect()),
            _ => None,
        }
    }

    /// The fields of a row type.
    pub fn shape(&self, oid: u32) -> Option<Arc<Shape>> {
        let columns = self.row_columns(Type::Composite(oid).row_relation()?)?;
        let field =
            |column: &ResultColumn| RecordField { name: column.name.as_str().into(), kind: column.ty };
        let modifiers = columns.iter().map(|column| column.modifier).collect();
        Some(Arc::new(Shape { fields: columns.iter().map(field).collect(), modifiers }))
    }

    /// The row type of the table of this name.
    pub fn find_row_type(&self, schema: Option<&str>, name: &str, path: &[String]) -> Option<Type> {
        match self.find(schema, name, path)? {
            Relation::Table(table) => Some(Type::row_of(table.oid)),
            _ => None,
        }
    }

    /// The composite types.
    pub fn composites(&self) -> impl Iterator<Item = &Arc<CompositeType>> {
        self.types().filter_map(|ty| match ty {
            UserType::Composite(ty) => Some(ty),
            _ => None,
        })
    }
}
