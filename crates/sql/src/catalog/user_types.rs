//! The types that users define: enums and domains, and how a catalog finds them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Catalog;
use super::relation::Check;
use crate::catalog::rights::Rights;
use crate::catalog::store::temporary_in;
use crate::catalog::stored;
use crate::types::{Modifier, Type};

/// A type of a user's.
#[derive(Clone, Debug)]
pub(crate) enum UserType {
    Enum(Arc<EnumType>),
    Domain(Arc<Domain>),
}

/// An enum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EnumType {
    /// Its oid.
    pub oid: u32,
    /// The schema that it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its labels; a value is stored as the position of its label.
    pub labels: Vec<Arc<str>>,
    /// COMMENT ON TYPE.
    pub comment: Option<String>,
    /// Its owner, and what was granted on it.
    #[serde(default)]
    pub rights: Rights,
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
    /// Whether NULL is refused.
    pub not_null: bool,
    /// Conditions over VALUE.
    pub checks: Vec<Check>,
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
        }
    }

    /// Its oid.
    pub fn oid(&self) -> u32 {
        match self {
            UserType::Enum(ty) => ty.oid,
            UserType::Domain(domain) => domain.oid,
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
        self.types.get(schema)?.get(name)
    }

    /// The type with this oid.
    pub fn user_type_by_oid(&self, oid: u32) -> Option<&UserType> {
        let (schema, name) = self.type_names.get(&oid)?;
        self.user_type(schema, name)
    }

    /// The enum with this oid.
    pub fn enum_by_oid(&self, oid: u32) -> Option<&Arc<EnumType>> {
        match self.user_type_by_oid(oid)? {
            UserType::Enum(ty) => Some(ty),
            UserType::Domain(_) => None,
        }
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
            Type::Array(element) if matches!(element.get(), Type::Enum(_)) => {
                format!("{}[]", self.type_display(element.get()))
            }
            _ => ty.display_name(),
        }
    }
}
