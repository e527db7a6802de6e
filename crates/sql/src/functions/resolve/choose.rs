//! The choice among functions or operators of one name by the types of their arguments.

use super::polymorphic::polymorphic;
use crate::types::cast::{CastContext, can_coerce};
use crate::types::{Category, Type};

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

/// If all known arguments have one type, unknown ones are assumed to have the same.
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
