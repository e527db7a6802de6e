//! Long values ahead: values that a body will read and that are not in its row's own words, but in blocks elsewhere.
//!
//! Invariants: it is a hint. Whatever a procedure declares here, or omits, its calls have the same results;
//! an error or a panic in the declaration has no consequence.

use smallvec::SmallVec;

use crate::error::Result;
use crate::pipeline::call::Found;
use crate::procedure::definition::Action;
use crate::procedure::repeat::EachAction;
use crate::procedure::run::fetch_blocks;
use crate::storage::table::TableCore;
use crate::table::{ColumnName, position};
use crate::types::Args;

/// Names columns to [`LongValues`], from the arguments.
pub(crate) type LongOfArgs = Box<dyn Fn(&Args, &mut LongValues<'_>) -> Result<()> + Send + Sync>;

/// Receives the columns whose long values a body will read.
pub struct LongValues<'f> {
    table: &'f TableCore,
    /// Positions of their words.
    words: SmallVec<[usize; 12]>,
}

impl LongValues<'_> {
    /// The body will read this column, which holds texts or bytes.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`](crate::Error::UnknownColumn).
    pub fn of(&mut self, column: impl ColumnName) -> Result<()> {
        let position = position(self.table, column)?;
        if self.table.layout().is_variable(position) {
            self.words.push(self.table.layout().words_of(position).0.start);
        }
        Ok(())
    }
}

impl Action {
    /// Declares the long texts and bytes of its row that the body will read, as far as the arguments
    /// determine them. Values of more than seven bytes are stored apart from their row: those that are named
    /// here are fetched before the body runs, as the row itself is. A hint: it changes nothing but time.
    ///
    /// ```
    /// # use heddledb::{Action, DataType, Database, Durability, Options, ProcedureDefinition, TableDefinition, args, row};
    /// # let db = Database::in_memory()?;
    /// # let item = db.create_table(
    /// #     TableDefinition::new("item").column("id", DataType::Int64).column("name", DataType::Text).primary_key(["id"]),
    /// # )?;
    /// # db.run(|tx| tx.insert(&item, row![7, "a lamp of brass"]))?;
    /// let name = item.column("name")?;
    /// let look = Action::read(&item)
    ///     .key(|args, key| key.push(args.int(0)?))
    ///     .long_values(move |_, long| long.of(name))
    ///     .body(move |action| {
    ///         let length = action.get()?.map_or(0, |row| row.text(name).map_or(0, str::len));
    ///         action.return_row(vec![(length as i64).into()]);
    ///         Ok(())
    ///     });
    /// let look = ProcedureDefinition::new("look").parameter("id", DataType::Int64).phase([look]);
    /// let look = db.register(look)?;
    /// assert_eq!(db.call(&look, args![7])?.rows, [[heddledb::Value::from(15)]]);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    #[must_use]
    pub fn long_values(
        mut self,
        columns: impl Fn(&Args, &mut LongValues<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Action {
        self.long = Some(Box::new(columns));
        self
    }
}

impl EachAction {
    /// Same as [`Action::long_values`], for every instance's row.
    pub fn long_values(
        mut self,
        columns: impl Fn(&Args, &mut LongValues<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> EachAction {
        self.action = self.action.long_values(columns);
        self
    }
}

/// Fetches the long values that actions will read of the records that were found for them. Instances of one action are
/// consecutive.
pub(super) fn fetch<'f>(args: &Args, found: impl Iterator<Item = (&'f Action, &'f Found)>) {
    let mut of: Option<(&Action, LongValues<'_>)> = None;
    for (action, found) in found {
        let (Some(long), Some(_)) = (&action.long, found) else { continue };
        let values = match &mut of {
            Some((known, values)) if std::ptr::eq(*known, action) => values,
            _ => {
                let mut values = LongValues { table: &action.table, words: SmallVec::new() };
                // What it has named until it failed is as good as any.
                let _ = long(args, &mut values);
                &mut of.insert((action, values)).1
            }
        };
        fetch_blocks(*found, &values.words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;
    use crate::types::{DataType, Value};
    use crate::{
        Database, Durability, Error, Options, ProcedureDefinition, ProtocolKind, TableDefinition, args, row,
    };

    fn database(protocol: ProtocolKind) -> (Database, Table) {
        let options = Options::default().durability(Durability::None).protocol(protocol);
        let db = Database::in_memory_with(options).expect("a database");
        let definition = TableDefinition::new("item").column("id", DataType::Int64);
        let definition = definition.column("name", DataType::Text).column("data", DataType::Text);
        let table = db.create_table(definition.primary_key(["id"])).expect("a table");
        let fill = |tx: &crate::Tx<'_, '_>| {
            (0..20).try_for_each(|id| {
                tx.insert(&table, row![id, &"name".repeat(id as usize), Option::<&str>::None])
            })
        };
        db.run(fill).expect("rows");
        (db, table)
    }

    /// A procedure that gives the lengths of three names, and names them, or other columns, ahead.
    fn lengths(
        db: &Database,
        table: &Table,
        long: impl Fn(&Args, &mut LongValues<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> crate::Procedure {
        let look = Action::read(table)
            .each(|_| Ok(3), |args, instance, key| key.push(args.int(0)? + instance as i64))
            .long_values(long)
            .body(|action, _| {
                let length = action.get()?.map(|row| row.text("name").map(|name| name.len() as i64));
                action.return_row(vec![Value::from(length.transpose()?)]);
                Ok(())
            });
        let definition = ProcedureDefinition::new("lengths").parameter("first", DataType::Int64);
        db.register_anonymous(definition.phase([look])).expect("a procedure")
    }

    #[test]
    fn whatever_is_named_and_however_that_ends_calls_come_to_the_same() {
        type Long = fn(&Args, &mut LongValues<'_>) -> Result<()>;
        let hints: [Long; 6] = [
            |_, _| Ok(()),
            |_, long| long.of("name"),
            |_, long| ["id", "name", "data", "name"].into_iter().try_for_each(|column| long.of(column)),
            |_, long| long.of("name").and_then(|()| long.of("no column")),
            |args, long| if args.int(0)? > 5 { long.of("data") } else { Err(Error::Conflict) },
            |_, _| panic!("as it happens"),
        ];
        for &protocol in ProtocolKind::ALL {
            let (db, table) = database(protocol);
            let procedures: Vec<_> = hints.iter().map(|&hint| lengths(&db, &table, hint)).collect();
            for first in [0, 4, 17, 18, 30] {
                for (number, procedure) in procedures.iter().enumerate() {
                    let rows = db.call(procedure, args![first]).expect("it is read").rows;
                    let length = |id: i64| if id < 20 { Value::Int(id * 4) } else { Value::Null };
                    let expected: Vec<_> = (first..first + 3).map(|id| vec![length(id)]).collect();
                    assert_eq!(rows, expected, "{protocol:?}, hint {number}, from {first}");
                }
            }
        }
    }

    #[test]
    fn only_columns_that_can_be_long_are_fetched_and_each_action_is_asked_once_for_all_its_rows() {
        let (db, table) = database(ProtocolKind::Optimistic);
        let name_at = table.core().layout().words_of(1).0.start;
        let mut values = LongValues { table: table.core(), words: SmallVec::new() };
        values.of("id").expect("a column");
        values.of("name").expect("a column");
        assert!(values.of("no column").is_err());
        assert_eq!(values.words.as_slice(), [name_at]);
        let asked = std::sync::Arc::new(parking_lot::Mutex::new(0));
        let count = asked.clone();
        let procedure = lengths(&db, &table, move |_, long| {
            *count.lock() += 1;
            long.of("name")
        });
        let mut worker = db.worker().expect("a worker");
        let calls: Vec<_> = (0..4).map(|first| (0, args![first * 3])).collect();
        worker.execute_group(&[procedure], &calls, &mut Vec::new());
        assert_eq!(*asked.lock(), calls.len());
    }
}
