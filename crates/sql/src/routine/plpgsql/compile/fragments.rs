//! The SQL inside PL/pgSQL: expressions, statements and targets, as far as the text of each reaches.

use super::{Compiler, End, syntax};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::Statement as Sql;
use crate::parse::{TokenKind, parse};
use crate::routine::plpgsql::tree::{Fragment, Target, VariableKind};
use crate::routine::query::Query;

impl<'t> Compiler<'t, '_> {
    /// The text up to what ends it, which stays.
    pub(in crate::routine::plpgsql) fn text_until(&mut self, ends: &[End]) -> Result<&'t str> {
        let start = self.parser.position();
        let mut depth = 0_usize;
        loop {
            let is_end = depth == 0
                && ends.iter().any(|end| match end {
                    End::Word(word) => self.parser.is_word(0, word),
                    End::Mark(mark) => self.parser.is_mark(0, mark),
                });
            if is_end {
                return Ok(self.parser.text_since(start));
            }
            match self.parser.peek(0) {
                TokenKind::Mark("(" | "[") => depth += 1,
                TokenKind::Mark(")" | "]") => depth = depth.saturating_sub(1),
                TokenKind::Mark(";") | TokenKind::End => return Err(self.parser.unexpected()),
                _ => {}
            }
            self.parser.advance();
        }
    }

    /// An expression up to what ends it.
    pub(in crate::routine::plpgsql) fn expression(&mut self, ends: &[End]) -> Result<Fragment> {
        let text = self.text_until(ends)?;
        if text.trim().is_empty() {
            return Err(self.parser.unexpected());
        }
        self.expression_of(text)
    }

    pub(in crate::routine::plpgsql) fn expression_of(&self, text: &str) -> Result<Fragment> {
        self.fragment(&format!("SELECT {text}"), text)
    }

    /// A statement up to what ends it.
    pub(in crate::routine::plpgsql) fn whole_statement(&mut self, ends: &[End]) -> Result<Fragment> {
        let text = self.text_until(ends)?;
        self.fragment(text, text)
    }

    /// A statement's text as a query of the innermost scope.
    pub(in crate::routine::plpgsql) fn fragment(&self, text: &str, shown: &str) -> Result<Fragment> {
        let mut parsed = parse(text).map_err(SqlError::without_position)?;
        let (Some(statement), true) = (parsed.pop(), parsed.is_empty()) else {
            return Err(syntax(format!("syntax error at or near \"{}\"", shown.trim())));
        };
        if matches!(statement.statement, Sql::Unsupported { .. }) {
            return Err(SqlError::unsupported("statements of this kind are not supported in functions"));
        }
        Ok(Fragment { query: Query::new(statement.statement, shown), scope: self.scope })
    }

    /// A variable, a field of one, or an element of an array.
    pub(in crate::routine::plpgsql) fn target(&mut self) -> Result<Target> {
        let mut parts = match self.parser.peek(0) {
            TokenKind::Parameter(number) => {
                let name = format!("${number}");
                self.parser.advance();
                vec![name]
            }
            _ => vec![self.parser.label()?.text],
        };
        while self.parser.accept_mark(".") {
            parts.push(self.parser.label()?.text);
        }
        let mut target = self.target_of(&parts)?;
        while self.parser.accept_mark("[") {
            target.subscripts.push(self.expression(&[End::Mark("]")])?);
            self.parser.expect_mark("]")?;
        }
        Ok(target)
    }

    pub(in crate::routine::plpgsql) fn target_of(&self, parts: &[String]) -> Result<Target> {
        let names: Vec<&str> = parts.iter().map(String::as_str).collect();
        let unknown = || syntax(format!("\"{}\" is not a known variable", names.join(".")));
        let (slot, used) = self.find(&names).ok_or_else(unknown)?;
        let variable = &self.variables[slot];
        if variable.is_constant {
            let message = format!("variable \"{}\" is declared CONSTANT", variable.name);
            return Err(SqlError::new(SqlState::new("22005"), message));
        }
        let field = match (&names[used..], &variable.kind) {
            ([], _) => None,
            ([field, ..], VariableKind::Row(_)) => Some((*field).to_string()),
            _ => return Err(unknown()),
        };
        let inner = names[used..].iter().skip(1).map(|name| (*name).to_string()).collect();
        Ok(Target { slot, field, inner, subscripts: Vec::new() })
    }
}
