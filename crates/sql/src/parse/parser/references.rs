//! The names of objects that a text refers to, noted where the grammar knows the kind of each name.

use std::ops::Range;

use super::Parser;
use crate::error::Result;
use crate::parse::syntax::{At, ObjectName};

/// The kind of object that a name in a query or an expression refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// A relation, or a common table expression.
    Relation,
    Type,
    /// A function that is called.
    Function,
    /// A common table expression where it is defined.
    Cte,
}

impl<'t> Parser<'t> {
    /// A parser that notes what names refer to.
    pub fn with_references(text: &'t str) -> Result<Parser<'t>> {
        Ok(Parser { references: Some(Vec::new()), ..Parser::new(text)? })
    }

    /// Notes that the name at the current token, if it is a name, refers to this.
    pub fn refer(&mut self, reference: Reference) {
        self.refer_at(reference, self.position());
    }

    /// Notes that the name at a position refers to this.
    pub fn refer_at(&mut self, reference: Reference, at: At) {
        if let Some(references) = &mut self.references {
            references.push((reference, at));
        }
    }

    /// The names that refer to relations, types and functions, with the kinds and the bytes at which they begin and end.
    pub fn references(self) -> Vec<(Reference, ObjectName, Range<usize>)> {
        let Parser { text, tokens, references, .. } = self;
        let mut parser =
            Parser { text, tokens, at: 0, nesting: 0, is_restricted: false, parameters: 0, references: None };
        let mut found = Vec::new();
        for (reference, at) in references.unwrap_or_default() {
            parser.at = parser.tokens.partition_point(|token| token.start < at);
            let Ok(name) = parser.object_name() else { continue };
            found.push((reference, name, at as usize..parser.last_end() as usize));
        }
        found
    }
}
