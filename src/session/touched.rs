//! The keys that one access of a session has accessed, and which of them are to be reserved.

use super::reservations::ReservedKey;
use crate::protocol::attempt::{Part, SessionAccess};
use crate::storage::session_buffer::{ColumnSet, Observed, SeenWrite, written_columns};

/// A key that an attempt has accessed.
pub(super) struct Touched<'n> {
    pub(super) table: u32,
    pub(super) key: &'n [u8],
    pub(super) part: Part,
    /// The columns of its row that were used.
    pub(super) columns: ColumnSet,
    /// True if it was only to be inserted.
    pub(super) is_insert: bool,
}

/// The keys that an attempt has accessed, each once, in order.
pub(super) fn touched(access: &SessionAccess) -> Vec<Touched<'_>> {
    let mut touched: Vec<Touched<'_>> = access
        .noted()
        .map(|noted| Touched {
            table: noted.table,
            key: noted.key,
            part: noted.part,
            columns: noted.columns,
            is_insert: noted.is_insert,
        })
        .collect();
    touched.sort_by(|left, right| (left.table, left.key).cmp(&(right.table, right.key)));
    touched.dedup_by(|next, kept| {
        let is_same = (next.table, next.key) == (kept.table, kept.key);
        if is_same {
            kept.is_insert &= next.is_insert;
            kept.columns = kept.columns.union(next.columns);
            if next.part == Part::Row {
                kept.part = Part::Row;
            }
        }
        is_same
    });
    touched
}

/// Looks at a write, for a key that is to be reserved.
type LookAtWrite<'l> = dyn FnMut(SeenWrite<'_>) -> Option<ReservedKey> + 'l;

/// Reserves the keys that must be: keys that are inserted, and rows of which columns were both read and written, in either
/// order: a rival that does the same could only fail at its end. Returns the first one that another session has. `find`
/// examines the writes of the access.
pub(super) fn unreserved(
    access: &SessionAccess,
    touched: &[Touched<'_>],
    find: impl FnOnce(&mut LookAtWrite<'_>) -> Option<ReservedKey>,
) -> Option<ReservedKey> {
    let buffer = &access.buffer;
    let reserve = |table: u32, key: &[u8]| {
        let identity = buffer.core(table).records_identity();
        (!access.control.try_reserve_of_many(identity, key)).then(|| (identity, key.into()))
    };
    let mut read = None;
    let written = find(&mut |SeenWrite { table, key, is_insert, columns, is_again }| {
        if !is_again {
            let is_row = !buffer.core(table).is_internal();
            read = if is_row { columns_read(access, touched, (table, key)) } else { None };
        }
        let is_contended = is_insert && buffer.has_contended_keys(table);
        let is_wanted = is_contended || meets(read, columns);
        if is_wanted { reserve(table, key) } else { None }
    });
    written.or_else(|| {
        let is_own = |one: &&Touched<'_>| {
            let writes = buffer.writes_to(one.table, one.key).unwrap_or_default();
            let mut written = writes.iter().map(|write| written_columns(write.column()));
            one.part == Part::Row
                && !buffer.core(one.table).is_internal()
                && written.any(|columns| meets(Some(one.columns), columns))
        };
        touched.iter().filter(is_own).find_map(|one| reserve(one.table, one.key))
    })
}

/// The columns of a row that were read, in this access or before; `None` if it was not read.
fn columns_read(
    access: &SessionAccess,
    touched: &[Touched<'_>],
    (table, key): (u32, &[u8]),
) -> Option<ColumnSet> {
    let now = touched.binary_search_by(|one| (one.table, one.key).cmp(&(table, key)));
    let now = now.ok().map(|at| &touched[at]).filter(|one| one.part == Part::Row);
    let before = access.buffer.observed(table, key).filter(|observed| observed.part == Part::Row);
    let sets = [now.map(|one| one.columns), before.as_ref().map(Observed::read_columns)];
    sets.into_iter().flatten().reduce(ColumnSet::union)
}

/// Returns true if a row was read, and what is written of it are columns that were read, or the whole of it.
fn meets(read: Option<ColumnSet>, written: ColumnSet) -> bool {
    read.is_some_and(|read| written.is_whole() || read.meets(written))
}
