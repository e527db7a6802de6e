//! Polymorphic types: the types that polymorphic arguments represent, and the common type of several values.

use crate::types::cast::{CastContext, can_coerce};
use crate::types::{Category, Type};

/// Replaces polymorphic types by the types that the actual arguments decide; `None` if these contradict each other.
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
    // The vectors of the catalog are arrays as they are.
    let decide_argument = |(&kind, &given): (&Type, &Type)| match kind {
        Type::AnyArray if given.is_vector() => Some(given),
        kind => decide(kind, given),
    };
    let arguments: Option<Vec<Type>> = declared.iter().zip(actual).map(decide_argument).collect();
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

/// The type that `anyelement` represents: `Some(None)` if nothing decides it, `None` if arguments contradict each
/// other.
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

/// The type that `anycompatible` represents.
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
