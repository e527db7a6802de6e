//! Which of several overloads a call means, by PostgreSQL's rules.
//!
//! The rules: an exact match wins; otherwise, among the candidates that the arguments can be coerced to implicitly, those
//! with the most exact matches, then those with the most exact or preferred types, then those that suit the category
//! that unknown literals are guessed to have; at last unknown literals take the type of the others.
//!
//! Source: PostgreSQL 15, "Type Conversion" (chapter 10), `parse_func.c` and `parse_oper.c`.

use super::definition::Function;
use super::registry::{functions_named, operators_named};
use crate::error::{Result, SqlError, SqlState};
use crate::types::cast::{CastContext, can_coerce};
use crate::types::{Category, Type};

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
    /// From which argument on the values are put into one array before the call. (Variadic `any` functions get theirs
    /// one by one.)
    pub packs_from: Option<usize>,
    /// How many of the last arguments are left out and take their defaults (`Function::defaults`).
    pub defaults: usize,
}

/// What a call by name turned out to be.
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

/// The same among given entries; none if there is no match.
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

/// Puts the arguments of a call with names in the entry's order: for each declared argument, which one of the call's
/// it is, or none for a default.
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
    // A literal takes the other operand's type if there is an operator over two of that type.
    let (exact_left, exact_right) = match (left, right) {
        (Type::Unknown, known) if known != Type::Unknown => (known, known),
        (known, Type::Unknown) if known != Type::Unknown => (known, known),
        both => both,
    };
    resolve_among(symbol, &[left, right], &[exact_left, exact_right])
}

/// Resolves a prefix operator.
pub fn resolve_prefix_operator(symbol: &str, operand: Type) -> Result<Resolved> {
    resolve_among(symbol, &[operand], &[operand])
}

fn resolve_among(symbol: &str, actual: &[Type], exact: &[Type]) -> Result<Resolved> {
    let symbol = if symbol == "!=" { "<>" } else { symbol };
    let of_arity = || operators_named(symbol).filter(|it| it.arguments.len() == actual.len());
    let candidates: Vec<Candidate> = of_arity()
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

/// Keeps the candidates with the highest score; all of them if every score is 0.
fn keep_best(candidates: &mut Vec<usize>, score: impl Fn(usize) -> usize) {
    let best = candidates.iter().map(|&at| score(at)).max().unwrap_or(0);
    if best > 0 {
        candidates.retain(|&at| score(at) == best);
    }
}

/// The one candidate that PostgreSQL's `func_select_candidate` chooses.
pub(crate) fn choose(choices: &[&[Type]], actual: &[Type]) -> Option<usize> {
    let mut left: Vec<usize> = (0..choices.len()).collect();
    if left.len() == 1 {
        return Some(0);
    }
    let known = |at: usize| actual[at] != Type::Unknown;
    let count = |choice: usize, suits: &dyn Fn(usize, Type) -> bool| {
        choices[choice].iter().enumerate().filter(|(at, kind)| known(*at) && suits(*at, **kind)).count()
    };
    keep_best(&mut left, |choice| count(choice, &|at, kind| kind == actual[at]));
    if left.len() == 1 {
        return Some(left[0]);
    }
    let is_preferred = |at: usize, kind: Type| {
        kind == actual[at] || kind.is_preferred() && kind.category() == actual[at].category()
    };
    keep_best(&mut left, |choice| count(choice, &is_preferred));
    if left.len() == 1 {
        return Some(left[0]);
    }
    if (0..actual.len()).all(known) {
        return None;
    }
    narrow_by_category(&mut left, choices, actual);
    if left.len() == 1 {
        return Some(left[0]);
    }
    same_as_known(&left, choices, actual)
}

/// Guesses the category of unknown literals: the one that all candidates share, or strings if some candidate has one.
fn narrow_by_category(left: &mut Vec<usize>, choices: &[&[Type]], actual: &[Type]) {
    let mut guesses: Vec<Option<(Category, bool)>> = vec![None; actual.len()];
    for at in (0..actual.len()).filter(|&at| actual[at] == Type::Unknown) {
        let mut guess: Option<(Category, bool)> = None;
        let mut has_conflict = false;
        for &choice in left.iter() {
            let kind = choices[choice][at];
            let (category, is_preferred) = (kind.category(), kind.is_preferred());
            match &mut guess {
                None => guess = Some((category, is_preferred)),
                Some((known, preferred)) if *known == category => *preferred |= is_preferred,
                Some(known) if category == Category::String => *known = (category, is_preferred),
                Some(_) => has_conflict = true,
            }
        }
        if has_conflict && guess.is_some_and(|(category, _)| category != Category::String) {
            return;
        }
        guesses[at] = guess;
    }
    let suits = |choice: &usize| {
        guesses.iter().zip(choices[*choice]).all(|(guess, kind)| match guess {
            None => true,
            Some((category, preferred)) => {
                kind.category() == *category && (!preferred || kind.is_preferred())
            }
        })
    };
    if left.iter().any(suits) {
        left.retain(suits);
    }
}

/// If all known arguments have one type, unknown ones are taken for the same.
fn same_as_known(left: &[usize], choices: &[&[Type]], actual: &[Type]) -> Option<usize> {
    let mut known = actual.iter().copied().filter(|&kind| kind != Type::Unknown);
    let first = known.next()?;
    if known.any(|kind| kind != first) {
        return None;
    }
    let assumed = vec![first; actual.len()];
    let mut fitting = left.iter().filter(|&&choice| {
        choices[choice].iter().all(|&kind| can_coerce(first, kind, CastContext::Implicit))
            && polymorphic(choices[choice], &assumed, Type::Void).is_some()
    });
    match (fitting.next(), fitting.next()) {
        (Some(&only), None) => Some(only),
        _ => None,
    }
}

/// Replaces polymorphic types by what the actual arguments decide; none if they contradict each other.
pub fn polymorphic(declared: &[Type], actual: &[Type], result: Type) -> Option<(Vec<Type>, Type)> {
    if !declared.iter().any(|kind| kind.is_polymorphic() || *kind == Type::Any) && !result.is_polymorphic() {
        return Some((declared.to_vec(), result));
    }
    let element = element_type(declared, actual)?;
    let common = common_element(declared, actual)?;
    let decide = |kind: Type, given: Type| -> Option<Type> {
        Some(match kind {
            Type::AnyElement | Type::AnyNonArray | Type::AnyEnum => element?,
            Type::AnyArray => element?.array()?,
            Type::AnyCompatible | Type::AnyCompatibleNonArray => common?,
            Type::AnyCompatibleArray => common?.array()?,
            Type::Any if given == Type::Unknown => Type::Text,
            Type::Any => given,
            other => other,
        })
    };
    let arguments: Option<Vec<Type>> =
        declared.iter().zip(actual).map(|(&kind, &given)| decide(kind, given)).collect();
    let arguments = arguments?;
    let is_refused = declared.iter().zip(&arguments).any(|(kind, decided)| match kind {
        Type::AnyNonArray | Type::AnyCompatibleNonArray => decided.is_array(),
        Type::AnyEnum => decided.category() != Category::Enum,
        _ => false,
    });
    if is_refused {
        return None;
    }
    Some((arguments, decide(result, result)?))
}

/// What `anyelement` stands for: `Some(None)` if nothing decides it, none if arguments contradict each other.
fn element_type(declared: &[Type], actual: &[Type]) -> Option<Option<Type>> {
    let mut element: Option<Type> = None;
    let mut has_unknown = false;
    for (&kind, &given) in declared.iter().zip(actual) {
        let found = match kind {
            Type::AnyElement | Type::AnyNonArray | Type::AnyEnum => given,
            Type::AnyArray if given == Type::Unknown => Type::Unknown,
            Type::AnyArray => given.element()?,
            _ => continue,
        };
        match element {
            _ if found == Type::Unknown => has_unknown = true,
            None => element = Some(found),
            Some(known) if known == found => {}
            Some(_) => return None,
        }
    }
    if element.is_none() && has_unknown {
        // PostgreSQL reads literals as text where nothing else decides.
        element = Some(Type::Text);
    }
    Some(element)
}

/// What `anycompatible` stands for.
fn common_element(declared: &[Type], actual: &[Type]) -> Option<Option<Type>> {
    let mut kinds = Vec::new();
    for (&kind, &given) in declared.iter().zip(actual) {
        match kind {
            Type::AnyCompatible | Type::AnyCompatibleNonArray => kinds.push(given),
            Type::AnyCompatibleArray if given == Type::Unknown => kinds.push(given),
            Type::AnyCompatibleArray => kinds.push(given.element()?),
            _ => {}
        }
    }
    if kinds.is_empty() {
        return Some(None);
    }
    let common = common_type(&kinds)?;
    kinds.iter().all(|&kind| can_coerce(kind, common, CastContext::Implicit)).then_some(Some(common))
}

/// The type that CASE, COALESCE, UNION, VALUES and ARRAY give to expressions of these types; none if they do not match.
pub fn common_type(kinds: &[Type]) -> Option<Type> {
    let first = *kinds.first()?;
    if first != Type::Unknown && kinds.iter().all(|&kind| kind == first) {
        return Some(first);
    }
    let mut chosen = first;
    for &kind in &kinds[1..] {
        if kind == Type::Unknown || kind == chosen {
            continue;
        }
        if chosen == Type::Unknown {
            chosen = kind;
        } else if kind.category() != chosen.category() {
            return None;
        } else if !chosen.is_preferred()
            && can_coerce(chosen, kind, CastContext::Implicit)
            && !can_coerce(kind, chosen, CastContext::Implicit)
        {
            chosen = kind;
        }
    }
    Some(if chosen == Type::Unknown { Type::Text } else { chosen })
}

fn type_list(kinds: &[Type]) -> String {
    kinds.iter().map(|kind| kind.display_name()).collect::<Vec<_>>().join(", ")
}

fn call_text(name: &str, arguments: &[Type]) -> String {
    format!("{name}({})", type_list(arguments))
}

fn operator_text(symbol: &str, operands: &[Type]) -> String {
    match operands {
        [operand] => format!("{symbol} {}", operand.display_name()),
        [left, right] => format!("{} {symbol} {}", left.display_name(), right.display_name()),
        _ => symbol.to_string(),
    }
}

/// What a jsonpath is not needed for.
const INSTEAD_OF_JSONPATH: &str =
    "Use subscripts, the operators ->, ->>, #> and @>, jsonb_array_elements and jsonb_each.";

/// The functions of PostgreSQL that evaluate a jsonpath; some have a form that ends in `_tz`.
fn takes_jsonpath(name: &str) -> bool {
    let names = ["exists", "match", "query", "query_array", "query_first"];
    let rest = name.strip_prefix("jsonb_path_").map(|rest| rest.strip_suffix("_tz").unwrap_or(rest));
    rest.is_some_and(|rest| names.contains(&rest))
}

/// The functions of PostgreSQL that read and write large objects.
fn is_of_large_objects(name: &str) -> bool {
    name.starts_with("lo_") || matches!(name, "loread" | "lowrite")
}

/// `function f(integer) does not exist` (42883); 0A000 for one that PostgreSQL has, and that is refused.
pub fn no_function(name: &str, arguments: &[Type]) -> SqlError {
    if takes_jsonpath(name) {
        return SqlError::unsupported(format!("function {name} is not supported"))
            .with_hint(INSTEAD_OF_JSONPATH);
    }
    if is_of_large_objects(name) {
        return SqlError::unsupported("large objects are not supported")
            .with_hint("Use a column of type bytea.");
    }
    let message = format!("function {} does not exist", call_text(name, arguments));
    let hint =
        "No function matches the given name and argument types. You might need to add explicit type casts.";
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(hint)
}

/// `operator does not exist: integer + boolean` (42883); 0A000 for one that evaluates a jsonpath.
pub fn no_operator(symbol: &str, operands: &[Type]) -> SqlError {
    if matches!((symbol, operands), ("@?" | "@@", [Type::Jsonb, _])) {
        let message = format!("operator {} is not supported", operator_text(symbol, operands));
        return SqlError::unsupported(message).with_hint(INSTEAD_OF_JSONPATH);
    }
    let message = format!("operator does not exist: {}", operator_text(symbol, operands));
    let hint = match operands.len() {
        1 => {
            "No operator matches the given name and argument type. You might need to add an explicit type cast."
        }
        _ => {
            "No operator matches the given name and argument types. You might need to add explicit type casts."
        }
    };
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(hint)
}
