//! FOR UPDATE and the other row locks: the relations of a query that a clause locks.

use crate::bind::binder::Binder;
use crate::bind::tree::{
    BoundQuery, BoundRelation, BoundSelect, Distinct, LockStrength, LockWait, QueryBody, RelationId,
    RelationKind, RowLock,
};
use crate::error::{Result, SqlState};
use crate::parse::syntax::{LockClause, LockStrengthName, LockWaitName, Query};

impl Binder<'_> {
    /// FOR UPDATE and the other row locks.
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
        if let Some(clause) = unlockable(select) {
            return refused(clause);
        }
        if clause.of.is_empty() {
            let lockable =
                select.relations.iter().filter(|relation| !matches!(relation.kind, RelationKind::Cte(_)));
            return lockable.map(tables_of).collect::<Locked>().map(|all| all.concat()).or_else(refused);
        }
        let mut relations = Vec::new();
        for of in &clause.of {
            let found = select.relations.iter().find(|relation| relation.name == of.text);
            let Some(found) = found else {
                let message = format!("relation \"{}\" in {name} clause not found in FROM clause", of.text);
                return Err(self.error(of.at, SqlState::UNDEFINED_TABLE, message));
            };
            match tables_of(found) {
                Ok(tables) => relations.extend(tables),
                Err(clause) => return refused(clause),
            }
        }
        Ok(relations)
    }
}

/// The relations that are locked in each relation, or the clause that keeps rows from being locked.
type Locked = std::result::Result<Vec<Vec<RelationId>>, &'static str>;

/// The clause by which a query's rows are not those of its tables.
fn unlockable(select: &BoundSelect) -> Option<&'static str> {
    match () {
        () if select.distinct != Distinct::No => Some("DISTINCT clause"),
        () if select.grouping_sets.is_some() && !select.group_by.is_empty() => Some("GROUP BY clause"),
        () if select.having.is_some() => Some("HAVING clause"),
        () if select.grouping_sets.is_some() => Some("aggregate functions"),
        () if !select.windows.is_empty() => Some("window functions"),
        () if select.set_returning => Some("set-returning functions in the target list"),
        () => None,
    }
}

/// The relations of tables that a relation consists of: a view's or a subquery's, too.
fn tables_of(relation: &BoundRelation) -> std::result::Result<Vec<RelationId>, &'static str> {
    match &relation.kind {
        RelationKind::Table(_) => Ok(vec![relation.id]),
        RelationKind::Query(query) => match &query.body {
            QueryBody::Select(select) => match unlockable(select) {
                Some(clause) => Err(clause),
                None => Ok(select.relations.iter().map(tables_of).collect::<Locked>()?.concat()),
            },
            _ => Ok(Vec::new()),
        },
        _ => Ok(Vec::new()),
    }
}
