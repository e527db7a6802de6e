//! Foreign keys: what a change of a row leads to in other rows, as accesses of the same attempt.
//!
//! Referenced and referring rows are looked up, and referring rows changed or deleted, by the accesses that the body itself
//! could make: so whatever the protocol does about reads and writes makes enforcement serializable. That a referenced row
//! exists is read as existence only, and conflicts with its insert and its delete.
//!
//! An access is a statement here: it is followed by its referential actions, which may lead to more of them, and then by
//! the checks of all rows that have changed. Where one fails, nothing of the access stays. What is deferred is checked when
//! the transaction ends, by its writes: rows whose columns of a foreign key it has written, and referenced values that were
//! there before and are not any more.
//!
//! # Invariants
//! - The footprint of a running action was made for what its enforcement reaches
//!   ([`Reach`](crate::storage::foreign_keys::Reach)).
//! - Actions are applied one after another from a list, not by recursion: a chain of rows of any length cascades.
//!
//! # Source
//! ISO/IEC 9075-2, 4.18 and 11.8; the order of actions and checks is PostgreSQL's: refusals (RESTRICT) first, then actions
//! that change rows, then checks.

mod deferred;
mod look_up;

use smallvec::SmallVec;

use super::write::show_key;
use super::{Attempt, Claim, Target};
use crate::error::{Error, Result};
use crate::protocol::footprint::Mode;
use crate::storage::definition::ReferentialAction;
use crate::storage::foreign_keys::{Link, SchemaLinks, TableLinks};
use crate::storage::table::TableCore;
use crate::types::ValueRef;

/// The values of a foreign key, in its order.
type KeyValues<'a> = SmallVec<[ValueRef<'a>; 4]>;

/// A row that has changed in the running access.
#[derive(Clone, Copy)]
pub(super) struct Change<'a> {
    table: &'a TableCore,
    /// The key of the row as it is now: another one than before, if an action has changed columns of it.
    key: &'a [u8],
    /// The row before; `None` if it was inserted.
    before: Option<&'a [u64]>,
}

/// A check that is due at the end of the running access.
enum Check<'a> {
    /// The row must refer to one that exists.
    Refers(&'a Link, &'a TableCore, &'a [u8]),
    /// No row may refer to these values, unless a row has them.
    Referred(&'a Link, KeyValues<'a>),
}

impl<'a> Attempt<'a> {
    /// Runs a write to a row, and what it leads to by foreign keys. `what`: which write it is; `concerns`: whether it can
    /// lead to anything.
    #[inline]
    pub(super) fn with_foreign_keys<T>(
        &self,
        target: &Target<'_, 'a>,
        what: Claim,
        concerns: impl Fn(&TableLinks) -> bool,
        write: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if target.table.is_watched() { self.enforce(target, what, &concerns, write) } else { write() }
    }

    #[inline(never)]
    fn enforce<T>(
        &self,
        target: &Target<'_, 'a>,
        what: Claim,
        concerns: &dyn Fn(&TableLinks) -> bool,
        write: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.check_evaluated(target.table)?;
        let links = self.schema_links().and_then(|links| links.table(target.table.id()));
        let Some(links) = links.filter(|links| concerns(links)) else { return write() };
        self.check_reach(target.table, links)?;
        let before = match what {
            // Otherwise the insert fails.
            Claim::Insert => None,
            _ => {
                // First: what is read to be written is claimed as such.
                self.claim(target.table, target.key, what)?;
                self.row_of_target(target)?
            }
        };
        let change = Change { table: target.table, key: self.arena.alloc_slice_copy(target.key), before };
        if let Some(mut changes) = self.cascade.take() {
            // It is one of the access that is being followed.
            let written = write();
            changes.push(change);
            self.cascade.set(Some(changes));
            return written;
        }
        let scope = self.scope.take();
        let done = self.all_or_nothing(|| {
            let written = write()?;
            self.cascade.set(Some(vec![change]));
            let followed = self.follow_changes();
            self.cascade.set(None);
            followed.map(|()| written)
        });
        self.scope.set(scope);
        done
    }

    /// Refuses an access for whose consequences the footprint was not made: the foreign key is younger than it, or the
    /// action declares only operations.
    fn check_reach(&self, table: &TableCore, links: &TableLinks) -> Result<()> {
        match self.scope_of(table) {
            Some(scope) if scope.mode == Mode::Commute => {
                let name = table.definition().name();
                let what = format!(
                    "an operation on a column of a foreign key of {name:?}, which reads other rows; declare the action as a \
                     write"
                );
                Err(Error::OutsideFootprint { what })
            }
            Some(scope) if scope.reach < links.reach() => {
                Err(Error::TableChanged { table: table.definition().name().to_string() })
            }
            _ => Ok(()),
        }
    }

    fn schema_links(&self) -> Option<&'a SchemaLinks> {
        self.private_links().or_else(|| self.store.foreign_keys().current(self.guard))
    }

    /// Follows the changes of the running access, and what they lead to, to the end; then checks what is left.
    fn follow_changes(&self) -> Result<()> {
        let (mut next, mut checks) = (0, Vec::new());
        loop {
            let changes = self.cascade.take();
            let change = changes.as_ref().and_then(|changes| changes.get(next).copied());
            self.cascade.set(changes);
            let Some(change) = change else { break };
            next += 1;
            self.follow_change(change, &mut checks)?;
        }
        checks.into_iter().try_for_each(|check| self.check_foreign_key(check))
    }

    fn follow_change(&self, change: Change<'a>, checks: &mut Vec<Check<'a>>) -> Result<()> {
        let Change { table, key, before } = change;
        let Some(links) = self.schema_links().and_then(|links| links.table(table.id())) else {
            return Ok(());
        };
        let after = self.row_of_key(table, key)?;
        if links.are_deferred() {
            self.has_deferred.set(true);
        }
        let gone = |link: &Link| {
            let values = values_of(table, before?, &link.referenced)?;
            let is_still =
                after.and_then(|row| values_of(table, row, &link.referenced)).as_ref() == Some(&values);
            (!is_still).then_some(values)
        };
        for link in &links.incoming {
            #[cfg(test)]
            if self.store.foreign_keys().is_broken(crate::storage::foreign_keys::Break::SkipsReferenced) {
                continue;
            }
            let action = if after.is_some() { link.key.on_update } else { link.key.on_delete };
            let Some(values) = gone(link) else { continue };
            match action {
                ReferentialAction::Restrict if self.is_referred_to(link, &values)? => {
                    return Err(still_referenced(link, &values));
                }
                ReferentialAction::NoAction if !link.key.is_deferred => {
                    checks.push(Check::Referred(link, values));
                }
                ReferentialAction::Restrict | ReferentialAction::NoAction => {}
                _ => self.act(link, action, &values, after)?,
            }
        }
        for link in links.outgoing.iter().filter(|link| !link.key.is_deferred) {
            let Some(values) = after.and_then(|row| values_of(table, row, &link.columns)) else { continue };
            let was = before.and_then(|row| values_of(table, row, &link.columns));
            if was.as_ref() != Some(&values) {
                checks.push(Check::Refers(link, table, key));
            }
        }
        Ok(())
    }

    /// Applies an action to all rows that refer to these values.
    fn act(
        &self,
        link: &'a Link,
        action: ReferentialAction,
        values: &KeyValues<'a>,
        after: Option<&'a [u64]>,
    ) -> Result<()> {
        let child = self.hold(&link.child)?;
        let new: Vec<(usize, ValueRef<'_>)> = match (action, after) {
            (ReferentialAction::SetNull, _) => {
                link.columns.iter().map(|&column| (column, ValueRef::Null)).collect()
            }
            (ReferentialAction::SetDefault, _) => {
                let columns = child.definition().columns();
                link.columns
                    .iter()
                    .map(|&column| (column, ValueRef::from(&columns[column].default)))
                    .collect()
            }
            (_, Some(row)) => {
                let parent = self.hold(&link.parent)?;
                let referenced = link.referenced.iter().map(|&column| value_of(parent, row, column));
                link.columns.iter().copied().zip(referenced).collect()
            }
            (_, None) => Vec::new(),
        };
        for key in self.referring_keys(link, values)? {
            let target = Target { table: child, key, hash: child.hash(key), found: None, declared: false };
            if new.is_empty() {
                self.delete_row(&target)?;
            } else if new.iter().any(|(column, _)| child.definition().key().contains(column)) {
                self.move_row(&target, &new)?;
            } else {
                self.update_row(&target, &new)?;
            }
        }
        Ok(())
    }

    /// Gives columns of a row new values, some of which are in its primary key: the row is deleted and inserted. To those that refer to
    /// it, that is a change of the row.
    fn move_row(&self, target: &Target<'_, 'a>, changes: &[(usize, ValueRef<'_>)]) -> Result<()> {
        let Target { table, .. } = *target;
        self.check_evaluated(table)?;
        self.claim(table, target.key, Claim::Delete)?;
        let Some(before) = self.row_of_target(target)? else { return Ok(()) };
        let mut values: Vec<ValueRef<'_>> =
            (0..table.layout().len()).map(|column| value_of(table, before, column)).collect();
        changes.iter().for_each(|&(column, value)| values[column] = value);
        let key: &'a [u8] = self.arena.alloc_slice_copy(&table.encode_key_of_row(&values)?);
        if key == target.key {
            let is_in_key = |column: &usize| table.definition().key().contains(column);
            let others: Vec<_> = changes.iter().copied().filter(|(column, _)| !is_in_key(column)).collect();
            return if others.is_empty() { Ok(()) } else { self.update_row(target, &others) };
        }
        self.all_or_nothing(|| {
            self.delete_present(target)?;
            let moved = Target { table, key, hash: table.hash(key), found: None, declared: false };
            self.insert_row(&moved, &values)
        })?;
        let mut followed = self.cascade.take().unwrap_or_default();
        let is_same = |change: &&mut Change<'a>| change.table.id() == table.id() && change.key == target.key;
        followed.iter_mut().filter(is_same).for_each(|change| change.key = key);
        followed.push(Change { table, key, before: Some(before) });
        self.cascade.set(Some(followed));
        Ok(())
    }

    fn check_foreign_key(&self, check: Check<'a>) -> Result<()> {
        match check {
            Check::Refers(link, table, key) => {
                // Another action of the same access may have changed the row again.
                let Some(row) = self.row_of_key(table, key)? else { return Ok(()) };
                self.check_reference(link, table, key, row)
            }
            Check::Referred(link, values) => self.check_referred(link, &values),
        }
    }

    /// Refuses a row that refers to one which is not there.
    fn check_reference(&self, link: &Link, table: &TableCore, key: &[u8], row: &'a [u64]) -> Result<()> {
        let Some(values) = values_of(table, row, &link.columns) else { return Ok(()) };
        if self.is_there(link, &values)? {
            return Ok(());
        }
        Err(no_referenced_row(link, table, key, &values))
    }

    /// Refuses that rows refer to values which no row has any more.
    fn check_referred(&self, link: &Link, values: &KeyValues<'a>) -> Result<()> {
        if self.is_there(link, values)? || !self.is_referred_to(link, values)? {
            return Ok(());
        }
        Err(still_referenced(link, values))
    }
}

/// Returns true if an action can change the primary key of a row.
fn can_move(table: &TableCore, links: &TableLinks) -> bool {
    let key = table.definition().key();
    links.outgoing.iter().any(|link| link.columns.iter().any(|column| key.contains(column)))
}

fn value_of<'a>(table: &TableCore, row: &'a [u64], column: usize) -> ValueRef<'a> {
    // SAFETY: the row is in the attempt's arena, its blocks are pinned or there too.
    unsafe { table.layout().value(row, column) }
}

/// The values of these columns; none, if one of them is NULL.
fn values_of<'a>(table: &TableCore, row: &'a [u64], columns: &[usize]) -> Option<KeyValues<'a>> {
    let values: KeyValues<'a> = columns.iter().map(|&column| value_of(table, row, column)).collect();
    (!values.iter().any(|value| value.is_null())).then_some(values)
}

#[cold]
fn no_referenced_row(link: &Link, table: &TableCore, key: &[u8], values: &KeyValues<'_>) -> Error {
    let detail = format!(
        "row ({}) refers to {}, which does not exist",
        show_key(table, key),
        show_referenced(link, values)
    );
    let (table, constraint) = (table.definition().name().to_string(), link.key.name.clone());
    Error::NoReferencedRow { table, constraint, detail }
}

#[cold]
fn still_referenced(link: &Link, values: &KeyValues<'_>) -> Error {
    let (table, constraint) = (link.child.definition().name().to_string(), link.key.name.clone());
    Error::StillReferenced { table, constraint, row: show_referenced(link, values) }
}

fn show_referenced(link: &Link, values: &KeyValues<'_>) -> String {
    let values = values.iter().map(ToString::to_string).collect::<Vec<_>>();
    format!("row ({}) of {:?}", values.join(", "), link.parent.definition().name())
}
