//! Procedures: registered, found by name.
//!
//! Invariant: at any time a name belongs to one procedure, the last that was registered under it. The database keeps names, not
//! procedures: so a body that holds a handle of its own database does not keep it open.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::Database;
use crate::error::Result;
use crate::procedure::{Naming, Procedure, ProcedureDefinition, Registered, WeakProcedure};

/// The registered procedures, by name.
#[derive(Default)]
pub(crate) struct Procedures(Mutex<BTreeMap<String, WeakProcedure>>);

impl Database {
    /// Registers a procedure: it can be called, and found by its name, until its last handle is dropped. A name that is used again
    /// belongs to the newer procedure; handles of the older one stay good.
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
    /// [`Error::InvalidProcedure`](crate::Error::InvalidProcedure), [`Error::ForeignTable`](crate::Error::ForeignTable); the partition
    /// key (`ScheduleOptions::partition_by`) is no column's name.
    pub fn register(&self, definition: ProcedureDefinition) -> Result<Procedure> {
        let store = self.engine().store();
        let naming =
            Naming { tables: &store.user_tables(), partition_key: self.shared.input().partition_key() };
        let procedure = Procedure::new(Registered::new(store.identity(), definition, &naming)?);
        let mut names = self.shared.procedures().0.lock();
        names.retain(|_, procedure| procedure.is_alive());
        names.insert(procedure.name().to_string(), procedure.downgrade());
        Ok(procedure)
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
