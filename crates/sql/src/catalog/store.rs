//! The store of definitions: an engine table with one row for each object.
//!
//! Invariants: an object's row is written and deleted in the transaction that makes, changes or drops the object, so a
//! crash leaves both or neither. Temporary objects that a crash has left are dropped when the database is opened.
//! Tables that the engine has and no row names were made through the engine's own interface: they are tables of the
//! schema `public`.

use std::sync::Arc;

use heddledb::{DataType, Database, PrimaryIndex, Range, Session, TableDefinition, ValueRef};
use serde::{Deserialize, Serialize};

use crate::catalog::rights::Rights;
use crate::catalog::role::Role;
use crate::catalog::rules::EVALUATOR;
use crate::catalog::securables::DefaultAcl;
use crate::catalog::{
    Catalog, Check, Column, ColumnOrigin, CompositeType, DATABASE_OID, DatabaseEntry, Domain, EnumType,
    Extension, ForeignKey, Index, NominalIndex, Persistence, Relation, Routine, Schema, Sequence,
    StoredQuery, Table, Trigger, UserType, View,
};
use crate::error::{Result, SqlError, SqlState};
use crate::storage::engine_type;
use crate::types::{Modifier, Type, top_k};

/// The engine's table of definitions.
const OBJECTS: &str = "sql.object";

/// The prefix of the names of the schemas of sessions' temporary objects: no other schema's has it.
pub(crate) const TEMPORARY: &str = "pg_temp_";

/// The schema of temporary objects among those of a path: the session's.
pub(crate) fn temporary_in(path: &[String]) -> Option<&String> {
    path.iter().find(|schema| schema.starts_with(TEMPORARY))
}

/// The name of the hidden key's column.
pub(crate) const HIDDEN_KEY: &str = "#row";

/// A definition as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Object {
    Schema(Schema),
    Table(Box<StoredTable>),
    View(View),
    Sequence(Sequence),
    Enum(EnumType),
    Domain(Domain),
    Routine(Routine),
    Role(Role),
    Database(DatabaseEntry),
    DefaultAcl(DefaultAcl),
    Trigger(Trigger),
    Extension(Extension),
    Composite(CompositeType),
}

/// A table's definition as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredTable {
    oid: u32,
    schema: String,
    name: String,
    engine: String,
    columns: Vec<Column>,
    key: Vec<usize>,
    key_name: Option<String>,
    key_oid: Option<u32>,
    indexes: Vec<Index>,
    #[serde(default)]
    nominal_indexes: Vec<NominalIndex>,
    #[serde(default)]
    options: Vec<String>,
    checks: Vec<Check>,
    foreign_keys: Vec<ForeignKey>,
    persistence: Persistence,
    comment: Option<String>,
    #[serde(default)]
    key_comments: Vec<(u32, String)>,
    #[serde(default)]
    rights: Rights,
    #[serde(default)]
    stored_query: Option<StoredQuery>,
}

impl StoredTable {
    fn of(table: &Table) -> StoredTable {
        StoredTable {
            oid: table.oid,
            schema: table.schema.clone(),
            name: table.name.clone(),
            engine: table.engine.definition().name().to_string(),
            columns: table.columns.clone(),
            key: table.key.clone(),
            key_name: table.key_name.clone(),
            key_oid: table.key_oid,
            indexes: table.indexes.clone(),
            nominal_indexes: table.nominal_indexes.clone(),
            options: table.options.clone(),
            checks: table.checks.clone(),
            foreign_keys: table.foreign_keys.clone(),
            persistence: table.persistence,
            comment: table.comment.clone(),
            key_comments: table.key_comments.clone(),
            rights: table.rights.clone(),
            stored_query: table.stored_query.clone(),
        }
    }

    fn with(self, engine: heddledb::Table) -> Table {
        Table {
            oid: self.oid,
            schema: self.schema,
            name: self.name,
            columns: self.columns,
            key: self.key,
            key_name: self.key_name,
            key_oid: self.key_oid,
            indexes: self.indexes,
            nominal_indexes: self.nominal_indexes,
            options: self.options,
            checks: self.checks,
            foreign_keys: self.foreign_keys,
            persistence: self.persistence,
            comment: self.comment,
            key_comments: self.key_comments,
            rights: self.rights,
            stored_query: self.stored_query,
            engine: engine.fixed(),
        }
    }
}

/// The definition of an engine table.
#[derive(Clone, Debug)]
pub(crate) struct EngineTable<'t> {
    /// Its name in the engine.
    pub name: &'t str,
    /// Its columns; their places in the engine are given already.
    pub columns: &'t [Column],
    /// The primary key; empty: a hidden one.
    pub key: &'t [usize],
    /// Its indexes.
    pub indexes: &'t [Index],
    /// True if its rows have rules that only SQL evaluates.
    pub is_ruled: bool,
}

impl EngineTable<'_> {
    /// The engine's definition.
    pub fn definition(&self) -> TableDefinition {
        let mut definition = TableDefinition::new(self.name);
        if self.key.is_empty() {
            definition = definition.column(HIDDEN_KEY, DataType::Int64);
        }
        let mut columns: Vec<&Column> = self.columns.iter().collect();
        columns.sort_by_key(|column| column.engine);
        for column in columns {
            definition = definition.column(column.name.as_str(), engine_type(column.ty, column.modifier));
            if column.not_null {
                definition = definition.not_null();
            }
        }
        let names = |positions: &[usize]| -> Vec<&str> {
            positions.iter().map(|&position| self.columns[position].name.as_str()).collect()
        };
        definition = match self.key {
            [] => definition.primary_key([HIDDEN_KEY]).primary_index(PrimaryIndex::Ordered),
            key => definition.primary_key(names(key)),
        };
        for index in self.indexes {
            let positions: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
            let columns = names(&positions);
            definition = if index.is_unique_in_engine() {
                definition.unique_index(index.name.as_str(), columns)
            } else {
                definition.index(index.name.as_str(), columns)
            };
        }
        if self.is_ruled {
            definition = definition.evaluator(EVALUATOR);
        }
        definition
    }
}

/// The stored definitions.
pub(crate) struct Store {
    objects: heddledb::Table,
}

impl Store {
    /// Opens the stored definitions, and makes the catalog of them.
    ///
    /// # Errors
    /// The engine's; XX001 for a row that is no definition.
    pub fn open(database: &Database) -> Result<(Store, Catalog)> {
        let definition = TableDefinition::new(OBJECTS)
            .column("oid", DataType::Int64)
            .column("definition", DataType::Text)
            .not_null()
            .primary_key(["oid"]);
        let store = Store { objects: database.open_table(definition)? };
        let mut catalog = store.catalog(database)?;
        if !database.is_standby() {
            super::earlier_users::adopt(database, &store, &mut catalog)?;
            super::rules::mark_earlier(database, &mut catalog);
        }
        Ok((store, catalog))
    }

    /// Makes the catalog of the stored definitions. On a standby, temporary objects are those of the other database's sessions, and
    /// left out.
    ///
    /// # Errors
    /// The engine's; XX001 for a row that is no definition.
    pub fn catalog(&self, database: &Database) -> Result<Catalog> {
        let mut catalog = Catalog::default();
        let mut temporary = Vec::new();
        for object in self.read(database)? {
            match &object {
                Object::Table(stored) if database.is_standby() && stored.persistence.is_temporary() => {
                    catalog.reserve_oid(stored.oid);
                    temporary.push(stored.engine.clone());
                }
                _ if database.is_standby() && object.is_temporary() => {}
                _ => self.load(database, &mut catalog, object)?,
            }
        }
        adopt(database, &mut catalog, &temporary);
        if database.is_standby() {
            super::earlier_users::check_adopted(database)?;
        }
        Ok(catalog)
    }

    /// An engine table, for definitions whose own is not made yet.
    pub fn any_table(&self) -> heddledb::Table {
        self.objects.clone()
    }

    fn read(&self, database: &Database) -> Result<Vec<Object>> {
        let texts = database.run(|tx| {
            let mut texts = Vec::new();
            for row in tx.scan(&self.objects, Range::all())? {
                if let ValueRef::Text(text) = row?.get("definition")? {
                    texts.push(text.to_string());
                }
            }
            Ok(texts)
        })?;
        let parse = |text: &String| {
            serde_json::from_str(text).map_err(|error| {
                let message = format!("a stored definition is damaged: {error}");
                SqlError::new(SqlState::DATA_CORRUPTED, message)
                    .with_hint("Restore the database from a backup.")
            })
        };
        texts.iter().map(parse).collect()
    }

    fn load(&self, database: &Database, catalog: &mut Catalog, object: Object) -> Result<()> {
        match object {
            Object::Schema(schema) => catalog.add_schema(schema),
            Object::View(View { oid, schema, .. })
            | Object::Sequence(Sequence { oid, schema, .. })
            | Object::Routine(Routine { oid, schema, .. })
                if schema.starts_with(TEMPORARY) =>
            {
                catalog.reserve_oid(oid);
                self.forget_left(database, oid)?;
            }
            Object::View(view) => {
                let (schema, name) = (view.schema.clone(), view.name.clone());
                catalog.put_relation(&schema, &name, Relation::View(Arc::new(view)));
            }
            Object::Sequence(sequence) => {
                let (schema, name) = (sequence.schema.clone(), sequence.name.clone());
                catalog.put_relation(&schema, &name, Relation::Sequence(Arc::new(sequence)));
            }
            Object::Enum(ty) => catalog.put_type(UserType::Enum(Arc::new(ty))),
            Object::Domain(domain) => catalog.put_type(UserType::Domain(Arc::new(domain))),
            Object::Composite(ty) => catalog.put_type(UserType::Composite(Arc::new(ty))),
            Object::Routine(routine) => catalog.put_routine(Arc::new(routine)),
            Object::Role(role) => catalog.put_role(role),
            Object::Database(database) => catalog.database = database,
            Object::DefaultAcl(acl) => catalog.put_default_acl(acl),
            Object::Trigger(trigger) => catalog.put_trigger(Arc::new(trigger)),
            Object::Extension(extension) => catalog.put_extension(Arc::new(extension)),
            Object::Table(stored) => {
                catalog.reserve_oid(stored.oid);
                if stored.persistence.is_temporary() {
                    self.drop_left(database, &stored)?;
                } else {
                    let engine = database.table(&stored.engine)?;
                    catalog.put_table(Arc::new(stored.with(engine)));
                }
            }
        }
        Ok(())
    }

    /// Deletes the definition of a temporary view or sequence of a session that a crash has ended.
    fn forget_left(&self, database: &Database, oid: u32) -> Result<()> {
        let mut session = database.session()?;
        session.begin()?;
        self.delete(&mut session, &[oid])?;
        Ok(session.commit()?)
    }

    /// The temporary objects that are stored, of whichever session.
    ///
    /// # Errors
    /// The engine's; XX001 for a row that is no definition.
    pub fn temporary(&self, database: &Database) -> Result<Vec<Object>> {
        let is_temporary = |object: &Object| match object {
            Object::Table(stored) => stored.persistence.is_temporary(),
            object => object.is_temporary(),
        };
        Ok(self.read(database)?.into_iter().filter(is_temporary).collect())
    }

    /// Removes temporary objects of sessions that have ended with the process that had the database before.
    ///
    /// # Errors
    /// The engine's.
    pub fn remove_left(&self, database: &Database, left: &[Object]) -> Result<()> {
        left.iter().try_for_each(|object| match object {
            Object::Table(stored) => self.drop_left(database, stored),
            object => self.forget_left(database, object.oid() as u32),
        })
    }

    /// Drops a temporary table of a session that a crash has ended.
    fn drop_left(&self, database: &Database, stored: &StoredTable) -> Result<()> {
        let mut session = database.session()?;
        session.begin()?;
        if session.table(&stored.engine).is_ok() {
            session.drop_table(&stored.engine)?;
        }
        self.delete(&mut session, &[stored.oid])?;
        Ok(session.commit()?)
    }

    /// Writes definitions, new ones or changed ones, in the session's transaction.
    ///
    /// # Errors
    /// The engine's.
    pub fn put(&self, session: &mut Session, objects: &[Object]) -> Result<()> {
        let rows: Vec<(i64, String)> = objects.iter().map(|object| (object.oid(), object.text())).collect();
        session.run(|tx| {
            for (oid, text) in &rows {
                let key = [ValueRef::Int(*oid)];
                // LOCK TABLE reserves definitions.
                tx.reserve(&self.objects, key)?;
                if tx.exists(&self.objects, key)? {
                    tx.update(&self.objects, key, &[("definition", ValueRef::Text(text))])?;
                } else {
                    tx.insert(&self.objects, [ValueRef::Int(*oid), ValueRef::Text(text)])?;
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Reserves a definition for the session's transaction; without `wait`, only if no other session has reserved it.
    /// Returns true if it is reserved now.
    ///
    /// # Errors
    /// The engine's: 40P01, 55P03, 57014 of the wait.
    pub fn reserve(&self, session: &mut Session, oid: u32, wait: bool) -> Result<bool> {
        let key = [ValueRef::Int(i64::from(oid))];
        let reserved = session.run(|tx| match wait {
            true => tx.reserve(&self.objects, key).map(|()| true),
            false => tx.try_reserve(&self.objects, key),
        })?;
        Ok(reserved)
    }

    /// Deletes definitions, in the session's transaction.
    ///
    /// # Errors
    /// The engine's.
    pub fn delete(&self, session: &mut Session, oids: &[u32]) -> Result<()> {
        session.run(|tx| {
            oids.iter().try_for_each(|oid| {
                let key = [ValueRef::Int(i64::from(*oid))];
                tx.reserve(&self.objects, key)?;
                tx.delete(&self.objects, key).map(|_| ())
            })
        })?;
        Ok(())
    }
}

impl Object {
    /// A table.
    pub fn table(table: &Table) -> Object {
        Object::Table(Box::new(StoredTable::of(table)))
    }

    /// The SQL texts that a definition that outlives its session evaluates, with the object's kind and name; `None` for
    /// a trigger, whose table decides.
    pub fn expressions(&self) -> Option<(&'static str, &str, Vec<&str>)> {
        fn conditions(checks: &[Check]) -> impl Iterator<Item = &str> {
            checks.iter().map(|check| check.condition.as_str())
        }
        let (kind, schema, name, texts) = match self {
            Object::Table(table) => {
                let columns = table.columns.iter().filter_map(|column| column.origin.text());
                let query = table.stored_query.iter().map(|stored| stored.query.as_str());
                let texts = conditions(&table.checks).chain(columns).chain(query).collect();
                ("table", &table.schema, &table.name, texts)
            }
            Object::View(view) => ("view", &view.schema, &view.name, vec![view.query.as_str()]),
            Object::Domain(domain) => {
                let texts = conditions(&domain.checks).chain(domain.default.as_deref()).collect();
                ("domain", &domain.schema, &domain.name, texts)
            }
            Object::Routine(routine) => {
                let defaults = routine.arguments.iter().filter_map(|argument| argument.default.as_deref());
                (routine.kind(), &routine.schema, &routine.name, defaults.collect())
            }
            _ => return None,
        };
        (!schema.starts_with(TEMPORARY)).then_some((kind, name, texts))
    }

    /// Returns true if it is a view, a sequence or a routine of a session's own.
    fn is_temporary(&self) -> bool {
        match self {
            Object::View(View { schema, .. })
            | Object::Sequence(Sequence { schema, .. })
            | Object::Routine(Routine { schema, .. }) => schema.starts_with(TEMPORARY),
            _ => false,
        }
    }

    fn oid(&self) -> i64 {
        i64::from(match self {
            Object::Schema(schema) => schema.oid,
            Object::Table(table) => table.oid,
            Object::View(view) => view.oid,
            Object::Sequence(sequence) => sequence.oid,
            Object::Enum(ty) => ty.oid,
            Object::Domain(domain) => domain.oid,
            Object::Composite(ty) => ty.oid,
            Object::Routine(routine) => routine.oid,
            Object::Role(role) => role.oid,
            Object::Database(_) => DATABASE_OID,
            Object::DefaultAcl(acl) => acl.oid,
            Object::Trigger(trigger) => trigger.oid,
            Object::Extension(extension) => extension.oid,
        })
    }

    fn text(&self) -> String {
        // Definitions hold strings, numbers and lists only: they always have a text.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Tables that were made through the engine's interface, as tables of SQL; without these, which are others' temporary ones.
fn adopt(database: &Database, catalog: &mut Catalog, temporary: &[String]) {
    let mut named: Vec<String> =
        catalog.tables().map(|table| table.engine.definition().name().to_string()).collect();
    named.extend_from_slice(temporary);
    let mut tables = database.tables();
    tables.sort_by(|left, right| left.name().cmp(right.name()));
    for engine in tables {
        let name = engine.name().to_string();
        if named.contains(&name)
            || name.starts_with("sql.")
            || catalog.relation(super::PUBLIC, &name).is_some()
        {
            continue;
        }
        if let Some(table) = adopted(&engine, catalog) {
            catalog.put_table(Arc::new(table));
        }
    }
}

/// A table of the engine as a table of SQL; none if it has columns that SQL has no type for.
fn adopted(engine: &heddledb::Table, catalog: &mut Catalog) -> Option<Table> {
    let definition = engine.definition();
    let mut columns = Vec::new();
    for (position, column) in definition.columns().iter().enumerate() {
        let (ty, modifier) = sql_type(&column.data_type)?;
        columns.push(Column {
            name: column.name.clone(),
            ty,
            modifier,
            not_null: column.not_null,
            origin: ColumnOrigin::Nothing,
            domain: None,
            engine: position,
            comment: None,
            acl: None,
            collation: None,
            settings: Default::default(),
        });
    }
    let oid = catalog.new_oid();
    let indexes = definition.indexes().iter().map(|index| Index {
        oid: catalog.new_oid(),
        name: index.name.clone(),
        columns: index.columns.iter().map(|&column| super::IndexColumn::ascending(column)).collect(),
        unique: index.unique,
        constraint: false,
        included: Vec::new(),
        deferral: None,
        nulls_equal: false,
        primary: false,
        method: Default::default(),
    });
    let indexes: Vec<Index> = indexes.collect();
    Some(Table {
        oid,
        schema: super::PUBLIC.to_string(),
        name: definition.name().to_string(),
        columns,
        key: definition.key().to_vec(),
        key_name: Some(format!("{}_pkey", definition.name())),
        key_oid: Some(catalog.new_oid()),
        indexes,
        nominal_indexes: Vec::new(),
        options: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        persistence: Persistence::Permanent,
        comment: None,
        key_comments: Vec::new(),
        rights: Rights::default(),
        stored_query: None,
        engine: engine.fixed(),
    })
}

/// The type of SQL whose values an engine column holds.
fn sql_type(data_type: &DataType) -> Option<(Type, Modifier)> {
    let plain = |ty| Some((ty, Modifier::NONE));
    match data_type {
        DataType::Bool => plain(Type::Bool),
        DataType::Int32 => plain(Type::Int4),
        DataType::Int64 => plain(Type::Int8),
        DataType::Float64 => plain(Type::Float8),
        DataType::Decimal { precision, scale } => {
            Some((Type::Numeric, Modifier::numeric(i32::from(*precision), i32::from(*scale))))
        }
        DataType::Text => plain(Type::Text),
        DataType::Bytes => plain(Type::Bytea),
        DataType::Uuid => plain(Type::Uuid),
        DataType::Date => Some((Type::Date, Modifier::ENGINE_TIME)),
        DataType::Timestamp => Some((Type::Timestamptz, Modifier::ENGINE_TIME)),
        DataType::TopK { .. } => top_k::modifier_of(data_type).map(|modifier| (Type::TopK, modifier)),
        DataType::OrderedTuple(_) => None,
    }
}
