//! FOR UPDATE and its kind: which relations of a query a clause locks.

use crate::bind::binder::Binder;
use crate::bind::tree::{
    BoundQuery, BoundRelation, Distinct, LockStrength, LockWait, QueryBody, RelationId, RelationKind, RowLock,
};
use crate::error::{Result, SqlState};
use crate::parse::syntax::{LockClause, LockStrengthName, LockWaitName, Query};

impl Binder<'_> {
    /// FOR UPDATE and its kin.
    pub(super) fn locks(&mut self, query: &Query, bound: &mut BoundQuery) -> Result<()> {
        for clause in &query.locks {
            let strength = match clause.strength {
                LockStrengthName::KeyShare => LockStrength::KeyShare,
                LockStrengthName::Share => LockStrength::Share,
                LockStrengthName::NoKeyUpdate => LockStrength::NoKeyUpdate,
                LockStrengthName::Update => LockStrength::Update,
            };
            let wait = match clause.wait {
                LockWaitName::Wait => LockWait::Wait,
                LockWaitName::NoWait => LockWait::NoWait,
                LockWaitName::SkipLocked => LockWait::SkipLocked,
            };
            let relations = self.locked_relations(clause, bound)?;
            if let QueryBody::Select(select) = &bound.body {
                let is_named = |it: &&BoundRelation| {
                    clause.of.is_empty() || clause.of.iter().any(|of| of.text == it.name)
                };
                let views = select.relations.iter().filter(is_named).map(|it| it.id);
                let all: Vec<RelationId> =
                    views.filter(|id| !relations.contains(id)).chain(relations.iter().copied()).collect();
                self.requires_locks(&all);
            }
            bound.locks.push(RowLock { strength, wait, relations });
        }
        Ok(())
    }

    fn locked_relations(&self, clause: &LockClause, bound: &BoundQuery) -> Result<Vec<RelationId>> {
        let name = match clause.strength {
            LockStrengthName::KeyShare => "FOR KEY SHARE",
            LockStrengthName::Share => "FOR SHARE",
            LockStrengthName::NoKeyUpdate => "FOR NO KEY UPDATE",
            LockStrengthName::Update => "FOR UPDATE",
        };
        let refused = |what: &str| {
            let message = format!("{name} is not allowed with {what}");
            Err(self.error(clause.at, SqlState::FEATURE_NOT_SUPPORTED, message))
        };
        let QueryBody::Select(select) = &bound.body else { return refused("UNION/INTERSECT/EXCEPT") };
        match () {
            () if select.distinct != Distinct::No => return refused("DISTINCT clause"),
            () if select.grouping_sets.is_some() && !select.group_by.is_empty() => {
                return refused("GROUP BY clause");
            }
            () if select.having.is_some() => return refused("HAVING clause"),
            () if select.grouping_sets.is_some() => return refused("aggregate functions"),
            () if !select.windows.is_empty() => return refused("window functions"),
            () if select.set_returning => return refused("set-returning functions in the target list"),
            () => {}
        }
        if clause.of.is_empty() {
            let lockable =
                select.relations.iter().filter(|relation| !matches!(relation.kind, RelationKind::Cte(_)));
            return Ok(lockable.flat_map(tables_of).collect());
        }
        let mut relations = Vec::new();
        for of in &clause.of {
            let found = select.relations.iter().find(|relation| relation.name == of.text);
            let Some(found) = found else {
                let message = format!("relation \"{}\" in {name} clause not found in FROM clause", of.text);
                return Err(self.error(of.at, SqlState::UNDEFINED_TABLE, message));
            };
            relations.extend(tables_of(found));
        }
        Ok(relations)
    }
}

/// The relations of tables that a relation consists of: a view's or a subquery's, too.
fn tables_of(relation: &BoundRelation) -> Vec<RelationId> {
    match &relation.kind {
        RelationKind::Table(_) => vec![relation.id],
        RelationKind::Query(query) => match &query.body {
            QueryBody::Select(select) => select.relations.iter().flat_map(tables_of).collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}
