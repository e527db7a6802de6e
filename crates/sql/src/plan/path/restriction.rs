//! Restrictions: a condition as a disjunction of conjunctions of restrictions of single columns.
//!
//! `a = 5 OR a = 7` is one alternative that restricts `a` to two values; `(a, b) IN ((1, 2), (3, 4))` is two alternatives of
//! two equalities each; `(a, b) > (1, 2)` is `a > 1`, or `a = 1` and `b > 2`. Each alternative becomes a range of keys of
//! whatever index fits it, or several.
//!
//! # Invariants
//! - Every row for which the condition is true satisfies all atoms of one of the alternatives. The converse need not hold.
//! - The values of atoms depend on no column of the table itself, and are the same each time that they are evaluated.

use crate::bind::tree::{BoundExpr, Quantifier, RelationId, TruthValue};
use crate::functions::Function;
use crate::plan::expression::Comparison;
use crate::plan::node::Pattern;
use crate::plan::path::converted::converted;
use crate::plan::translate::comparison_of;
use crate::plan::walk::{is_volatile, relations_of};
use crate::types::{Modifier, Type, Value};

/// Maximum number of alternatives of a condition; one with more restricts nothing.
const ALTERNATIVES_MAX: usize = 4_096;
/// Maximum number of alternatives of conditions that AND connects.
pub(super) const PRODUCT_MAX: usize = 256;

/// The restriction of columns by one condition.
#[derive(Clone, Debug)]
pub(crate) struct Restriction {
    pub(crate) alternatives: Vec<Vec<Atom>>,
    /// The condition's position in the scan's list of conditions; `None` if all conditions together imply it.
    pub(crate) condition: Option<usize>,
    /// The conditions that are true of every row that satisfies the one atom of its one alternative.
    pub(super) settles: Vec<usize>,
}

/// A restriction of one column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Atom {
    pub(crate) column: usize,
    pub(crate) kind: AtomKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AtomKind {
    Equal(BoundExpr),
    /// It equals one of these values (`IN`).
    OneOf(Vec<BoundExpr>),
    /// It equals an element of this array (`= ANY`).
    Element(BoundExpr),
    Lower(BoundExpr, bool),
    Upper(BoundExpr, bool),
    /// It matches this pattern, whose beginning may be fixed.
    Matches(BoundExpr, Pattern),
    Null,
    NotNull,
}

impl Restriction {
    /// The restriction that a boolean column is true, where all conditions together imply it. `settles`: the conditions
    /// that it implies.
    pub(crate) fn implied(column: usize, settles: Vec<usize>) -> Restriction {
        Restriction { alternatives: vec![vec![boolean(column, true)]], condition: None, settles }
    }

    /// Returns true if it implies that a column is not NULL.
    pub(super) fn rejects_null(&self, column: usize) -> bool {
        let rejects = |atom: &Atom| atom.column == column && atom.kind != AtomKind::Null;
        self.alternatives.iter().all(|atoms| atoms.iter().any(rejects))
    }
}

fn boolean(column: usize, value: bool) -> Atom {
    Atom { column, kind: AtomKind::Equal(BoundExpr::constant(Value::Bool(value), Type::Bool)) }
}

/// Derives the restriction that a condition puts on the columns of a relation, by values that depend on `known`
/// relations only; `None` if it puts none.
pub(crate) fn restriction(
    expr: &BoundExpr,
    condition: usize,
    relation: RelationId,
    known: &dyn Fn(RelationId) -> bool,
) -> Option<Restriction> {
    let alternatives = Finder { relation, known }.alternatives(expr)?;
    let is_atom = !matches!(expr, BoundExpr::And(_) | BoundExpr::Or(_));
    let settles = if is_atom { vec![condition] } else { Vec::new() };
    Some(Restriction { alternatives, condition: Some(condition), settles })
}

/// The column of this relation that an expression refers to, seen through casts that preserve its values and order.
fn column_of(expr: &BoundExpr, relation: RelationId) -> Option<usize> {
    named_column(expr).filter(|(of, _)| *of == relation).map(|(_, column)| column)
}

/// The column that an expression refers to, seen through casts that preserve its values and order.
pub(crate) fn named_column(expr: &BoundExpr) -> Option<(RelationId, usize)> {
    match expr {
        BoundExpr::Column { relation, column, .. } => Some((*relation, *column)),
        BoundExpr::Cast { operand, ty, modifier, .. } if keeps_order(operand.ty(), *ty, *modifier) => {
            named_column(operand)
        }
        BoundExpr::Cast { operand, ty, .. } if widens(operand.ty(), *ty) => named_column(operand),
        _ => None,
    }
}

fn widens(from: Type, to: Type) -> bool {
    matches!((from, to), (Type::Int2, Type::Int4 | Type::Int8) | (Type::Int4, Type::Int8))
}

/// All text types except the blank-padded one compare alike, and so do both types of networks; a type modifier could
/// truncate a value.
fn keeps_order(from: Type, to: Type, modifier: Modifier) -> bool {
    let is_text = |ty| matches!(ty, Type::Text | Type::Varchar | Type::Name);
    let is_kept = is_text(from) && matches!(to, Type::Text | Type::Varchar);
    modifier == Modifier::NONE && (is_kept || (from, to) == (Type::Cidr, Type::Inet))
}

/// The comparison that an operator performs, also between integers of different widths.
pub(crate) fn any_comparison(operator: &'static Function, args: &[BoundExpr]) -> Option<Comparison> {
    let is_int = |ty| matches!(ty, Type::Int2 | Type::Int4 | Type::Int8);
    comparison_of(operator).or_else(|| {
        args.iter().all(|arg| is_int(arg.ty())).then(|| Comparison::of_symbol(operator.name)).flatten()
    })
}

/// Search for the restrictions that conditions put on one relation.
struct Finder<'f> {
    relation: RelationId,
    known: &'f dyn Fn(RelationId) -> bool,
}

impl Finder<'_> {
    /// Returns true if an expression gives a value that does not depend on the row.
    fn gives(&self, value: &BoundExpr) -> bool {
        relations_of(value).into_iter().all(|of| of != self.relation && (self.known)(of))
            && !is_volatile(value)
    }

    fn column_of(&self, expr: &BoundExpr) -> Option<usize> {
        column_of(expr, self.relation)
    }

    fn alternatives(&self, expr: &BoundExpr) -> Option<Vec<Vec<Atom>>> {
        match expr {
            BoundExpr::And(parts) => parts.iter().filter_map(|part| self.alternatives(part)).reduce(product),
            BoundExpr::Or(parts) => {
                let mut any = Vec::new();
                for part in parts {
                    any.extend(self.alternatives(part)?);
                    if any.len() > ALTERNATIVES_MAX {
                        return None;
                    }
                }
                Some(lists(any))
            }
            other => match self.atom(other) {
                Some(atom) => Some(vec![vec![atom]]),
                None => self.converted(other).map(|atoms| vec![atoms]),
            },
        }
    }

    /// The bounds of a column that is compared with a value of another type.
    fn converted(&self, expr: &BoundExpr) -> Option<Vec<Atom>> {
        let BoundExpr::Operator { operator, args, .. } = expr else { return None };
        let [left, right] = &args[..] else { return None };
        let comparison = Comparison::of_symbol(operator.name)?;
        let sides = [(left, right, comparison), (right, left, comparison.swapped())];
        sides.into_iter().find_map(|(side, value, comparison)| {
            let column = self.column_of(side).filter(|_| self.gives(value))?;
            let kinds = converted(comparison, side.ty(), value)?;
            Some(kinds.into_iter().map(|kind| Atom { column, kind }).collect())
        })
    }

    fn atom(&self, expr: &BoundExpr) -> Option<Atom> {
        match expr {
            BoundExpr::Operator { operator, args, .. } => self.comparison(operator, args),
            BoundExpr::InList { operand, list, equals, negated: false } => {
                comparison_of(equals)?;
                let column = self.column_of(operand)?;
                let kind = match &list[..] {
                    [value] => AtomKind::Equal(value.clone()),
                    list => AtomKind::OneOf(list.to_vec()),
                };
                list.iter().all(|value| self.gives(value)).then_some(Atom { column, kind })
            }
            BoundExpr::Quantified { operand, array, operator, quantifier: Quantifier::Any }
                if comparison_of(operator) == Some(Comparison::Equal) =>
            {
                let kind = AtomKind::Element((**array).clone());
                self.gives(array).then_some(Atom { column: self.column_of(operand)?, kind })
            }
            BoundExpr::IsNull { operand, negated } if !matches!(**operand, BoundExpr::Row { .. }) => {
                let kind = if *negated { AtomKind::NotNull } else { AtomKind::Null };
                Some(Atom { column: self.column_of(operand)?, kind })
            }
            // A boolean column alone is a condition.
            BoundExpr::Column { ty: Type::Bool, .. } => Some(boolean(self.column_of(expr)?, true)),
            BoundExpr::Not(operand) if matches!(**operand, BoundExpr::Column { .. }) => {
                Some(boolean(self.column_of(operand)?, false))
            }
            BoundExpr::IsTruth { operand, value: TruthValue::True, negated: false } => self.atom(operand),
            BoundExpr::IsTruth { operand, value: TruthValue::False, negated: false } => {
                let is_column = matches!(**operand, BoundExpr::Column { .. });
                is_column.then(|| self.column_of(operand)).flatten().map(|column| boolean(column, false))
            }
            _ => None,
        }
    }

    fn comparison(&self, operator: &'static Function, args: &[BoundExpr]) -> Option<Atom> {
        let [left, right] = args else { return None };
        let Some(comparison) = any_comparison(operator, args) else {
            let pattern = pattern_of(operator)?;
            let column = self.column_of(left).filter(|_| self.gives(right))?;
            return Some(Atom { column, kind: AtomKind::Matches(right.clone(), pattern) });
        };
        let sides = [(left, right, comparison), (right, left, comparison.swapped())];
        sides.into_iter().find_map(|(side, value, comparison)| {
            let column = self.column_of(side).filter(|_| self.gives(value))?;
            let value = value.clone();
            let kind = match comparison {
                Comparison::Equal => AtomKind::Equal(value),
                Comparison::Greater => AtomKind::Lower(value, false),
                Comparison::GreaterEqual => AtomKind::Lower(value, true),
                Comparison::Less => AtomKind::Upper(value, false),
                Comparison::LessEqual => AtomKind::Upper(value, true),
                Comparison::NotEqual => return None,
            };
            Some(Atom { column, kind })
        })
    }
}

/// The kind of pattern that an operator on texts matches.
pub(crate) fn pattern_of(operator: &Function) -> Option<Pattern> {
    let is_text = |ty: &Type| matches!(ty, Type::Text | Type::Varchar | Type::Name);
    let kind = match operator.name {
        "~~" => Pattern::Like,
        "~" => Pattern::Regex,
        _ => return None,
    };
    operator.arguments.iter().all(is_text).then_some(kind)
}

/// The alternatives whose rows satisfy an alternative of each side; if there are too many, those of one side alone.
pub(super) fn product(left: Vec<Vec<Atom>>, right: Vec<Vec<Atom>>) -> Vec<Vec<Atom>> {
    if left.len() * right.len() > PRODUCT_MAX.max(left.len()).max(right.len()) {
        return if left.len() <= right.len() { left } else { right };
    }
    let both = |one: &Vec<Atom>, other: &Vec<Atom>| one.iter().chain(other).cloned().collect();
    left.iter().flat_map(|one| right.iter().map(move |other| both(one, other))).collect()
}

/// Alternatives that are values of one column become a list.
fn lists(alternatives: Vec<Vec<Atom>>) -> Vec<Vec<Atom>> {
    let mut made: Vec<Vec<Atom>> = Vec::with_capacity(alternatives.len());
    let mut lists: Vec<(usize, Vec<BoundExpr>)> = Vec::new();
    for mut atoms in alternatives {
        let values = match &mut atoms[..] {
            [Atom { column, kind: AtomKind::Equal(value) }] => (*column, vec![value.clone()]),
            [Atom { column, kind: AtomKind::OneOf(values) }] => (*column, std::mem::take(values)),
            _ => {
                made.push(atoms);
                continue;
            }
        };
        match lists.iter_mut().find(|(column, _)| *column == values.0) {
            Some((_, list)) => list.extend(values.1),
            None => lists.push(values),
        }
    }
    for (column, mut list) in lists {
        let kind = if list.len() == 1 { AtomKind::Equal(list.remove(0)) } else { AtomKind::OneOf(list) };
        made.push(vec![Atom { column, kind }]);
    }
    made
}
