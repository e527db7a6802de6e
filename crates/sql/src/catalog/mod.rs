//! The catalog as the binder sees it: schemas, tables, columns, indexes, views, sequences, enums, domains.
//!
//! A catalog is an immutable value in memory, made from the definitions that an engine table stores (`store`). Each
//! session holds a reference to the current one, so that look-ups need no lock. Each look-up is noted (`uses`), and a
//! transaction validates at its commit that no definition which it has used has changed since (`history`,
//! `difference`): so definitions are as serializable as rows.
//!
//! Invariants: a [`Catalog`] never changes once it is shared; a schema change makes a new one with a higher version, and
//! statements that were bound to an older one are bound again. Oids are never used twice. Tables, indexes, views and
//! sequences share one namespace in each schema; enums and domains another.

mod difference;
mod earlier_users;
mod enum_type;
pub(crate) mod environment;
mod extension;
mod find_routines;
pub(crate) mod history;
pub(crate) mod relation;
pub(crate) mod rights;
pub(crate) mod role;
mod routine;
pub(crate) mod rules;
pub(crate) mod securables;
pub(crate) mod store;
pub(crate) mod stored;
pub(crate) mod system;
mod user_types;
pub(crate) mod uses;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

pub(crate) use enum_type::EnumType;
pub(crate) use environment::CatalogEnvironment;
pub(crate) use extension::{Extension, PLPGSQL};
pub(crate) use relation::{
    Check, Column, ColumnOrigin, ColumnSettings, Deferral, ForeignKey, Index, IndexColumn, KeyAction, Method,
    NominalIndex, NominalKey, Persistence, Sequence, StoredQuery, Table, View,
};

pub(crate) use routine::{
    Argument, ArgumentMode, Event, Language, ResultColumn, Routine, Stability, Trigger, TriggerTime,
};

use crate::catalog::rights::{AclItem, CREATE, PUBLIC_ROLE, Rights, USAGE};
use crate::catalog::role::{DATABASE_OWNER, Role};
use crate::catalog::securables::DefaultAcl;
use crate::catalog::store::temporary_in;
use crate::catalog::uses::{Thing, note};
use crate::error::{SqlError, SqlState};
use crate::types::{FIRST_USER_OID, ROW_TYPE};

pub(crate) use user_types::{CompositeType, Domain, TypeAttribute, UserType};

/// The schema in which objects are created unless something else is said.
pub(crate) const PUBLIC: &str = "public";

/// PostgreSQL's oid of the schema `public`.
pub(crate) const PUBLIC_OID: u32 = 2200;

/// All objects of one moment.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    /// A version that rises with every schema change.
    pub version: u64,
    /// The number of changes in the history of definitions up to this catalog.
    pub position: u64,
    /// True if it is the private catalog of an open transaction, which has changed it.
    pub is_private: bool,
    /// The next oid to give; even, because an enum's array type has the odd one behind it.
    next_oid: u32,
    schemas: HashMap<String, Schema>,
    relations: HashMap<String, HashMap<String, Relation>>,
    relation_names: HashMap<u32, (String, String)>,
    types: HashMap<String, HashMap<String, UserType>>,
    type_names: HashMap<u32, (String, String)>,
    /// The routines by schema and name; overloads in the order in which they were made.
    routines: HashMap<String, HashMap<String, Vec<Arc<Routine>>>>,
    routines_by_oid: HashMap<u32, Arc<Routine>>,
    roles: HashMap<String, Arc<Role>>,
    role_names: HashMap<u32, String>,
    /// The database itself.
    pub database: DatabaseEntry,
    default_acls: Vec<DefaultAcl>,
    /// The triggers by table, in the order of their names, in which they fire.
    triggers: HashMap<u32, Vec<Arc<Trigger>>>,
    /// The installed extensions, by name.
    extensions: BTreeMap<String, Arc<Extension>>,
    owners: system::Owners,
}

/// The catalog's entry for the database itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DatabaseEntry {
    /// Its owner, and what was granted on it.
    pub rights: Rights,
    /// ALTER DATABASE … SET: the settings with which its sessions begin, unless their roles have others.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
    /// ALTER ROLE ALL SET: those with which sessions begin that have no others.
    #[serde(default)]
    pub settings_of_all: Vec<(String, String)>,
    /// ALTER SYSTEM SET: those of the whole database, which are put in force when it is opened.
    #[serde(default)]
    pub settings_of_system: Vec<(String, String)>,
}

/// The oid of the database.
pub(crate) const DATABASE_OID: u32 = 5;

/// A schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Schema {
    /// Its oid.
    pub oid: u32,
    /// Its name.
    pub name: String,
    /// COMMENT ON SCHEMA.
    pub comment: Option<String>,
    /// Its owner, and what was granted on it.
    #[serde(default)]
    pub rights: Rights,
}

/// The relation that a name in a schema denotes.
#[derive(Clone, Debug)]
pub(crate) enum Relation {
    Table(Arc<Table>),
    View(Arc<View>),
    Sequence(Arc<Sequence>),
    /// An index of the table with this oid; also a primary key, by its constraint's name.
    Index {
        table: u32,
        oid: u32,
    },
}

impl Relation {
    /// The relation's kind, as in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Relation::Table(table) => table.kind(),
            Relation::View(_) => "view",
            Relation::Sequence(_) => "sequence",
            Relation::Index { .. } => "index",
        }
    }

    /// Its oid.
    pub fn oid(&self) -> u32 {
        match self {
            Relation::Table(table) => table.oid,
            Relation::View(view) => view.oid,
            Relation::Sequence(sequence) => sequence.oid,
            Relation::Index { oid, .. } => *oid,
        }
    }
}

/// The rights on the schema `public` of a new database, as PostgreSQL 15 has them: every role may use it, and the
/// database's owner may create in it.
fn public_rights() -> Rights {
    let item = |grantee, privileges| AclItem { grantee, grantor: DATABASE_OWNER, privileges, grantable: 0 };
    let acl = vec![item(DATABASE_OWNER, USAGE | CREATE), item(PUBLIC_ROLE, USAGE)];
    Rights { owner: DATABASE_OWNER, acl: Some(acl) }
}

impl Default for Catalog {
    fn default() -> Catalog {
        let mut catalog = Catalog {
            version: 1,
            position: 0,
            is_private: false,
            next_oid: FIRST_USER_OID,
            schemas: HashMap::new(),
            relations: HashMap::new(),
            relation_names: HashMap::new(),
            types: HashMap::new(),
            type_names: HashMap::new(),
            routines: HashMap::new(),
            routines_by_oid: HashMap::new(),
            roles: HashMap::new(),
            role_names: HashMap::new(),
            database: DatabaseEntry::default(),
            default_acls: Vec::new(),
            triggers: HashMap::new(),
            extensions: extension::built_in(),
            owners: Default::default(),
        };
        catalog.add_built_in_roles();
        catalog.add_schema(Schema {
            oid: PUBLIC_OID,
            name: PUBLIC.to_string(),
            comment: Some("standard public schema".to_string()),
            rights: public_rights(),
        });
        catalog
    }
}

impl Catalog {
    /// An oid that no object has had.
    pub fn new_oid(&mut self) -> u32 {
        let oid = self.next_oid;
        self.next_oid += 2;
        oid
    }

    /// Keeps oids up to this one from being given again.
    pub fn reserve_oid(&mut self, oid: u32) {
        self.next_oid = self.next_oid.max(((oid & !ROW_TYPE) | 1) + 1);
    }

    /// Keeps oids that another catalog has given from being given again.
    pub fn skip_oids_of(&mut self, other: &Catalog) {
        self.next_oid = self.next_oid.max(other.next_oid);
    }

    /// The schemas, by name.
    pub fn schemas(&self) -> impl Iterator<Item = &Schema> {
        self.schemas.values()
    }

    pub fn schema(&self, name: &str) -> Option<&Schema> {
        note(self.position, Thing::Schema(name));
        self.schemas.get(name)
    }

    pub fn add_schema(&mut self, mut schema: Schema) {
        self.reserve_oid(schema.oid);
        if schema.oid == PUBLIC_OID && schema.rights == Rights::default() {
            // A definition of before there were rights.
            schema.rights = public_rights();
        }
        self.schemas.insert(schema.name.clone(), schema);
    }

    pub fn remove_schema(&mut self, name: &str) {
        self.schemas.remove(name);
    }

    /// All relations of a schema.
    pub fn relations_in(&self, schema: &str) -> impl Iterator<Item = (&String, &Relation)> {
        self.relations.get(schema).into_iter().flatten()
    }

    /// The schemas of sessions that have temporary relations or routines.
    pub fn temporary_schemas(&self) -> impl Iterator<Item = &String> {
        let with_relations =
            self.relations.iter().filter(|(_, names)| !names.is_empty()).map(|(name, _)| name);
        let with_routines = self.routines.iter().filter(|(_, names)| !names.is_empty()).map(|(name, _)| name);
        let found: BTreeSet<&String> = with_relations.chain(with_routines).collect();
        found.into_iter().filter(|name| name.starts_with(store::TEMPORARY))
    }

    /// Returns true if a schema holds anything.
    pub fn has_objects_in(&self, schema: &str) -> bool {
        self.relations.get(schema).is_some_and(|names| !names.is_empty())
            || self.types.get(schema).is_some_and(|names| !names.is_empty())
            || self.routines.get(schema).is_some_and(|names| !names.is_empty())
    }

    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.relations.values().flat_map(|names| names.values()).filter_map(|relation| match relation {
            Relation::Table(table) => Some(table),
            _ => None,
        })
    }

    /// All views.
    pub fn views(&self) -> impl Iterator<Item = &Arc<View>> {
        self.relations.values().flat_map(|names| names.values()).filter_map(|relation| match relation {
            Relation::View(view) => Some(view),
            _ => None,
        })
    }

    /// All views, and all materialized views as the views that their queries would be.
    pub fn stored_queries(&self) -> impl Iterator<Item = Arc<View>> {
        let materialized = self.tables().filter_map(|table| table.as_view().map(Arc::new));
        self.views().cloned().chain(materialized)
    }

    /// All sequences.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<Sequence>> {
        self.relations.values().flat_map(|names| names.values()).filter_map(|relation| match relation {
            Relation::Sequence(sequence) => Some(sequence),
            _ => None,
        })
    }

    /// The relation of this name in a schema.
    pub fn relation(&self, schema: &str, name: &str) -> Option<&Relation> {
        note(self.position, Thing::Relation(schema, name));
        self.relation_unnoted(schema, name)
    }

    /// Finds a relation as [`relation`](Self::relation) does, without noting it as a look-up of a statement.
    fn relation_unnoted(&self, schema: &str, name: &str) -> Option<&Relation> {
        self.relations.get(schema)?.get(name)
    }

    /// The relation with this oid.
    pub fn relation_by_oid(&self, oid: u32) -> Option<&Relation> {
        note(self.position, Thing::Oid(oid));
        let (schema, name) = self.relation_names.get(&oid)?;
        self.relation_unnoted(schema, name)
    }

    /// The oid of the relation or the composite type of this name, as `pg_class` has it.
    pub fn find_oid(&self, schema: Option<&str>, name: &str, path: &[String]) -> Option<u32> {
        let found = self.find(schema, name, path).map(Relation::oid);
        found.or_else(|| match self.find_type(schema, name, path)? {
            UserType::Composite(ty) => Some(ty.relation()),
            _ => None,
        })
    }

    /// Schema and name of a relation or a composite type.
    pub fn relation_name(&self, oid: u32) -> Option<&(String, String)> {
        note(self.position, Thing::Oid(oid));
        self.relation_names.get(&oid).or_else(|| self.type_names.get(&(oid | ROW_TYPE)))
    }

    /// The table with this oid.
    pub fn table_by_oid(&self, oid: u32) -> Option<&Arc<Table>> {
        match self.relation_by_oid(oid)? {
            Relation::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The first relation of this name along a path of schemas, or in the schema that was given.
    pub fn find(&self, schema: Option<&str>, name: &str, path: &[String]) -> Option<&Relation> {
        match schema {
            Some("pg_temp") => self.relation(temporary_in(path)?, name),
            Some(schema) => self.relation(schema, name),
            None => path.iter().find_map(|schema| self.relation(schema, name)),
        }
    }

    /// Adds a relation, or replaces the one of this name.
    pub fn put_relation(&mut self, schema: &str, name: &str, relation: Relation) {
        self.reserve_oid(relation.oid());
        self.relation_names.insert(relation.oid(), (schema.to_string(), name.to_string()));
        self.relations.entry(schema.to_string()).or_default().insert(name.to_string(), relation);
    }

    /// Adds a table with the names of its indexes and of its primary key, or replaces it.
    pub fn put_table(&mut self, table: Arc<Table>) {
        for index in &table.indexes {
            let relation = Relation::Index { table: table.oid, oid: index.oid };
            self.put_relation(&table.schema.clone(), &index.name, relation);
        }
        for index in &table.nominal_indexes {
            let relation = Relation::Index { table: table.oid, oid: index.oid };
            self.put_relation(&table.schema.clone(), &index.name, relation);
        }
        if let (Some(name), Some(oid)) = (&table.key_name, table.key_oid) {
            self.put_relation(&table.schema.clone(), name, Relation::Index { table: table.oid, oid });
        }
        self.put_relation(&table.schema.clone(), &table.name.clone(), Relation::Table(table));
    }

    /// Removes a table with the names of its indexes.
    pub fn remove_table(&mut self, table: &Table) {
        let nominal = table.nominal_indexes.iter().map(|index| &index.name);
        let indexes = table.indexes.iter().map(|index| &index.name).chain(nominal);
        for name in indexes.chain(&table.key_name).chain([&table.name]) {
            self.remove_relation(&table.schema, name);
        }
    }

    pub fn remove_relation(&mut self, schema: &str, name: &str) {
        if let Some(relation) = self.relations.get_mut(schema).and_then(|names| names.remove(name)) {
            self.relation_names.remove(&relation.oid());
        }
    }
}

/// `relation "x" does not exist` (42P01).
pub(crate) fn no_relation(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

/// `schema "x" does not exist` (3F000).
pub(crate) fn no_schema(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
}
