//! A compiled pattern: a linear-time matcher of the crate `regex` that finds where a match may begin, and the tree and the
//! automata that find where it ends and what it captures.

use std::cell::RefCell;

use regex::{Regex, RegexBuilder};

use super::Flags;
use super::automaton::Automaton;
use super::context::{Colors, Context, Lookout};
use super::linear;
use super::matcher::{Matcher, Span};
use super::parse::{Reason, TOO_COMPLEX, parse};
use super::syntax::Parsed;
use super::tree::{Builder, Node};
use crate::error::Result;

/// Maximum size of a linear-time matcher, in bytes.
const COMPILED_SIZE_MAX: usize = 8 << 20;

/// The automata of a tree's nodes, made when they are needed.
#[derive(Debug)]
pub(super) struct Parts {
    automata: Vec<Option<Automaton>>,
    /// Number of instructions of all of them.
    total: usize,
}

impl Parts {
    pub fn automaton(&mut self, node: &Node) -> Result<&mut Automaton> {
        let slot = &mut self.automata[node.automaton];
        if slot.is_none() {
            let made = Automaton::new(&node.language, false, &mut self.total);
            *slot = Some(made.map_err(super::invalid)?);
        }
        slot.as_mut().ok_or_else(|| super::invalid(TOO_COMPLEX))
    }
}

/// The state that matching modifies.
#[derive(Debug)]
struct Workspace {
    colors: Colors,
    lookouts: Vec<Lookout>,
    parts: Parts,
}

/// A compiled pattern.
#[derive(Debug)]
pub(in crate::functions::strings) struct Program {
    root: Node,
    groups: usize,
    ignores_case: bool,
    /// Matches wherever the pattern does.
    linear: Option<Regex>,
    /// True if it matches nowhere else: there are neither back-references nor look-around.
    is_exact: bool,
    workspace: RefCell<Workspace>,
}

/// A match: the bytes that it covers, and those of its groups.
#[derive(Debug)]
pub(in crate::functions::strings) struct Found(Vec<Option<Span>>);

impl Found {
    /// The bytes of the whole match.
    pub fn whole(&self) -> Span {
        self.0.first().copied().flatten().unwrap_or_default()
    }

    /// The bytes of a group; those of the whole match for 0.
    pub fn group(&self, number: usize) -> Option<Span> {
        self.0.get(number).copied().flatten()
    }

    /// Returns the number of groups, plus one for the whole match.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn groups(&self) -> impl Iterator<Item = Option<Span>> {
        self.0.iter().copied()
    }
}

impl Program {
    pub(super) fn new(pattern: &str, mut flags: Flags) -> std::result::Result<Program, Reason> {
        let parsed = parse(pattern, &mut flags)?;
        let mut builder = Builder::default();
        let root = builder.alternatives(&parsed.root);
        let mut total = 0;
        // Refuses a pattern that is too large before it matches anything.
        let whole = Automaton::new(&root.language, false, &mut total)?;
        let mut automata: Vec<Option<Automaton>> = Vec::new();
        automata.resize_with(builder.nodes, || None);
        automata[root.automaton] = Some(whole);
        let mut lookouts = Vec::new();
        for look in &parsed.looks {
            let inside = Builder::default().alternatives(&look.inside).language;
            let automaton = Automaton::new(&inside, look.is_behind, &mut total)?;
            lookouts.push(Lookout::new(automaton, look.is_behind, look.is_negated));
        }
        let source = linear::source(&parsed);
        let linear = RegexBuilder::new(&source).size_limit(COMPILED_SIZE_MAX).build().ok();
        let Parsed { sets, looks, groups, has_back_references, .. } = parsed;
        Ok(Program {
            root,
            groups,
            ignores_case: flags.ignores_case,
            is_exact: linear.is_some() && looks.is_empty() && !has_back_references,
            linear,
            workspace: RefCell::new(Workspace {
                colors: Colors::new(sets),
                lookouts,
                parts: Parts { automata, total },
            }),
        })
    }

    /// Returns true if the pattern matches anywhere.
    pub fn is_match(&self, text: &str) -> Result<bool> {
        match &self.linear {
            Some(linear) if self.is_exact => Ok(linear.is_match(text)),
            _ => Ok(self.find(text, 0, false)?.is_some()),
        }
    }

    /// The first match that begins at a byte or after it, with its groups.
    pub fn captures_at(&self, text: &str, from: usize) -> Result<Option<Found>> {
        self.find(text, from, self.groups > 0)
    }

    fn find(&self, text: &str, from: usize, captures: bool) -> Result<Option<Found>> {
        let mut workspace = self.workspace.borrow_mut();
        let Workspace { colors, lookouts, parts } = &mut *workspace;
        lookouts.iter_mut().for_each(Lookout::forget);
        let context = Context::new(text, colors, lookouts, 0);
        let groups = vec![None; self.groups + 1];
        let mut matcher = Matcher { context, parts, groups, ignores_case: self.ignores_case };
        let mut at = from;
        loop {
            if let Some(linear) = &self.linear {
                match linear.find_at(text, at) {
                    Some(found) => at = found.start(),
                    None => return Ok(None),
                }
            }
            if let Some(end) = matcher.match_at(&self.root, at, captures)? {
                matcher.groups[0] = Some((at, end));
                return Ok(Some(Found(matcher.groups)));
            }
            match text[at..].chars().next() {
                Some(character) => at += character.len_utf8(),
                None => return Ok(None),
            }
        }
    }
}
