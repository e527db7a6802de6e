//! The statements of PL/pgSQL.
//!
//! Source: PostgreSQL 15, `pl_gram.y`.

use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{ExprKind, Statement as Sql};
use crate::parse::{TokenKind, quote_identifier};
use crate::routine::plpgsql::compile::{Compiler, End};
use crate::routine::plpgsql::conditions;
use crate::routine::plpgsql::tree::{
    Diagnostic, Direction, ForInteger, Fragment, Into, Kind, Level, Raise, RaiseOption, Source, Statement,
    Target, VariableKind,
};
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

    /// Whether a variable is assigned here: the name of one, and behind it what makes an assignment.
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

    fn if_statement(&mut self) -> Result<Kind> {
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

    fn case(&mut self) -> Result<Kind> {
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

    fn plain_loop(&mut self, label: Option<String>) -> Result<Kind> {
        let outer = self.enter(label.clone());
        let condition = match self.parser.accept("while") {
            true => Some(self.expression(&[End::Word("loop")])?),
            false => None,
        };
        let body = self.loop_body(label.as_deref())?;
        self.leave(outer);
        Ok(Kind::Loop { label, condition, body })
    }

    fn for_loop(&mut self, label: Option<String>) -> Result<Kind> {
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

    /// Whether `..` stands in front of LOOP.
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

    fn cursor_arguments(&mut self) -> Result<Vec<Fragment>> {
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

    fn foreach(&mut self, label: Option<String>) -> Result<Kind> {
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

    fn exit(&mut self, is_continue: bool) -> Result<Kind> {
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

    /// What a row is assigned to.
    fn row_target(&mut self, is_strict: bool) -> Result<Into> {
        let mut targets = vec![self.target()?];
        while self.parser.accept_mark(",") {
            targets.push(self.target()?);
        }
        Ok(Into { targets, is_strict })
    }

    fn diagnostics(&mut self) -> Result<Kind> {
        self.parser.expect("get")?;
        let is_stacked = self.parser.accept("stacked");
        self.parser.accept("current");
        self.parser.expect("diagnostics")?;
        let mut items = Vec::new();
        loop {
            let target = self.target()?;
            if !self.parser.accept_mark(":=") {
                self.parser.expect_operator("=")?;
            }
            let name = self.parser.label()?.text;
            let item = match (is_stacked, name.as_str()) {
                (false, "row_count") => Diagnostic::RowCount,
                (false, "pg_context") => Diagnostic::Context,
                (true, "returned_sqlstate") => Diagnostic::ReturnedSqlstate,
                (true, "message_text") => Diagnostic::Message,
                (true, "pg_exception_detail") => Diagnostic::Detail,
                (true, "pg_exception_hint") => Diagnostic::Hint,
                (true, "pg_exception_context") => Diagnostic::ErrorContext,
                (true, "column_name") => Diagnostic::Column,
                (true, "constraint_name") => Diagnostic::Constraint,
                (true, "table_name") => Diagnostic::Table,
                (true, "schema_name") => Diagnostic::Schema,
                (true, "pg_datatype_name") => Diagnostic::Datatype,
                _ => {
                    let message = format!("unrecognized GET DIAGNOSTICS item at or near \"{name}\"");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
            };
            items.push((target, item));
            if !self.parser.accept_mark(",") {
                return Ok(Kind::Diagnostics { is_stacked, items });
            }
        }
    }

    fn assert(&mut self) -> Result<Kind> {
        self.parser.expect("assert")?;
        let condition = self.expression(&[End::Mark(","), End::Mark(";")])?;
        let message = match self.parser.accept_mark(",") {
            true => Some(self.expression(SEMICOLON)?),
            false => None,
        };
        Ok(Kind::Assert { condition, message })
    }

    fn raise(&mut self) -> Result<Kind> {
        self.parser.expect("raise")?;
        let level = match () {
            () if self.parser.accept("debug") => Level::Debug,
            () if self.parser.accept("log") => Level::Log,
            () if self.parser.accept("info") => Level::Info,
            () if self.parser.accept("notice") => Level::Notice,
            () if self.parser.accept("warning") => Level::Warning,
            () => {
                self.parser.accept("exception");
                Level::Exception
            }
        };
        let mut raise = Raise {
            level,
            is_again: self.parser.is_mark(0, ";"),
            state: None,
            condition: None,
            format: None,
            arguments: Vec::new(),
            options: Vec::new(),
        };
        if matches!(self.parser.peek(0), TokenKind::Text(_)) {
            let format = self.parser.string()?;
            while self.parser.accept_mark(",") {
                raise.arguments.push(self.expression(&[
                    End::Mark(","),
                    End::Mark(";"),
                    End::Word("using"),
                ])?);
            }
            check_format(&format, raise.arguments.len())?;
            raise.format = Some(format);
        } else if self.parser.accept("sqlstate") {
            let text = self.parser.string()?;
            raise.state = Some(conditions::state_from(&text).ok_or_else(invalid_state)?);
        } else if !self.parser.is_mark(0, ";") && !self.parser.is_word(0, "using") {
            let name = self.parser.label()?.text;
            raise.state = Some(conditions::state_of(&name).ok_or_else(|| {
                let message = format!("unrecognized exception condition \"{name}\"");
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            })?);
            raise.condition = Some(name);
        }
        if self.parser.accept("using") {
            self.raise_options(&mut raise)?;
        }
        Ok(Kind::Raise(Box::new(raise)))
    }

    fn raise_options(&mut self, raise: &mut Raise) -> Result<()> {
        loop {
            let name = self.parser.label()?.text;
            let option = match name.as_str() {
                "message" => RaiseOption::Message,
                "detail" => RaiseOption::Detail,
                "hint" => RaiseOption::Hint,
                "errcode" => RaiseOption::Errcode,
                "column" => RaiseOption::Column,
                "constraint" => RaiseOption::Constraint,
                "datatype" => RaiseOption::Datatype,
                "table" => RaiseOption::Table,
                "schema" => RaiseOption::Schema,
                _ => {
                    let message = format!("unrecognized RAISE statement option at or near \"{name}\"");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
            };
            if !self.parser.accept_mark(":=") {
                self.parser.expect_operator("=")?;
            }
            raise.options.push((option, self.expression(&[End::Mark(","), End::Mark(";")])?));
            if !self.parser.accept_mark(",") {
                return Ok(());
            }
        }
    }

    /// The cursor variable that stands here.
    fn cursor(&mut self) -> Result<usize> {
        let name = self.parser.label()?.text;
        match self.find(&[&name]) {
            Some((slot, _)) if matches!(self.variables[slot].kind, VariableKind::Cursor { .. }) => Ok(slot),
            Some(_) => {
                let message = format!("variable \"{name}\" must be of type cursor or refcursor");
                Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
            }
            None => {
                let message = format!("\"{name}\" is not a known variable");
                Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
            }
        }
    }

    fn open(&mut self) -> Result<Kind> {
        self.parser.expect("open")?;
        let cursor = self.cursor()?;
        let arguments = self.cursor_arguments()?;
        self.parser.accept("no");
        self.parser.accept("scroll");
        let source = match self.parser.accept("for") {
            true => Some(self.source(SEMICOLON)?),
            false => None,
        };
        Ok(Kind::Open { cursor, source, arguments })
    }

    fn fetch(&mut self, is_move: bool) -> Result<Kind> {
        self.parser.advance();
        let direction = self.direction()?;
        if !self.parser.accept("from") {
            self.parser.accept("in");
        }
        let cursor = self.cursor()?;
        let into = match is_move {
            true => None,
            false => {
                self.parser.expect("into")?;
                Some(self.row_target(false)?)
            }
        };
        Ok(Kind::Fetch { cursor, direction, into })
    }

    fn direction(&mut self) -> Result<Direction> {
        let ends = [End::Word("from"), End::Word("in")];
        let by = |count, is_backward| Direction::By { count, is_backward };
        Ok(match () {
            () if self.parser.accept("next") => by(None, false),
            () if self.parser.accept("prior") => by(None, true),
            () if self.parser.accept("first") => Direction::First,
            () if self.parser.accept("last") => Direction::Last,
            () if self.parser.accept("absolute") => Direction::Absolute(self.expression(&ends)?),
            () if self.parser.accept("relative") => Direction::Relative(self.expression(&ends)?),
            () if self.parser.accept("all") => Direction::All { is_backward: false },
            () if self.parser.is_one_of(&["forward", "backward"]) => {
                let is_backward = self.parser.accept("backward");
                self.parser.accept("forward");
                match () {
                    () if self.parser.accept("all") => Direction::All { is_backward },
                    () if self.parser.is_one_of(&["from", "in"]) => by(None, is_backward),
                    () => by(Some(self.expression(&ends)?), is_backward),
                }
            }
            () => by(None, false),
        })
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

    /// Any other statement: INTO and its variables are no part of what the binder sees.
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

/// Whether a format has as many places as there are arguments.
fn check_format(format: &str, arguments: usize) -> Result<()> {
    let places = format.replace("%%", "").matches('%').count();
    let message = match places.cmp(&arguments) {
        std::cmp::Ordering::Less => "too many parameters specified for RAISE",
        std::cmp::Ordering::Greater => "too few parameters specified for RAISE",
        std::cmp::Ordering::Equal => return Ok(()),
    };
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
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
