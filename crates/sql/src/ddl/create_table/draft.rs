//! A table while it is being defined: its columns and constraints before they have their names and positions.

use heddledb::TableDefinition;

use super::key_types::check_key_column;
use super::names::{free_name, hidden_name};
use crate::catalog::rights::Rights;
use crate::catalog::rules::are_ruled;
use crate::catalog::store::EngineTable;
use crate::catalog::{
    Catalog, Check, Column, ColumnOrigin, Deferral, ForeignKey, Index, IndexColumn, Persistence, Sequence,
    Table,
};
use crate::ddl::index_expressions::text_key_name;
use crate::ddl::keys::refuse_second_key;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::named_columns;
use crate::parse::syntax::{Name, Reference, TextExpr, Timing};

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
    pub(super) hidden: Vec<Column>,
    pub rights: Rights,
}

/// The first of the positions of hidden columns, until all other columns are known.
pub(super) const HIDDEN: usize = 1 << 32;

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

    /// The columns of a foreign key, of which one may be paired with several of the key that it refers to.
    pub fn referencing(&self, names: &[Name]) -> Result<Vec<usize>> {
        names.iter().map(|name| self.position(name)).collect()
    }

    /// The columns of a key.
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

    pub(super) fn primary_key(&mut self, name: Option<&Name>, key: Vec<usize>, timing: Timing) -> Result<()> {
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

    pub(super) fn unique(&mut self, name: Option<&Name>, key: Vec<usize>, nulls_equal: bool, timing: Timing) {
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
            method: Default::default(),
        });
    }

    /// Returns true if a name is taken by one of the table's own constraints or indexes.
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

    /// Sets the positions of columns in the engine: behind the hidden key, if there is one. Hidden columns are last.
    pub(super) fn settle_columns(&mut self) {
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
            nominal_indexes: Vec::new(),
            options: Vec::new(),
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

/// The time at which a unique constraint is checked; `None` for each write.
pub(crate) fn deferral(timing: Timing) -> Option<Deferral> {
    match timing {
        Timing { initially_deferred: true, .. } => Some(Deferral::InitiallyDeferred),
        Timing { deferrable: true, .. } => Some(Deferral::InitiallyImmediate),
        _ => None,
    }
}
