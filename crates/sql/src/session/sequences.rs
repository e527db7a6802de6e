//! Sequences: their next values are given in memory, ahead of what is stored.
//!
//! Invariants: a value is given only after a bound beyond it is stored, so that none is given twice, also after a
//! crash; values between what was given and the bound may be skipped. Bounds are raised between statements, never inside a
//! transaction: a statement that runs out of stored values ends with [`SHORTAGE`], and is retried after a refill. Where
//! ALTER SEQUENCE … RESTART and TRUNCATE … RESTART IDENTITY put a sequence is stored by their transaction's commit.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use heddledb::{DataType, Database, Session, TableDefinition, Tx, ValueRef};
use parking_lot::Mutex;

use crate::catalog::Sequence;
use crate::error::{Result, SqlError, SqlState};

/// The engine's table of the sequences' bounds.
const BOUNDS: &str = "sql.sequence";

/// The number of values stored ahead at first; each refill of a statement doubles it.
const AHEAD_MIN: i64 = 32;

/// The values of all sequences.
pub(crate) struct Sequences {
    table: heddledb::Table,
    states: Mutex<HashMap<u32, State>>,
    /// The lock held while a bound is stored, so that bounds are stored in their order.
    refilling: Mutex<()>,
}

/// The state of a sequence.
#[derive(Clone, Copy, Debug)]
struct State {
    /// The last value given, or the first to be given if none was.
    last: i64,
    is_called: bool,
    /// Values up to this one may be given.
    bound: Option<i64>,
    /// The number of values that the next refill stores ahead.
    ahead: i64,
}

/// The state of a sequence: its last value, or the first to be given, and true if that value was given.
pub(crate) type Standing = (i64, bool);

/// The limit of time that a commit waits for a refill in progress.
const ORDER_TIMEOUT: Duration = Duration::from_millis(500);

/// The error by which a statement says that stored values have run out.
pub(crate) const SHORTAGE: SqlState = SqlState::new("HDSEQ");

impl Sequences {
    pub fn open(database: &Database) -> Result<Sequences> {
        let definition = TableDefinition::new(BOUNDS)
            .column("oid", DataType::Int64)
            .column("last", DataType::Int64)
            .not_null()
            .column("is_called", DataType::Bool)
            .not_null()
            .primary_key(["oid"]);
        Ok(Sequences {
            table: database.open_table(definition)?,
            states: Mutex::new(HashMap::new()),
            refilling: Mutex::new(()),
        })
    }

    /// The next value.
    ///
    /// # Errors
    /// [`SHORTAGE`]: call [`refill`](Self::refill), and run the statement again; 2200H at the end.
    pub fn next(&self, sequence: &Sequence) -> Result<i64> {
        let mut states = self.states.lock();
        let shortage = || SqlError::new(SHORTAGE, "stored values have run out");
        let state = states.get_mut(&sequence.oid).ok_or_else(shortage)?;
        let next = following(sequence, state.last, state.is_called)?;
        let beyond = match state.bound {
            None => true,
            Some(bound) if sequence.increment > 0 => next > bound,
            Some(bound) => next < bound,
        };
        // A value that starts over lies within what was stored before: it is stored again.
        if beyond || (sequence.cycle && state.is_called && (next <= state.last) == (sequence.increment > 0)) {
            return Err(shortage());
        }
        (state.last, state.is_called) = (next, true);
        Ok(next)
    }

    /// The last value given, or the first to be given, and whether it was.
    ///
    /// # Errors
    /// [`SHORTAGE`], as [`next`](Self::next), if the sequence was not used since the database was opened.
    pub fn state(&self, oid: u32) -> Result<(i64, bool)> {
        let states = self.states.lock();
        let state =
            states.get(&oid).ok_or_else(|| SqlError::new(SHORTAGE, "the sequence was not used yet"))?;
        Ok((state.last, state.is_called))
    }

    /// Stores a bound ahead of the last value.
    ///
    /// # Errors
    /// The engine's; 2200H at the end.
    pub fn refill(&self, database: &Database, sequence: &Sequence) -> Result<()> {
        let _in_order = self.refilling.lock();
        let known = self.states.lock().get(&sequence.oid).copied();
        let state = match known {
            Some(state) => state,
            None => self.stored(database, sequence)?,
        };
        let next = following(sequence, state.last, state.is_called)?;
        let started_over = state.is_called && (next <= state.last) == (sequence.increment > 0);
        let covers = |bound: i64| if sequence.increment > 0 { next <= bound } else { next >= bound };
        if !started_over && state.bound.is_some_and(covers) {
            return Ok(()); // Another session was faster.
        }
        let reach = i128::from(next) + i128::from(sequence.increment) * i128::from(state.ahead - 1);
        let bound = reach.clamp(i128::from(sequence.minimum), i128::from(sequence.maximum)) as i64;
        self.write(database, sequence.oid, bound, true)?;
        let (last, is_called) = if started_over { (next, false) } else { (state.last, state.is_called) };
        let ahead = (state.ahead * 2).min(1 << 24);
        let mut states = self.states.lock();
        let current = states.entry(sequence.oid).or_insert(State { last, is_called, bound: None, ahead });
        if started_over {
            (current.last, current.is_called) = (last, is_called);
        }
        (current.bound, current.ahead) = (Some(bound), ahead);
        Ok(())
    }

    /// A statement has ended: the next one starts with few values ahead.
    pub fn settle(&self, oid: u32) {
        if let Some(state) = self.states.lock().get_mut(&oid) {
            state.ahead = AHEAD_MIN;
        }
    }

    /// The state of a sequence as it is stored, on a standby: the value up to which the other database may have given some.
    ///
    /// # Errors
    /// The engine's; 0A000 in a transaction block.
    pub fn stored_standing(&self, database: &Database, sequence: &Sequence) -> Result<Standing> {
        match self.stored(database, sequence) {
            Ok(state) => Ok((state.last, state.is_called)),
            Err(error) if matches!(error.engine(), Some(heddledb::Error::Nested { .. })) => {
                let message = "the state of a sequence cannot be read in a transaction block on a standby";
                Err(SqlError::unsupported(message))
            }
            Err(error) => Err(error),
        }
    }

    fn stored(&self, database: &Database, sequence: &Sequence) -> Result<State> {
        let found = database.run(|tx| {
            let Some(row) = tx.get(&self.table, [ValueRef::Int(i64::from(sequence.oid))])? else {
                return Ok(None);
            };
            Ok(Some((row.int("last")?, matches!(row.get("is_called")?, ValueRef::Bool(true)))))
        })?;
        let (last, is_called) = found.unwrap_or((sequence.start, false));
        Ok(State { last, is_called, bound: None, ahead: AHEAD_MIN })
    }

    fn write(&self, database: &Database, oid: u32, last: i64, is_called: bool) -> Result<()> {
        database.run(|tx| self.write_in(tx, oid, (last, is_called)))?;
        Ok(())
    }

    fn write_in(&self, tx: &Tx<'_, '_>, oid: u32, (last, is_called): Standing) -> heddledb::Result<()> {
        let key = [ValueRef::Int(i64::from(oid))];
        if tx.exists(&self.table, key)? {
            let values = [("last", ValueRef::Int(last)), ("is_called", ValueRef::Bool(is_called))];
            return tx.update(&self.table, key, &values);
        }
        let row = [ValueRef::Int(i64::from(oid)), ValueRef::Int(last), ValueRef::Bool(is_called)];
        tx.insert(&self.table, row)
    }

    /// Commits a transaction that changes sequences: stores their new state in the transaction; `None` for a sequence
    /// that was dropped.
    ///
    /// # Errors
    /// The engine's; 40001 while bounds are being stored for longer than the transaction may wait. The transaction is
    /// then still open.
    pub fn commit_with(
        &self,
        session: &mut Session,
        changes: &[(u32, Option<Standing>)],
        commit: impl FnOnce(&mut Session) -> Result<()>,
    ) -> Result<()> {
        // No bound may be stored between the transaction's write and its end. A refill may itself wait for this
        // transaction, so the wait has a limit.
        let Some(_in_order) = self.refilling.try_lock_for(ORDER_TIMEOUT) else {
            // Another attempt may succeed.
            return Err(heddledb::Error::Conflict.into());
        };
        session.run(|tx| {
            changes.iter().try_for_each(|(oid, standing)| match standing {
                Some(standing) => self.write_in(tx, *oid, *standing),
                None => tx.delete(&self.table, [ValueRef::Int(i64::from(*oid))]).map(|_| ()),
            })
        })?;
        commit(session)?;
        let mut states = self.states.lock();
        for (oid, standing) in changes {
            match *standing {
                Some((last, is_called)) => {
                    states.insert(*oid, State { last, is_called, bound: None, ahead: AHEAD_MIN })
                }
                None => states.remove(oid),
            };
        }
        Ok(())
    }

    /// `setval`: stores the value and forgets what was given ahead.
    ///
    /// # Errors
    /// The engine's; 22003 outside of the sequence's bounds.
    pub fn set(&self, database: &Database, sequence: &Sequence, value: i64, is_called: bool) -> Result<()> {
        check_bounds(sequence, value)?;
        self.write(database, sequence.oid, value, is_called)?;
        let state = State { last: value, is_called, bound: None, ahead: AHEAD_MIN };
        self.states.lock().insert(sequence.oid, state);
        Ok(())
    }

    /// Forgets a sequence that was dropped.
    ///
    /// # Errors
    /// The engine's.
    pub fn forget(&self, database: &Database, oid: u32) -> Result<()> {
        self.states.lock().remove(&oid);
        database.run(|tx| tx.delete(&self.table, [ValueRef::Int(i64::from(oid))]).map(|_| ()))?;
        Ok(())
    }
}

/// `setval: value 0 is out of bounds for sequence "s" (1..10)` (22003).
pub(crate) fn check_bounds(sequence: &Sequence, value: i64) -> Result<()> {
    if (sequence.minimum..=sequence.maximum).contains(&value) {
        return Ok(());
    }
    let message = format!(
        "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
        sequence.name, sequence.minimum, sequence.maximum
    );
    Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message))
}

/// The value behind this one.
///
/// # Errors
/// 2200H at the end.
pub(crate) fn following(sequence: &Sequence, last: i64, is_called: bool) -> Result<i64> {
    // A bound may have been moved past the value that was to be given first.
    let next = if is_called { last.checked_add(sequence.increment) } else { Some(last) };
    let within = next.filter(|next| (sequence.minimum..=sequence.maximum).contains(next));
    match within {
        Some(next) => Ok(next),
        None if sequence.cycle && sequence.increment > 0 => Ok(sequence.minimum),
        None if sequence.cycle => Ok(sequence.maximum),
        None => {
            let (what, limit) = if sequence.increment > 0 {
                ("maximum", sequence.maximum)
            } else {
                ("minimum", sequence.minimum)
            };
            let message =
                format!("nextval: reached {what} value of sequence \"{}\" ({limit})", sequence.name);
            Err(SqlError::new(SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED, message))
        }
    }
}

/// A sequence by its oid, for functions that are given one.
pub(crate) fn sequence_of(catalog: &crate::catalog::Catalog, oid: u32) -> Result<Arc<Sequence>> {
    match catalog.relation_by_oid(oid) {
        Some(crate::catalog::Relation::Sequence(sequence)) => Ok(sequence.clone()),
        Some(_) => {
            let name = catalog.relation_name(oid).map_or(String::new(), |(_, name)| name.clone());
            let message = format!("\"{name}\" is not a sequence");
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
        None => {
            let message = format!("could not open relation with OID {oid}");
            Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
        }
    }
}
