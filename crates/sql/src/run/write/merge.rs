//! MERGE.

use crate::error::Result;
use crate::plan::statement::{MergeActionPlan, MergeArmPlan, MergePlan};
use crate::run::Run;
use crate::run::write::checks::{check, generate};
use crate::run::write::rows::{change, remove, store};
use crate::run::write::{Writing, Written, pick, read_all, second_time};
use crate::types::Value;

/// Runs a MERGE.
pub(crate) fn merge<'e>(run: &mut Run<'e>, plan: &'e MergePlan) -> Result<Written> {
    let mut writing = Writing::new(&plan.rules, &[]);
    for batch in read_all(run, &plan.input)? {
        for source in batch.rows() {
            let key = pick(source, &plan.key);
            // A key is never NULL: this row of the source has met none.
            let matched = !key.iter().any(Value::is_null);
            if let Some(arm) = chosen(run, plan, source, matched)? {
                act(run, plan, &mut writing, arm, &key, source)?;
            }
        }
        run.check_interrupt()?;
    }
    writing.finish(run)
}

/// The first arm whose condition is true.
fn chosen<'e>(
    run: &mut Run<'e>,
    plan: &'e MergePlan,
    source: &[Value],
    matched: bool,
) -> Result<Option<&'e MergeArmPlan>> {
    for arm in plan.arms.iter().filter(|arm| arm.matched == matched) {
        let holds = match &arm.condition {
            Some(condition) => run.holds(condition, source)?,
            None => true,
        };
        if holds {
            return Ok(Some(arm));
        }
    }
    Ok(None)
}

fn act<'e>(
    run: &mut Run<'e>,
    plan: &'e MergePlan,
    writing: &mut Writing<'e>,
    arm: &'e MergeArmPlan,
    key: &[Value],
    source: &[Value],
) -> Result<()> {
    let table = &*plan.rules.table;
    let old = pick(source, &plan.row);
    match &arm.action {
        MergeActionPlan::Nothing => return Ok(()),
        MergeActionPlan::Insert(values) => {
            let mut row = Vec::with_capacity(values.len());
            for value in values {
                row.push(run.evaluate(value, source)?);
            }
            generate(run, &plan.rules.generated, &mut row)?;
            check(run, &plan.rules, &row)?;
            store(run, table, &row)?;
            writing.touched.stored(table, &row, None);
        }
        MergeActionPlan::Delete => {
            if !writing.is_first(run, key)? {
                return Err(second_time("MERGE"));
            }
            remove(run, table, key)?;
            writing.touched.removed(table, &old);
        }
        MergeActionPlan::Update(sets) => {
            if !writing.is_first(run, key)? {
                return Err(second_time("MERGE"));
            }
            let mut new = old.clone();
            for (column, value) in sets {
                new[*column] = run.evaluate(value, source)?;
            }
            generate(run, &plan.rules.generated, &mut new)?;
            check(run, &plan.rules, &new)?;
            let columns: Vec<usize> =
                sets.iter().chain(&plan.rules.generated).map(|(column, _)| *column).collect();
            change(run, table, key, &old, &new, &columns)?;
            writing.touched.stored(table, &new, Some(&old));
        }
    }
    writing.written.count += 1;
    Ok(())
}
