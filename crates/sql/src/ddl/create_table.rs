//! CREATE TABLE: columns, identity and serial columns, defaults, constraints, LIKE.
//!
//! Source: PostgreSQL 15, `parse_utilcmd.c`.

use std::sync::Arc;

use heddledb::TableDefinition;

use crate::bind::routines::is_immutable;
use crate::bind::tree::walk::walk;
use crate::bind::tree::{BoundExpr, RelationId};
use crate::bind::{Clause, NamedType};
use crate::catalog::rights::{Rights, RightsKind, SELECT};
use crate::catalog::rules::are_ruled;
use crate::catalog::store::{EngineTable, Object};
use crate::catalog::system::declared_collation;
use crate::catalog::{
    Catalog, Check, Column, ColumnOrigin, Deferral, ForeignKey, Index, IndexColumn, Persistence, Relation,
    Sequence, Table,
};
use crate::ddl::definition_text::{has_check, has_origin};
use crate::ddl::index_expressions::text_key_name;
use crate::ddl::keys::refuse_second_key;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::named_columns;
use crate::parse::syntax::{
    ColumnConstraintKind, ColumnDefinition, CreateTable, LikeClause, Name, ObjectName, PersistenceName,
    Reference, SequenceOption, TableConstraintKind, TextExpr, Timing, TypeName,
};
use crate::session::Connection;
use crate::types::{Modifier, Type};

/// The most columns of a table.
const COLUMNS_MAX: usize = 1_000;
/// How long a name may be.
const NAME_BYTES_MAX: usize = 63;

/// A table that is being defined.
pub(crate) struct TableDraft {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    pub columns: Vec<Column>,
    pub key: Vec<usize>,
    pub key_name: Option<String>,
    pub indexes: Vec<Index>,
    pub checks: Vec<Check>,
    pub foreign_keys: Vec<(Option<String>, Vec<usize>, Reference)>,
    /// Sequences of serial and identity columns.
    pub sequences: Vec<Sequence>,
    pub persistence: Persistence,
    /// Hidden columns of copied indexes, which name them by [`HIDDEN`] and their place in this list.
    hidden: Vec<Column>,
    pub rights: Rights,
}

/// The first of the positions that stand for hidden columns, until all other columns are known.
const HIDDEN: usize = 1 << 32;

impl TableDraft {
    pub fn new(oid: u32, schema: &str, name: &str, persistence: Persistence) -> TableDraft {
        TableDraft {
            oid,
            schema: schema.to_string(),
            name: name.to_string(),
            columns: Vec::new(),
            key: Vec::new(),
            key_name: None,
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            sequences: Vec::new(),
            persistence,
            hidden: Vec::new(),
            rights: Rights::default(),
        }
    }

    /// A draft that starts from a table, for ALTER TABLE.
    pub fn of(table: &Table) -> TableDraft {
        let is_plain = |index: &&Index| table.hidden_columns(index).is_empty();
        TableDraft {
            columns: table.visible().to_vec(),
            key: table.key.clone(),
            key_name: table.key_name.clone(),
            indexes: table.indexes.iter().filter(is_plain).cloned().collect(),
            checks: table.checks.clone(),
            rights: table.rights.clone(),
            ..TableDraft::new(table.oid, &table.schema, &table.name, table.persistence)
        }
    }

    pub fn position(&self, name: &Name) -> Result<usize> {
        self.columns.iter().position(|column| column.name == name.text).ok_or_else(|| {
            let message = format!("column \"{}\" named in key does not exist", name.text);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })
    }

    pub fn positions(&self, names: &[Name]) -> Result<Vec<usize>> {
        let mut positions = Vec::with_capacity(names.len());
        for name in names {
            let position = self.position(name)?;
            if positions.contains(&position) {
                let message = format!("column \"{}\" appears twice in a key constraint", name.text);
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            positions.push(position);
        }
        Ok(positions)
    }

    fn primary_key(&mut self, name: Option<&Name>, key: Vec<usize>, timing: Timing) -> Result<()> {
        refuse_second_key(&self.name, &self.key, &self.indexes)?;
        for &position in &key {
            self.columns[position].not_null = true;
        }
        if deferral(timing).is_some() {
            self.unique(name, key, false, timing);
            self.indexes.iter_mut().rev().take(1).for_each(|index| index.primary = true);
            return Ok(());
        }
        self.key_name = name.map(|name| name.text.clone());
        self.key = key;
        Ok(())
    }

    fn unique(&mut self, name: Option<&Name>, key: Vec<usize>, nulls_equal: bool, timing: Timing) {
        let columns = key.into_iter().map(IndexColumn::ascending);
        self.indexes.push(Index {
            oid: 0,
            name: name.map_or(String::new(), |name| name.text.clone()),
            columns: columns.collect(),
            unique: true,
            constraint: true,
            included: Vec::new(),
            deferral: deferral(timing),
            nulls_equal,
            primary: false,
        });
    }

    /// Whether a name is taken by one of the table's own constraints or indexes.
    fn has_name(&self, name: &str) -> bool {
        self.checks.iter().any(|check| check.name == name)
            || self.indexes.iter().any(|index| index.name == name)
            || self.key_name.as_deref() == Some(name)
    }

    pub fn check(&mut self, name: Option<&Name>, condition: &TextExpr) -> Result<()> {
        let name = match name {
            Some(name) if self.has_name(&name.text) => {
                let message = format!("check constraint \"{}\" already exists", name.text);
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
            }
            Some(name) => name.text.clone(),
            None => {
                let columns: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
                // A condition on one column has its name, wherever it stands.
                let column = match named_columns(&condition.text, &columns)[..] {
                    [column] => columns[column],
                    _ => "",
                };
                free_name(&self.name, column, "check", |name| self.has_name(name))
            }
        };
        self.checks.push(Check { name, condition: condition.text.clone(), comment: None });
        Ok(())
    }

    /// Names the key and the indexes that have no names yet, and gives oids.
    pub fn settle_names(&mut self, catalog: &mut Catalog) {
        let schema = self.schema.clone();
        if !self.key.is_empty() && self.key_name.is_none() {
            let taken = |name: &str| catalog.relation(&schema, name).is_some();
            self.key_name = Some(free_name(&self.name, "", "pkey", taken));
        }
        for position in 0..self.indexes.len() {
            if self.indexes[position].oid == 0 {
                self.indexes[position].oid = catalog.new_oid();
            }
            if self.indexes[position].name.is_empty() {
                let index = &self.indexes[position];
                let columns = index.columns.iter().filter_map(|column| {
                    let column = &self.columns[column.column];
                    match &column.origin {
                        ColumnOrigin::IndexPredicate(_) => None,
                        ColumnOrigin::IndexKey(text) => Some(text_key_name(text)),
                        _ => Some(column.name.clone()),
                    }
                });
                let columns = columns.collect::<Vec<_>>().join("_");
                let (columns, label) = match (index.primary, index.constraint) {
                    (true, _) => ("", "pkey"),
                    (false, true) => (columns.as_str(), "key"),
                    (false, false) => (columns.as_str(), "idx"),
                };
                let taken = |name: &str| catalog.relation(&schema, name).is_some() || self.has_name(name);
                self.indexes[position].name = free_name(&self.name, columns, label, taken);
            }
        }
    }

    /// Where columns lie in the engine: behind the hidden key, if there is one. Hidden columns come last.
    fn settle_columns(&mut self) {
        let visible = self.columns.len();
        for (number, column) in std::mem::take(&mut self.hidden).into_iter().enumerate() {
            self.columns.push(Column { name: hidden_name(self.oid, number), ..column });
        }
        for column in self.indexes.iter_mut().flat_map(|index| &mut index.columns) {
            if column.column >= HIDDEN {
                column.column = column.column - HIDDEN + visible;
            }
        }
        let first = usize::from(self.key.is_empty());
        for (position, column) in self.columns.iter_mut().enumerate() {
            column.engine = first + position;
        }
    }

    /// The engine's definition.
    pub fn engine(&self, engine_name: &str, foreign_keys: &[ForeignKey]) -> Result<TableDefinition> {
        for &position in &self.key {
            check_key_column(&self.columns[position], "primary key")?;
        }
        for index in self.indexes.iter().filter(|index| index.unique) {
            for column in &index.columns {
                check_key_column(&self.columns[column.column], "unique index")?;
            }
        }
        let table = EngineTable {
            name: engine_name,
            columns: &self.columns,
            key: &self.key,
            indexes: &self.indexes,
            is_ruled: are_ruled(&self.columns, &self.indexes, &self.checks, foreign_keys),
        };
        Ok(table.definition())
    }

    /// The table, once the engine has it.
    pub fn finish(
        self,
        engine: heddledb::Table,
        foreign_keys: Vec<ForeignKey>,
        catalog: &mut Catalog,
    ) -> Table {
        let key_oid = (!self.key.is_empty()).then(|| catalog.new_oid());
        Table {
            oid: self.oid,
            schema: self.schema,
            name: self.name,
            columns: self.columns,
            key: self.key,
            key_name: self.key_name,
            key_oid,
            indexes: self.indexes,
            checks: self.checks,
            foreign_keys,
            persistence: self.persistence,
            comment: None,
            key_comments: Vec::new(),
            rights: self.rights,
            stored_query: None,
            engine: engine.fixed(),
        }
    }
}

/// When a unique constraint is checked; none: at each write.
pub(crate) fn deferral(timing: Timing) -> Option<Deferral> {
    match timing {
        Timing { initially_deferred: true, .. } => Some(Deferral::InitiallyDeferred),
        Timing { deferrable: true, .. } => Some(Deferral::InitiallyImmediate),
        _ => None,
    }
}

/// The name of a hidden column: `owner` is the oid of its index, or of a table that was made with it.
pub(crate) fn hidden_name(owner: u32, number: usize) -> String {
    format!("#index.{owner}.{number}")
}

/// # Errors
/// 42704: values of a type have no order.
pub(super) fn check_order(ty: Type) -> Result<()> {
    if ty == Type::Json { Err(no_operator_class(ty)) } else { Ok(()) }
}

fn no_operator_class(ty: Type) -> SqlError {
    let ty = ty.display_name();
    let message = format!("data type {ty} has no default operator class for access method \"btree\"");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

/// Keys need types whose stored form compares as the values do.
pub(crate) fn check_key_column(column: &Column, what: &str) -> Result<()> {
    if crate::storage::keeps_order(column.ty, column.modifier) {
        return Ok(());
    }
    check_order(column.ty)?;
    let of = match column.indexed() {
        Some(text) => format!("the expression {text}"),
        None => format!("column \"{}\"", column.name),
    };
    let message = format!("a {what} on {of} of type {} is not supported", column.ty.display_name());
    let hint = match column.ty {
        Type::Numeric => "Declare the column as numeric(p, s) with a precision of at most 38.",
        _ => "Use a column of another type.",
    };
    Err(SqlError::unsupported(message).with_hint(hint))
}

/// The first free name of `first_second_label`, `first_second_label1`, …; without a `second`, of `first_label`, ….
///
/// The label stays whole within 63 bytes, and the longer of the other two parts is cut, as in PostgreSQL: sequences, keys
/// and indexes of a table with a long name have different names.
pub(crate) fn free_name(first: &str, second: &str, label: &str, taken: impl Fn(&str) -> bool) -> String {
    let name = |number: &str| {
        let separators = if second.is_empty() { 1 } else { 2 };
        let bytes_max = NAME_BYTES_MAX.saturating_sub(label.len() + number.len() + separators);
        let (first, second) = cut_longer(first, second, bytes_max);
        let second = if second.is_empty() { String::new() } else { format!("_{second}") };
        format!("{first}{second}_{label}{number}")
    };
    let plain = name("");
    if !taken(&plain) {
        return plain;
    }
    (1..).map(|number: u32| name(&number.to_string())).find(|name| !taken(name)).unwrap_or(plain)
}

/// Both texts, of which the longer one is cut until they have at most `bytes_max` bytes together.
fn cut_longer<'t>(first: &'t str, second: &'t str, bytes_max: usize) -> (&'t str, &'t str) {
    let (mut first_end, mut second_end) = (first.len(), second.len());
    while first_end + second_end > bytes_max {
        let longer = if first_end > second_end { &mut first_end } else { &mut second_end };
        *longer -= 1;
    }
    (&first[..first.floor_char_boundary(first_end)], &second[..second.floor_char_boundary(second_end)])
}

impl Connection {
    pub(crate) fn create_table(&mut self, create: &CreateTable, text: &str) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let temporary = create.persistence == PersistenceName::Temporary;
        let schema = self.schema_for(&create.name, temporary)?;
        let persistence = self.persistence(create.persistence, &schema, create.on_commit)?;
        if !self.is_free(&schema, create.name.last(), create.if_not_exists)? {
            return Ok("CREATE TABLE");
        }
        let mut draft = TableDraft::new(catalog.new_oid(), &schema, create.name.last(), persistence);
        draft.rights = self.new_rights(RightsKind::Table, &schema);
        self.draft_columns(create, &mut draft, &mut catalog, text)?;
        self.draft_constraints(create, &mut draft)?;
        draft.settle_columns();
        self.check_draft(&mut draft, text)?;
        draft.settle_names(&mut catalog);
        self.make_table(draft, catalog)?;
        Ok("CREATE TABLE")
    }

    /// Stores, makes and publishes a table and its sequences.
    pub(crate) fn make_table(&mut self, mut draft: TableDraft, mut catalog: Catalog) -> Result<Arc<Table>> {
        let shared = self.shared().clone();
        let references = std::mem::take(&mut draft.foreign_keys);
        let mut objects: Vec<Object> = draft.sequences.iter().cloned().map(Object::Sequence).collect();
        for sequence in std::mem::take(&mut draft.sequences) {
            shared.sequences.forget(&shared.database, sequence.oid)?;
            let (schema, name) = (sequence.schema.clone(), sequence.name.clone());
            catalog.put_relation(&schema, &name, Relation::Sequence(Arc::new(sequence)));
        }
        let foreign_keys = self.resolve_references(&draft, &references, &catalog)?;
        let engine_name = self.engine_name(&draft.schema, &draft.name);
        let definition = draft.engine(&engine_name, &foreign_keys)?;
        let engine = self.session_mut().create_table(definition)?;
        let table = Arc::new(draft.finish(engine, foreign_keys, &mut catalog));
        objects.push(Object::table(&table));
        catalog.put_table(table.clone());
        self.publish(&objects, catalog)?;
        Ok(table)
    }

    /// The name of a table in the engine: its own in the schema `public`, so that the engine's interface finds it.
    pub(crate) fn engine_name(&mut self, schema: &str, name: &str) -> String {
        let is_public = schema == crate::catalog::PUBLIC;
        let base = if is_public { name.to_string() } else { format!("{schema}.{name}") };
        let session = self.session_mut();
        free_name_long(&base, |name| session.table(name).is_ok())
    }

    fn draft_columns(
        &mut self,
        create: &CreateTable,
        draft: &mut TableDraft,
        catalog: &mut Catalog,
        text: &str,
    ) -> Result<()> {
        let mut likes = create.likes.iter().peekable();
        for (position, definition) in create.columns.iter().enumerate() {
            while let Some(like) = likes.next_if(|like| like.position <= position) {
                self.draft_like(like, draft, catalog)?;
            }
            self.draft_column(definition, draft, catalog, text)?;
        }
        for like in likes {
            self.draft_like(like, draft, catalog)?;
        }
        if draft.columns.len() > COLUMNS_MAX {
            let message = format!("tables can have at most {COLUMNS_MAX} columns");
            return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
        }
        Ok(())
    }

    /// A column with its constraints.
    pub(crate) fn draft_column(
        &mut self,
        definition: &ColumnDefinition,
        draft: &mut TableDraft,
        catalog: &mut Catalog,
        text: &str,
    ) -> Result<()> {
        let name = &definition.name.text;
        if draft.columns.iter().any(|column| column.name == *name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        let serial = serial_type(&definition.ty);
        let named = match serial {
            Some(ty) => NamedType { ty, modifier: Modifier::NONE, domain: None },
            None => self.with_binder(text, |binder| binder.named_type(&definition.ty))?,
        };
        if named.ty.category() == crate::types::Category::Pseudo {
            let message = format!("column \"{name}\" has pseudo-type {}", named.ty.display_name());
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        self.check_type_usage(&named)?;
        let collation = self.column_collation(definition.collation.as_ref(), named.ty, text)?;
        let domain = named.domain.as_ref();
        draft.columns.push(Column {
            name: name.clone(),
            ty: named.ty,
            modifier: named.modifier,
            not_null: domain.is_some_and(|domain| domain.not_null),
            origin: ColumnOrigin::Nothing,
            domain: domain.map(|domain| domain.oid),
            engine: 0,
            comment: None,
            acl: None,
            collation,
        });
        let position = draft.columns.len() - 1;
        if let Some(ty) = serial {
            let sequence = self.owned_sequence(draft, position, ty, &[], catalog)?;
            draft.columns[position].not_null = true;
            let default = format!("nextval({}::oid::regclass)", sequence.oid);
            draft.columns[position].origin = ColumnOrigin::Default(default);
            draft.sequences.push(sequence);
        }
        self.draft_column_constraints(definition, position, draft, catalog)
    }

    /// The oid of the collation that a column is declared with, unless it is the default.
    pub(super) fn column_collation(
        &mut self,
        collation: Option<&ObjectName>,
        ty: Type,
        text: &str,
    ) -> Result<Option<u32>> {
        let Some(collation) = collation else { return Ok(None) };
        self.with_binder(text, |binder| binder.check_collation(collation, ty))?;
        Ok(declared_collation(collation.last()))
    }

    fn draft_column_constraints(
        &mut self,
        definition: &ColumnDefinition,
        position: usize,
        draft: &mut TableDraft,
        catalog: &mut Catalog,
    ) -> Result<()> {
        let column_name = definition.name.text.clone();
        let mut null = None;
        for constraint in &definition.constraints {
            let twice = || {
                let message = format!(
                    "multiple default values specified for column \"{column_name}\" of table \"{}\"",
                    definition.name.text
                );
                Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
            };
            let has_origin = draft.columns[position].origin != ColumnOrigin::Nothing;
            match &constraint.kind {
                ColumnConstraintKind::Null | ColumnConstraintKind::NotNull => {
                    let not_null = constraint.kind == ColumnConstraintKind::NotNull;
                    if null.is_some_and(|known| known != not_null) {
                        let message = format!(
                            "conflicting NULL/NOT NULL declarations for column \"{column_name}\" of table \"{}\"",
                            draft.name
                        );
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                    null = Some(not_null);
                    draft.columns[position].not_null |= not_null;
                }
                ColumnConstraintKind::Default(_)
                | ColumnConstraintKind::Generated(_)
                | ColumnConstraintKind::Identity { .. }
                    if has_origin =>
                {
                    return twice();
                }
                ColumnConstraintKind::Default(default) => {
                    draft.columns[position].origin =
                        ColumnOrigin::Default(self.stored_default(&default.text));
                }
                ColumnConstraintKind::Generated(expr) => {
                    draft.columns[position].origin = ColumnOrigin::Generated(expr.text.clone());
                }
                ColumnConstraintKind::Identity { always, options } => {
                    self.draft_identity(*always, options, position, draft, catalog)?;
                }
                ColumnConstraintKind::Check(condition) => {
                    draft.check(constraint.name.as_ref(), condition)?;
                }
                ColumnConstraintKind::Unique { nulls_equal, timing } => {
                    draft.unique(constraint.name.as_ref(), vec![position], *nulls_equal, *timing);
                }
                ColumnConstraintKind::PrimaryKey(timing) => {
                    draft.primary_key(constraint.name.as_ref(), vec![position], *timing)?
                }
                ColumnConstraintKind::References(reference) => {
                    let name = constraint.name.as_ref().map(|name| name.text.clone());
                    draft.foreign_keys.push((name, vec![position], reference.clone()));
                }
            }
        }
        Ok(())
    }

    fn draft_identity(
        &mut self,
        always: bool,
        options: &[SequenceOption],
        position: usize,
        draft: &mut TableDraft,
        catalog: &mut Catalog,
    ) -> Result<()> {
        let ty = draft.columns[position].ty;
        if !matches!(ty, Type::Int2 | Type::Int4 | Type::Int8) {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let sequence = self.owned_sequence(draft, position, ty, options, catalog)?;
        draft.columns[position].not_null = true;
        draft.columns[position].origin = ColumnOrigin::Identity { always, sequence: sequence.oid };
        draft.sequences.push(sequence);
        Ok(())
    }

    /// The sequence of a serial or identity column.
    fn owned_sequence(
        &mut self,
        draft: &TableDraft,
        position: usize,
        ty: Type,
        options: &[SequenceOption],
        catalog: &mut Catalog,
    ) -> Result<Sequence> {
        let column = &draft.columns[position].name;
        let taken = |name: &str| {
            catalog.relation(&draft.schema, name).is_some()
                || draft.sequences.iter().any(|sequence| sequence.name == name)
        };
        let new_name = || free_name(&draft.name, column, "seq", taken);
        let name = self.identity_sequence_name(&draft.schema, options, new_name)?;
        let oid = catalog.new_oid();
        let mut sequence = crate::ddl::objects::new_sequence(oid, &draft.schema, &name, Some(ty), options)?;
        sequence.owner = Some((draft.oid, position));
        sequence.rights = self.new_rights(RightsKind::Sequence, &draft.schema);
        sequence.rights.change_owner(draft.rights.owner);
        Ok(sequence)
    }

    fn draft_like(&mut self, like: &LikeClause, draft: &mut TableDraft, catalog: &mut Catalog) -> Result<()> {
        let Relation::Table(source) = self.find_relation(&like.table)? else {
            let message = format!("\"{}\" is not a table", like.table);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        self.check_relation(&Relation::Table(source.clone()), SELECT)?;
        let includes =
            |what: &str| like.including.iter().any(|included| included == what || included == "all");
        let first = draft.columns.len();
        for column in source.visible() {
            let origin = match &column.origin {
                ColumnOrigin::Default(text) if includes("defaults") => ColumnOrigin::Default(text.clone()),
                ColumnOrigin::Generated(text) if includes("generated") => {
                    ColumnOrigin::Generated(text.clone())
                }
                _ => ColumnOrigin::Nothing,
            };
            let comment = column.comment.clone().filter(|_| includes("comments"));
            draft.columns.push(Column { origin, comment, ..column.clone() });
            if let ColumnOrigin::Identity { always, .. } = column.origin
                && includes("identity")
            {
                let position = draft.columns.len() - 1;
                let sequence = self.owned_sequence(draft, position, column.ty, &[], catalog)?;
                draft.columns[position].origin = ColumnOrigin::Identity { always, sequence: sequence.oid };
                draft.sequences.push(sequence);
            }
        }
        if includes("constraints") {
            draft.checks.extend(source.checks.iter().cloned());
        }
        if includes("indexes") {
            if !source.key.is_empty() {
                let key = source.key.iter().map(|column| column + first).collect();
                draft.primary_key(None, key, Timing::default())?;
            }
            for index in &source.indexes {
                if index.primary {
                    refuse_second_key(&draft.name, &draft.key, &draft.indexes)?;
                    index.columns.iter().for_each(|key| draft.columns[key.column + first].not_null = true);
                }
                let hidden = source.hidden_columns(index);
                let columns = index.columns.iter().map(|it| {
                    let place = hidden.iter().position(|&column| column == it.column);
                    let column = place.map_or(it.column + first, |place| HIDDEN + draft.hidden.len() + place);
                    IndexColumn { column, ..it.clone() }
                });
                let columns = columns.collect();
                draft.hidden.extend(hidden.iter().map(|&column| source.columns[column].clone()));
                draft.indexes.push(Index { oid: 0, name: String::new(), columns, ..index.clone() });
            }
        }
        Ok(())
    }

    fn draft_constraints(&mut self, create: &CreateTable, draft: &mut TableDraft) -> Result<()> {
        for constraint in &create.constraints {
            let name = constraint.name.as_ref();
            match &constraint.kind {
                TableConstraintKind::Check(condition) => draft.check(name, condition)?,
                TableConstraintKind::Unique { columns, nulls_equal, timing, .. } => {
                    let columns = draft.positions(columns)?;
                    draft.unique(name, columns, *nulls_equal, *timing);
                }
                TableConstraintKind::PrimaryKey { columns, timing, .. } => {
                    let columns = draft.positions(columns)?;
                    draft.primary_key(name, columns, *timing)?;
                }
                TableConstraintKind::ForeignKey { columns, reference } => {
                    let columns = draft.positions(columns)?;
                    draft.foreign_keys.push((name.map(|name| name.text.clone()), columns, reference.clone()));
                }
                TableConstraintKind::UsingIndex { .. } => {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "USING INDEX is for ALTER TABLE only"));
                }
            }
        }
        Ok(())
    }

    /// Binds the defaults, generated columns and checks that a draft adds, to find what is wrong with them now; and what the
    /// table had, if a column gets another type, as it was stored.
    pub(crate) fn check_draft(&mut self, draft: &mut TableDraft, text: &str) -> Result<()> {
        let columns: Vec<Column> = draft.columns.clone();
        let probe = self.probe(draft);
        let known = self.current_catalog().table_by_oid(draft.oid).cloned();
        let known = known.as_deref();
        let is_retyped = known.is_some_and(|known| {
            known.columns.iter().zip(&columns).any(|(old, new)| (old.ty, old.domain) != (new.ty, new.domain))
        });
        self.with_binder(text, |binder| {
            let target = binder.new_relation();
            for column in &columns {
                binder.defines = !has_origin(known, column);
                if !binder.defines && !is_retyped {
                    continue;
                }
                match &column.origin {
                    ColumnOrigin::Default(_) => {
                        let value = binder.default_value(column)?;
                        if binder.defines {
                            refuse_subquery(&value, "DEFAULT expression")?;
                        }
                    }
                    ColumnOrigin::Generated(expr) => {
                        let value = binder.row_expression(&probe, target, expr, Clause::Generated)?;
                        let value = binder.assigned(value, column.ty, column.modifier, &column.name, 0)?;
                        if binder.defines {
                            check_generated(binder.context.catalog, &value, target, &columns)?;
                        }
                    }
                    _ => {}
                }
            }
            for check in &probe.checks {
                binder.defines = !has_check(known, check);
                if !binder.defines && !is_retyped {
                    continue;
                }
                let condition = binder.check_condition(&probe, target, &check.condition)?;
                if binder.defines {
                    refuse_subquery(&condition, "check constraint")?;
                }
            }
            Ok(())
        })?;
        self.qualify_draft(draft, &probe)
    }

    /// The draft as a table that the binder can look at; its rows are nowhere.
    fn probe(&self, draft: &TableDraft) -> Arc<Table> {
        Arc::new(Table {
            oid: draft.oid,
            schema: draft.schema.clone(),
            name: draft.name.clone(),
            columns: draft.columns.clone(),
            key: draft.key.clone(),
            key_name: None,
            key_oid: None,
            indexes: Vec::new(),
            checks: draft.checks.clone(),
            foreign_keys: Vec::new(),
            persistence: draft.persistence,
            comment: None,
            key_comments: Vec::new(),
            rights: draft.rights.clone(),
            stored_query: None,
            engine: self.shared().store.any_table(),
        })
    }
}

/// A generated column is an immutable expression over columns that are not generated.
fn check_generated(
    catalog: &Catalog,
    value: &BoundExpr,
    target: RelationId,
    columns: &[Column],
) -> Result<()> {
    let mut wrong = None;
    walk(value, &mut |part| match part {
        BoundExpr::Column { relation, column, .. }
            if *relation == target && matches!(columns[*column].origin, ColumnOrigin::Generated(_)) =>
        {
            let message = format!(
                "cannot use generated column \"{}\" in column generation expression",
                columns[*column].name
            );
            wrong = Some(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        part if !is_immutable(catalog, part) => {
            wrong = Some(SqlError::new(
                SqlState::INVALID_OBJECT_DEFINITION,
                "generation expression is not immutable",
            ));
        }
        BoundExpr::Subquery(_) => {
            wrong = Some(SqlError::unsupported("cannot use subquery in column generation expression"));
        }
        _ => {}
    });
    wrong.map_or(Ok(()), Err)
}

/// # Errors
/// 0A000: the expression of a definition holds a subquery.
pub(super) fn refuse_subquery(expr: &BoundExpr, what: &str) -> Result<()> {
    let mut is_found = false;
    walk(expr, &mut |part| is_found |= matches!(part, BoundExpr::Subquery(_)));
    if is_found { Err(SqlError::unsupported(format!("cannot use subquery in {what}"))) } else { Ok(()) }
}

/// `serial` and its kin.
fn serial_type(name: &TypeName) -> Option<Type> {
    if name.dimensions > 0 || name.name.schema().is_some() {
        return None;
    }
    match name.name.last() {
        "serial" | "serial4" => Some(Type::Int4),
        "bigserial" | "serial8" => Some(Type::Int8),
        "smallserial" | "serial2" => Some(Type::Int2),
        _ => None,
    }
}

fn free_name_long(base: &str, taken: impl Fn(&str) -> bool) -> String {
    if !taken(base) {
        return base.to_string();
    }
    (1..).map(|number: u32| format!("{base}#{number}")).find(|name| !taken(name)).unwrap_or_default()
}
