//! Privileges that a statement needs: they are checked when it is bound, so that running a plan costs nothing more.
//!
//! # Invariants
//! - Every table, view and sequence that a statement reads or writes is on the list, with the role that needs the
//!   privileges: the current role, or the view's owner for relations that a view reads.
//! - The columns that are read are found in the bound tree, so a column that is named in whatever way counts.
//! - Expressions of a table itself over its columns (generated columns, checks, defaults) need no privilege to read
//!   them.
//!
//! Source: PostgreSQL 15, `ExecCheckRTEPerms` in `execMain.c`, `rewriteTargetView` in `rewriteHandler.c`.

use hashbrown::HashMap;

use crate::bind::binder::Binder;
use crate::bind::tree::walk::{walk, walk_statement};
use crate::bind::tree::{
    BoundCte, BoundExpr, BoundStatement, CteBody, CteId, QueryBody, RelationId, StatementKind,
};
use crate::catalog::rights::{Privileges, RightsKind, SELECT, UPDATE, USAGE};
use crate::catalog::securables::Securable;
use crate::catalog::{Catalog, Relation};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::ObjectName;

/// The privileges that a statement needs on one relation.
#[derive(Clone, Debug)]
pub(crate) struct Required {
    /// The relation of the statement whose columns count.
    pub relation: Option<RelationId>,
    /// The relation's oid.
    pub oid: u32,
    /// The role that needs it.
    pub role: u32,
    /// Privileges that are needed in any case.
    pub privileges: Privileges,
    /// True if SELECT is needed if a column is read, for the target of a statement.
    pub selects_if_read: bool,
    /// The columns that INSERT and UPDATE give values.
    pub written: Vec<(Privileges, Vec<usize>)>,
    /// The columns of a written view that are columns of `relation`, each with that column.
    pub columns_of_view: Option<Vec<(usize, usize)>>,
    /// True if a system column is read, which needs the privilege on the whole relation.
    pub reads_system_column: bool,
    /// Number of times the conditions of a written view name columns: these are read with the owner's rights.
    pub named_by_view: usize,
    /// The query of WITH that needs it: one that nothing reads needs nothing.
    pub cte: Option<CteId>,
}

/// `permission denied for …` (42501).
pub(crate) fn denied(kind: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for {kind} {name}"))
}

/// 0A000: a name of another database than the session's.
pub(crate) fn other_database(name: &ObjectName) -> SqlError {
    SqlError::unsupported(format!("cross-database references are not implemented: {name}"))
}

/// The columns of each relation that a statement reads, and how many times it names any.
type Reads = HashMap<RelationId, (Vec<usize>, usize)>;

impl Binder<'_> {
    /// The role whose privileges count here.
    pub fn role(&self) -> u32 {
        self.checked_as.unwrap_or_else(|| self.environment.role())
    }

    /// Returns true if the text is a definition in the catalog: its names were resolved when it was created.
    pub fn is_stored_text(&self) -> bool {
        !self.views.is_empty() || self.settled
    }

    /// Checks that the role may use the schema that a name gives, and that its database is the session's.
    ///
    /// # Errors
    /// 42501, 0A000.
    pub fn check_named_schema(&self, name: &ObjectName) -> Result<()> {
        if name.schema().is_none() || self.is_stored_text() || self.is_own {
            return Ok(());
        }
        if let Some(database) = name.database()
            && !self.environment.is_database(database)
        {
            return Err(self.at(other_database(name), name.at()));
        }
        let Some(found) = name.schema().and_then(|schema| self.context.catalog.schema(schema)) else {
            return Ok(());
        };
        if self.context.catalog.may(self.role(), &found.rights, RightsKind::Schema, USAGE) {
            return Ok(());
        }
        Err(self.at(denied("schema", &found.name), name.at()))
    }

    /// Notes that a relation is read: which of its columns is seen at the end. The number of the note.
    pub fn requires_select(&mut self, oid: u32, relation: Option<RelationId>) -> usize {
        let role = self.role();
        self.required.push(Required {
            relation,
            oid,
            role,
            privileges: SELECT,
            selects_if_read: false,
            written: Vec::new(),
            columns_of_view: None,
            cte: self.defining,
            reads_system_column: false,
            named_by_view: 0,
        });
        self.required.len() - 1
    }

    /// Notes a table as the target of a statement.
    pub fn requires_target(&mut self, oid: u32, target: RelationId) {
        let note = self.requires_select(oid, Some(target));
        let required = &mut self.required[note];
        (required.privileges, required.selects_if_read) = (0, true);
    }

    /// Notes the privilege and the columns that a statement needs on its target, also on the relations below a view.
    pub fn requires_write(&mut self, target: RelationId, privilege: Privileges, columns: Option<&[usize]>) {
        for required in self.required.iter_mut().filter(|it| it.relation == Some(target)) {
            match columns {
                Some(columns) => required.written.push((privilege, columns.to_vec())),
                None => required.privileges |= privilege,
            }
        }
    }

    /// Notes that a system column of a relation is read.
    pub fn requires_system_column(&mut self, of: RelationId) {
        for required in self.required.iter_mut().filter(|it| it.relation == Some(of)) {
            required.reads_system_column = true;
        }
    }

    /// Notes that the rows of these relations are locked, which is an UPDATE in advance.
    pub fn requires_locks(&mut self, relations: &[RelationId]) {
        for relation in relations {
            self.requires_write(*relation, UPDATE, Some(&[]));
        }
    }

    /// Notes that a column that is written is also read, as a key of ON CONFLICT is.
    pub fn requires_key(&mut self, target: RelationId, columns: &[usize]) {
        for required in self.required.iter_mut().filter(|it| it.relation == Some(target)) {
            required.written.push((SELECT, columns.to_vec()));
        }
    }

    /// Checks the privileges that a statement needs.
    ///
    /// # Errors
    /// 42501; 55000 for a materialized view that was never populated.
    pub fn check_statement(&self, statement: &BoundStatement) -> Result<()> {
        self.check_populated()?;
        if self.needs_nothing() {
            return Ok(());
        }
        let mut reads = Reads::new();
        walk_whole(statement, &mut |expr| note(&mut reads, expr));
        self.check_required(Some(&reads))
    }

    /// Checks what an expression outside of statements needs: the relations of its subqueries as a whole.
    ///
    /// # Errors
    /// 42501.
    pub fn check_expressions(&self) -> Result<()> {
        if self.needs_nothing() { Ok(()) } else { self.check_required(None) }
    }

    /// A materialized view is read once its query was run.
    fn check_populated(&self) -> Result<()> {
        for required in &self.required {
            let Some(table) = self.context.catalog.table_by_oid(required.oid) else { continue };
            if table.stored_query.as_ref().is_some_and(|stored| !stored.populated) {
                let message = format!("materialized view \"{}\" has not been populated", table.name);
                return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                    .with_hint("Use the REFRESH MATERIALIZED VIEW command."));
            }
        }
        Ok(())
    }

    /// The queries of WITH that the statement reads, also through each other.
    fn used_ctes(&self) -> Vec<CteId> {
        let mut used: Vec<CteId> = Vec::new();
        loop {
            let next = self.cte_uses.iter().find(|(within, cte)| {
                within.is_none_or(|within| used.contains(&within)) && !used.contains(cte)
            });
            match next {
                Some((_, cte)) => used.push(*cte),
                None => return used,
            }
        }
    }

    fn needs_nothing(&self) -> bool {
        self.required.iter().all(|required| self.context.catalog.is_superuser(required.role))
    }

    fn check_required(&self, reads: Option<&Reads>) -> Result<()> {
        let used = self.used_ctes();
        for required in self.required.iter().filter(|it| it.cte.is_none_or(|cte| used.contains(&cte))) {
            let read = required.relation.and_then(|relation| reads?.get(&relation));
            check(self.context.catalog, required, read, reads.is_none())?;
        }
        Ok(())
    }
}

/// Checks the privileges needed on one relation.
fn check(
    catalog: &Catalog,
    required: &Required,
    read: Option<&(Vec<usize>, usize)>,
    reads_unknown: bool,
) -> Result<()> {
    if catalog.is_superuser(required.role) {
        return Ok(());
    }
    let Some(relation) = catalog.relation_by_oid(required.oid) else {
        // A system relation that shows secrets.
        let found = crate::catalog::system::relation_by_oid(required.oid);
        let kind = if found.is_some_and(|it| it.kind == 'v') { "view" } else { "table" };
        return Err(denied(kind, found.map_or("", |it| it.name)));
    };
    let Some(rights) = relation.rights() else { return Ok(()) };
    let kind = relation.rights_kind();
    let error = || {
        let name = catalog.relation_name(required.oid).map_or("", |(_, name)| name.as_str());
        denied(relation.kind(), name)
    };
    let named = read.map_or(0, |(_, named)| *named);
    let is_read = reads_unknown || required.reads_system_column || named > required.named_by_view;
    let selects = required.privileges & SELECT != 0 || (required.selects_if_read && is_read);
    let whole = required.privileges & !SELECT;
    if !catalog.may(required.role, rights, kind, whole) {
        return Err(error());
    }
    let columns = ColumnCheck { catalog, relation, required };
    if selects && !catalog.may(required.role, rights, kind, SELECT) {
        let read = read.map_or(&[][..], |(columns, _)| columns);
        if reads_unknown || required.reads_system_column || !columns.may(SELECT, read) {
            return Err(error());
        }
    }
    for (privilege, written) in &required.written {
        if !catalog.may(required.role, rights, kind, *privilege) && !columns.may(*privilege, written) {
            return Err(error());
        }
    }
    Ok(())
}

/// Privileges on the columns of a relation, where those on the whole do not suffice.
struct ColumnCheck<'c> {
    catalog: &'c Catalog,
    relation: &'c Relation,
    required: &'c Required,
}

impl ColumnCheck<'_> {
    /// Returns true if the role has a privilege on each of these columns; if there are none, on any column.
    fn may(&self, privilege: Privileges, columns: &[usize]) -> bool {
        if columns.is_empty() {
            return (0..self.relation.column_names().len()).any(|column| self.may_on_own(privilege, column));
        }
        columns.iter().all(|column| self.may_on(privilege, *column))
    }

    /// Returns true if the role has a privilege on a column of the statement's relation; of a view, on a column that is
    /// that one.
    fn may_on(&self, privilege: Privileges, column: usize) -> bool {
        match &self.required.columns_of_view {
            None => self.may_on_own(privilege, column),
            Some(columns) => {
                let mut shown = columns.iter().filter(|(_, of)| *of == column);
                shown.any(|(own, _)| self.may_on_own(privilege, *own))
            }
        }
    }

    fn may_on_own(&self, privilege: Privileges, column: usize) -> bool {
        let rights = self.catalog.rights(&Securable::Column(self.required.oid, column));
        rights.is_some_and(|(_, rights)| {
            self.catalog.may(self.required.role, &rights, RightsKind::Column, privilege)
        })
    }
}

fn note(reads: &mut Reads, expr: &BoundExpr) {
    if let BoundExpr::Column { relation, column, .. } = expr {
        let (columns, named) = reads.entry(*relation).or_default();
        *named += 1;
        if !columns.contains(column) {
            columns.push(*column);
        }
    }
}

/// The columns of a relation that a statement reads, for the privileges that it requires.
pub(crate) fn columns_read(
    statement: &BoundStatement,
    relations: impl Iterator<Item = RelationId>,
) -> Vec<usize> {
    let mut reads = Reads::new();
    walk_whole(statement, &mut |expr| note(&mut reads, expr));
    relations.filter_map(|relation| reads.remove(&relation)).flat_map(|(columns, _)| columns).collect()
}

/// Counts how often expressions name columns of a relation.
pub(crate) fn times_named(exprs: &[BoundExpr], of: RelationId) -> usize {
    let mut times = 0;
    for expr in exprs {
        walk(expr, &mut |part| {
            times += usize::from(matches!(part, BoundExpr::Column { relation, .. } if *relation == of));
        });
    }
    times
}

/// Calls `visit` for every expression of a statement, those of statements that write in its WITH included.
fn walk_whole<'b>(statement: &'b BoundStatement, visit: &mut dyn FnMut(&'b BoundExpr)) {
    walk_statement(statement, visit);
    let (ctes, query) = match &statement.kind {
        StatementKind::Query(query) => (&[][..], Some(&**query)),
        StatementKind::Insert(insert) => (&insert.ctes[..], insert.query.as_ref()),
        StatementKind::Update(update) => (&update.ctes[..], None),
        StatementKind::Delete(delete) => (&delete.ctes[..], None),
        StatementKind::Merge(merge) => (&merge.ctes[..], None),
    };
    walk_written(ctes, visit);
    if let Some(query) = query {
        walk_written(&query.ctes, visit);
        if let QueryBody::Set { left, right, .. } = &query.body {
            walk_written(&left.ctes, visit);
            walk_written(&right.ctes, visit);
        }
    }
}

/// The statements that write among common table expressions.
fn walk_written<'b>(ctes: &'b [BoundCte], visit: &mut dyn FnMut(&'b BoundExpr)) {
    for cte in ctes {
        if let CteBody::Statement(statement) = &cte.body {
            walk_whole(statement, visit);
        }
    }
}
