//! The answers of a correlated subquery for all rows, computed at once and found by the values that correlate it.
//!
//! A subquery begins row by row: a statement of few rows that finds them by an index reads no table. When it has been run as often
//! as computing all answers is expected to cost, they are computed, so that it costs at most about twice the better way.
//!
//! # Invariants
//! - Answers are the same either way. If computing all of them fails by a value, or for want of memory, the subquery
//!   continues row by row: the rows at fault may belong to keys that no row asks for.

use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};

use crate::error::{Result, SqlError, SqlState};
use crate::plan::expression::{Keyed, SubPlan, SubPlanKind};
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::memory::{Held, row_bytes};
use crate::run::operator::operator;
use crate::run::order::Hashing;
use crate::run::subquery::{Answer, Candidates, array_of, is_by_value};
use crate::types::Value;

/// The divisor of the statement's memory that limits the memory of answers.
const ANSWERS_PART: usize = 2;
/// The memory of a key besides its values.
const KEY_BYTES: usize = 96;

/// The state of the computation of a subquery's answers.
#[derive(Default)]
pub(crate) enum Answers {
    /// The number of runs for single rows: none yet, or this many.
    #[default]
    NotYet,
    AfterRuns(usize),
    /// The subquery is run for single rows from here on.
    Never,
    All(Box<AllAnswers>),
}

/// The answers for all keys.
pub(crate) struct AllAnswers {
    by_key: HashMap<Vec<Value>, Answer, Hashing>,
    /// The answer for all other keys; none before one has been asked for.
    other: Option<Answer>,
    /// A buffer for keys that are looked for.
    key: Vec<Value>,
    _held: Held,
}

impl<'e> Run<'e> {
    /// A subquery's answer for a row, if all of its answers are computed, or are computed now.
    pub(crate) fn keyed_answer(
        &mut self,
        subquery: &'e SubPlan,
        keyed: &'e Keyed,
        row: &[Value],
    ) -> Result<Option<Answer>> {
        let runs = match &self.numbered().answers[subquery.cache] {
            Answers::Never => return Ok(None),
            Answers::NotYet => Some(0),
            Answers::AfterRuns(runs) => Some(*runs),
            Answers::All(_) => None,
        };
        if let Some(runs) = runs {
            if runs < keyed.runs_before {
                return Ok(None);
            }
            let answers = match self.all_answers(subquery, keyed) {
                Ok(answers) => Answers::All(Box::new(answers)),
                Err(error) if is_by_values(&error) => Answers::Never,
                Err(error) => return Err(error),
            };
            let is_there = matches!(answers, Answers::All(_));
            self.numbered().answers[subquery.cache] = answers;
            if !is_there {
                return Ok(None);
            }
        }
        let mut key = match &mut self.numbered().answers[subquery.cache] {
            Answers::All(all) => std::mem::take(&mut all.key),
            _ => Vec::new(),
        };
        key.clear();
        for value in &keyed.keys {
            key.push(self.evaluate(value, row)?);
        }
        let Answers::All(all) = &mut self.numbered().answers[subquery.cache] else { return Ok(None) };
        let answer = all.by_key.get(&key).or(all.other.as_ref()).cloned();
        all.key = key;
        match answer {
            Some(answer) => Ok(Some(answer)),
            None => self.other_answer(subquery, row).map(Some),
        }
    }

    /// The answer for keys that no row has: the subquery as it was written, for one of them.
    fn other_answer(&mut self, subquery: &'e SubPlan, row: &[Value]) -> Result<Answer> {
        for binding in &subquery.bindings {
            let value = self.evaluate(&binding.value, row)?;
            self.set_outer(binding.outer, value);
        }
        let answer = self.answer(subquery)?;
        if let Answers::All(all) = &mut self.numbered().answers[subquery.cache] {
            all.other = Some(answer.clone());
        }
        Ok(answer)
    }

    /// Notes that a subquery was run for a single row.
    pub(crate) fn note_run(&mut self, subquery: &SubPlan) {
        if subquery.keyed.is_some() {
            let answers = &mut self.numbered().answers[subquery.cache];
            match answers {
                Answers::NotYet => *answers = Answers::AfterRuns(1),
                Answers::AfterRuns(runs) => *runs += 1,
                Answers::Never | Answers::All(_) => {}
            }
        }
    }

    /// Runs a subquery for all rows.
    fn all_answers(&mut self, subquery: &'e SubPlan, keyed: &'e Keyed) -> Result<AllAnswers> {
        let mut gathering = Gathering {
            kind: &subquery.kind,
            limit: keyed.limit.unwrap_or(usize::MAX),
            width: keyed.plan.width - keyed.keys.len(),
            by_key: HashMap::with_hasher(self.hashing.clone()),
            key: Vec::with_capacity(keyed.keys.len()),
        };
        let mut held = Held::default();
        let mut rows = operator(&keyed.plan, self)?;
        while let Some(batch) = rows.next(self)? {
            held.charge(&mut self.memory, gathering.add(&batch))?;
            if held.bytes() > self.memory.limit() / ANSWERS_PART {
                return Err(SqlError::new(SqlState::OUT_OF_MEMORY, "the answers of a subquery are too many"));
            }
            self.check_interrupt()?;
        }
        let mut by_key = HashMap::with_capacity_and_hasher(gathering.by_key.len(), self.hashing.clone());
        for (key, gathered) in gathering.by_key {
            by_key.insert(key, gathered.answer(&subquery.kind)?);
        }
        Ok(AllAnswers { by_key, other: None, key: Vec::new(), _held: held })
    }
}

/// Returns true if an error comes from the values that were computed, or from the memory for them.
fn is_by_values(error: &SqlError) -> bool {
    error.state() == SqlState::OUT_OF_MEMORY || error.state().class() == "22"
}

/// The rows of a subquery by their keys.
struct Gathering<'e> {
    kind: &'e SubPlanKind,
    limit: usize,
    /// The number of columns before the keys.
    width: usize,
    by_key: HashMap<Vec<Value>, Gathered, Hashing>,
    /// A buffer for keys.
    key: Vec<Value>,
}

/// The rows gathered for one key.
enum Gathered {
    /// At least one row.
    Row,
    Value(Value),
    /// Several rows where one may be.
    Several,
    /// The first columns of all rows.
    Values(Vec<Value>),
    /// The different values that are not NULL, and true if there is a NULL.
    Set(HashSet<Value, Hashing>, bool),
    Rows(Vec<Box<[Value]>>),
}

impl Gathering<'_> {
    /// Adds rows, and returns their memory.
    fn add(&mut self, batch: &Batch) -> usize {
        let mut bytes = 0;
        for row in batch.rows() {
            let (values, key) = row.split_at(self.width);
            // NULL equals nothing.
            if key.iter().any(Value::is_null) {
                continue;
            }
            self.key.clear();
            self.key.extend_from_slice(key);
            match self.by_key.get_mut(&self.key) {
                Some(gathered) => bytes += gathered.add(values, self.limit),
                None => {
                    bytes += row_bytes(key) + KEY_BYTES + row_bytes(values);
                    let hashing = self.by_key.hasher().clone();
                    let gathered = Gathered::first(self.kind, values, hashing);
                    if let Entry::Vacant(entry) = self.by_key.entry(self.key.clone()) {
                        entry.insert(gathered);
                    }
                }
            }
        }
        bytes
    }
}

impl Gathered {
    fn first(kind: &SubPlanKind, row: &[Value], hashing: Hashing) -> Gathered {
        match kind {
            SubPlanKind::Exists => Gathered::Row,
            SubPlanKind::Scalar(column) => Gathered::Value(row[*column].clone()),
            SubPlanKind::Array(_) => Gathered::Values(vec![row[0].clone()]),
            SubPlanKind::Quantified { operators, quantifier, .. } if is_by_value(operators, *quantifier) => {
                let mut set = Gathered::Set(HashSet::with_hasher(hashing), false);
                set.add(row, usize::MAX);
                set
            }
            SubPlanKind::Quantified { .. } => Gathered::Rows(vec![row.into()]),
        }
    }

    /// Adds a further row, and returns its memory.
    fn add(&mut self, row: &[Value], limit: usize) -> usize {
        match self {
            Gathered::Row | Gathered::Several => return 0,
            Gathered::Value(_) => {
                if limit > 1 {
                    *self = Gathered::Several;
                }
                return 0;
            }
            Gathered::Values(values) if values.len() < limit => values.push(row[0].clone()),
            Gathered::Set(_, has_null) if row[0].is_null() => *has_null = true,
            Gathered::Set(values, _) => {
                if !values.insert(row[0].clone()) {
                    return 0;
                }
            }
            Gathered::Rows(rows) if rows.len() < limit => rows.push(row.into()),
            Gathered::Values(_) | Gathered::Rows(_) => return 0,
        }
        row_bytes(row)
    }

    fn answer(self, kind: &SubPlanKind) -> Result<Answer> {
        Ok(match self {
            Gathered::Row => Answer::Value(Value::Bool(true)),
            Gathered::Value(value) => Answer::Value(value),
            Gathered::Several => Answer::Several,
            Gathered::Values(values) => {
                let SubPlanKind::Array(element) = kind else {
                    return Err(SqlError::internal("values of a subquery that is no array"));
                };
                Answer::Value(array_of(*element, values)?)
            }
            Gathered::Set(values, has_null) => Answer::rows(Candidates::Set(values, has_null)),
            Gathered::Rows(rows) => Answer::rows(Candidates::Listed(rows)),
        })
    }
}
