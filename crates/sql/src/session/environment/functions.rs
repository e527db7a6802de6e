//! The session as functions, casts and rules see it during their evaluation.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{SessionEnvironment, next_transaction_number, now, object_name};
use crate::catalog::Sequence;
use crate::catalog::rights::{SELECT, UPDATE, USAGE};
use crate::catalog::store::TEMPORARY;
use crate::catalog::system::{self, SystemCatalog};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::quote_identifier;
use crate::routine::call;
use crate::routine::trigger::Firing;
use crate::run::Access;
use crate::run::memory::Memory;
use crate::session::result::{Notice, Severity};
use crate::session::sequences::{SHORTAGE, following, sequence_of};
use crate::types::environment::{Acting, AdvisoryLock, EnumLabels, FormatSettings, ObjectKind};
use crate::types::record::Shape;
use crate::types::{DeferrableKey, Environment, KeySide, Modifier, Type, Value};

/// The approximate memory of a setting beside its texts.
const SETTING_BYTES: usize = 128;

impl SessionEnvironment {
    /// The oid of the type of this name; of a domain its own.
    fn type_oid(&self, name: &str) -> Option<u32> {
        let found = self.type_by_name(name)?;
        let parsed = crate::parse::parse_type(name).ok()?;
        if parsed.dimensions == 0 && Type::from_name(parsed.name.last()).is_none() {
            let named = self.catalog.find_type(parsed.name.schema(), parsed.name.last(), &self.path());
            return named.map(|ty| ty.oid()).or(Some(found.oid()));
        }
        Some(found.oid())
    }

    /// SET and RESET in the body of a routine: until the transaction ends if it is local, and beyond it if it commits.
    ///
    /// # Errors
    /// Those of SET.
    pub fn set_in_body(&mut self, name: &str, value: Option<&str>, is_local: bool) -> Result<()> {
        self.refuse_in_rules("SET")?;
        self.gathered.charge(SETTING_BYTES + name.len() + value.map_or(0, str::len))?;
        self.set_setting(name, value, is_local, true)
    }
}

impl Environment for SessionEnvironment {
    fn system_catalog(&self) -> Option<SystemCatalog<'_>> {
        Some(SystemCatalog { session: self })
    }

    fn formats(&self) -> &FormatSettings {
        &self.settings.formats
    }

    fn transaction_start(&self) -> i64 {
        self.transaction_start
    }

    fn statement_start(&self) -> i64 {
        self.statement_start
    }

    fn clock(&self) -> i64 {
        now()
    }

    fn transaction_number(&mut self) -> Result<i64> {
        Ok(*self.transaction_number.get_or_insert_with(next_transaction_number))
    }

    fn known_transaction_number(&self) -> Option<i64> {
        self.transaction_number
    }

    fn random_bits(&mut self) -> u64 {
        self.random.next()
    }

    fn set_seed(&mut self, seed: f64) {
        self.random.0 = seed.to_bits();
    }

    fn enum_labels(&self, oid: u32) -> Option<EnumLabels> {
        self.catalog.enum_by_oid(oid).map(|ty| ty.numbered_labels())
    }

    fn type_name(&self, oid: u32) -> Option<String> {
        self.catalog.user_type_name(oid).map(|name| quote_identifier(&name))
    }

    fn shape(&self, oid: u32) -> Option<Arc<Shape>> {
        self.catalog.shape(oid)
    }

    fn type_by_name(&self, name: &str) -> Option<Type> {
        let parsed = crate::parse::parse_type(name).ok()?;
        let built_in = Type::from_name(parsed.name.last());
        let ty = built_in.or_else(|| {
            let (schema, name, path) = (parsed.name.schema(), parsed.name.last(), self.path());
            match self.catalog.find_type(schema, name, &path) {
                Some(crate::catalog::UserType::Enum(ty)) => Some(Type::Enum(ty.oid)),
                Some(crate::catalog::UserType::Domain(domain)) => Some(domain.ty),
                Some(crate::catalog::UserType::Composite(ty)) => Some(Type::Composite(ty.oid)),
                None => self.catalog.find_row_type(schema, name, &path),
            }
        })?;
        if parsed.dimensions > 0 { ty.array() } else { Some(ty) }
    }

    fn object_name(&self, kind: ObjectKind, oid: u32) -> Option<String> {
        object_name(&self.catalog, &self.path(), &self.bootstrap_name(), kind, oid)
    }

    fn check_name(&self, kind: ObjectKind, name: &str) -> Result<()> {
        if self.stored_path.is_some() {
            return Ok(());
        }
        let text = name.split_once('(').map_or(name, |(name, _)| name);
        let parsed = match kind {
            ObjectKind::Relation | ObjectKind::Function | ObjectKind::FunctionSignature => {
                crate::parse::parse_name(text).ok()
            }
            ObjectKind::Type => crate::parse::parse_type(name).ok().map(|parsed| parsed.name),
            _ => None,
        };
        parsed.map_or(Ok(()), |name| self.check_usage_of(&name))
    }

    fn look_up_along(&mut self, path: Option<Vec<String>>) -> Option<Vec<String>> {
        std::mem::replace(&mut self.stored_path, path)
    }

    fn object_by_name(&self, kind: ObjectKind, name: &str) -> Result<Option<u32>> {
        self.check_name(kind, name)?;
        if kind == ObjectKind::FunctionSignature {
            let path = self.path();
            return system::oid_by_signature(&self.catalog, &path, name, |ty| self.type_by_name(ty));
        }
        if let Some(oid) =
            system::oid_by_name(&self.catalog, &self.path(), &self.bootstrap_name(), kind, name)?
        {
            return Ok(Some(oid));
        }
        match kind {
            ObjectKind::Relation => {
                let parts = crate::parse::parse_name(name)?;
                Ok(self.catalog.find_oid(parts.schema(), parts.last(), &self.path()))
            }
            ObjectKind::Type => Ok(self.type_oid(name)),
            ObjectKind::Schema => {
                let parts = crate::parse::parse_name(name)?;
                Ok(self.catalog.schema(parts.last()).map(|schema| schema.oid))
            }
            _ => Ok(None),
        }
    }

    fn defer_check(&mut self, key: DeferrableKey<'_>, values: &[Value], side: KeySide) -> bool {
        // Nothing of a security-restricted operation is left for later.
        !self.is_restricted() && self.deferred.take(key, values, side)
    }

    fn decides_at_once(&self) -> bool {
        self.routines.protected > 0
    }

    fn next_value(&mut self, sequence: u32) -> Result<i64> {
        self.refuse_in_rules("nextval")?;
        let sequence = sequence_of(&self.catalog, sequence)?;
        self.check_sequence(&sequence, USAGE | UPDATE)?;
        self.check_may_advance(&sequence, "nextval()")?;
        let known =
            self.given.get(self.replayed).filter(|(oid, _)| *oid == sequence.oid).map(|(_, value)| *value);
        let value = match known {
            Some(value) => value,
            None => {
                let standing =
                    self.value_set(sequence.oid).or_else(|| self.restarted.get(&sequence.oid).copied());
                let value = match standing {
                    Some((last, is_called)) => following(&sequence, last, is_called)?,
                    None => self.sequences.next(&sequence).inspect_err(|error| {
                        if error.state() == SHORTAGE {
                            self.shortage = Some(sequence.oid);
                        }
                    })?,
                };
                self.given.truncate(self.replayed);
                self.given.push((sequence.oid, value));
                value
            }
        };
        self.replayed += 1;
        // Where the statement's own setval, or a restart, has left the sequence.
        match self.set_values.iter_mut().rfind(|(oid, ..)| *oid == sequence.oid) {
            Some(set) => (set.1, set.2) = (value, true),
            None => {
                if let Some(standing) = self.restarted.get_mut(&sequence.oid) {
                    *standing = (value, true);
                }
            }
        }
        self.current_values.insert(sequence.oid, value);
        self.last_sequence = Some(sequence.oid);
        Ok(value)
    }

    fn sequence_state(&mut self, sequence: u32) -> Result<(i64, bool)> {
        self.refuse_in_rules("reading a sequence")?;
        let known = sequence_of(&self.catalog, sequence)?;
        self.check_sequence(&known, SELECT)?;
        let standing = self.value_set(sequence).or_else(|| self.restarted.get(&sequence).copied());
        if let Some(standing) = standing {
            return Ok(standing);
        }
        if self.is_in_recovery() {
            return self.sequences.stored_standing(&self.shared.database, &known);
        }
        self.sequences.state(sequence).inspect_err(|_| self.shortage = Some(sequence))
    }

    fn current_value(&mut self, sequence: u32) -> Result<i64> {
        let sequence = sequence_of(&self.catalog, sequence)?;
        self.check_sequence(&sequence, USAGE | SELECT)?;
        self.current_values.get(&sequence.oid).copied().ok_or_else(|| {
            let message =
                format!("currval of sequence \"{}\" is not yet defined in this session", sequence.name);
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    fn advisory_lock(&mut self, lock: AdvisoryLock, wait: bool) -> Result<bool> {
        self.refuse_in_rules("an advisory lock")?;
        let locks = self.advisory.clone();
        let timeout = self.settings.milliseconds("lock_timeout").map(Duration::from_millis);
        let give_up = timeout.map(|timeout| Instant::now() + timeout);
        let locked = locks.acquire(self.number, lock, wait, &mut || {
            self.check_interrupt()?;
            if give_up.is_some_and(|give_up| Instant::now() >= give_up) {
                return Err(SqlError::lock_timeout());
            }
            Ok(())
        })?;
        if locked {
            self.acquired.push(lock);
        }
        Ok(locked)
    }

    fn advisory_unlock(&mut self, lock: AdvisoryLock) -> Result<bool> {
        self.refuse_in_rules("an advisory lock")?;
        let held = self.advisory.release(self.number, lock);
        if !held {
            self.add_notice(Severity::Warning, SqlState::WARNING, "you don't own a lock of this key");
        }
        Ok(held)
    }

    fn advisory_unlock_all(&mut self) -> Result<()> {
        self.refuse_in_rules("an advisory lock")?;
        self.acquired.clear();
        self.advisory.release_all(self.number, false);
        Ok(())
    }

    fn notify(&mut self, channel: &str, payload: &str) -> Result<()> {
        self.refuse_in_rules("NOTIFY")?;
        self.notify_at_commit(channel, payload)
    }

    fn listening_channels(&self) -> Vec<Arc<str>> {
        let own = self.sessions.by_process(self.process_id);
        own.map_or_else(Vec::new, |activity| activity.channels())
    }

    fn signal_backend(&mut self, process_id: i32, terminate: bool) -> Result<bool> {
        let Some(activity) = self.sessions.by_process(process_id) else {
            let message = format!("PID {process_id} is not a PostgreSQL server process");
            self.add_notice(Severity::Warning, SqlState::WARNING, message);
            return Ok(false);
        };
        self.check_signal(&activity.user, terminate)?;
        activity.signal(terminate);
        Ok(true)
    }

    fn last_value(&mut self) -> Result<i64> {
        if let Some(last) = self.last_sequence {
            let sequence = sequence_of(&self.catalog, last)?;
            self.check_sequence(&sequence, USAGE | SELECT)?;
        }
        let last = self.last_sequence.and_then(|sequence| self.current_values.get(&sequence).copied());
        last.ok_or_else(|| {
            let message = "lastval is not yet defined in this session";
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    fn export_snapshot(&mut self) -> Result<String> {
        self.refuse_in_rules("pg_export_snapshot")?;
        Ok(self.exports.next(self.process_id))
    }

    fn set_value(&mut self, sequence: u32, value: i64, is_called: bool) -> Result<i64> {
        self.refuse_in_rules("setval")?;
        let sequence = sequence_of(&self.catalog, sequence)?;
        self.check_sequence(&sequence, UPDATE)?;
        self.check_may_advance(&sequence, "setval()")?;
        crate::session::sequences::check_bounds(&sequence, value)?;
        self.set_values.push((sequence.oid, value, is_called));
        if is_called {
            self.current_values.insert(sequence.oid, value);
        }
        Ok(value)
    }

    fn setting(&self, name: &str) -> Option<String> {
        self.shown_setting(name).map(str::to_string)
    }

    fn change_setting(&mut self, name: &str, value: &str, is_local: bool) -> Result<String> {
        self.refuse_in_rules("set_config")?;
        self.gathered.charge(SETTING_BYTES + name.len() + value.len())?;
        self.set_setting(name, Some(value), is_local, true)?;
        Ok(self.settings.get(name).unwrap_or_default().to_string())
    }

    fn user(&self) -> &str {
        match &self.acting_as {
            Some(acting) => &acting.name,
            None => &self.settings.derived.current_user,
        }
    }

    fn session_user(&self) -> &str {
        &self.settings.derived.session_user
    }

    fn role(&self) -> u32 {
        self.role_oid()
    }

    fn act_as_role(&mut self, role: u32) -> Option<Acting> {
        let name = self.role_name(role).into();
        let is_restricted = self.is_restricted();
        self.acting_as.replace(Acting { role, name, is_definer: true, is_restricted })
    }

    fn act_as(&mut self, before: Option<Acting>) {
        self.acting_as = before;
    }

    fn database(&self) -> &str {
        &self.database
    }

    fn is_database(&self, name: &str) -> bool {
        SessionEnvironment::is_database(self, name)
    }

    fn schemas(&self, with_implicit: bool) -> Vec<String> {
        let mut schemas = if with_implicit { vec!["pg_catalog".to_string()] } else { Vec::new() };
        let path = self.named_path();
        let has_temporary = self.catalog.has_objects_in(&self.temporary);
        if with_implicit && has_temporary && !path.contains(&self.temporary) {
            schemas.insert(0, self.temporary.clone());
        }
        let is_there = |schema: &String| *schema == self.temporary || self.catalog.schema(schema).is_some();
        schemas.extend(path.into_iter().filter(is_there));
        schemas
    }

    fn is_in_recovery(&self) -> bool {
        self.shared.database.is_standby()
    }

    fn log_position(&self) -> Result<String> {
        Ok(self.shared.database.durable_position()?.to_string())
    }

    fn has_log_position(&self, position: &str) -> Result<bool> {
        Ok(self.shared.database.has_position(position.parse()?)?)
    }

    fn backend_pid(&self) -> i32 {
        self.process_id
    }

    fn call_routine(&mut self, routine: u32, arguments: &[Value], access: Access<'_>) -> Result<Value> {
        call::value(self, routine, arguments, access)
    }

    fn routine_rows(&mut self, routine: u32, arguments: &[Value], access: Access<'_>) -> Result<Vec<Value>> {
        call::rows(self, routine, arguments, access)
    }

    fn transition_columns(&self, name: &str) -> Option<Vec<(String, Type, Modifier)>> {
        let found = self.transitions.iter().find(|table| table.name == name)?;
        let column = |it: &crate::catalog::ResultColumn| (it.name.clone(), it.ty, it.modifier);
        Some(found.columns.iter().map(column).collect())
    }

    fn transition_rows(&self, name: &str) -> Option<Arc<Vec<Value>>> {
        let found = self.transitions.iter().find(|table| table.name == name);
        found.map(|table| table.rows.clone())
    }

    fn trigger_depth(&self) -> i32 {
        self.trigger_depth
    }

    fn fire_trigger(&mut self, firing: &Firing<'_>, access: Access<'_>) -> Result<Option<Vec<Value>>> {
        crate::routine::trigger::fire(self, firing, access)
    }

    fn defer_trigger(&mut self, firing: &Firing<'_>) -> Result<bool> {
        // Nothing of a security-restricted operation is left for later.
        if self.is_restricted() {
            return Ok(false);
        }
        let bytes = self.deferred.take_trigger(firing);
        bytes.map_or(Ok(false), |bytes| self.gathered.charge(bytes).map(|()| true))
    }

    fn check_interrupt(&mut self) -> Result<()> {
        self.notices.poll(self.statement_start);
        self.interrupt.check()
    }

    fn note_value(&mut self, value: &Value) -> Result<()> {
        self.large_values.note(value)
    }

    fn require_value(&mut self, bytes: usize) -> Result<()> {
        self.large_values.require(bytes)
    }

    fn state_memory(&self) -> Memory {
        Memory::of_session(usize::MAX, self.memory.clone())
    }

    fn memory(&self) -> Memory {
        Memory::of_session(self.settings.derived.work_mem, self.memory.clone())
    }

    fn notice(&mut self, message: SqlError) {
        // As with `add_notice`.
        let _ = self.push_notice(Notice {
            severity: if message.state().class() == "01" { Severity::Warning } else { Severity::Notice },
            state: message.state(),
            message: message.message().to_string(),
            detail: message.detail().map(str::to_string),
            hint: message.hint().map(str::to_string),
        });
    }
}

impl SessionEnvironment {
    /// Refuses to change a sequence in a read-only transaction, unless it is one of the session's own.
    fn check_may_advance(&self, sequence: &Sequence, function: &str) -> Result<()> {
        if !self.settings.derived.read_only || sequence.schema.starts_with(TEMPORARY) {
            return Ok(());
        }
        let message = format!("cannot execute {function} in a read-only transaction");
        Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message))
    }
}
