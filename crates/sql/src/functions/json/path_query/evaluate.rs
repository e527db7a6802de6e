//! Evaluation of a path: items, accessors and arithmetic.
//!
//! An expression gives a sequence of items. Where only their existence matters, there is no list for them and the
//! evaluation stops at the first.
//!
//! Invariants: in lax mode, an accessor of objects and a method is applied to the elements of an array, one level deep,
//! and an accessor of arrays to a scalar as to an array of it; strict mode does neither.

use std::borrow::Cow;

use super::moments::Moment;
use crate::error::{Result, SqlError, SqlState};
use crate::interrupt::step as poll;
use crate::stack::grow;
use crate::types::environment::FormatSettings;
use crate::types::jsonb::{Jsonb, Members};
use crate::types::jsonpath::{Arithmetic, Node, Start, Step};
use crate::types::numeric::Numeric;

/// The end of an evaluation that fails.
pub(super) enum Failure {
    /// An error that is not reported.
    Silent,
    /// An error.
    Error(SqlError),
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Failure {
        Failure::Error(error)
    }
}

/// An item: a document or a part of one, or a moment.
#[derive(Clone)]
pub(super) enum Item<'d> {
    Document(Cow<'d, Jsonb>),
    Moment(Moment),
}

impl<'d> Item<'d> {
    pub fn of(document: Jsonb) -> Item<'d> {
        Item::Document(Cow::Owned(document))
    }

    pub fn document(&self) -> Option<&Jsonb> {
        match self {
            Item::Document(document) => Some(document),
            Item::Moment(_) => None,
        }
    }

    pub fn number(&self) -> Option<&Numeric> {
        match self.document() {
            Some(Jsonb::Number(number)) => Some(number),
            _ => None,
        }
    }

    pub fn is_array(&self) -> bool {
        matches!(self.document(), Some(Jsonb::Array(_)))
    }

    pub fn into_document(self, formats: &FormatSettings) -> Jsonb {
        match self {
            Item::Document(document) => document.into_owned(),
            Item::Moment(moment) => Jsonb::string(moment.text(formats)),
        }
    }

    /// The elements of an array, or the values of an object's members.
    fn children(self) -> Vec<Item<'d>> {
        let borrowed = |document: &'d Jsonb| Item::Document(Cow::Borrowed(document));
        match self {
            Item::Document(Cow::Borrowed(Jsonb::Array(values))) => values.iter().map(borrowed).collect(),
            Item::Document(Cow::Borrowed(Jsonb::Object(members))) => {
                members.iter().map(|(_, value)| borrowed(value)).collect()
            }
            Item::Document(Cow::Owned(Jsonb::Array(values))) => values.into_iter().map(Item::of).collect(),
            Item::Document(Cow::Owned(Jsonb::Object(members))) => {
                members.into_pairs().into_iter().map(|(_, value)| Item::of(value)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn element(&self, at: usize) -> Option<Item<'d>> {
        match self {
            Item::Document(Cow::Borrowed(Jsonb::Array(values))) => {
                values.get(at).map(|value| Item::Document(Cow::Borrowed(value)))
            }
            Item::Document(Cow::Owned(Jsonb::Array(values))) => values.get(at).cloned().map(Item::of),
            other => (at == 0).then(|| other.clone()),
        }
    }
}

/// The items that were found; `None` where only their existence matters.
pub(super) type Found<'f, 'd> = Option<&'f mut Vec<Item<'d>>>;

/// The same list once more.
pub(super) fn again<'a, 'd>(found: &'a mut Found<'_, 'd>) -> Found<'a, 'd> {
    found.as_mut().map(|found| &mut **found)
}

/// The state of an evaluation.
pub(super) struct Evaluation<'d, 'e> {
    pub root: &'d Jsonb,
    pub variables: Option<&'d Members>,
    pub is_strict: bool,
    /// Members and elements that are missing are passed over.
    pub ignores_structure: bool,
    /// Errors are reported.
    pub throws: bool,
    /// The item that a filter looks at.
    pub current: Option<Item<'d>>,
    /// The size of the innermost array whose subscripts are evaluated.
    pub array_size: Option<usize>,
    /// Moments with and without zone compare by the session's zone.
    pub uses_zone: bool,
    pub formats: &'e FormatSettings,
    pub now: i64,
}

impl<'d> Evaluation<'d, '_> {
    pub fn fail<T>(&self, state: SqlState, message: impl FnOnce() -> String) -> Result<T, Failure> {
        Err(match self.throws {
            true => Failure::Error(SqlError::new(state, message())),
            false => Failure::Silent,
        })
    }

    /// A structural error, which lax mode passes over.
    fn structural(&self, state: SqlState, message: impl FnOnce() -> String) -> Result<bool, Failure> {
        if self.ignores_structure { Ok(false) } else { self.fail(state, message) }
    }

    /// Evaluates an expression; returns true if it has items.
    pub fn node(&mut self, node: &Node, found: Found<'_, 'd>) -> Result<bool, Failure> {
        grow(|| self.node_here(node, found))
    }

    fn node_here(&mut self, node: &Node, found: Found<'_, 'd>) -> Result<bool, Failure> {
        poll()?;
        let item = match &node.start {
            Start::Root => Item::Document(Cow::Borrowed(self.root)),
            Start::Current => match &self.current {
                Some(current) => current.clone(),
                None => return Err(SqlError::internal("a path names @ outside of a filter").into()),
            },
            Start::Last => match self.array_size {
                Some(size) => Item::of(Jsonb::Number(Numeric::from(size as i64 - 1))),
                None => return Err(SqlError::internal("a path names last outside of a subscript").into()),
            },
            Start::Null => Item::of(Jsonb::Null),
            Start::Bool(value) => Item::of(Jsonb::Bool(*value)),
            Start::Number(number) => Item::of(Jsonb::Number(number.clone())),
            Start::Text(text) => Item::of(Jsonb::String(text.clone())),
            Start::Variable(name) => match self.variables.and_then(|variables| variables.get(name)) {
                Some(value) => Item::Document(Cow::Borrowed(value)),
                None => {
                    let message = format!("could not find jsonpath variable \"{name}\"");
                    return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).into());
                }
            },
            Start::Arithmetic(operator, left, right) => self.arithmetic(*operator, left, right)?,
            Start::Sign { is_minus, operand } => return self.sign(*is_minus, operand, &node.steps, found),
            Start::Condition(condition) => {
                let value = self.condition(condition)?;
                Item::of(value.map_or(Jsonb::Null, Jsonb::Bool))
            }
        };
        self.steps(&node.steps, item, found)
    }

    /// Applies accessors to an item.
    pub fn steps(&mut self, steps: &[Step], item: Item<'d>, found: Found<'_, 'd>) -> Result<bool, Failure> {
        let Some((step, rest)) = steps.split_first() else {
            found.into_iter().for_each(|found| found.push(item.clone()));
            return Ok(true);
        };
        let unwraps = !self.is_strict;
        self.step(step, rest, item, unwraps, found)
    }

    /// Applies an accessor and those behind it. `unwraps`: to the elements of an array instead of it.
    fn step(
        &mut self,
        step: &Step,
        rest: &[Step],
        item: Item<'d>,
        unwraps: bool,
        found: Found<'_, 'd>,
    ) -> Result<bool, Failure> {
        poll()?;
        let is_spread = unwraps
            && item.is_array()
            && match step {
                Step::Member(_) | Step::AnyMember | Step::Filter(_) | Step::Datetime(_) => true,
                Step::Method(method) => method.takes_elements(),
                _ => false,
            };
        if is_spread {
            return self.each(item, found, |it, child, found| it.step(step, rest, child, false, found));
        }
        grow(|| match step {
            Step::Member(key) => self.member(key, rest, item, found),
            Step::AnyMember => match item.document() {
                Some(Jsonb::Object(_)) => {
                    self.each(item, found, |it, child, found| it.steps(rest, child, found))
                }
                _ => self.structural(SqlState::SQL_JSON_OBJECT_NOT_FOUND, || {
                    "jsonpath wildcard member accessor can only be applied to an object".to_string()
                }),
            },
            Step::AnyElement if item.is_array() => {
                self.each(item, found, |it, child, found| it.steps(rest, child, found))
            }
            Step::AnyElement if !self.is_strict => self.steps(rest, item, found),
            Step::AnyElement => self.structural(SqlState::SQL_JSON_ARRAY_NOT_FOUND, || {
                "jsonpath wildcard array accessor can only be applied to an array".to_string()
            }),
            Step::Elements(list) if item.is_array() || !self.is_strict => {
                self.elements(list, rest, item, found)
            }
            Step::Elements(_) => self.structural(SqlState::SQL_JSON_ARRAY_NOT_FOUND, || {
                "jsonpath array accessor can only be applied to an array".to_string()
            }),
            Step::Anywhere { first, last } => self.anywhere((*first, *last), rest, item, found),
            Step::Filter(condition) => {
                let outer = self.current.replace(item.clone());
                let is_true = self.condition(condition);
                self.current = outer;
                if is_true? == Some(true) { self.steps(rest, item, found) } else { Ok(false) }
            }
            Step::Method(method) => self.method(*method, rest, item, found),
            Step::Datetime(template) => {
                let moment = self.datetime(template.as_deref(), &item)?;
                self.steps(rest, Item::Moment(moment), found)
            }
        })
    }

    /// Applies something to each element of an array or member of an object.
    pub fn each(
        &mut self,
        item: Item<'d>,
        mut found: Found<'_, 'd>,
        mut apply: impl FnMut(&mut Self, Item<'d>, Found<'_, 'd>) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        let mut any = false;
        for child in item.children() {
            any |= apply(self, child, again(&mut found))?;
            if any && found.is_none() {
                break;
            }
        }
        Ok(any)
    }

    fn member(
        &mut self,
        key: &str,
        rest: &[Step],
        item: Item<'d>,
        found: Found<'_, 'd>,
    ) -> Result<bool, Failure> {
        let child = match &item {
            Item::Document(Cow::Borrowed(Jsonb::Object(members))) => {
                members.get(key).map(|value| Item::Document(Cow::Borrowed(value)))
            }
            Item::Document(Cow::Owned(Jsonb::Object(members))) => members.get(key).cloned().map(Item::of),
            _ => {
                return self.structural(SqlState::SQL_JSON_MEMBER_NOT_FOUND, || {
                    "jsonpath member accessor can only be applied to an object".to_string()
                });
            }
        };
        match child {
            Some(child) => self.steps(rest, child, found),
            None => self.structural(SqlState::SQL_JSON_MEMBER_NOT_FOUND, || {
                format!("JSON object does not contain key \"{key}\"")
            }),
        }
    }

    /// `[from to to, …]`
    fn elements(
        &mut self,
        list: &[(Node, Option<Node>)],
        rest: &[Step],
        item: Item<'d>,
        found: Found<'_, 'd>,
    ) -> Result<bool, Failure> {
        let size = match item.document() {
            Some(Jsonb::Array(values)) => values.len(),
            _ => 1,
        };
        let outer = self.array_size.replace(size);
        let any = self.elements_of(size, list, rest, item, found);
        self.array_size = outer;
        any
    }

    fn elements_of(
        &mut self,
        size: usize,
        list: &[(Node, Option<Node>)],
        rest: &[Step],
        item: Item<'d>,
        mut found: Found<'_, 'd>,
    ) -> Result<bool, Failure> {
        let mut any = false;
        for (from, to) in list {
            let from = self.subscript(from)?;
            let to = to.as_ref().map_or(Ok(from), |to| self.subscript(to))?;
            if !self.ignores_structure && (from < 0 || from > to || to >= size as i64) {
                return self.fail(SqlState::INVALID_SQL_JSON_SUBSCRIPT, || {
                    "jsonpath array subscript is out of bounds".to_string()
                });
            }
            for at in from.max(0)..=to.min(size as i64 - 1) {
                let Some(child) = item.element(at as usize) else { continue };
                any |= self.steps(rest, child, again(&mut found))?;
                if any && found.is_none() {
                    return Ok(true);
                }
            }
        }
        Ok(any)
    }

    fn subscript(&mut self, node: &Node) -> Result<i64, Failure> {
        let mut found = Vec::new();
        self.node(node, Some(&mut found))?;
        let number = match found.as_slice() {
            [item] => item.number().cloned(),
            _ => None,
        };
        let Some(number) = number else {
            return self.fail(SqlState::INVALID_SQL_JSON_SUBSCRIPT, || {
                "jsonpath array subscript is not a single numeric value".to_string()
            });
        };
        match number.truncate(0)?.to_i64("integer") {
            Ok(at) if i32::try_from(at).is_ok() => Ok(at),
            _ => self.fail(SqlState::INVALID_SQL_JSON_SUBSCRIPT, || {
                "jsonpath array subscript is out of integer range".to_string()
            }),
        }
    }

    /// `.**{first to last}`
    fn anywhere(
        &mut self,
        levels: (Option<u32>, Option<u32>),
        rest: &[Step],
        item: Item<'d>,
        mut found: Found<'_, 'd>,
    ) -> Result<bool, Failure> {
        let outer = std::mem::replace(&mut self.ignores_structure, true);
        let mut any = Ok(false);
        if levels.0 == Some(0) {
            any = self.steps(rest, item.clone(), again(&mut found));
        }
        if matches!(any, Ok(false)) || found.is_some() && any.is_ok() {
            let below = self.below(1, levels, rest, item, found);
            any = match (any, below) {
                (Ok(first), Ok(second)) => Ok(first || second),
                (_, below) => below,
            };
        }
        self.ignores_structure = outer;
        any
    }

    /// The parts of an item from a level on.
    fn below(
        &mut self,
        level: u32,
        levels: (Option<u32>, Option<u32>),
        rest: &[Step],
        item: Item<'d>,
        found: Found<'_, 'd>,
    ) -> Result<bool, Failure> {
        let (first, last) = (levels.0.unwrap_or(u32::MAX), levels.1.unwrap_or(u32::MAX));
        if level > last {
            return Ok(false);
        }
        grow(|| {
            self.each(item, found, |it, child, mut found| {
                let is_leaf = child.document().is_none_or(Jsonb::is_scalar);
                let is_meant = level >= first || (levels == (None, None) && is_leaf);
                let mut any = false;
                if is_meant {
                    any = it.steps(rest, child.clone(), again(&mut found))?;
                    if any && found.is_none() {
                        return Ok(true);
                    }
                }
                if level < last && !is_leaf {
                    any |= it.below(level + 1, levels, rest, child, found)?;
                }
                Ok(any)
            })
        })
    }

    /// The items of an operand; in lax mode the elements of arrays among them.
    pub fn operand(&mut self, node: &Node, unwraps: bool) -> Result<Vec<Item<'d>>, Failure> {
        let mut found = Vec::new();
        self.node(node, Some(&mut found))?;
        if !unwraps || self.is_strict || !found.iter().any(Item::is_array) {
            return Ok(found);
        }
        let mut spread = Vec::with_capacity(found.len());
        for item in found {
            if item.is_array() { spread.extend(item.children()) } else { spread.push(item) }
        }
        Ok(spread)
    }

    fn arithmetic(&mut self, operator: Arithmetic, left: &Node, right: &Node) -> Result<Item<'d>, Failure> {
        let left = self.operand(left, true)?;
        let right = self.operand(right, true)?;
        let single = |items: &[Item<'d>]| match items {
            [item] => item.number().cloned(),
            _ => None,
        };
        let wrong = |side: &str| {
            let symbol = operator.symbol();
            format!("{side} operand of jsonpath operator {symbol} is not a single numeric value")
        };
        let Some(left) = single(&left) else {
            return self.fail(SqlState::SINGLETON_SQL_JSON_ITEM_REQUIRED, || wrong("left"));
        };
        let Some(right) = single(&right) else {
            return self.fail(SqlState::SINGLETON_SQL_JSON_ITEM_REQUIRED, || wrong("right"));
        };
        let result = match operator {
            Arithmetic::Add => left.add(&right),
            Arithmetic::Subtract => left.subtract(&right),
            Arithmetic::Multiply => left.multiply(&right),
            Arithmetic::Divide => left.divide(&right),
            Arithmetic::Remainder => left.remainder(&right),
        };
        match result {
            Ok(number) => Ok(Item::of(Jsonb::Number(number))),
            Err(_) if !self.throws => Err(Failure::Silent),
            Err(error) => Err(error.into()),
        }
    }

    fn sign(
        &mut self,
        is_minus: bool,
        operand: &Node,
        rest: &[Step],
        mut found: Found<'_, 'd>,
    ) -> Result<bool, Failure> {
        let mut any = false;
        for item in self.operand(operand, true)? {
            let Some(number) = item.number() else {
                if found.is_none() && rest.is_empty() {
                    continue;
                }
                return self.fail(SqlState::SQL_JSON_NUMBER_NOT_FOUND, || {
                    let symbol = if is_minus { "-" } else { "+" };
                    format!("operand of unary jsonpath operator {symbol} is not a numeric value")
                });
            };
            let number = if is_minus { number.negate() } else { number.clone() };
            any |= self.steps(rest, Item::of(Jsonb::Number(number)), again(&mut found))?;
            if any && found.is_none() {
                break;
            }
        }
        Ok(any)
    }
}
