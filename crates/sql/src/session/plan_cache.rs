//! Plans by the texts of statements: a statement that differs from an earlier one in its literals only is not planned.
//!
//! An entry of the cache is the plan of a template ([`crate::parse::template`]) with the types of its
//! literals, for the settings on which binding depends (the search path, the role, formats) and the catalog
//! as it was then. All connections to a database share the plans; each also keeps those that it has used, so
//! that a statement touches nothing shared.
//!
//! # Invariants
//! - A template that cannot be bound or planned is kept as such: its statements are planned as they are written.
//! - Reports are planned as they are written, too: their literals decide on the plan.
//! - A connection with temporary tables shares no plans: its names mean other tables.
//!
//! # Concurrency
//! The shared plans lie in shards, each under a lock that is held for a look-up or an insert.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::catalog::uses;
use crate::error::{Result, SqlError};
use crate::parse::parse;
use crate::parse::template::{Literal, Literals, template};
use crate::run::order::{Hashing, hashing};
use crate::session::connection::Connection;
use crate::session::plan_choice::PlanChoice;
use crate::session::result::ResultSink;
use crate::session::run::Plan;
use crate::session::statements::Counters;
use crate::types::numeric::Numeric;
use crate::types::text::from_text;
use crate::types::{Modifier, Type, Value};

const SHARDS: usize = 16;
/// The limit of templates that a shard, or a connection, keeps.
const TEMPLATES_MAX: usize = 512;

/// A template with its plan.
pub(crate) struct Template {
    /// The template, a zero, and a letter for the type of each literal.
    key: Box<str>,
    /// The catalog's version, and the settings that binding depends on.
    version: u64,
    settings: Arc<str>,
    /// `None` if its statements are planned as they are written.
    plan: Option<Arc<Plan>>,
    /// The choice between custom and generic plans for its statements.
    choice: PlanChoice,
}

/// The templates that all connections to a database share.
#[derive(Default)]
pub(crate) struct SharedTemplates {
    shards: [Mutex<HashMap<u64, Arc<Template>, Hashing>>; SHARDS],
}

/// A template that a connection has used: counted by this connection alone, where the count of what is shared would go
/// from core to core.
pub(crate) struct Used {
    template: Arc<Template>,
    counters: Arc<Counters>,
}

/// The templates that a connection has used.
#[derive(Default)]
pub(crate) struct Templates {
    used: HashMap<u64, Arc<Used>, Hashing>,
    /// Buffers, reused to avoid allocations.
    key: String,
    literals: Literals,
}

impl SharedTemplates {
    fn get(&self, hash: u64) -> Option<Arc<Template>> {
        self.shards[hash as usize % SHARDS].lock().get(&hash).cloned()
    }

    /// Forgets all plans: they were made by statistics of before.
    pub fn clear(&self) {
        self.shards.iter().for_each(|shard| shard.lock().clear());
    }

    fn insert(&self, hash: u64, template: Arc<Template>) {
        let mut shard = self.shards[hash as usize % SHARDS].lock();
        if shard.len() >= TEMPLATES_MAX {
            shard.clear();
        }
        shard.insert(hash, template);
    }
}

impl Connection {
    /// Runs a text by the plan of its template; `None` if it has none, and nothing was done.
    pub(super) fn run_by_template(&mut self, text: &str, sink: &mut dyn ResultSink) -> Option<Result<()>> {
        if self.check_not_failed().is_err() {
            return None;
        }
        let mut key = std::mem::take(&mut self.templates.key);
        let mut literals = std::mem::take(&mut self.templates.literals);
        let found =
            if template(text, &mut key, &mut literals) { self.template(&mut key, &literals) } else { None };
        let values =
            found.as_ref().and_then(|found| self.values(found.template.plan.as_deref()?, text, &literals));
        (self.templates.key, self.templates.literals) = (key, literals);
        let (found, values) = (found?, values?);
        let plan = found.template.plan.as_ref()?;
        let started = Instant::now();
        let mut is_empty = true;
        let plan = self.plan_of_template(&found.template, plan, &values)?;
        let run = || self.run_to_sink(&plan, &values, &mut is_empty, sink);
        let done = crate::stack::for_text(text.len(), run);
        if is_empty && done.as_ref().is_err_and(SqlError::is_of_stale_plan) {
            // A schema change has committed meanwhile: the statement is planned again.
            self.refresh_catalog();
            return None;
        }
        let done = done.and_then(|()| {
            self.statement_done();
            self.close_implicit_block()
        });
        self.count_statement(started, done.is_ok().then_some(&found.counters));
        Some(done)
    }

    /// The plan of a template for these literals; `None` if they cannot be planned for, and the statement as it is
    /// written says why.
    fn plan_of_template(
        &mut self,
        template: &Template,
        generic: &Arc<Plan>,
        values: &[Value],
    ) -> Option<Arc<Plan>> {
        let mode = self.environment.settings.derived.plan_cache_mode;
        if !template.choice.is_custom(mode, generic) {
            return Some(generic.clone());
        }
        let text = template.key.split('\0').next()?;
        let statements = crate::stack::for_text(text.len(), || parse(text)).ok()?;
        let [parsed] = &statements[..] else { return None };
        let statement = (&parsed.statement, text);
        crate::stack::for_text(text.len(), || {
            self.chosen_plan(generic.clone(), &template.choice, statement, values)
        })
        .ok()
    }

    /// The template of this text and these literals; planned, if it is new.
    fn template(&mut self, key: &mut String, literals: &Literals) -> Option<Arc<Used>> {
        let length = key.len();
        key.push('\0');
        key.extend(literals.iter().map(Literal::letter));
        let settings = self.environment.settings.derived.binding.clone();
        let hash = hashing().hash_one((key.as_str(), settings.as_ref()));
        if let Some(known) = self.templates.used.get(&hash)
            && self.is_same(&known.template, key)
        {
            if let Some(plan) = &known.template.plan {
                uses::note_kept(&plan.kept);
            }
            return Some(known.clone());
        }
        // A connection with temporary tables keeps to itself.
        let is_shared = !self.environment.catalog.has_objects_in(&self.environment.temporary);
        let shared = if is_shared { self.shared.templates.get(hash) } else { None };
        let found = match shared.filter(|found| self.is_same(found, key)) {
            Some(found) => {
                if let Some(plan) = &found.plan {
                    uses::note_kept(&plan.kept);
                }
                found
            }
            None => {
                let plan = self.plan_template(&key[..length], literals);
                let (version, key) = (self.environment.catalog.version, key.as_str().into());
                let choice = PlanChoice::default();
                let new = Arc::new(Template { key, version, settings, plan, choice });
                if is_shared {
                    self.shared.templates.insert(hash, new.clone());
                }
                new
            }
        };
        if self.templates.used.len() >= TEMPLATES_MAX {
            self.templates.used.clear();
        }
        let counters = self.shared.statements.counters(&self.environment.user, &key[..length]);
        let own = Arc::new(Used { template: found, counters });
        self.templates.used.insert(hash, own.clone());
        Some(own)
    }

    /// Returns true if a template has this key, and its plan is current.
    fn is_same(&self, template: &Template, key: &str) -> bool {
        let settings = &self.environment.settings.derived.binding;
        *template.key == *key
            && !template.plan.as_ref().is_some_and(|plan| self.is_over(plan))
            && template.version == self.environment.catalog.version
            && (Arc::ptr_eq(&template.settings, settings) || template.settings == *settings)
    }

    fn plan_template(&mut self, text: &str, literals: &Literals) -> Option<Arc<Plan>> {
        let statements = crate::stack::for_text(text.len(), || parse(text)).ok()?;
        let [parsed] = &statements[..] else { return None };
        let is_plain = parsed.statement.is_planned() && !parsed.statement.is_select_into();
        let types: Vec<Option<Type>> = literals.iter().map(type_of).collect();
        if !is_plain {
            return None;
        }
        let plan = crate::stack::for_text(text.len(), || self.plan(&parsed.statement, text, &types)).ok()?;
        let fits = plan.parameters.len() == literals.len()
            && types.iter().zip(plan.parameters.iter()).all(|(ty, of)| ty.is_none_or(|ty| ty == *of));
        // Which unit a text without one has may depend on the fields of an interval's type.
        let has_interval = plan.parameters.iter().any(|ty| ty.element().unwrap_or(*ty) == Type::Interval);
        (fits && !has_interval && !plan.planned.is_report && !plan.planned.depends_on_values).then_some(plan)
    }

    /// The literals as values of the plan's parameters; `None` if one is no value of its type, and the statement as it
    /// is written says so.
    fn values(&self, plan: &Plan, text: &str, literals: &Literals) -> Option<SmallVec<[Value; 8]>> {
        let value = |(literal, ty): (&Literal, &Type)| match literal {
            Literal::Integer(value) if *ty == Type::Int4 => Some(Value::Int4(*value as i32)),
            Literal::Integer(value) => Some(Value::Int8(*value)),
            Literal::Number(place) => text[place.clone()].parse::<Numeric>().ok().map(Value::Numeric),
            Literal::Text(place) => {
                let text = &text[place.clone()];
                let plain = if text.contains('\'') {
                    text.replace("''", "'").into()
                } else {
                    std::borrow::Cow::from(text)
                };
                match ty {
                    Type::Text | Type::Varchar => Some(Value::text(&*plain)),
                    ty => from_text(&self.environment, *ty, Modifier::NONE, &plain).ok(),
                }
            }
        };
        literals.iter().zip(plan.parameters.iter()).map(value).collect()
    }
}

/// The type of a literal; `None` if its context decides.
fn type_of(literal: &Literal) -> Option<Type> {
    match literal.letter() {
        'i' => Some(Type::Int4),
        'b' => Some(Type::Int8),
        'n' => Some(Type::Numeric),
        _ => None,
    }
}
