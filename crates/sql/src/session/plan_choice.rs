//! Custom and generic plans: the choice between planning a statement for the values of its parameters, and running the
//! plan for any values.
//!
//! A statement whose estimates depend on the values is planned for these at its first executions. After them the plan for any
//! values is used, if it is not costlier than those were on average, what planning costs included.
//!
//! # Invariants
//! - A statement that names its rows by whole keys, or whose estimates are the same for all values, has one plan, and what it
//!   costs to choose is a look at that plan.
//!
//! # Source
//! PostgreSQL's `choose_custom_plan` (plancache.c).

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::Result;
use crate::parse::syntax::Statement;
use crate::session::connection::Connection;
use crate::session::run::Plan;
use crate::session::settings::PlanCacheMode;
use crate::types::{Type, Value};

/// The number of executions that are planned for their values before costs are compared.
const CUSTOM_PLANS_MIN: u64 = 5;
/// The cost of planning for each table, and once more for the statement, in rows looked at.
const PLANNING_COST: f64 = 250.0;

/// The costs of a statement's custom plans so far.
#[derive(Debug, Default)]
pub(crate) struct PlanChoice {
    costs: Mutex<Costs>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    plans: u64,
    total: f64,
}

impl PlanChoice {
    /// Returns true if the next execution is planned for its values. `generic`: the plan for any values.
    pub(crate) fn is_custom(&self, mode: PlanCacheMode, generic: &Plan) -> bool {
        let planned = &generic.planned;
        if generic.parameters.is_empty() || planned.procedure.is_some() || mode == PlanCacheMode::ForceGeneric
        {
            return false;
        }
        if mode == PlanCacheMode::ForceCustom {
            return true;
        }
        if !planned.follows_values && !planned.depends_on_values {
            return false;
        }
        let Costs { plans, total } = *self.costs.lock();
        plans < CUSTOM_PLANS_MIN || planned.cost() > total / plans as f64
    }

    fn note(&self, plan: &Plan) {
        let mut costs = self.costs.lock();
        costs.plans += 1;
        costs.total += plan.planned.cost() + PLANNING_COST * (plan.planned.age.tables() + 1) as f64;
    }

    /// The number of custom plans made.
    pub(crate) fn custom_plans(&self) -> u64 {
        self.costs.lock().plans
    }
}

impl Connection {
    /// The plan for this execution of a statement, whose plan for any values is `generic`.
    pub(super) fn chosen_plan(
        &mut self,
        generic: Arc<Plan>,
        choice: &PlanChoice,
        (statement, text): (&Statement, &str),
        values: &[Value],
    ) -> Result<Arc<Plan>> {
        let mode = self.environment.settings.derived.plan_cache_mode;
        if values.len() != generic.parameters.len() || !choice.is_custom(mode, &generic) {
            return Ok(generic);
        }
        let types: Vec<Option<Type>> = generic.parameters.iter().copied().map(Some).collect();
        let plan = self.plan_for(statement, text, &types, values)?;
        choice.note(&plan);
        Ok(plan)
    }
}
