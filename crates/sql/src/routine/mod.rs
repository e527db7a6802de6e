//! Functions, procedures, DO blocks and triggers: bodies in SQL and PL/pgSQL, run inside the statement that calls them.
//!
//! ```text
//! call          from a call in a statement to a body
//! query         a statement of a body: planned once, run many times
//! sql, plpgsql  bodies in SQL; bodies in PL/pgSQL
//! value         conversions between variables and columns
//! trigger       conditions and functions of triggers
//! footprint/    the reads and writes of a body, derived before it runs
//! ```
//!
//! # Invariants
//! - A body runs inside one attempt of one transaction of the engine: its statements read and write through the door of
//!   the statement that called it, so a call and all that it does are one transaction, retried as a whole.
//!   A procedure that ends transactions is the exception: it runs beside them (`session/chain.rs`).
//! - An error that means "abort and retry" passes through every body unchanged.
//! - A compiled body belongs to one connection and one version of the catalog.

pub(crate) mod call;
pub(crate) mod footprint;
mod plpgsql;
pub(crate) mod query;
mod sql;
pub(crate) mod trigger;
pub(crate) mod value;

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

use crate::catalog::Routine;
use crate::catalog::uses::Kept;
use crate::error::{Result, SqlError, SqlState};
use crate::routine::footprint::call::Footprint;
use crate::routine::plpgsql::Program;
use crate::routine::query::Query;
use crate::routine::sql::SqlBody;
use crate::types::{Type, Value};

/// The limit of nested calls.
const DEPTH_MAX: usize = 1_000;

/// The result of a call: the rows of a set, or the one value, which takes no allocation.
pub(crate) type Returned = SmallVec<[Value; 1]>;

/// A body that is ready to run.
pub(crate) enum Body {
    Sql(SqlBody),
    Plpgsql(Box<Program>),
}

/// A body, and what it was compiled for.
struct Compiled {
    body: Arc<Body>,
    version: u64,
    kept: Kept,
    settings: Arc<str>,
    /// The role for which its statements were checked.
    role: u32,
}

/// The routines of a session: bodies compiled so far, and how deeply calls are nested.
#[derive(Default)]
pub(crate) struct Routines {
    compiled: HashMap<u32, Compiled>,
    footprints: HashMap<u32, Footprint>,
    /// Polymorphic routines with the types of calls, each with the version of the catalog that it is of.
    instances: HashMap<(u32, Vec<Type>), (u64, Arc<Routine>)>,
    /// The routines that may be called, each by the role and in the version of the catalog for which that was found.
    callable: HashMap<u32, (u64, u32)>,
    /// The conditions of triggers, by the triggers' oids.
    conditions: HashMap<u32, Arc<Query>>,
    /// Casts to domains, by the domains' oids.
    domains: HashMap<u32, Arc<Query>>,
    depth: usize,
    /// True while a body that is being created is examined: its statements need no privileges yet.
    is_examined: bool,
    /// The number of calls, from the outermost one on, that are CALLs of bodies that may change the schema.
    direct: usize,
    /// The number of blocks with handlers around the running statement: an error of a statement in them is one before
    /// the next statement.
    pub(crate) protected: usize,
    /// True if these may also end transactions: no block is open.
    may_end: bool,
    /// True once a body has reached a COMMIT, a ROLLBACK or a schema change inside of an attempt, and must run beside
    /// the engine's transactions.
    wants_chain: bool,
    /// Procedures that have ended transactions before.
    chains: HashSet<u32>,
    /// Tables that statements of bodies were planned for without statistics: they are counted before the next statement.
    pub(crate) uncounted: Vec<u32>,
}

impl Routines {
    /// Forgets the bodies, so that their statements are planned again.
    pub(crate) fn clear(&mut self) {
        self.compiled.clear();
        self.footprints.clear();
        self.instances.clear();
        self.callable.clear();
        self.conditions.clear();
        self.domains.clear();
    }

    /// The condition of a trigger. The objects that it names may have been renamed since it was needed last.
    fn condition(&mut self, trigger: u32, text: &str) -> Result<Arc<Query>> {
        if let Some(known) = self.conditions.get(&trigger).filter(|known| trigger::is_condition(known, text))
        {
            return Ok(known.clone());
        }
        let made = Arc::new(trigger::condition_of(text)?);
        self.conditions.insert(trigger, made.clone());
        Ok(made)
    }

    /// The cast to a domain, whose name may have changed since it was needed the last time.
    fn domain(&mut self, domain: u32, text: &str) -> Result<Arc<Query>> {
        if let Some(known) = self.domains.get(&domain).filter(|known| known.text == text) {
            return Ok(known.clone());
        }
        let Some(parsed) = crate::parse::parse(text)?.pop() else {
            return Err(SqlError::internal("a cast is empty"));
        };
        let made = Arc::new(Query::of_definition(parsed.statement, text));
        self.domains.insert(domain, made.clone());
        Ok(made)
    }

    /// Notes one more call inside of the others.
    fn enter(&mut self) -> Result<()> {
        if self.depth >= DEPTH_MAX {
            let hint = format!("Functions call each other at most {DEPTH_MAX} levels deep.");
            return Err(
                SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded").with_hint(hint)
            );
        }
        self.depth += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Returns true if a procedure is known to end transactions or change the schema.
    pub(crate) fn is_chain(&self, procedure: Option<u32>) -> bool {
        procedure.is_some_and(|oid| self.chains.contains(&oid))
    }

    /// Lets the body that is called next change the schema and, if no block is open, end transactions.
    pub(crate) fn offer_chain(&mut self, may_end: bool) {
        (self.direct, self.may_end, self.wants_chain) = (1, may_end, false);
    }

    /// Lets the procedure that is called next end transactions, unless it has a definer's rights.
    pub(crate) fn begin_chain(&mut self) {
        (self.direct, self.may_end, self.wants_chain) = (0, true, false);
    }

    /// Returns true if a body has asked to be run as a chain: its attempt is abandoned.
    fn is_given_up(&self) -> bool {
        self.wants_chain
    }

    /// Ends the offer of a chain; returns true if that body has asked to be run as a chain of transactions.
    pub(crate) fn take_wish_for_chain(&mut self, procedure: Option<u32>) -> bool {
        (self.direct, self.may_end) = (0, false);
        let wants_chain = std::mem::take(&mut self.wants_chain);
        if wants_chain {
            self.chains.extend(procedure);
        }
        wants_chain
    }

    /// Returns true if the innermost body may end transactions.
    fn may_end_transactions(&self) -> bool {
        self.may_end && self.may_change_schema()
    }

    /// Returns true if the innermost body may change the schema.
    fn may_change_schema(&self) -> bool {
        self.depth > 0 && self.direct == self.depth
    }
}
