//! Terminals of the grammar: names, strings, integers and operators.

use super::Parser;
use crate::error::{Result, SqlState};
use crate::parse::keywords;
use crate::parse::lexer::TokenKind;
use crate::parse::syntax::{Name, ObjectName, OperatorName};

impl<'t> Parser<'t> {
    fn name_if(&mut self, allowed: impl Fn(&str) -> bool) -> Option<Name> {
        let text = match self.peek(0) {
            TokenKind::Word(word) if allowed(word) => word.to_string(),
            TokenKind::Quoted(name) => name.clone(),
            _ => return None,
        };
        let at = self.position();
        self.advance();
        Some(Name { text: truncated(text), at })
    }

    /// The name of a column or a table.
    pub fn name(&mut self) -> Result<Name> {
        self.accept_name().ok_or_else(|| self.unexpected())
    }

    pub fn accept_name(&mut self) -> Option<Name> {
        self.name_if(keywords::may_name_column)
    }

    /// Any word as a name: after AS and after a point.
    pub fn label(&mut self) -> Result<Name> {
        self.name_if(|_| true).ok_or_else(|| self.unexpected())
    }

    /// A name that may follow an expression without AS.
    pub fn bare_label(&mut self) -> Option<Name> {
        self.name_if(keywords::may_be_bare_alias)
    }

    /// The name of a function or a type.
    pub fn function_name(&mut self) -> Option<Name> {
        self.name_if(keywords::may_name_function)
    }

    /// A name that may be qualified.
    pub fn object_name(&mut self) -> Result<ObjectName> {
        let mut parts = vec![self.name()?];
        while self.accept_mark(".") {
            parts.push(self.label()?);
        }
        if parts.len() > 3 {
            let message = format!(
                "improper qualified name (too many dotted names): {}",
                ObjectName { parts: parts.clone() }
            );
            return Err(self.error(parts[0].at, SqlState::SYNTAX_ERROR, message));
        }
        Ok(ObjectName { parts })
    }

    pub fn names_in_parentheses(&mut self) -> Result<Vec<Name>> {
        self.in_parentheses(Self::name)
    }

    /// A string literal.
    pub fn string(&mut self) -> Result<String> {
        match self.peek(0) {
            TokenKind::Text(text) => {
                let text = text.to_string();
                self.advance();
                Ok(text)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// A whole number with a sign.
    pub fn signed_integer(&mut self) -> Result<i64> {
        let negative = if self.accept_operator("-") {
            true
        } else {
            self.accept_operator("+");
            false
        };
        let TokenKind::Integer(digits) = *self.peek(0) else { return Err(self.unexpected()) };
        let text = if negative { format!("-{digits}") } else { digits.to_string() };
        let value = text.parse().map_err(|_| {
            self.error(
                self.position(),
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!("value \"{text}\" is out of range for type bigint"),
            )
        })?;
        self.advance();
        Ok(value)
    }

    /// `OPERATOR(schema.symbol)`, or a plain operator.
    pub fn operator_name(&mut self) -> Result<OperatorName> {
        if self.accept("operator") {
            self.expect_mark("(")?;
            let mut schema = None;
            while !matches!(self.peek(0), TokenKind::Operator(_)) {
                schema = Some(self.label()?.text);
                self.expect_mark(".")?;
            }
            let name = self.plain_operator()?;
            self.expect_mark(")")?;
            return Ok(OperatorName { schema, symbol: name });
        }
        Ok(OperatorName { schema: None, symbol: self.plain_operator()? })
    }

    fn plain_operator(&mut self) -> Result<String> {
        match *self.peek(0) {
            TokenKind::Operator(symbol) => {
                self.advance();
                Ok(symbol.to_string())
            }
            _ => Err(self.unexpected()),
        }
    }
}

/// Names keep their first 63 bytes, as in PostgreSQL.
fn truncated(mut name: String) -> String {
    if name.len() > 63 {
        let end = (0..=63).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
        name.truncate(end);
    }
    name
}
