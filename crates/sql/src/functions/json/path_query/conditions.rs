//! Conditions of filters, in three-valued logic: `None` is unknown, which errors in operands are, too.
//!
//! Source: PostgreSQL 15, `executeBoolItem` and `executePredicate`.

use super::evaluate::{Evaluation, Failure, Item};
use crate::error::Result;
use crate::functions::strings::like_regex;
use crate::types::jsonb::Jsonb;
use crate::types::jsonpath::{Comparison, Condition, Node};

impl<'d> Evaluation<'d, '_> {
    /// The truth of a condition.
    pub fn condition(&mut self, condition: &Condition) -> Result<Option<bool>, Failure> {
        crate::stack::grow(|| self.condition_here(condition))
    }

    fn condition_here(&mut self, condition: &Condition) -> Result<Option<bool>, Failure> {
        match condition {
            Condition::And(left, right) => {
                let left = self.condition(left)?;
                if left == Some(false) {
                    return Ok(left);
                }
                // The second one counts behind an unknown one, too.
                let right = self.condition(right)?;
                Ok(if right == Some(true) { left } else { right })
            }
            Condition::Or(left, right) => {
                let left = self.condition(left)?;
                if left == Some(true) {
                    return Ok(left);
                }
                let right = self.condition(right)?;
                Ok(if right == Some(false) { left } else { right })
            }
            Condition::Not(operand) => Ok(self.condition(operand)?.map(|value| !value)),
            Condition::IsUnknown(operand) => Ok(Some(self.condition(operand)?.is_none())),
            Condition::Compare(operator, left, right) => {
                let Some(left) = self.quiet(left, true)? else { return Ok(None) };
                let Some(right) = self.quiet(right, true)? else { return Ok(None) };
                self.any_pair(&left, &right, |it, left, right| it.compare(*operator, left, right))
            }
            Condition::StartsWith(whole, start) => {
                let Some(whole) = self.quiet(whole, true)? else { return Ok(None) };
                let Some(start) = self.quiet(start, false)? else { return Ok(None) };
                self.any_pair(&whole, &start, |_, whole, start| {
                    Ok(text_of(whole).zip(text_of(start)).map(|(whole, start)| whole.starts_with(start)))
                })
            }
            Condition::LikeRegex(operand, pattern, flags) => {
                let Some(operand) = self.quiet(operand, true)? else { return Ok(None) };
                let only = [Item::of(Jsonb::Null)];
                self.any_pair(&operand, &only, |_, item, _| match text_of(item) {
                    Some(text) => Ok(Some(like_regex(text, pattern, *flags)?)),
                    None => Ok(None),
                })
            }
            Condition::Exists(operand) => self.exists(operand),
        }
    }

    fn exists(&mut self, operand: &Node) -> Result<Option<bool>, Failure> {
        if self.is_strict {
            // An error behind the first item counts.
            return Ok(self.quiet(operand, false)?.map(|found| !found.is_empty()));
        }
        let outer = std::mem::replace(&mut self.throws, false);
        let found = self.node(operand, None);
        self.throws = outer;
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Failure::Silent) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The items of an operand; `None` after an error.
    fn quiet(&mut self, node: &Node, unwraps: bool) -> Result<Option<Vec<Item<'d>>>, Failure> {
        let outer = std::mem::replace(&mut self.throws, false);
        let found = self.operand(node, unwraps);
        self.throws = outer;
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Failure::Silent) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// True if a pair satisfies the predicate; unknown if it is for some pair, which in strict mode any pair is enough for.
    fn any_pair(
        &mut self,
        left: &[Item<'d>],
        right: &[Item<'d>],
        mut holds: impl FnMut(&mut Self, &Item<'d>, &Item<'d>) -> Result<Option<bool>, Failure>,
    ) -> Result<Option<bool>, Failure> {
        let (mut is_true, mut is_unknown) = (false, false);
        for left in left {
            for right in right {
                crate::interrupt::step()?;
                match holds(self, left, right)? {
                    None if self.is_strict => return Ok(None),
                    None => is_unknown = true,
                    Some(true) if !self.is_strict => return Ok(Some(true)),
                    Some(true) => is_true = true,
                    Some(false) => {}
                }
            }
        }
        Ok(if is_true || !is_unknown { Some(is_true) } else { None })
    }

    fn compare(
        &mut self,
        operator: Comparison,
        left: &Item<'d>,
        right: &Item<'d>,
    ) -> Result<Option<bool>, Failure> {
        let order = match (left, right) {
            (Item::Moment(left), Item::Moment(right)) => match self.compare_moments(left, right)? {
                Some(order) => order,
                None => return Ok(None),
            },
            (Item::Document(left), Item::Document(right)) => match (left.as_ref(), right.as_ref()) {
                (Jsonb::Null, Jsonb::Null) => std::cmp::Ordering::Equal,
                (Jsonb::Bool(left), Jsonb::Bool(right)) => left.cmp(right),
                (Jsonb::Number(left), Jsonb::Number(right)) => left.cmp(right),
                (Jsonb::String(left), Jsonb::String(right)) => left.as_bytes().cmp(right.as_bytes()),
                // null differs from all else, without an order.
                (Jsonb::Null, _) | (_, Jsonb::Null) => return Ok(Some(operator == Comparison::NotEqual)),
                _ => return Ok(None),
            },
            (Item::Document(document), Item::Moment(_)) | (Item::Moment(_), Item::Document(document)) => {
                let is_null = matches!(document.as_ref(), Jsonb::Null);
                return Ok(is_null.then_some(operator == Comparison::NotEqual));
            }
        };
        Ok(Some(match operator {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }))
    }
}

fn text_of<'i>(item: &'i Item<'_>) -> Option<&'i str> {
    match item.document() {
        Some(Jsonb::String(text)) => Some(text),
        _ => None,
    }
}
