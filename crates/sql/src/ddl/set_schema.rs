//! ALTER … SET SCHEMA of tables, views, sequences, enums and domains.
//!
//! # Invariants
//! - A table takes its indexes, and the sequences that its columns own, with it.
//! - Stored queries name relations by text: they name the one that moves by its new schema.

use std::sync::Arc;

use heddledb::TableChange;

use crate::catalog::rights::CREATE;
use crate::catalog::store::Object;
use crate::catalog::{Relation, Sequence, Table, UserType, View};
use crate::ddl::renamed_names::{rename_in_texts, renaming_of_type};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{ObjectKind, ObjectName};
use crate::session::Connection;

impl Connection {
    /// ALTER … SET SCHEMA of what ALTER TABLE does not name.
    pub(super) fn set_schema(
        &mut self,
        kind: ObjectKind,
        name: &ObjectName,
        if_exists: bool,
        to: &str,
    ) -> Result<&'static str> {
        let tag = match kind {
            ObjectKind::Type => "ALTER TYPE",
            ObjectKind::Domain => "ALTER DOMAIN",
            ObjectKind::View => "ALTER VIEW",
            ObjectKind::MaterializedView => "ALTER MATERIALIZED VIEW",
            _ => "ALTER SEQUENCE",
        };
        if matches!(kind, ObjectKind::Type | ObjectKind::Domain) {
            self.move_type(kind, name, to)?;
            return Ok(tag);
        }
        let Some(relation) = self.relation_to_alter(name, if_exists)? else { return Ok(tag) };
        let wanted = match kind {
            ObjectKind::View => "view",
            ObjectKind::MaterializedView => "materialized view",
            _ => "sequence",
        };
        if relation.kind() != wanted {
            let message = format!("\"{}\" is not a {wanted}", name.last());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        self.move_relation(&relation, to)?;
        Ok(tag)
    }

    /// Moves a relation into another schema.
    pub(super) fn move_relation(&mut self, relation: &Relation, to: &str) -> Result<()> {
        self.check_relation_owner(relation)?;
        let catalog = self.catalog_to_change();
        let Some((schema, name)) = catalog.relation_name(relation.oid()).cloned() else { return Ok(()) };
        if !self.can_move(&schema, to)? {
            return Ok(());
        }
        self.is_free(to, &name, false)?;
        let follow = self.queries_naming((relation.oid(), &name), None)?;
        self.move_alone(relation, (&schema, &name), to)?;
        self.follow_in_queries(follow, &Self::name_in_queries(to, &name))
    }

    /// Moves a relation that no stored query knows.
    fn move_alone(&mut self, relation: &Relation, (schema, name): (&str, &str), to: &str) -> Result<()> {
        match relation {
            Relation::Table(table) => self.move_table(table, to),
            Relation::View(view) => {
                let moved = View { schema: to.to_string(), ..view.as_ref().clone() };
                let mut catalog = self.catalog_to_change();
                catalog.remove_relation(schema, name);
                catalog.put_relation(to, name, Relation::View(Arc::new(moved.clone())));
                self.publish(&[Object::View(moved)], catalog)
            }
            Relation::Sequence(sequence) if sequence.owner.is_some() => {
                let message = "cannot move an owned sequence into another schema";
                Err(SqlError::unsupported(message)
                    .with_detail(format!("Sequence \"{name}\" is linked to a table, and moves with it.")))
            }
            Relation::Sequence(sequence) => self.move_sequence(sequence, to),
            Relation::Index { .. } => {
                let message = format!("\"{name}\" is not a table, view, or sequence");
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
        }
    }

    /// Checks that an object of one schema can be moved to another; returns false if it is there already.
    fn can_move(&self, from: &str, to: &str) -> Result<bool> {
        let environment = self.environment();
        if environment.catalog.schema(to).is_none() {
            return Err(crate::catalog::no_schema(to));
        }
        self.check_schema(to, CREATE)?;
        if from == environment.temporary {
            let message = "cannot move objects into or out of temporary schemas";
            return Err(SqlError::unsupported(message));
        }
        Ok(from != to)
    }

    fn move_table(&mut self, table: &Arc<Table>, to: &str) -> Result<()> {
        let names: Vec<String> =
            table.indexes.iter().map(|index| &index.name).chain(&table.key_name).cloned().collect();
        for name in names {
            self.is_free(to, &name, false)?;
        }
        let owned = |sequence: &&Arc<Sequence>| sequence.owner.is_some_and(|(owner, _)| owner == table.oid);
        let sequences: Vec<Arc<Sequence>> =
            self.current_catalog().sequences().filter(owned).cloned().collect();
        let engine_name = self.engine_name(to, &table.name);
        let engine = self.change_engine(table, TableChange::new().rename(engine_name), &table.name)?;
        let mut catalog = self.catalog_to_change();
        let moved = Arc::new(Table { engine, schema: to.to_string(), ..table.as_ref().clone() });
        catalog.remove_table(table);
        catalog.put_table(moved.clone());
        self.publish(&[Object::table(&moved)], catalog)?;
        sequences.iter().try_for_each(|sequence| self.move_sequence(sequence, to))
    }

    fn move_sequence(&mut self, sequence: &Sequence, to: &str) -> Result<()> {
        self.is_free(to, &sequence.name, false)?;
        let mut catalog = self.catalog_to_change();
        let moved = Sequence { schema: to.to_string(), ..sequence.clone() };
        catalog.remove_relation(&sequence.schema, &sequence.name);
        catalog.put_relation(to, &sequence.name, Relation::Sequence(Arc::new(moved.clone())));
        self.publish(&[Object::Sequence(moved)], catalog)
    }

    fn move_type(&mut self, kind: ObjectKind, name: &ObjectName, to: &str) -> Result<()> {
        let mut catalog = self.catalog_to_change();
        let found = self.find_user_type(name, &catalog)?;
        if kind == ObjectKind::Domain && !matches!(found, UserType::Domain(_)) {
            let message = format!("\"{name}\" is not a domain");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        self.check_owner(found.rights(), "type", found.name())?;
        if !self.can_move(found.schema(), to)? {
            return Ok(());
        }
        self.type_is_free(to, found.name())?;
        let before = catalog.clone();
        let renaming = renaming_of_type(&before, (found.schema(), found.name()), (to, found.name()));
        let changed = rename_in_texts(&mut catalog, &renaming);
        self.publish(&changed, catalog)?;
        let mut catalog = self.catalog_to_change();
        let found = catalog.user_type_by_oid(found.oid()).cloned().unwrap_or_else(|| found.clone());
        let object = catalog.change_type(&found, |schema, _, _| *schema = to.to_string());
        self.publish(&[object], catalog)
    }
}
