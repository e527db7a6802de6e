//! Reserves the rows that it gives, for the session's transaction: `FOR UPDATE` and its kin.
//!
//! # Invariants
//! - No more rows are reserved than the limit asks for.
//! - With SKIP LOCKED, what the input has read is not compared at the commit; the rows that are given are.

use heddledb::{Column, Value as Stored, ValueRef};
use smallvec::SmallVec;

use crate::bind::tree::LockWait;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::node::{LockItem, LockNode};
use crate::plan::scan::key_columns;
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::operator::limit::Counts;
use crate::run::operator::scan::stored_key;
use crate::run::operator::{Operator, Running};
use crate::types::Value;

pub(crate) struct LockRows<'e> {
    node: &'e LockNode,
    input: Running<'e>,
    /// The number of rows still wanted; `None` for all.
    wanted: Option<u64>,
    has_begun: bool,
    /// True if rows that others have reserved are skipped.
    skips: bool,
}

impl<'e> LockRows<'e> {
    pub(crate) fn new(node: &'e LockNode, input: Running<'e>) -> LockRows<'e> {
        let skips = node.items.iter().any(|item| item.wait == LockWait::SkipLocked);
        LockRows { node, input, wanted: None, has_begun: false, skips }
    }

    fn read(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        if !self.skips {
            return self.input.next(run);
        }
        let (rows, mut read) = (run.rows, Ok(None));
        rows.search(&mut || read = self.input.next(run));
        read
    }
}

impl<'e> Operator<'e> for LockRows<'e> {
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        if !self.has_begun {
            let limit = self.node.limit.as_ref().map(|limit| (limit.ties.is_none(), Counts::of(limit, run)));
            // What ties with the last row is known only when it is read.
            self.wanted = match limit {
                Some((true, counts)) => counts?.needed(),
                _ => None,
            };
            self.has_begun = true;
        }
        while self.wanted != Some(0) {
            let Some(batch) = self.read(run)? else { return Ok(None) };
            let mut reserved = Batch::new(batch.width());
            for row in batch.rows() {
                if self.wanted == Some(0) {
                    break;
                }
                if reserve_all(&self.node.items, run, row, self.skips)? {
                    reserved.push_row(row);
                    self.wanted = self.wanted.map(|wanted| wanted - 1);
                }
            }
            if !reserved.is_empty() {
                return Ok(Some(reserved));
            }
        }
        Ok(None)
    }
}

/// Reserves the rows of which a joined row consists; returns false if one of them is not available.
fn reserve_all(items: &[LockItem], run: &Run<'_>, row: &[Value], skips: bool) -> Result<bool> {
    for item in items {
        if !reserve(item, run, row, skips)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn reserve(item: &LockItem, run: &Run<'_>, row: &[Value], skips: bool) -> Result<bool> {
    let table = &*item.table;
    let mut key = SmallVec::<[Stored; 4]>::new();
    for (column, &slot) in key_columns(table).into_iter().zip(&item.key) {
        match stored_key(table, column, &row[slot]) {
            Some(stored) => key.push(stored),
            // There is no row on this side of an outer join.
            None => return Ok(true),
        }
    }
    let key: SmallVec<[ValueRef<'_>; 4]> = key.iter().map(ValueRef::from).collect();
    let is_reserved = match item.wait {
        LockWait::Wait => run.rows.reserve(&table.engine, &key).map(|()| true)?,
        LockWait::NoWait | LockWait::SkipLocked => run.rows.try_reserve(&table.engine, &key)?,
    };
    if !is_reserved {
        return match item.wait {
            LockWait::SkipLocked => Ok(false),
            _ => {
                let message = format!("could not obtain lock on row in relation \"{}\"", table.name);
                Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message))
            }
        };
    }
    // It may have been deleted meanwhile. Where the input's reads do not count, all of this row does; else the columns that the input
    // has read.
    let columns: Option<&[Column]> = if skips { None } else { Some(&[]) };
    run.rows.get(&table.engine, &key, columns, &mut |_| Ok(()))
}
