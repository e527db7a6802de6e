//! `min` and `max` of columns, and of expressions that indexes are on, by the ends of indexes.
//!
//! If a query asks only for least and greatest values of columns of one table, each aggregate needs one row
//! only: the first one of the table in the order of its column, NULLs left out. The aggregates are then
//! computed over these few rows, which are among the table's: what is least among all is least among them.
//!
//! # Invariants
//! - Rows are only left out where an index gives the first row of each aggregate's order without reading many others.

use crate::bind::tree::{BoundAggregate, BoundExpr, BoundRelation, BoundSelect, RelationKind};
use crate::error::Result;
use crate::plan::expression::Expr;
use crate::plan::from::{Item, JoinTree};
use crate::plan::index_match::column_of;
use crate::plan::layout::{Key, Sorted, Stage};
use crate::plan::node::{Limit, Node};
use crate::plan::planner::Planner;
use crate::plan::scan::satisfies;
use crate::plan::walk::{has_subquery, is_volatile};
use crate::rewrite::substitute::substituted;
use crate::types::{Type, Value};

impl Planner<'_> {
    /// The rows that the aggregates of a query need, if they are `min` and `max` by indexes.
    pub(crate) fn extremes(&mut self, select: &BoundSelect, tree: &JoinTree) -> Result<Option<Stage>> {
        let is_one_group = select.group_by.is_empty()
            && select.grouping_sets.as_ref().is_some_and(|sets| sets.len() == 1 && sets[0].is_empty());
        let [Item::Relation(relation)] = &tree.items[..] else { return Ok(None) };
        let is_plain = |condition: &BoundExpr| !is_volatile(condition) && !has_subquery(condition);
        if !is_one_group
            || select.aggregates.is_empty()
            || !matches!(relation.kind, RelationKind::Table(_))
            || !tree.conditions.iter().all(is_plain)
        {
            return Ok(None);
        }
        let ends = select.aggregates.iter().map(|aggregate| self.end(aggregate, relation));
        let Some(ends) = ends.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let mut stages = Vec::new();
        for (wanted, column) in ends {
            let mut conditions = tree.conditions.clone();
            conditions.push(BoundExpr::IsNull { operand: Box::new(column), negated: true });
            let tree = JoinTree { items: vec![Item::Relation(relation.clone())], conditions };
            self.wanted_rows = Some(1.0);
            let mut stage = self.join(tree, &[wanted])?;
            if !satisfies(&stage.order, &[wanted]) {
                return Ok(None);
            }
            let count = Some(Expr::Constant(Value::Int8(1)));
            let limit = Limit { count, offset: None, ties: None };
            let (width, cost) = (stage.plan.width, stage.plan.cost / stage.plan.rows.max(1.0));
            stage.plan = self.plan(Node::Limit { input: Box::new(stage.plan), limit }, width, 1.0, cost);
            stages.push(stage);
        }
        let Some(first) = stages.pop() else { return Ok(None) };
        if stages.is_empty() {
            return Ok(Some(Stage { order: Vec::new(), ..first }));
        }
        let (width, layout) = (first.plan.width, first.layout);
        let inputs: Vec<_> = stages.into_iter().map(|stage| stage.plan).chain([first.plan]).collect();
        let (rows, cost) = (inputs.len() as f64, inputs.iter().map(|input| input.cost).sum());
        let plan = self.plan(Node::Append(inputs), width, rows, cost);
        Ok(Some(Stage { plan, layout, order: Vec::new() }))
    }

    /// The order whose first row an aggregate asks for, and its argument.
    fn end(&self, aggregate: &BoundAggregate, relation: &BoundRelation) -> Option<(Sorted, BoundExpr)> {
        let descending = match aggregate.function.name {
            "min" => false,
            "max" => true,
            _ => return None,
        };
        let [arg] = &aggregate.args[..] else { return None };
        let mut column = substituted(arg, &self.merged);
        // The types of texts compare alike.
        if let BoundExpr::Cast { operand, ty: Type::Text, .. } = &column
            && operand.ty() == Type::Varchar
        {
            column = (**operand).clone();
        }
        let (of, number) = column_of(&column, relation)?;
        let wanted = Sorted { key: Key::Column(of, number), descending, is_fixed: false, nulls_first: None };
        (of == relation.id && aggregate.filter.is_none()).then_some((wanted, column))
    }
}
