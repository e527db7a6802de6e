//! Queries inside expressions: run once, or once for each combination of what they see of the row around them.
//!
//! # Invariants
//! - A result is kept only where the same values give the same rows; kept results are bounded in number and charged.
//! - The rows behind IN, ANY or ALL are written to a file beyond the memory limit. Results in files are not kept, but
//!   for the only one of a subquery that sees nothing of the row.

use std::cell::RefCell;
use std::rc::Rc;

use hashbrown::{HashMap, HashSet};

use crate::bind::tree::Quantifier;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::expression::{Call, SubPlan, SubPlanKind};
use crate::run::Run;
use crate::run::memory::{Held, row_bytes};
use crate::run::operator::{Running, operator};
use crate::run::order::Hashing;
use crate::run::spill::{KeptRows, KeptSet};
use crate::types::array::ArrayValue;
use crate::types::{Type, Value};

/// The limit of results of a subquery that are kept.
const KEPT_MAX: usize = 100_000;
/// The divisor of the statement's memory that limits the memory of kept results.
const CACHED_PART: usize = 4;

/// Results of a subquery by what it saw.
pub(crate) type Cached = HashMap<Vec<Value>, Answer>;

/// The result of a subquery.
#[derive(Clone)]
pub(crate) enum Answer {
    Value(Value),
    /// Rows to compare with.
    Rows(Rc<RefCell<Candidates>>),
    /// Several rows where one may be: an error.
    Several,
}

impl Answer {
    pub(crate) fn rows(candidates: Candidates) -> Answer {
        Answer::Rows(Rc::new(RefCell::new(candidates)))
    }
}

/// The rows of a subquery behind IN, ANY or ALL.
pub(crate) enum Candidates {
    /// Rows to be compared one after the other.
    Rows(KeptRows),
    /// The different values that are not NULL, where equality by value decides, and whether there is a NULL.
    Values(KeptSet, bool),
    /// The rows of one key of many: a few rows each, in memory.
    Listed(Vec<Box<[Value]>>),
    /// The values of `Values`, in memory.
    Set(HashSet<Value, Hashing>, bool),
}

impl Candidates {
    fn has_file(&self) -> bool {
        match self {
            Candidates::Rows(rows) => rows.has_file(),
            Candidates::Values(values, _) => values.has_file(),
            Candidates::Listed(_) | Candidates::Set(..) => false,
        }
    }

    /// Moves out what they hold of the statement's memory.
    fn give_held(&mut self, to: &mut Held) {
        match self {
            Candidates::Rows(rows) => to.absorb(rows.held()),
            Candidates::Values(values, _) => values.give_held(to),
            Candidates::Listed(_) | Candidates::Set(..) => {}
        }
    }
}

/// Returns true if a value may be equal to one that is written otherwise.
pub(crate) fn is_spelled(value: &Value) -> bool {
    match value {
        Value::Numeric(value) => value.scale().is_some_and(|scale| scale > 0),
        Value::Float4(value) => *value == 0.0,
        Value::Float8(value) => *value == 0.0,
        Value::Bpchar(_) | Value::Interval(_) | Value::Timetz(..) | Value::Jsonb(_) => true,
        Value::Array(_) | Value::Record(_) => true,
        _ => false,
    }
}

impl<'e> Run<'e> {
    /// A subquery's value for a row.
    pub(crate) fn subquery(&mut self, subquery: &'e SubPlan, row: &[Value]) -> Result<Value> {
        let keyed = match &subquery.keyed {
            Some(keyed) => self.keyed_answer(subquery, keyed, row)?,
            None => None,
        };
        let answer = match keyed {
            Some(answer) => answer,
            None => self.answer_by_row(subquery, row)?,
        };
        match answer {
            Answer::Value(value) => Ok(value),
            Answer::Rows(candidates) => self.quantified(subquery, &mut candidates.borrow_mut(), row),
            Answer::Several => Err(several_rows()),
        }
    }

    /// A subquery's answer for a row, computed for this row unless the same values have been seen.
    fn answer_by_row(&mut self, subquery: &'e SubPlan, row: &[Value]) -> Result<Answer> {
        let mut seen = Vec::with_capacity(subquery.bindings.len());
        for binding in &subquery.bindings {
            seen.push(self.evaluate(&binding.value, row)?);
        }
        // Values that are equal and look different, such as 1.5 and 1.50, give results that look different.
        let is_cached = subquery.is_stable && !seen.iter().any(is_spelled);
        let kept = match is_cached {
            true => {
                self.numbered().cached[subquery.cache].as_ref().and_then(|cached| cached.get(&seen)).cloned()
            }
            false => None,
        };
        if let Some(answer) = kept {
            return Ok(answer);
        }
        for (binding, value) in subquery.bindings.iter().zip(&seen) {
            self.set_outer(binding.outer, value.clone());
        }
        let answer = self.answer(subquery)?;
        self.note_run(subquery);
        if is_cached {
            self.keep(subquery, seen, &answer);
        }
        Ok(answer)
    }

    /// Notes the value of a subquery that sees nothing of the row.
    pub(crate) fn know_subquery(&mut self, cache: usize, value: Value) {
        self.numbered().cached[cache]
            .get_or_insert_with(HashMap::new)
            .insert(Vec::new(), Answer::Value(value));
    }

    /// Keeps an answer. The only answer of a subquery that sees nothing of the row is kept in any case: it would be computed for
    /// each row.
    fn keep(&mut self, subquery: &SubPlan, seen: Vec<Value>, answer: &Answer) {
        let mut held = Held::default();
        let value = match answer {
            Answer::Value(value) => value.heap_size(),
            Answer::Several => return,
            Answer::Rows(candidates) if candidates.borrow().has_file() && !seen.is_empty() => return,
            Answer::Rows(candidates) => {
                candidates.borrow_mut().give_held(&mut held);
                0
            }
        };
        let bytes = row_bytes(&seen) + 64 + value;
        let numbered = self.numbered();
        let part = numbered.cached_memory.bytes() + bytes + held.bytes();
        let count = numbered.cached[subquery.cache].as_ref().map_or(0, HashMap::len);
        let is_small = part <= self.memory.limit() / CACHED_PART && self.memory.has_room(bytes);
        if seen.is_empty() || count < KEPT_MAX && is_small {
            held.take(&mut self.memory, bytes);
            let numbered = self.numbered();
            numbered.cached_memory.absorb(&mut held);
            let cached = numbered.cached[subquery.cache].get_or_insert_with(HashMap::new);
            cached.insert(seen, answer.clone());
        }
    }

    /// Runs a subquery.
    pub(crate) fn answer(&mut self, subquery: &'e SubPlan) -> Result<Answer> {
        let mut rows = operator(&subquery.plan, self)?;
        match &subquery.kind {
            SubPlanKind::Exists => {
                rows.expect_few(1);
                Ok(Answer::Value(Value::Bool(rows.next(self)?.is_some())))
            }
            SubPlanKind::Scalar(column) => {
                let mut found = None;
                rows.expect_few(2);
                while let Some(batch) = rows.next(self)? {
                    if batch.len() > 1 || found.is_some() {
                        return Err(several_rows());
                    }
                    found = Some(batch.row(0)[*column].clone());
                }
                Ok(Answer::Value(found.unwrap_or_default()))
            }
            SubPlanKind::Array(element) => {
                let (mut values, mut held) = (Vec::new(), Held::default());
                while let Some(batch) = rows.next(self)? {
                    held.charge(&mut self.memory, batch.rows().map(row_bytes).sum())?;
                    values.extend(batch.rows().map(|row| row[0].clone()));
                }
                Ok(Answer::Value(array_of(*element, values)?))
            }
            SubPlanKind::Quantified { operators, quantifier, .. } => {
                let candidates = match is_by_value(operators, *quantifier) {
                    true => self.candidates_by_value(&mut rows)?,
                    false => Candidates::Rows(self.rest_of(KeptRows::in_half(&self.memory), &mut rows)?),
                };
                Ok(Answer::rows(candidates))
            }
        }
    }

    /// The rest of the rows behind those that are kept.
    fn rest_of(&mut self, mut kept: KeptRows, rows: &mut Running<'e>) -> Result<KeptRows> {
        while let Some(batch) = rows.next(self)? {
            kept.push_batch(Some(&mut self.memory), batch)?;
        }
        Ok(kept)
    }

    /// The different values of the first column; values to be compared one after the other if there is no room for hashes.
    fn candidates_by_value(&mut self, rows: &mut Running<'e>) -> Result<Candidates> {
        let (mut values, mut beyond, mut has_null) = (KeptSet::new(1, &self.memory), None, false);
        while let Some(batch) = rows.next(self)? {
            for row in batch.rows() {
                if row[0].is_null() {
                    has_null = true;
                } else if let Some(beyond) = &mut beyond {
                    KeptRows::push_moved(beyond, &mut self.memory, &mut [row[0].clone()])?;
                } else if let Err(error) = values.add(&mut self.memory, &self.hashing, &row[..1]) {
                    if error.state() != SqlState::OUT_OF_MEMORY {
                        return Err(error);
                    }
                    let mut all = std::mem::replace(&mut values, KeptSet::new(1, &self.memory)).into_rows();
                    all.push_moved(&mut self.memory, &mut [row[0].clone()])?;
                    beyond = Some(all);
                }
            }
            self.check_interrupt()?;
        }
        let Some(mut all) = beyond else { return Ok(Candidates::Values(values, has_null)) };
        if has_null {
            all.push_moved(&mut self.memory, &mut [Value::Null])?;
        }
        Ok(Candidates::Rows(all))
    }

    /// `left operator ANY/ALL (rows)`.
    fn quantified(
        &mut self,
        subquery: &'e SubPlan,
        candidates: &mut Candidates,
        row: &[Value],
    ) -> Result<Value> {
        let SubPlanKind::Quantified { left, operators, quantifier } = &subquery.kind else {
            return Err(SqlError::internal("a subquery's rows are compared with nothing"));
        };
        let left = left.iter().map(|left| self.evaluate(left, row)).collect::<Result<Vec<_>>>()?;
        let decisive = *quantifier == Quantifier::Any;
        let mut comparing = Comparing { operators, left: &left, decisive, result: Value::Bool(!decisive) };
        match candidates {
            Candidates::Rows(rows) => {
                for number in 0..rows.batches() {
                    for right in rows.batch(number)?.rows() {
                        if self.decides(&mut comparing, right)? {
                            return Ok(comparing.result);
                        }
                    }
                    self.check_interrupt()?;
                }
            }
            Candidates::Listed(rows) => {
                for right in rows {
                    if self.decides(&mut comparing, right)? {
                        break;
                    }
                }
            }
            Candidates::Values(values, has_null) => {
                let is_empty = values.is_empty() && !*has_null;
                let is_there = !left[0].is_null() && values.contains(&self.hashing, &left[..1])?;
                return Ok(is_among(&left[0], is_empty, is_there, *has_null));
            }
            Candidates::Set(values, has_null) => {
                return Ok(is_among(&left[0], false, values.contains(&left[0]), *has_null));
            }
        }
        Ok(comparing.result)
    }

    /// Compares with one more row; returns true if it decides the result.
    fn decides(&mut self, comparing: &mut Comparing<'e, '_>, right: &[Value]) -> Result<bool> {
        match self.compares_rows(comparing.operators, comparing.left, right)? {
            Some(value) if value == comparing.decisive => {
                comparing.result = Value::Bool(value);
                return Ok(true);
            }
            None => comparing.result = Value::Null,
            _ => {}
        }
        Ok(false)
    }

    /// The comparison of rows: true if all columns' are, false if one is.
    fn compares_rows(
        &mut self,
        operators: &'e [Call],
        left: &[Value],
        right: &[Value],
    ) -> Result<Option<bool>> {
        let mut whole = Some(true);
        for ((operator, left), right) in operators.iter().zip(left).zip(right) {
            let is_null = operator.function.is_strict && (left.is_null() || right.is_null());
            let value = match is_null {
                true => Value::Null,
                false => self.apply(operator, &[left.clone(), right.clone()])?,
            };
            match value {
                Value::Bool(false) => return Ok(Some(false)),
                Value::Bool(true) => {}
                _ => whole = None,
            }
        }
        Ok(whole)
    }
}

/// A comparison with the rows of a subquery.
struct Comparing<'e, 'l> {
    operators: &'e [Call],
    left: &'l [Value],
    /// The result for one row that decides for all: true for ANY, false for ALL.
    decisive: bool,
    result: Value,
}

/// The result of IN for a value, among values of which one may be NULL.
fn is_among(value: &Value, is_empty: bool, is_there: bool, has_null: bool) -> Value {
    match value {
        _ if is_empty => Value::Bool(false),
        Value::Null => Value::Null,
        _ if is_there => Value::Bool(true),
        _ if has_null => Value::Null,
        _ => Value::Bool(false),
    }
}

/// Returns true if equality by value decides the result of a quantified comparison.
pub(crate) fn is_by_value(operators: &[Call], quantifier: Quantifier) -> bool {
    matches!(operators, [operator] if operator.is_comparison && operator.function.name == "=")
        && quantifier == Quantifier::Any
}

/// The values of a subquery's one column as an array.
pub(crate) fn array_of(element: Type, values: Vec<Value>) -> Result<Value> {
    let is_nested = !element.is_vector() && values.iter().any(|value| matches!(value, Value::Array(_)));
    let array = match is_nested {
        true => ArrayValue::nest(element, &values)?,
        false => ArrayValue::list(element, values),
    };
    Ok(Value::array(array))
}

fn several_rows() -> SqlError {
    SqlError::new(
        SqlState::CARDINALITY_VIOLATION,
        "more than one row returned by a subquery used as an expression",
    )
}
