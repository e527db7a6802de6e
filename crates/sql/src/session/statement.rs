//! Execution of a statement, by its kind.

use crate::bind::plain_query;
use crate::bind::tree::{
    BoundExpr, BoundSelect, BoundStatement, BoundTarget, Distinct, QueryBody, RelationId, StatementKind,
};
use crate::catalog::rights::{DELETE, INSERT, SELECT, TRUNCATE, UPDATE};
use crate::catalog::role::CHECKPOINTER;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{ObjectName, SetScope, SetValue, Statement};
use crate::session::KnownNow;
use crate::session::connection::Connection;
use crate::session::prepared::Given;
use crate::session::result::{Field, ResultSink, Severity};
use crate::session::settings;
use crate::session::settings::check_changeable;
use crate::types::{Modifier, Type, Value};

impl Connection {
    /// Runs one statement and completes it in the sink.
    pub(super) fn statement(
        &mut self,
        statement: &Statement,
        text: &str,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        self.statement_with(statement, text, Given::default(), sink)
    }

    /// Runs a statement as [`statement`](Self::statement) does, with parameters for a query inside of it.
    pub(super) fn statement_with(
        &mut self,
        statement: &Statement,
        text: &str,
        given: Given<'_>,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        if !statement.ends_block() {
            self.check_not_failed()?;
        }
        let tag = match statement {
            Statement::Query(query) if crate::ddl::select_into(query).is_some() => {
                return self.create_table_as_into(query, text, sink);
            }
            Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Merge(_)
            | Statement::Call(_) => return self.run_data(statement, text, sink),
            Statement::Execute { name, args } => return self.execute_prepared(name, args, sink),
            Statement::Explain { options, statement, text } => {
                return self.explain(*options, statement, text, given, sink);
            }
            Statement::ExplainRoutine { kind, name } => return self.explain_routine(*kind, name, sink),
            Statement::Copy(copy) => return self.copy(copy, text, sink),
            Statement::Show(name) => return self.show(name, sink),
            Statement::Fetch(fetch) => return self.fetch(fetch, sink),
            Statement::CreateTableAs(create) => return self.create_table_as(create, text, sink),
            Statement::CreateView(create) if create.materialized => {
                return self.create_materialized_view(create, text, sink);
            }
            Statement::Do(block) => {
                self.do_block(block)?;
                "DO"
            }
            Statement::Begin { modes, tag } => {
                self.begin(*modes)?;
                tag
            }
            Statement::Commit { chain } => self.commit(*chain)?,
            Statement::Rollback { chain } => self.rollback(*chain)?,
            Statement::Savepoint(name) => self.savepoint(&name.text)?,
            Statement::RollbackTo(name) => self.rollback_to(&name.text)?,
            Statement::Release(name) => self.release(&name.text)?,
            Statement::Declare(declare) => self.declare(declare, text, given)?,
            Statement::Close(name) => self.close(name.as_ref())?,
            Statement::Prepare { name, types, statement, text: inner } => {
                self.prepare_statement(name, types, (statement, inner), text)?;
                "PREPARE"
            }
            Statement::Deallocate(name) => self.deallocate(name.as_ref())?,
            Statement::Truncate { .. } => self.truncate(statement)?,
            _ => match self.session_statement(statement)? {
                Some(tag) => tag,
                None => self.schema_statement(statement, text)?,
            },
        };
        sink.complete(tag)
    }

    /// Statements about the session, and those that have nothing to do.
    fn session_statement(&mut self, statement: &Statement) -> Result<Option<&'static str>> {
        let tag = match statement {
            Statement::Set { scope, name, value } => self.set(*scope, name, value)?,
            Statement::SetSnapshot(id) => self.set_snapshot(id)?,
            Statement::SetTransaction { session: false, .. } if self.transaction.is_idle() => {
                let message = "SET TRANSACTION can only be used in transaction blocks";
                let state = SqlState::NO_ACTIVE_SQL_TRANSACTION;
                self.environment.add_notice(Severity::Warning, state, message);
                "SET"
            }
            Statement::SetTransaction { modes, session } => {
                self.set_modes(*modes, *session)?;
                "SET"
            }
            Statement::SetConstraints { names, deferred } => self.set_constraints(names, *deferred)?,
            Statement::Reset(name) => {
                let in_block = !self.transaction.is_idle();
                match name {
                    Some(name) => self.environment.set_setting(name, None, false, in_block)?,
                    None => self.environment.settings.reset_all(in_block)?,
                }
                "RESET"
            }
            Statement::AlterSystem { name, value } => self.alter_system(name.as_deref(), value)?,
            Statement::Discard(what) => self.discard(what)?,
            Statement::LockTable { tables, mode, no_wait } => self.lock_tables(tables, mode, *no_wait)?,
            Statement::Vacuum(asked) => {
                self.check_no_block("VACUUM")?;
                let own = self.maintained(&asked.tables, "vacuum")?;
                if asked.analyze {
                    self.analyze(asked, &own)?;
                }
                "VACUUM"
            }
            Statement::Analyze(asked) => {
                let own = self.maintained(&asked.tables, "analyze")?;
                self.analyze(asked, &own)?;
                "ANALYZE"
            }
            Statement::Reorganize(statement) => self.reorganize(statement)?,
            Statement::Checkpoint => {
                if !self.environment.catalog.has_privileges_of(self.role(), CHECKPOINTER) {
                    let message = "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT";
                    return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
                }
                if self.shared.database.log_directory().is_some() {
                    self.shared.database.checkpoint()?;
                }
                "CHECKPOINT"
            }
            Statement::Listen(name) => self.listen(&name.text)?,
            Statement::Unlisten(name) => self.unlisten(name.as_ref().map(|name| name.text.as_str())),
            Statement::Notify { channel, payload } => {
                self.environment.notify_at_commit(&channel.text, payload.as_deref().unwrap_or_default())?;
                "NOTIFY"
            }
            Statement::Unsupported { what, hint, at: _ } => {
                let error = SqlError::unsupported(format!("{what} is not supported"));
                return Err(match hint {
                    Some(hint) => error.with_hint(*hint),
                    None => error,
                });
            }
            _ => return Ok(None),
        };
        Ok(Some(tag))
    }

    fn set(&mut self, scope: SetScope, name: &str, value: &SetValue) -> Result<&'static str> {
        let in_block = !self.transaction.is_idle();
        let local = scope == SetScope::Local;
        check_changeable(name, self.environment.is_superuser())?;
        if local && !in_block {
            let message = "SET LOCAL can only be used in transaction blocks";
            self.environment.add_notice(Severity::Warning, SqlState::NO_ACTIVE_SQL_TRANSACTION, message);
            return Ok("SET");
        }
        let text = value.text(name);
        if let Some(text) = &text {
            let value = if settings::parse_bool(text) == Some(false) { "off" } else { "on" };
            self.check_mode(name, value)?;
        }
        self.environment.set_setting(name, text.as_deref(), local, in_block)?;
        Ok("SET")
    }

    fn discard(&mut self, what: &str) -> Result<&'static str> {
        match what {
            "all" => {
                self.check_no_block("DISCARD ALL")?;
                self.environment.prepared.clear();
                self.portals.clear();
                self.environment.cursors.clear();
                (self.plans, self.templates, self.parsed) = Default::default();
                self.environment.set_setting("session_authorization", None, false, false)?;
                self.environment.settings.reset_all(false)?;
                self.unlisten(None);
                self.drop_temporary()?;
                Ok("DISCARD ALL")
            }
            "plans" => {
                (self.plans, self.templates, self.parsed) = Default::default();
                Ok("DISCARD PLANS")
            }
            "sequences" => {
                self.environment.current_values.clear();
                self.environment.last_sequence = None;
                Ok("DISCARD SEQUENCES")
            }
            _ => {
                self.drop_temporary()?;
                Ok("DISCARD TEMP")
            }
        }
    }

    pub(super) fn check_relations(&self, names: &[crate::parse::syntax::ObjectName]) -> Result<()> {
        for name in names {
            self.find_relation(name)?;
        }
        Ok(())
    }

    /// LOCK TABLE needs a privilege by which the table could be locked otherwise.
    pub(super) fn check_lockable(&self, names: &[ObjectName], mode: &str) -> Result<()> {
        let enough = match mode.to_ascii_lowercase().as_str() {
            "access share" => vec![SELECT],
            "row exclusive" => vec![INSERT, UPDATE, DELETE, TRUNCATE],
            _ => vec![UPDATE, DELETE, TRUNCATE],
        };
        for name in names {
            let relation = self.find_relation(name)?;
            if !enough.iter().any(|privilege| self.check_relation(&relation, *privilege).is_ok()) {
                let name = name.last();
                return Err(crate::bind::privileges::denied(relation.kind(), name));
            }
        }
        Ok(())
    }

    /// The columns that a statement which is not planned returns.
    pub(super) fn utility_fields(&self, statement: &Statement) -> Option<Vec<Field>> {
        match statement {
            Statement::Show(name) if name == "all" => Some(
                ["name", "setting", "description"]
                    .iter()
                    .map(|name| Field::plain(name, Type::Text))
                    .collect(),
            ),
            Statement::Show(name) => Some(vec![Field::plain(settings::own_name(name), Type::Text)]),
            Statement::Explain { .. } | Statement::ExplainRoutine { .. } => {
                Some(vec![Field::plain("QUERY PLAN", Type::Text)])
            }
            Statement::Fetch(fetch) if !fetch.moves => {
                let name = &fetch.cursor.text;
                let cursor = self.environment.cursors.get(name).map(|cursor| cursor.fields().to_vec());
                cursor.or_else(|| self.portal_fields(name))
            }
            Statement::Execute { name, .. } => {
                let prepared = self.environment.prepared.get(&name.text)?;
                let plan = prepared.plan.lock().clone()?;
                plan.returns.then(|| plan.fields.to_vec())
            }
            _ => None,
        }
    }

    fn show(&mut self, name: &str, sink: &mut dyn ResultSink) -> Result<()> {
        let printing = self.environment.printing();
        if name == "all" {
            let fields: Vec<Field> = ["name", "setting", "description"]
                .iter()
                .map(|name| Field::plain(name, Type::Text))
                .collect();
            sink.describe(&fields)?;
            for (name, value) in self.environment.all_settings() {
                sink.row(&[Value::text(name), Value::text(value), Value::text("")], &*printing)?;
            }
            return sink.complete("SHOW");
        }
        let Some(value) = self.environment.shown_setting(name) else {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        };
        sink.describe(&[Field::plain(settings::own_name(name), Type::Text)])?;
        sink.row(&[Value::text(value)], &*printing)?;
        sink.complete("SHOW")
    }

    /// The value of a bound expression without columns.
    pub(super) fn evaluate(&mut self, expr: BoundExpr) -> Result<Value> {
        if let BoundExpr::Constant { value, .. } = expr {
            return Ok(value);
        }
        let column = crate::bind::tree::BoundColumn {
            name: String::new(),
            ty: expr.ty(),
            modifier: Modifier::NONE,
            source: None,
        };
        let select = BoundSelect {
            relations: Vec::new(),
            from: Vec::new(),
            filter: None,
            group_by: Vec::new(),
            grouping_sets: None,
            aggregates: Vec::new(),
            having: None,
            windows: Vec::new(),
            targets: vec![BoundTarget { expr, name: String::new() }],
            distinct: Distinct::No,
            set_returning: false,
        };
        let query =
            plain_query(RelationId(u32::MAX), QueryBody::Select(Box::new(select)), vec![column.clone()]);
        let kind = StatementKind::Query(Box::new(query));
        let statement = BoundStatement { kind, parameters: Vec::new(), columns: vec![column] };
        let catalog = self.environment.catalog.clone();
        let path = self.environment.path();
        let known = KnownNow { shared: &self.shared, catalog: &catalog, path: &path, has_consequences: true };
        let planned = crate::plan::plan(&statement, &known)?;
        let mut result = Value::Null;
        let environment = &mut self.environment;
        crate::access::read(&self.shared.database, |access| {
            crate::run::execute(&planned, access, &[][..], environment, &mut |batch| {
                result = batch.rows().next().and_then(|row| row.first()).cloned().unwrap_or_default();
                Ok(())
            })
        })?;
        Ok(result)
    }
}
