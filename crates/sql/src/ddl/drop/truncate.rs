//! TRUNCATE, with the sequences that start again.

use std::sync::Arc;

use crate::catalog::rights::TRUNCATE;
use crate::catalog::{Event, Relation, Table, TriggerTime};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::Statement;
use crate::session::{Connection, SequenceChange};

impl Connection {
    pub(crate) fn truncate(&mut self, statement: &Statement) -> Result<&'static str> {
        self.in_schema_transaction(|connection| connection.truncate_tables(statement))
    }

    fn truncate_tables(&mut self, statement: &Statement) -> Result<&'static str> {
        let Statement::Truncate { tables: names, restart_identity, cascade } = statement else {
            return Ok("TRUNCATE TABLE");
        };
        let catalog = self.current_catalog();
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for name in names {
            let relation = self.find_relation(name)?;
            self.check_relation(&relation, TRUNCATE)?;
            match relation {
                Relation::Table(table) if table.stored_query.is_none() => tables.push(table),
                _ => {
                    let message = format!("\"{}\" is not a table", name.last());
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
            }
        }
        let mut next = 0;
        while next < tables.len() {
            let oid = tables[next].oid;
            for other in
                catalog.tables().filter(|other| other.foreign_keys.iter().any(|key| key.table == oid))
            {
                if tables.iter().any(|table| table.oid == other.oid) {
                    continue;
                }
                if !cascade {
                    let message = "cannot truncate a table referenced in a foreign key constraint";
                    let detail = format!("Table \"{}\" references \"{}\".", other.name, tables[next].name);
                    let hint = format!(
                        "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                        other.name
                    );
                    return Err(SqlError::unsupported(message).with_detail(detail).with_hint(hint));
                }
                self.check_relation(&Relation::Table(other.clone()), TRUNCATE)?;
                tables.push(other.clone());
            }
            next += 1;
        }
        self.fire_on_truncate(&tables, TriggerTime::Before)?;
        let mut restarted = Vec::new();
        if *restart_identity {
            let is_of_tables = |owner: Option<(u32, usize)>| {
                owner.is_some_and(|(table, _)| tables.iter().any(|it| it.oid == table))
            };
            for sequence in catalog.sequences().filter(|sequence| is_of_tables(sequence.owner)) {
                self.check_owner(&sequence.rights, "sequence", &sequence.name)?;
                restarted.push(SequenceChange::Restart(sequence.oid, sequence.start));
            }
        }
        self.empty_tables(&tables)?;
        restarted.into_iter().for_each(|change| self.change_sequence_at_commit(change));
        let catalog = self.current_catalog();
        let tables: Vec<Arc<Table>> =
            tables.iter().filter_map(|table| catalog.table_by_oid(table.oid).cloned()).collect();
        self.fire_on_truncate(&tables, TriggerTime::After)?;
        Ok("TRUNCATE TABLE")
    }

    /// Fires the triggers of tables before or after they are emptied.
    fn fire_on_truncate(&mut self, tables: &[Arc<Table>], time: TriggerTime) -> Result<()> {
        let catalog = self.current_catalog();
        for table in tables {
            for trigger in catalog.triggers_of(table.oid) {
                if trigger.time == time && trigger.fires_on(Event::Truncate, |_| true) {
                    self.fire_statement_trigger(trigger, table, Event::Truncate)?;
                }
            }
        }
        Ok(())
    }

    pub(in crate::ddl) fn empty_tables(&mut self, tables: &[Arc<Table>]) -> Result<()> {
        let names: Vec<String> =
            tables.iter().map(|table| table.engine.definition().name().to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.session_mut().truncate(&names)?;
        let mut catalog = self.catalog_to_change();
        for (table, name) in tables.iter().zip(names) {
            let engine = self.session_mut().table(name)?.fixed();
            catalog.put_table(Arc::new(Table { engine, ..table.as_ref().clone() }));
        }
        self.publish_catalog(catalog);
        Ok(())
    }
}
