//! Resolution of overloads: the entry that a call means, by PostgreSQL's rules.
//!
//! The rules: an exact match wins; otherwise, among the candidates that the arguments can be coerced to implicitly,
//! those with the most exact matches, then those with the most exact or preferred types, then those that suit the
//! category that unknown literals are guessed to have; finally, unknown literals get the type of the others.
//!
//! Source: PostgreSQL 15, "Type Conversion" (chapter 10), `parse_func.c` and `parse_oper.c`.

mod choose;
mod no_match;
mod polymorphic;

use self::no_match::{call_text, operator_text};
use super::definition::Function;
use super::registry::{functions_named, operators_named};
use crate::error::{Result, SqlError, SqlState};
use crate::types::cast::{CastContext, can_coerce};
use crate::types::{Category, Type};

pub(crate) use choose::choose;
pub use no_match::{no_function, no_operator};
pub use polymorphic::{common_type, polymorphic};

/// An entry that was chosen, and what its call looks like.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The entry.
    pub function: &'static Function,
    /// The types that the arguments are to be coerced to, one for each argument as it was written. Where the variadic
    /// arguments were given one by one, these are elements: see `packs_from`.
    pub arguments: Vec<Type>,
    /// The type of the result, or of a row.
    pub result: Type,
    /// The first argument from which on the values are put into one array before the call. (Variadic `any` functions
    /// get theirs one by one.)
    pub packs_from: Option<usize>,
    /// Number of last arguments that are left out and take their defaults (`Function::defaults`).
    pub defaults: usize,
}

/// The meaning of a call by name.
#[derive(Clone, Debug)]
pub enum Called {
    /// A function.
    Function(Resolved),
    /// A cast written as a call: `float8(x)`.
    Cast(Type),
}

/// A candidate: an entry and its arguments, spread out to the number of the call's.
struct Candidate {
    function: &'static Function,
    arguments: Vec<Type>,
    packs_from: Option<usize>,
    defaults: usize,
}

/// Resolves a call. `is_variadic`: the last argument was marked VARIADIC. Argument names, if any, belong to the last
/// arguments; they must have been put in the entry's order with [`order_named`] before.
pub fn resolve_function(name: &str, arguments: &[Type], is_variadic: bool) -> Result<Called> {
    let found = choose_function(name, arguments, is_variadic, functions_named(name))?;
    match found {
        Some(called) => Ok(called),
        None if functions_named(name).next().is_none() => Err(no_function(name, arguments)),
        None => Err(no_function(name, arguments)),
    }
}

/// Resolves a call among given entries; `None` if there is no match.
pub fn choose_function(
    name: &str,
    arguments: &[Type],
    is_variadic: bool,
    entries: impl Iterator<Item = &'static Function>,
) -> Result<Option<Called>> {
    let candidates: Vec<Candidate> =
        entries.filter_map(|it| spread(it, arguments.len(), is_variadic)).collect();
    let exact = candidates.iter().position(|it| it.arguments == arguments);
    if let Some(at) = exact {
        return finish(&candidates[at], arguments)
            .map(Called::Function)
            .map(Some)
            .ok_or_else(|| no_function(name, arguments));
    }
    if let (1, Some(target)) = (arguments.len(), cast_target(name)) {
        let from = arguments[0];
        let is_binary = from == Type::Unknown || crate::types::cast::is_relabel(from, target);
        if is_binary && crate::types::cast::find_cast(from, target, CastContext::Explicit).is_some() {
            return Ok(Some(Called::Cast(target)));
        }
    }
    let fitting: Vec<Candidate> = candidates.into_iter().filter(|it| fits(it, arguments)).collect();
    if fitting.is_empty() {
        return Ok(cast_call(name, arguments).map(Called::Cast));
    }
    let choices: Vec<&[Type]> = fitting.iter().map(|it| it.arguments.as_slice()).collect();
    match choose(&choices, arguments) {
        Some(at) => {
            let resolved = finish(&fitting[at], arguments).ok_or_else(|| no_function(name, arguments))?;
            Ok(Some(Called::Function(resolved)))
        }
        None => {
            let message = format!("function {} is not unique", call_text(name, arguments));
            let hint =
                "Could not choose a best candidate function. You might need to add explicit type casts.";
            Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message).with_hint(hint))
        }
    }
}

/// The type that a function's name means as a cast.
fn cast_target(name: &str) -> Option<Type> {
    Type::BUILT_IN
        .iter()
        .copied()
        .find(|kind| kind.category() != Category::Pseudo && kind.internal_name().as_deref() == Some(name))
}

/// A call of one argument that is a cast through text.
fn cast_call(name: &str, arguments: &[Type]) -> Option<Type> {
    let [from] = arguments else { return None };
    let target = cast_target(name)?;
    crate::types::cast::find_cast(*from, target, CastContext::Explicit).map(|_| target)
}

/// An entry as a candidate for a call with this many arguments.
fn spread(function: &'static Function, count: usize, is_variadic: bool) -> Option<Candidate> {
    let declared = function.arguments.len();
    let plain = |defaults| Candidate {
        function,
        arguments: function.arguments[..count.min(declared)].to_vec(),
        packs_from: None,
        defaults,
    };
    if is_variadic {
        return (function.is_variadic && declared == count).then(|| plain(0));
    }
    if !function.is_variadic {
        let missing = declared.checked_sub(count)?;
        return (missing <= function.defaults.len()).then(|| plain(missing));
    }
    if count + 1 < declared || count == 0 && declared == 1 && function.arguments[0] != Type::Any {
        return None;
    }
    if count < declared {
        return None;
    }
    let last = function.arguments[declared - 1];
    let repeated = match last {
        Type::Any => Type::Any,
        Type::AnyArray => Type::AnyElement,
        Type::AnyCompatibleArray => Type::AnyCompatible,
        array => array.element()?,
    };
    let mut arguments = function.arguments[..declared - 1].to_vec();
    arguments.resize(count, repeated);
    let packs_from = (last != Type::Any).then_some(declared - 1);
    Some(Candidate { function, arguments, packs_from, defaults: 0 })
}

fn fits(candidate: &Candidate, arguments: &[Type]) -> bool {
    let pairs = arguments.iter().zip(&candidate.arguments);
    pairs.clone().all(|(&from, &to)| can_coerce(from, to, CastContext::Implicit))
        && polymorphic(&candidate.arguments, arguments, candidate.function.result).is_some()
}

fn finish(candidate: &Candidate, actual: &[Type]) -> Option<Resolved> {
    let (arguments, result) = polymorphic(&candidate.arguments, actual, candidate.function.result)?;
    Some(Resolved {
        function: candidate.function,
        arguments,
        result,
        packs_from: candidate.packs_from,
        defaults: candidate.defaults,
    })
}

/// Puts the arguments of a call with names in the entry's order: for each declared argument, the position of the call's
/// argument, or `None` for a default.
pub fn order_named(function: &Function, positional: usize, names: &[&str]) -> Option<Vec<Option<usize>>> {
    let declared = function.arguments.len();
    if positional + names.len() > declared {
        return None;
    }
    let mut order: Vec<Option<usize>> = (0..declared).map(|at| (at < positional).then_some(at)).collect();
    for (at, name) in names.iter().enumerate() {
        let place = function.argument_names.iter().position(|known| known == name)?;
        if order[place].is_some() {
            return None;
        }
        order[place] = Some(positional + at);
    }
    let first_default = declared - function.defaults.len();
    let is_complete = order.iter().enumerate().all(|(at, it)| it.is_some() || at >= first_default);
    is_complete.then_some(order)
}

/// Resolves an operator with two operands.
pub fn resolve_operator(symbol: &str, left: Type, right: Type) -> Result<Resolved> {
    resolve_operator_with(symbol, left, right, &[])
}

/// Like [`resolve_operator`], also among these operators of extensions.
pub fn resolve_operator_with(
    symbol: &str,
    left: Type,
    right: Type,
    others: &[&'static Function],
) -> Result<Resolved> {
    // A literal gets the other operand's type if there is an operator over two of that type.
    let (exact_left, exact_right) = match (left, right) {
        (Type::Unknown, known) if known != Type::Unknown => (known, known),
        (known, Type::Unknown) if known != Type::Unknown => (known, known),
        both => both,
    };
    resolve_among(symbol, &[left, right], &[exact_left, exact_right], others)
}

/// Resolves a prefix operator.
pub fn resolve_prefix_operator(symbol: &str, operand: Type) -> Result<Resolved> {
    resolve_prefix_operator_with(symbol, operand, &[])
}

/// Like [`resolve_prefix_operator`], also among these operators of extensions.
pub fn resolve_prefix_operator_with(
    symbol: &str,
    operand: Type,
    others: &[&'static Function],
) -> Result<Resolved> {
    resolve_among(symbol, &[operand], &[operand], others)
}

fn resolve_among(
    symbol: &str,
    actual: &[Type],
    exact: &[Type],
    others: &[&'static Function],
) -> Result<Resolved> {
    let symbol = if symbol == "!=" { "<>" } else { symbol };
    let all = operators_named(symbol).chain(others.iter().copied());
    let candidates: Vec<Candidate> = all
        .filter(|it| it.arguments.len() == actual.len())
        .map(|function| Candidate {
            function,
            arguments: function.arguments.clone(),
            packs_from: None,
            defaults: 0,
        })
        .collect();
    if let Some(found) = candidates.iter().find(|it| it.arguments == exact) {
        return finish(found, actual).ok_or_else(|| no_operator(symbol, actual));
    }
    let fitting: Vec<&Candidate> = candidates.iter().filter(|it| fits(it, actual)).collect();
    if fitting.is_empty() {
        return Err(no_operator(symbol, actual));
    }
    let choices: Vec<&[Type]> = fitting.iter().map(|it| it.arguments.as_slice()).collect();
    match choose(&choices, actual) {
        Some(at) => finish(fitting[at], actual).ok_or_else(|| no_operator(symbol, actual)),
        None => {
            let message = format!("operator is not unique: {}", operator_text(symbol, actual));
            let hint =
                "Could not choose a best candidate operator. You might need to add explicit type casts.";
            Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message).with_hint(hint))
        }
    }
}
