//! Control structures: IF, CASE, loops, EXIT and CONTINUE.

use super::SEMICOLON;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::{TokenKind, quote_identifier};
use crate::routine::plpgsql::compile::{Compiler, End};
use crate::routine::plpgsql::tree::{ForInteger, Fragment, Kind, Statement, VariableKind};
use crate::types::Type;

impl Compiler<'_, '_> {
    pub(super) fn if_statement(&mut self) -> Result<Kind> {
        let mut arms = Vec::new();
        let mut otherwise = Vec::new();
        self.parser.expect("if")?;
        loop {
            let condition = self.expression(&[End::Word("then")])?;
            self.parser.expect("then")?;
            arms.push((condition, self.statements(&["elsif", "elseif", "else", "end"])?));
            if self.parser.accept("elsif") || self.parser.accept("elseif") {
                continue;
            }
            if self.parser.accept("else") {
                otherwise = self.statements(&["end"])?;
            }
            self.parser.expect_words(&["end", "if"])?;
            return Ok(Kind::If { arms, otherwise });
        }
    }

    pub(super) fn case(&mut self) -> Result<Kind> {
        self.parser.expect("case")?;
        let mut operand = None;
        let outer = self.enter(None);
        let name = format!("__Case__Variable_{}__", self.variables.len());
        if !self.parser.is_word(0, "when") {
            let value = self.expression(&[End::Word("when")])?;
            operand = Some((self.plain_variable(&name, VariableKind::Row(None)), value));
        }
        let mut arms = Vec::new();
        while self.parser.accept("when") {
            let text = self.text_until(&[End::Word("then")])?;
            let condition = match operand {
                Some(_) => {
                    let text = format!("{}.value IN ({text})", quote_identifier(&name));
                    self.expression_of(&text)?
                }
                None => self.expression_of(text)?,
            };
            self.parser.expect("then")?;
            arms.push((condition, self.statements(&["when", "else", "end"])?));
        }
        let otherwise = if self.parser.accept("else") { Some(self.statements(&["end"])?) } else { None };
        self.leave(outer);
        self.parser.expect_words(&["end", "case"])?;
        Ok(Kind::Case { operand, arms, otherwise })
    }

    /// LOOP … END LOOP, behind its head.
    fn loop_body(&mut self, label: Option<&str>) -> Result<Vec<Statement>> {
        self.parser.expect("loop")?;
        let body = self.statements(&["end"])?;
        self.parser.expect_words(&["end", "loop"])?;
        self.end_label(label)?;
        Ok(body)
    }

    pub(super) fn plain_loop(&mut self, label: Option<String>) -> Result<Kind> {
        let outer = self.enter(label.clone());
        let condition = match self.parser.accept("while") {
            true => Some(self.expression(&[End::Word("loop")])?),
            false => None,
        };
        let body = self.loop_body(label.as_deref())?;
        self.leave(outer);
        Ok(Kind::Loop { label, condition, body })
    }

    pub(super) fn for_loop(&mut self, label: Option<String>) -> Result<Kind> {
        self.parser.expect("for")?;
        let outer = self.enter(label.clone());
        let kind = self.for_kind(label);
        self.leave(outer);
        kind
    }

    fn for_kind(&mut self, label: Option<String>) -> Result<Kind> {
        let mark = self.parser.mark();
        let name = self.parser.label()?.text;
        if self.parser.accept("in") {
            let is_reverse = self.parser.is_word(0, "reverse");
            if self.is_integer_range() {
                if is_reverse {
                    self.parser.advance();
                }
                return self.for_integer(label, &name, is_reverse);
            }
            if let Some(cursor) = self.cursor_here() {
                return self.for_cursor(label, &name, cursor);
            }
        }
        self.parser.rewind(mark);
        let into = self.row_target(false)?;
        self.parser.expect("in")?;
        let source = self.source(&[End::Word("loop")])?;
        let body = self.loop_body(label.as_deref())?;
        Ok(Kind::ForRows { label, into, source, body })
    }

    /// Returns true if `..` is found in front of LOOP.
    fn is_integer_range(&self) -> bool {
        let (mut ahead, mut depth) = (0, 0_usize);
        loop {
            match self.parser.peek(ahead) {
                TokenKind::Mark("(" | "[") => depth += 1,
                TokenKind::Mark(")" | "]") => depth = depth.saturating_sub(1),
                TokenKind::Mark("..") if depth == 0 => return true,
                TokenKind::Mark(";") | TokenKind::End => return false,
                TokenKind::Word(word) if depth == 0 && word == "loop" => return false,
                _ => {}
            }
            ahead += 1;
        }
    }

    fn for_integer(&mut self, label: Option<String>, name: &str, is_reverse: bool) -> Result<Kind> {
        let from = self.expression(&[End::Mark("..")])?;
        self.parser.expect_mark("..")?;
        let to = self.expression(&[End::Word("by"), End::Word("loop")])?;
        let step = match self.parser.accept("by") {
            true => Some(self.expression(&[End::Word("loop")])?),
            false => None,
        };
        let slot = self.value_variable(name, Type::Int4);
        let body = self.loop_body(label.as_deref())?;
        Ok(Kind::ForInteger(Box::new(ForInteger { label, slot, is_reverse, from, to, step, body })))
    }

    /// The cursor variable that stands here with its arguments and LOOP behind it.
    fn cursor_here(&self) -> Option<usize> {
        let name = match self.parser.peek(0) {
            TokenKind::Word(word) => word.to_string(),
            TokenKind::Quoted(name) => name.clone(),
            _ => return None,
        };
        if !self.parser.is_mark(1, "(") && !self.parser.is_word(1, "loop") {
            return None;
        }
        let (slot, _) = self.find(&[&name])?;
        matches!(self.variables[slot].kind, VariableKind::Cursor { .. }).then_some(slot)
    }

    fn for_cursor(&mut self, label: Option<String>, name: &str, cursor: usize) -> Result<Kind> {
        self.parser.advance();
        let arguments = self.cursor_arguments()?;
        let row = self.plain_variable(name, VariableKind::Row(None));
        let body = self.loop_body(label.as_deref())?;
        Ok(Kind::ForCursor { label, row, cursor, arguments, body })
    }

    pub(super) fn cursor_arguments(&mut self) -> Result<Vec<Fragment>> {
        let mut arguments = Vec::new();
        if self.parser.accept_mark("(") {
            loop {
                if self.parser.is_mark(1, ":=") || self.parser.is_mark(1, "=>") {
                    return Err(SqlError::unsupported("named arguments of cursors are not supported"));
                }
                arguments.push(self.expression(&[End::Mark(","), End::Mark(")")])?);
                if !self.parser.accept_mark(",") {
                    break;
                }
            }
            self.parser.expect_mark(")")?;
        }
        Ok(arguments)
    }

    pub(super) fn foreach(&mut self, label: Option<String>) -> Result<Kind> {
        self.parser.expect("foreach")?;
        let target = self.target()?;
        let mut slice = 0;
        if self.parser.accept("slice") {
            slice = usize::try_from(self.parser.signed_integer()?).unwrap_or(0);
        }
        self.parser.expect_words(&["in", "array"])?;
        let array = self.expression(&[End::Word("loop")])?;
        let outer = self.enter(label.clone());
        let body = self.loop_body(label.as_deref())?;
        self.leave(outer);
        Ok(Kind::Foreach { label, target, slice, array, body })
    }

    pub(super) fn exit(&mut self, is_continue: bool) -> Result<Kind> {
        self.parser.advance();
        let label = match self.parser.is_word(0, "when") || self.parser.is_mark(0, ";") {
            true => None,
            false => Some(self.parser.label()?.text),
        };
        let condition = match self.parser.accept("when") {
            true => Some(self.expression(SEMICOLON)?),
            false => None,
        };
        if let Some(label) = &label
            && !self.is_label(label)
        {
            let message = format!(
                "there is no label \"{label}\" attached to any block or loop enclosing this statement"
            );
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        Ok(Kind::Exit { is_continue, label, condition })
    }
}
