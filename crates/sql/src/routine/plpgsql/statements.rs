//! The statements of PL/pgSQL.
//!
//! Source: PostgreSQL 15, `pl_gram.y`.

mod control;
mod cursors;
mod messages;

use crate::error::{Result, SqlError, SqlState};
use crate::parse::TokenKind;
use crate::parse::syntax::{ExprKind, Statement as Sql};
use crate::routine::plpgsql::compile::{Compiler, End};
use crate::routine::plpgsql::tree::{Fragment, Into, Kind, Source, Statement, Target};
use crate::types::Type;

const SEMICOLON: &[End] = &[End::Mark(";")];

impl Compiler<'_, '_> {
    /// A statement with its semicolon.
    pub(super) fn statement(&mut self) -> Result<Statement> {
        let line = self.line();
        let label = self.label()?;
        let line = if label.is_some() { self.line().max(line) } else { line };
        let kind = self.kind(label)?;
        self.parser.expect_mark(";")?;
        Ok(Statement { line, kind })
    }

    fn kind(&mut self, label: Option<String>) -> Result<Kind> {
        if self.is_assignment() {
            return self.assignment();
        }
        let word = match self.parser.peek(0) {
            TokenKind::Word(word) => word.to_string(),
            TokenKind::Parameter(_) => return self.assignment(),
            _ => String::new(),
        };
        match word.as_str() {
            "begin" | "declare" => return Ok(Kind::Block(self.block(label)?)),
            "loop" | "while" => return self.plain_loop(label),
            "for" => return self.for_loop(label),
            "foreach" => return self.foreach(label),
            _ => {}
        }
        if label.is_some() {
            return Err(self.parser.unexpected());
        }
        match word.as_str() {
            "if" => self.if_statement(),
            "case" => self.case(),
            "exit" | "continue" => self.exit(word == "continue"),
            "return" => self.return_statement(),
            "raise" => self.raise(),
            "assert" => self.assert(),
            "perform" => {
                self.parser.advance();
                let text = self.text_until(SEMICOLON)?;
                self.fragment(&format!("SELECT {text}"), &format!("SELECT {text}")).map(Kind::Perform)
            }
            "execute" => self.execute(),
            "get" => self.diagnostics(),
            "open" => self.open(),
            "fetch" | "move" => self.fetch(word == "move"),
            "close" => {
                self.parser.advance();
                self.cursor().map(Kind::Close)
            }
            "null" => {
                self.parser.advance();
                Ok(Kind::Null)
            }
            "commit" | "rollback" => {
                self.end_transaction(if word == "commit" { "COMMIT" } else { "ROLLBACK" })
            }
            "call" => self.call(),
            _ => self.sql(),
        }
    }

    /// Returns true if an assignment to a variable begins here: the name of one, and behind it an assignment operator.
    fn is_assignment(&self) -> bool {
        let name = match self.parser.peek(0) {
            TokenKind::Word(word) => word.to_string(),
            TokenKind::Quoted(name) => name.clone(),
            _ => return false,
        };
        let is_plain = self.parser.is_mark(1, ":=") || self.parser.is_operator(1, "=");
        let is_part = self.parser.is_mark(1, "[") || self.parser.is_mark(1, ".");
        is_plain || is_part && (self.find(&[&name]).is_some() || self.is_label(&name))
    }

    fn is_label(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.label.as_deref() == Some(name))
    }

    fn assignment(&mut self) -> Result<Kind> {
        let target = self.target()?;
        if !self.parser.accept_mark(":=") {
            self.parser.expect_operator("=")?;
        }
        Ok(Kind::Assign { target, value: self.expression(SEMICOLON)? })
    }

    fn return_statement(&mut self) -> Result<Kind> {
        self.parser.expect("return")?;
        if self.parser.accept("next") {
            self.check_set("RETURN NEXT")?;
            let value = if self.parser.is_mark(0, ";") { None } else { Some(self.expression(SEMICOLON)?) };
            return Ok(Kind::ReturnNext(value));
        }
        if self.parser.accept("query") {
            self.check_set("RETURN QUERY")?;
            return self.source(SEMICOLON).map(Kind::ReturnQuery);
        }
        if self.parser.is_mark(0, ";") {
            let needs_value = !self.routine.is_procedure
                && !self.routine.is_set
                && self.routine.result != Type::Void
                && self.routine.outputs().next().is_none();
            if needs_value {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "missing expression at or near \";\""));
            }
            return Ok(Kind::Return(None));
        }
        let wrong = match () {
            () if self.routine.is_procedure => "RETURN cannot have a parameter in a procedure",
            () if self.routine.is_set => "RETURN cannot have a parameter in function returning set",
            () if self.routine.result == Type::Void => {
                "RETURN cannot have a parameter in function returning void"
            }
            () if self.routine.outputs().next().is_some() => {
                "RETURN cannot have a parameter in function with OUT parameters"
            }
            () => return Ok(Kind::Return(Some(self.expression(SEMICOLON)?))),
        };
        Err(SqlError::new(SqlState::DATATYPE_MISMATCH, wrong))
    }

    fn check_set(&self, what: &str) -> Result<()> {
        if self.routine.is_set {
            return Ok(());
        }
        let message = format!("cannot use {what} in a non-SETOF function");
        Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
    }

    /// A query, or EXECUTE … USING.
    fn source(&mut self, ends: &[End]) -> Result<Source> {
        if !self.parser.accept("execute") {
            return self.whole_statement(ends).map(Source::Query);
        }
        let mut until = ends.to_vec();
        until.push(End::Word("using"));
        let text = self.expression(&until)?;
        let using = if self.parser.accept("using") { self.using(ends)? } else { Vec::new() };
        Ok(Source::Dynamic { text, using })
    }

    fn using(&mut self, ends: &[End]) -> Result<Vec<Fragment>> {
        let mut until = ends.to_vec();
        until.push(End::Mark(","));
        let mut values = vec![self.expression(&until)?];
        while self.parser.accept_mark(",") {
            values.push(self.expression(&until)?);
        }
        Ok(values)
    }

    fn execute(&mut self) -> Result<Kind> {
        self.parser.expect("execute")?;
        let ends = [End::Word("into"), End::Word("using"), End::Mark(";")];
        let text = self.expression(&ends)?;
        let (mut into, mut using) = (None, Vec::new());
        loop {
            if into.is_none() && self.parser.accept("into") {
                let is_strict = self.parser.accept("strict");
                into = Some(self.row_target(is_strict)?);
            } else if using.is_empty() && self.parser.accept("using") {
                using = self.using(&[End::Word("into"), End::Mark(";")])?;
            } else {
                break;
            }
        }
        Ok(Kind::Execute { source: Source::Dynamic { text, using }, into })
    }

    /// The target to which a row is assigned.
    fn row_target(&mut self, is_strict: bool) -> Result<Into> {
        let mut targets = vec![self.target()?];
        while self.parser.accept_mark(",") {
            targets.push(self.target()?);
        }
        Ok(Into { targets, is_strict })
    }

    fn end_transaction(&mut self, name: &'static str) -> Result<Kind> {
        self.parser.advance();
        let mut chains = false;
        if self.parser.accept("and") {
            chains = !self.parser.accept("no");
            self.parser.expect("chain")?;
        }
        Ok(Kind::EndTransaction { name, chains })
    }

    fn call(&mut self) -> Result<Kind> {
        let query = self.whole_statement(SEMICOLON)?;
        let mut targets = Vec::new();
        if let Sql::Call(call) = query.query.statement() {
            for argument in &call.call.args {
                targets.push(match &argument.value.kind {
                    ExprKind::Column(parts) => {
                        let parts: Vec<String> = parts.iter().map(|part| part.text.clone()).collect();
                        self.target_of(&parts).ok()
                    }
                    _ => None,
                });
            }
        }
        Ok(Kind::Call { query, targets })
    }

    /// Any other statement: the binder does not see INTO and its variables.
    fn sql(&mut self) -> Result<Kind> {
        let start = self.parser.position() as usize;
        let (mut depth, mut into, mut cut) = (0_usize, None, None);
        let mut before: Option<String> = None;
        loop {
            let word = match self.parser.peek(0) {
                TokenKind::Word(word) => Some(word.to_string()),
                TokenKind::Mark("(") => {
                    depth += 1;
                    None
                }
                TokenKind::Mark(")") => {
                    depth = depth.saturating_sub(1);
                    None
                }
                TokenKind::Mark(";") if depth == 0 => break,
                TokenKind::End => return Err(self.parser.unexpected()),
                _ => None,
            };
            let is_into = depth == 0
                && word.as_deref() == Some("into")
                && !matches!(before.as_deref(), Some("insert" | "merge"));
            if is_into {
                if into.is_some() {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INTO specified more than once"));
                }
                let from = self.parser.position() as usize;
                self.parser.advance();
                let is_strict = self.parser.accept("strict");
                into = Some(self.row_target(is_strict)?);
                cut = Some((from, self.parser.last_end() as usize));
                continue;
            }
            before = word;
            self.parser.advance();
        }
        let end = self.parser.last_end() as usize;
        let text = self.parser.text;
        if end <= start {
            return Err(self.parser.unexpected());
        }
        let sql = match cut {
            Some((from, to)) => format!("{}{}", &text[start..from], &text[to..end]),
            None => text[start..end].to_string(),
        };
        Ok(Kind::Run { query: self.fragment(&sql, &sql)?, into })
    }
}

fn invalid_state() -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "invalid SQLSTATE code")
}

/// The targets of a row that are one row variable.
pub(super) fn single_row(targets: &[Target], is_row: impl Fn(usize) -> bool) -> Option<usize> {
    match targets {
        [target] if target.field.is_none() && target.subscripts.is_empty() && is_row(target.slot) => {
            Some(target.slot)
        }
        _ => None,
    }
}
