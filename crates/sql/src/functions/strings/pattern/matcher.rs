//! Matches a text: where a match begins and ends, and what its groups capture.
//!
//! Invariants: of several matches the leftmost one counts, and of those that begin there the one that the pattern prefers.
//! Automata find a match and its division among the parts, so that only back-references need several attempts.

use super::classes::cases;
use super::context::Context;
use super::program::Parts;
use super::syntax::{Preference, UNBOUNDED};
use super::tree::{Node, Operation};
use crate::error::Result;

/// The bytes that a group covers.
pub(in crate::functions::strings) type Span = (usize, usize);

/// A match in the making.
pub(super) struct Matcher<'p, 't> {
    pub context: Context<'p, 't>,
    pub parts: &'p mut Parts,
    pub groups: Vec<Option<Span>>,
    pub ignores_case: bool,
}

impl Matcher<'_, '_> {
    /// The match that begins at a place, if one does; the groups are set.
    pub fn match_at(&mut self, root: &Node, begin: usize, captures: bool) -> Result<Option<usize>> {
        let is_shortest = root.traits.prefers == Some(Preference::Shortest);
        let (mut least, mut most) = (begin, self.context.text.len());
        loop {
            let end = match is_shortest {
                true => self.shortest(root, begin, least, most)?,
                false => self.longest(root, begin, most)?,
            };
            let Some(end) = end else { return Ok(None) };
            if !captures && !root.traits.refers {
                return Ok(Some(end));
            }
            self.groups.fill(None);
            if self.divide(root, begin, end)? {
                return Ok(Some(end));
            }
            if end == if is_shortest { most } else { begin } {
                return Ok(None);
            }
            match is_shortest {
                true => least = self.after(end),
                false => most = self.before(end),
            }
        }
    }

    /// End of the longest match of a node that begins at a place and ends at `limit` or before.
    fn longest(&mut self, node: &Node, begin: usize, limit: usize) -> Result<Option<usize>> {
        let automaton = self.parts.automaton(node)?;
        let mut end = None;
        self.context.run(automaton, begin, limit, |at| {
            end = Some(at);
            false
        })?;
        Ok(end)
    }

    /// End of the shortest match of a node that is at least and at most this long.
    fn shortest(&mut self, node: &Node, begin: usize, least: usize, most: usize) -> Result<Option<usize>> {
        let automaton = self.parts.automaton(node)?;
        let mut end = None;
        self.context.run(automaton, begin, most, |at| {
            end = (at >= least).then_some(at);
            end.is_some()
        })?;
        Ok(end)
    }

    fn before(&self, at: usize) -> usize {
        at - self.context.text[..at].chars().next_back().map_or(0, char::len_utf8)
    }

    fn after(&self, at: usize) -> usize {
        at + self.context.text[at..].chars().next().map_or(0, char::len_utf8)
    }

    fn count(&self, begin: usize, end: usize) -> usize {
        self.context.text[begin..end].chars().count()
    }

    /// Divides the match of a node among its parts. The caller knows that the node's automaton matches; returns false
    /// if back-references do not.
    fn divide(&mut self, node: &Node, begin: usize, end: usize) -> Result<bool> {
        crate::stack::grow(|| {
            let is_matched = match &node.operation {
                Operation::Leaf => true,
                Operation::BackReference { group, min, max } => {
                    self.refers(*group, (*min, *max), (begin, end))
                }
                Operation::Sequence(parts) => self.sequence(parts, begin, end)?,
                Operation::Either(branches) => self.either(branches, begin, end)?,
                Operation::Wrapper(inside) => self.divide(inside, begin, end)?,
                Operation::Repeated { inside, min, max } => {
                    match inside.traits.prefers == Some(Preference::Shortest) {
                        true => self.repeated_shortest(inside, (*min, *max), begin, end)?,
                        false => self.repeated_longest(inside, (*min, *max), begin, end)?,
                    }
                }
            };
            if is_matched && let Some(group) = node.group {
                self.groups[group] = Some((begin, end));
            }
            Ok(is_matched)
        })
    }

    fn sequence(&mut self, [first, second]: &[Node; 2], begin: usize, end: usize) -> Result<bool> {
        let is_shortest = first.traits.prefers == Some(Preference::Shortest);
        let mut middle = match is_shortest {
            true => self.shortest(first, begin, begin, end)?,
            false => self.longest(first, begin, end)?,
        };
        while let Some(at) = middle {
            if self.longest(second, at, end)? == Some(end) {
                if self.divide(first, begin, at)? && self.divide(second, at, end)? {
                    return Ok(true);
                }
                self.forget(first);
                self.forget(second);
            }
            if at == if is_shortest { end } else { begin } {
                break;
            }
            middle = match is_shortest {
                true => self.shortest(first, begin, self.after(at), end)?,
                false => self.longest(first, begin, self.before(at))?,
            };
        }
        Ok(false)
    }

    fn either(&mut self, branches: &[Node], begin: usize, end: usize) -> Result<bool> {
        for branch in branches {
            if self.longest(branch, begin, end)? == Some(end) && self.divide(branch, begin, end)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a text consists of repetitions of what a group has captured.
    fn refers(&self, group: usize, (min, max): (u32, u32), (begin, end): Span) -> bool {
        let Some((from, to)) = self.groups[group] else { return false };
        let (captured, found) = (&self.context.text[from..to], &self.context.text[begin..end]);
        if captured.is_empty() || found.is_empty() {
            return found.is_empty() && (captured.is_empty() || min == 0);
        }
        let (length, total) = (captured.chars().count(), found.chars().count());
        let times = total / length;
        if !total.is_multiple_of(length) || times < min as usize || (max != UNBOUNDED && times > max as usize)
        {
            return false;
        }
        let mut expected = captured.chars().cycle();
        let is_equal =
            |one: char, other: char| one == other || (self.ignores_case && cases(one)[0] == cases(other)[0]);
        found.chars().all(|character| expected.next().is_some_and(|other| is_equal(character, other)))
    }

    /// Forgets what the groups of a part have captured.
    fn forget(&mut self, node: &Node) {
        if let Some(group) = node.group {
            self.groups[group] = None;
        }
        match &node.operation {
            Operation::Leaf | Operation::BackReference { .. } => {}
            Operation::Sequence(parts) => parts.iter().for_each(|part| self.forget(part)),
            Operation::Either(branches) => branches.iter().for_each(|branch| self.forget(branch)),
            Operation::Repeated { inside, .. } | Operation::Wrapper(inside) => self.forget(inside),
        }
    }

    /// Checks the repetitions between these ends of which fewer than `verified` are known to match. The number of the first
    /// one that does not, if one does not.
    fn verify(&mut self, inside: &Node, ends: &[usize], verified: &mut usize) -> Result<Option<usize>> {
        for number in *verified + 1..ends.len() {
            self.forget(inside);
            if !self.divide(inside, ends[number - 1], ends[number])? {
                return Ok(Some(number));
            }
            *verified = number;
        }
        Ok(None)
    }
}

/// The bounds of a number of repetitions: how many are needed, and how many are possible.
fn bounds((min, max): (u32, u32), characters: usize) -> (usize, usize) {
    let least = (min as usize).max(1);
    let most = if max == UNBOUNDED { characters } else { characters.min(max as usize) };
    (least, most.max(least))
}

impl Matcher<'_, '_> {
    /// Divides a text among repetitions, of which each is as long as possible.
    fn repeated_longest(
        &mut self,
        inside: &Node,
        times: (u32, u32),
        begin: usize,
        end: usize,
    ) -> Result<bool> {
        let (least, most) = bounds(times, self.count(begin, end));
        let mut ends = vec![begin];
        let (mut verified, mut limit) = (0, end);
        loop {
            let number = ends.len();
            let last = ends[number - 1];
            let mut shorten = true;
            match self.longest(inside, last, limit)? {
                None => {}
                Some(at) => {
                    ends.push(at);
                    verified = verified.min(number - 1);
                    let is_needless = at == last && (number >= least || least - number < self.count(at, end));
                    if at != end && number >= most {
                        ends.pop();
                    } else if at != end && !is_needless {
                        limit = end;
                        shorten = false;
                    } else if at == end && number >= least {
                        match self.verify(inside, &ends, &mut verified)? {
                            None => return Ok(true),
                            Some(failed) => ends.truncate(failed + 1),
                        }
                    }
                }
            }
            while shorten {
                let number = ends.len() - 1;
                if number == 0 {
                    return Ok(times.0 == 0 && begin == end);
                }
                let (at, last) = (ends[number], ends[number - 1]);
                ends.pop();
                if at > last {
                    limit = self.before(at);
                    let needs_empty = number < least && least - number >= self.count(last, end);
                    shorten = !(limit > last || needs_empty);
                }
            }
        }
    }

    /// Divides a text among repetitions, of which each is as short as possible.
    fn repeated_shortest(
        &mut self,
        inside: &Node,
        times: (u32, u32),
        begin: usize,
        end: usize,
    ) -> Result<bool> {
        if times.0 == 0 && begin == end {
            return Ok(true);
        }
        let (least, most) = bounds(times, self.count(begin, end));
        let mut ends = vec![begin];
        let (mut verified, mut limit) = (0, begin);
        loop {
            let number = ends.len();
            let last = ends[number - 1];
            if limit == last && limit != end && (number >= least || least - number < self.count(limit, end)) {
                limit = self.after(limit);
            }
            let mut lengthen = true;
            if let Some(at) = self.shortest(inside, last, limit, end)? {
                ends.push(at);
                verified = verified.min(number - 1);
                if at != end && number >= most {
                    ends.pop();
                } else if at != end {
                    limit = at;
                    lengthen = false;
                } else if number >= least {
                    match self.verify(inside, &ends, &mut verified)? {
                        None => return Ok(true),
                        Some(failed) => ends.truncate(failed + 1),
                    }
                }
            }
            while lengthen {
                let Some(at) = ends.pop().filter(|_| !ends.is_empty()) else { return Ok(false) };
                if at < end {
                    limit = self.after(at);
                    lengthen = false;
                }
            }
        }
    }
}
