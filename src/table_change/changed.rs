//! Changes of a table: the steps of a change applied to its definition, and to its rows.

use std::sync::Arc;

use super::{Convert, NextNumber, Step};
use crate::error::{Error, Result};
use crate::storage::definition::{
    ColumnDefinition, ForeignKey, Identity, IdentitySequence, PrimaryIndex, TableDefinition,
};
use crate::types::{DataType, Value, assignment};

/// The source of a column's value when a row is copied.
pub(super) enum Source {
    /// The old row's column at this position.
    Old(usize),
    /// The old row's column at this position, converted.
    Converted(usize, Option<Convert>),
    /// One value for every row.
    New(Value),
    /// A number for each row.
    Number(NextNumber),
}

fn added_column(name: String, data_type: DataType, default: Value) -> ColumnDefinition {
    ColumnDefinition {
        name,
        data_type,
        not_null: false,
        default,
        references: None,
        domain: None,
        identity: None,
    }
}

/// A constraint of a definition, by position.
enum Constraint {
    Check(usize),
    ForeignKey(usize),
}

pub(super) fn rename(columns: &mut [String], name: &str, new_name: &str) {
    columns.iter_mut().filter(|column| *column == name).for_each(|column| new_name.clone_into(column));
}

/// A changed definition.
pub(crate) struct Changed {
    pub(crate) definition: TableDefinition,
    pub(super) sources: Vec<Source>,
    /// Columns that have other names, in order: the old and the new one.
    pub(super) renamed: Vec<(String, String)>,
}

impl Changed {
    pub(super) fn step(&mut self, step: Step) -> Result<()> {
        match step {
            Step::RenameTable(name) => self.rename_table(name),
            Step::AddColumn(name, data_type, default) => self.add_column(name, data_type, default),
            Step::DropColumn(name) => self.drop_column(&name)?,
            Step::RenameColumn(name, new_name) => self.rename_column(&name, new_name)?,
            Step::SetDefault(name, value) => self.column(&name)?.default = value,
            Step::SetNotNull(name, not_null) => self.set_not_null(&name, not_null)?,
            Step::SetType(name, data_type, convert) => self.set_type(&name, data_type, convert)?,
            Step::ReplaceColumn(name, by) => self.replace_column(&name, &by)?,
            Step::PrimaryKey(columns) => self.set_key(&columns)?,
            Step::NumberedKey(name, number) => self.number_rows(name, number),
            Step::AddIndex(name, columns, unique) => {
                let columns = columns.iter().map(String::as_str);
                let definition = std::mem::replace(&mut self.definition, TableDefinition::new(""));
                self.definition = if unique {
                    definition.unique_index(name, columns)
                } else {
                    definition.index(name, columns)
                };
            }
            Step::AddCheck(name, condition) => {
                let definition = std::mem::replace(&mut self.definition, TableDefinition::new(""));
                self.definition = definition.check(name, &condition);
            }
            Step::AddForeignKey(foreign_key) => self.definition.foreign_keys.push(foreign_key),
            Step::DropConstraint(name) => match self.constraint(&name)? {
                Constraint::Check(position) => drop(self.definition.checks.remove(position)),
                Constraint::ForeignKey(position) => drop(self.definition.foreign_keys.remove(position)),
            },
            Step::RenameConstraint(name, new_name) => match self.constraint(&name)? {
                Constraint::Check(position) => self.definition.checks[position].name = new_name,
                Constraint::ForeignKey(position) => self.definition.foreign_keys[position].name = new_name,
            },
            Step::SetEvaluator(name) => self.definition.evaluator = name,
            Step::SetIdentity(name, identity) => self.set_identity(&name, identity)?,
            Step::DropIndex(name) => {
                let position = self.index(&name)?;
                self.definition.indexes.remove(position);
            }
            Step::RenameIndex(name, new_name) => {
                let position = self.index(&name)?;
                self.definition.indexes[position].name = new_name;
            }
        }
        Ok(())
    }

    fn column(&mut self, name: &str) -> Result<&mut ColumnDefinition> {
        let position = self.definition.position(name)?;
        Ok(&mut self.definition.columns[position])
    }

    fn constraint(&self, name: &str) -> Result<Constraint> {
        let checks = self.definition.checks.iter().map(|check| check.name.as_str());
        let foreign_keys = self.definition.foreign_keys.iter().map(|key| key.name.as_str());
        if let Some(position) = checks.clone().position(|check| check == name) {
            return Ok(Constraint::Check(position));
        }
        let found = foreign_keys.clone().position(|key| key == name).map(Constraint::ForeignKey);
        found.ok_or_else(|| Error::UnknownConstraint {
            table: self.definition.name.clone(),
            constraint: name.to_string(),
            known: checks.chain(foreign_keys).collect::<Vec<_>>().join(", "),
        })
    }

    fn rename_table(&mut self, new_name: String) {
        let name = std::mem::replace(&mut self.definition.name, new_name.clone());
        let own = self.definition.foreign_keys.iter_mut().filter(|key| key.table == name);
        own.for_each(|key| key.table.clone_from(&new_name));
    }

    /// Updates the names by which a foreign key of another table refers to this table and its columns.
    pub(crate) fn follow(&self, key: &mut ForeignKey) {
        key.table.clone_from(&self.definition.name);
        for (name, new_name) in &self.renamed {
            rename(&mut key.referenced, name, new_name);
        }
    }

    /// Returns true if rows have the values in this column that they had before, in some column.
    pub(crate) fn keeps_values(&self, column: usize) -> bool {
        matches!(self.sources[column], Source::Old(_))
    }

    /// The names of the foreign keys in whose columns rows may have other values than before.
    ///
    /// # Errors
    /// Cannot fail: the definition has been validated.
    pub(crate) fn converted_foreign_keys(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for key in &self.definition.foreign_keys {
            let columns = self.definition.referring_columns(key)?;
            if !columns.iter().all(|&column| self.keeps_values(column)) {
                names.push(key.name.clone());
            }
        }
        Ok(names)
    }

    fn rename_column(&mut self, name: &str, new_name: String) -> Result<()> {
        for key in &mut self.definition.foreign_keys {
            rename(&mut key.columns, name, &new_name);
            if key.table == self.definition.name {
                rename(&mut key.referenced, name, &new_name);
            }
        }
        self.renamed.push((name.to_string(), new_name.clone()));
        for check in &mut self.definition.checks {
            check.condition = check.condition.renamed(name, &new_name);
        }
        self.column(name)?.name = new_name;
        Ok(())
    }

    fn index(&self, name: &str) -> Result<usize> {
        let indexes = &self.definition.indexes;
        indexes.iter().position(|index| index.name == name).ok_or_else(|| Error::UnknownIndex {
            table: self.definition.name.clone(),
            index: name.to_string(),
            known: indexes.iter().map(|index| index.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    fn wrong<T>(&self, detail: String) -> Result<T> {
        Err(Error::InvalidDefinition { table: self.definition.name.clone(), detail })
    }

    fn add_column(&mut self, name: String, data_type: DataType, default: Value) {
        self.sources.push(Source::New(default.clone()));
        self.definition.columns.push(added_column(name, data_type, default));
    }

    fn drop_column(&mut self, name: &str) -> Result<()> {
        let position = self.definition.position(name)?;
        if self.definition.key.contains(&position) {
            return self.wrong(format!("column {name:?} is in its primary key; change the key first"));
        }
        let definition = &mut self.definition;
        definition.columns.remove(position);
        self.sources.remove(position);
        self.forget_sequence();
        let definition = &mut self.definition;
        definition.indexes.retain(|index| !index.columns.contains(&position));
        definition.checks.retain(|check| !check.condition.names(name));
        definition.foreign_keys.retain(|key| !key.columns.iter().any(|column| column == name));
        let key = definition.key.iter_mut().chain(&mut definition.routing);
        let indexed = definition.indexes.iter_mut().flat_map(|index| &mut index.columns);
        key.chain(indexed).filter(|at| **at > position).for_each(|at| *at -= 1);
        Ok(())
    }

    fn set_identity(&mut self, name: &str, identity: Option<Identity>) -> Result<()> {
        let column = self.column(name)?;
        column.identity = identity;
        column.not_null |= identity.is_some();
        self.forget_sequence();
        Ok(())
    }

    /// Without an identity column there is no sequence of one.
    fn forget_sequence(&mut self) {
        if self.definition.identity_position().is_none() {
            self.definition.identity_sequence = IdentitySequence::default();
        }
    }

    fn set_not_null(&mut self, name: &str, not_null: bool) -> Result<()> {
        let position = self.definition.position(name)?;
        if !not_null && self.definition.key.contains(&position) {
            return self.wrong(format!("column {name:?} is in its primary key, which holds no NULL"));
        }
        self.definition.columns[position].not_null = not_null;
        Ok(())
    }

    fn set_type(&mut self, name: &str, data_type: DataType, convert: Option<Convert>) -> Result<()> {
        let position = self.definition.position(name)?;
        self.definition.columns[position].data_type = data_type;
        if let Source::Old(from) = self.sources[position] {
            self.sources[position] = Source::Converted(from, convert);
        }
        Ok(())
    }

    fn replace_column(&mut self, name: &str, by: &str) -> Result<()> {
        let (position, source) = (self.definition.position(name)?, self.definition.position(by)?);
        if position == source {
            return self.wrong(format!("column {name:?} cannot replace itself"));
        }
        self.definition.columns[position].data_type = self.definition.columns[source].data_type.clone();
        self.sources.swap(position, source);
        // Its values are others than before, which foreign keys have to be checked for.
        if let Source::Old(from) = self.sources[position] {
            self.sources[position] = Source::Converted(from, Some(Arc::new(Ok)));
        }
        self.drop_column(by)
    }

    fn set_key(&mut self, columns: &[String]) -> Result<()> {
        let positions =
            columns.iter().map(|name| self.definition.position(name)).collect::<Result<Vec<_>>>()?;
        for &position in &positions {
            self.definition.columns[position].not_null = true;
        }
        self.definition.routing.retain(|column| positions.contains(column));
        self.definition.key = positions;
        Ok(())
    }

    fn number_rows(&mut self, name: String, number: NextNumber) {
        self.sources.insert(0, Source::Number(number));
        let definition = &mut self.definition;
        let column = ColumnDefinition { not_null: true, ..added_column(name, DataType::Int64, Value::Null) };
        definition.columns.insert(0, column);
        definition.indexes.iter_mut().flat_map(|index| &mut index.columns).for_each(|at| *at += 1);
        (definition.key, definition.routing) = (vec![0], Vec::new());
        definition.primary_index = PrimaryIndex::Ordered;
    }

    /// Notes what the rows have in the columns that are added, in the form in which these hold it.
    pub(super) fn note_added(&mut self) -> Result<()> {
        for (source, column) in self.sources.iter().zip(&self.definition.columns) {
            if let Source::New(value) = source {
                let what = format!("{}.{}", self.definition.name, column.name);
                let value = assignment::coerce(value.into(), &column.data_type, false, &what)?;
                self.definition.added.push(value.to_value());
            }
        }
        Ok(())
    }

    /// The values of rows that are there in the columns that are added.
    pub(crate) fn past_values(&self) -> &[Value] {
        let added = self.sources.iter().filter(|source| matches!(source, Source::New(_))).count();
        let values = self.definition.added.values();
        &values[values.len() - added..]
    }

    /// Returns true if the table's records can stay as they are: the key and the kind of index are the same, and so are
    /// the columns, except for some that are added behind them. An added column that is to have values of a sequence,
    /// or to refer to rows by a value that all rows have, needs a copy.
    pub(crate) fn keeps_records(&self, old: &TableDefinition) -> bool {
        let (new, columns) = (&self.definition, old.columns.len());
        let keeps = |(at, source): (usize, &Source)| match source {
            Source::Old(from) => *from == at,
            Source::New(_) => at >= columns && new.columns[at].identity.is_none() && !self.refers_at_once(at),
            Source::Converted(..) | Source::Number(_) => false,
        };
        self.sources.len() >= columns
            && self.sources[..columns].iter().all(|source| matches!(source, Source::Old(_)))
            && self.sources.iter().enumerate().all(keeps)
            && (columns == self.sources.len() || new.can_extend_from(columns))
            && (&new.key, &new.routing, new.primary_index) == (&old.key, &old.routing, old.primary_index)
    }

    /// Returns true if a foreign key has this column, an added one that is not NULL in rows that are there.
    fn refers_at_once(&self, column: usize) -> bool {
        let Source::New(value) = &self.sources[column] else { return false };
        let name = &self.definition.columns[column].name;
        !value.is_null() && self.definition.foreign_keys.iter().any(|key| key.columns.contains(name))
    }

    /// The new row of an old one.
    ///
    /// # Errors
    /// A value does not fit its column's new type.
    pub(crate) fn row(&self, old: Vec<Value>) -> Result<Vec<Value>> {
        let columns = self.sources.iter().zip(&self.definition.columns);
        columns.map(|(source, column)| self.value(source, column, &old)).collect()
    }

    fn value(&self, source: &Source, column: &ColumnDefinition, old: &[Value]) -> Result<Value> {
        match source {
            Source::Old(from) => Ok(old[*from].clone()),
            Source::New(value) => Ok(value.clone()),
            Source::Number(next) => Ok(Value::Int(next())),
            Source::Converted(from, _) if old[*from].is_null() => Ok(Value::Null),
            Source::Converted(from, Some(convert)) => convert(old[*from].clone()),
            Source::Converted(from, None) => {
                let what = format!("{}.{}", self.definition.name, column.name);
                Ok(assignment::coerce((&old[*from]).into(), &column.data_type, false, &what)?.to_value())
            }
        }
    }
}
