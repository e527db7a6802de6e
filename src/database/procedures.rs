//! Procedures: their registration, and their look-up by name.
//!
//! Invariant: at any time a name belongs to at most one procedure, until its last handle is dropped. The
//! database keeps names, not procedures: a body that holds a handle of its own database therefore does not
//! keep it open.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use parking_lot::Mutex;

use super::Database;
use crate::error::{Error, Result};
use crate::procedure::{Naming, Procedure, ProcedureDefinition, Registered, WeakProcedure};
use crate::schedule::ScheduleKind;

/// The registered procedures, by name.
#[derive(Default)]
pub(crate) struct Procedures(Mutex<BTreeMap<String, WeakProcedure>>);

impl Database {
    /// Registers a procedure: it can be called, and found by its name, until its last handle is dropped. From then on the name is
    /// free again. A database that is opened again has no procedures: register them once after each open.
    ///
    /// ```
    /// # use heddledb::{Action, DataType, Database, ProcedureDefinition, TableDefinition};
    /// # let db = Database::in_memory()?;
    /// # let items = db.create_table(TableDefinition::new("item").column("id", DataType::Int64).primary_key(["id"]))?;
    /// let look = Action::read(&items).body(|_| Ok(()));
    /// let registered = db.register(ProcedureDefinition::new("look").phase([look]))?;
    /// assert!(db.procedure("look").is_some());
    /// drop(registered);
    /// assert!(db.procedure("look").is_none());
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ProcedureExists`]; [`Error::InvalidProcedure`], [`Error::ForeignTable`]; the partition key
    /// (`ScheduleOptions::partition_by`) is not the name of a column.
    pub fn register(&self, definition: ProcedureDefinition) -> Result<Procedure> {
        let procedure = self.register_anonymous(definition)?;
        let mut names = self.shared.procedures().0.lock();
        names.retain(|_, procedure| procedure.is_alive());
        match names.entry(procedure.name().to_string()) {
            Entry::Occupied(taken) => Err(Error::ProcedureExists { procedure: taken.key().clone() }),
            Entry::Vacant(free) => {
                free.insert(procedure.downgrade());
                Ok(procedure)
            }
        }
    }

    /// Same as [`register`](Self::register), for procedures that a program generates, and for one handle of the same
    /// procedure for each thread (handles are counted: threads that call one handle contend for its count). Any number
    /// may share a name, which only reports and errors show, and which [`procedure`](Self::procedure) does not find.
    ///
    /// # Errors
    /// Same errors as [`register`](Self::register), except [`Error::ProcedureExists`].
    pub fn register_anonymous(&self, definition: ProcedureDefinition) -> Result<Procedure> {
        let store = self.engine().store();
        let naming = Naming {
            tables: &store.user_tables(),
            partition_key: self.shared.input().partition_key(),
            is_partitioned: self.schedule_kind() == ScheduleKind::Partition,
        };
        Ok(Procedure::new(Registered::new(store.identity(), definition, &naming)?))
    }

    /// The registered procedure of this name.
    pub fn procedure(&self, name: &str) -> Option<Procedure> {
        self.shared.procedures().0.lock().get(name).and_then(WeakProcedure::upgrade)
    }

    /// Every registered procedure, in the order of their names.
    pub fn procedures(&self) -> Vec<Procedure> {
        self.shared.procedures().0.lock().values().filter_map(WeakProcedure::upgrade).collect()
    }
}
