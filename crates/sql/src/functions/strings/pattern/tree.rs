//! The tree by which a match is divided among the parts of its pattern.
//!
//! PostgreSQL decides about a match from the outside in: the whole pattern prefers its longest or its shortest match,
//! as its first part with a preference does, and an alternative always prefers the longest; then the first part matches
//! as much or as little of it as it prefers, and the rest follows. A tree has nodes only where that matters: at
//! captures, at back-references and where preferences clash. All else is a leaf, whose automaton is enough.

use std::rc::Rc;

use super::automaton::Language;
use super::syntax::{Alternatives, Atom, Piece, Preference};

/// Properties of a node and of all that lies beneath it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traits {
    pub prefers: Option<Preference>,
    /// The preferences clash here or beneath.
    mixed: bool,
    pub captures: bool,
    pub refers: bool,
}

impl Traits {
    fn of(prefers: Option<Preference>) -> Traits {
        Traits { prefers, ..Traits::default() }
    }

    /// The traits of something with parts of these traits: the first preference counts.
    fn joined(self, other: Traits) -> Traits {
        let clash = matches!((self.prefers, other.prefers), (Some(one), Some(another)) if one != another);
        Traits {
            prefers: self.prefers.or(other.prefers),
            mixed: self.mixed || other.mixed || clash,
            captures: self.captures || other.captures,
            refers: self.refers || other.refers,
        }
    }

    /// Returns true if a node is needed.
    fn is_messy(self) -> bool {
        self.mixed || self.captures || self.refers
    }
}

#[derive(Debug)]
pub(super) enum Operation {
    Leaf,
    /// The group, and how often its text is repeated.
    BackReference {
        group: usize,
        min: u32,
        max: u32,
    },
    Sequence(Box<[Node; 2]>),
    Either(Vec<Node>),
    Repeated {
        inside: Box<Node>,
        min: u32,
        max: u32,
    },
    /// A second group around the same part.
    Wrapper(Box<Node>),
}

#[derive(Debug)]
pub(super) struct Node {
    pub operation: Operation,
    pub traits: Traits,
    /// The group that captures what the node matches.
    pub group: Option<usize>,
    pub language: Rc<Language>,
    /// The number of its automaton.
    pub automaton: usize,
}

/// State of a tree's construction.
#[derive(Default)]
pub(super) struct Builder {
    /// The languages of the groups, for back-references.
    groups: Vec<Rc<Language>>,
    /// Number of nodes.
    pub nodes: usize,
}

impl Builder {
    fn node(&mut self, operation: Operation, traits: Traits, language: Rc<Language>) -> Node {
        self.nodes += 1;
        Node { operation, traits, group: None, language, automaton: self.nodes - 1 }
    }

    fn sequence(&mut self, traits: Traits, first: Node, second: Node) -> Node {
        let language = Rc::new(Language::Sequence(vec![first.language.clone(), second.language.clone()]));
        self.node(Operation::Sequence(Box::new([first, second])), traits, language)
    }

    pub fn alternatives(&mut self, alternatives: &Alternatives) -> Node {
        let mut branches: Vec<Node> = alternatives.0.iter().map(|branch| self.branch(branch)).collect();
        if branches.len() == 1
            && let Some(only) = branches.pop()
        {
            return only;
        }
        let longest = Traits::of(Some(Preference::Longest));
        let traits = branches.iter().fold(longest, |traits, branch| traits.joined(branch.traits));
        let languages = branches.iter().map(|branch| branch.language.clone()).collect();
        let language = Rc::new(Language::Either(languages));
        let operation = if traits.is_messy() { Operation::Either(branches) } else { Operation::Leaf };
        self.node(operation, traits, language)
    }

    /// An atom: its language, its node if it has one, and whether it is a group that captures or a back-reference.
    fn atom(&mut self, piece: &Piece) -> (Rc<Language>, Option<Node>, bool) {
        match &piece.atom {
            Atom::Set(set) => (Rc::new(Language::Set(*set)), None, false),
            Atom::Constraint(constraint) => (Rc::new(Language::Constraint(*constraint)), None, false),
            Atom::Group(group, inside) => {
                let mut node = self.alternatives(inside);
                let language = node.language.clone();
                if let Some(group) = group {
                    node.traits.captures = true;
                    if node.group.is_some() {
                        let traits = node.traits;
                        node = self.node(Operation::Wrapper(Box::new(node)), traits, language.clone());
                    }
                    node.group = Some(*group);
                    if self.groups.len() < *group {
                        self.groups.resize(*group, Language::empty());
                    }
                    self.groups[*group - 1] = language.clone();
                }
                (language, Some(node), group.is_some())
            }
            Atom::BackReference(group) => {
                let inside = self
                    .groups
                    .get(*group - 1)
                    .map_or_else(Language::empty, |group| group.without_constraints());
                let operation = Operation::BackReference { group: *group, min: piece.min, max: piece.max };
                let traits = Traits { refers: true, ..Traits::default() };
                let node = self.node(operation, traits, inside.clone());
                (inside, Some(node), true)
            }
        }
    }

    fn branch(&mut self, pieces: &[Piece]) -> Node {
        let mut prefix = Vec::new();
        let mut traits = Traits::default();
        for (place, piece) in pieces.iter().enumerate() {
            let (language, node, is_special) = self.atom(piece);
            if matches!(piece.atom, Atom::Constraint(_)) {
                prefix.push(language);
                continue;
            }
            if (piece.min, piece.max) == (0, 0) {
                prefix.push(Language::empty());
                continue;
            }
            let inside = node.as_ref().map_or(Traits::default(), |node| node.traits);
            let all = traits.joined(Traits::of(piece.prefers)).joined(inside);
            if !is_special && !all.is_messy() {
                prefix.push(Language::repeated(&language, piece.min, piece.max));
                traits = all;
                continue;
            }
            let node = match node {
                Some(node) => node,
                None => self.node(Operation::Leaf, Traits::default(), language),
            };
            let first = match place {
                0 => None,
                _ => Some(self.node(Operation::Leaf, traits, Rc::new(Language::Sequence(prefix)))),
            };
            return self.messy(traits, first, node, piece, &pieces[place + 1..]);
        }
        self.node(Operation::Leaf, traits, Rc::new(Language::Sequence(prefix)))
    }

    /// A branch whose first parts, if there are any, are followed by an atom that needs a node.
    fn messy(
        &mut self,
        traits: Traits,
        first: Option<Node>,
        atom: Node,
        piece: &Piece,
        rest: &[Piece],
    ) -> Node {
        let mut behind = Traits::of(piece.prefers).joined(atom.traits);
        let atom = self.quantified(atom, piece);
        if rest.is_empty() {
            let traits = traits.joined(atom.traits);
            return match first {
                None => Node { traits, ..atom },
                Some(first) => self.sequence(traits, first, atom),
            };
        }
        let rest = self.branch(rest);
        behind = behind.joined(rest.traits);
        let traits = traits.joined(behind);
        let Some(first) = first else { return self.sequence(traits, atom, rest) };
        let are_leaves = matches!((&atom.operation, &rest.operation), (Operation::Leaf, Operation::Leaf));
        let second = if are_leaves && atom.group.is_none() && !atom.traits.joined(rest.traits).is_messy() {
            let language = Rc::new(Language::Sequence(vec![atom.language.clone(), rest.language.clone()]));
            let traits = atom.traits.joined(rest.traits);
            self.node(Operation::Leaf, traits, language)
        } else {
            self.sequence(behind, atom, rest)
        };
        self.sequence(traits, first, second)
    }

    /// An atom with its quantifier.
    fn quantified(&mut self, mut atom: Node, piece: &Piece) -> Node {
        let Piece { min, max, prefers, .. } = *piece;
        let traits = Traits::of(prefers).joined(atom.traits);
        let language = Language::repeated(&atom.language, min, max);
        if matches!(atom.operation, Operation::BackReference { .. }) {
            atom.traits = traits;
            atom.language = language;
            return atom;
        }
        let inside = atom.traits;
        let is_indifferent = inside.prefers.is_none() && !inside.mixed;
        if (min, max) == (1, 1)
            && (prefers.is_none() || is_indifferent || (inside.prefers == prefers && !inside.mixed))
        {
            return atom;
        }
        if !inside.captures && !inside.refers {
            return self.node(Operation::Leaf, traits, language);
        }
        if min > 0 && !inside.refers {
            // Only the last repetition is captured: those before it need no node.
            let less = if max == super::syntax::UNBOUNDED { max } else { max - 1 };
            let before = Language::repeated(&atom.language, min - 1, less);
            let first = self.node(Operation::Leaf, Traits::of(traits.prefers), before);
            return self.sequence(traits, first, atom);
        }
        self.node(Operation::Repeated { inside: Box::new(atom), min, max }, traits, language)
    }
}
