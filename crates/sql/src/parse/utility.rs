//! Settings, prepared statements, cursors, COPY, EXPLAIN, maintenance, notifications.

use crate::error::{Result, SqlError, SqlState};
use crate::parse::lexer::TokenKind;
use crate::parse::parser::Parser;
use crate::parse::syntax::{
    Copy, CopyDirection, CopyOption, CopySource, CopyValue, DeclareCursor, ExplainOptions, Fetch,
    FetchDirection, ObjectKind, Reorganize, ReorganizeTarget, SetScope, SetValue, Statement,
};

impl Parser<'_> {
    /// SET, SHOW, RESET, DISCARD.
    pub fn setting(&mut self, word: &str) -> Result<Statement> {
        self.advance();
        match word {
            "set" => self.set(),
            "show" => Ok(Statement::Show(self.setting_name()?)),
            "reset" => {
                let name = self.setting_name()?;
                Ok(Statement::Reset(if name == "all" { None } else { Some(name) }))
            }
            _ => {
                let what = self.label()?.text;
                if !["all", "plans", "sequences", "temp", "temporary"].contains(&what.as_str()) {
                    return Err(self.unexpected());
                }
                Ok(Statement::Discard(what))
            }
        }
    }

    fn setting_name(&mut self) -> Result<String> {
        if self.accept_words(&["time", "zone"]) {
            return Ok("timezone".to_string());
        }
        if self.accept_words(&["transaction", "isolation", "level"]) {
            return Ok("transaction_isolation".to_string());
        }
        if self.accept_words(&["session", "authorization"]) {
            return Ok("session_authorization".to_string());
        }
        let mut name = self.label()?.text;
        while self.accept_mark(".") {
            name = format!("{name}.{}", self.label()?.text);
        }
        Ok(name.to_lowercase())
    }

    fn set(&mut self) -> Result<Statement> {
        if self.accept_words(&["session", "characteristics", "as", "transaction"]) {
            return Ok(Statement::SetTransaction { modes: self.transaction_modes()?, session: true });
        }
        if self.accept("constraints") {
            let names = if self.accept("all") { Vec::new() } else { self.list(Self::object_name)? };
            let deferred = self.accept("deferred");
            if !deferred {
                self.expect("immediate")?;
            }
            return Ok(Statement::SetConstraints { names, deferred });
        }
        let mut scope = SetScope::Session;
        if self.is_word(0, "local") && !self.is_word(1, "to") && !self.is_operator(1, "=") {
            self.advance();
            scope = SetScope::Local;
        } else if self.is_word(0, "session") && !self.is_word(1, "authorization") {
            self.advance();
        }
        if self.accept_words(&["transaction", "snapshot"]) {
            return Ok(Statement::SetSnapshot(self.string()?));
        }
        if self.accept("transaction") {
            return Ok(Statement::SetTransaction { modes: self.transaction_modes()?, session: false });
        }
        if self.accept_words(&["time", "zone"]) {
            let value = match self.accept("interval") {
                true => SetValue::Values(vec![self.zone_interval()?]),
                false => self.set_value()?,
            };
            return Ok(Statement::Set { scope, name: "timezone".to_string(), value });
        }
        if self.is_one_of(&["names", "role"]) || self.is_words(&["session", "authorization"]) {
            let name = match () {
                () if self.accept("names") => "client_encoding",
                () if self.accept("role") => "role",
                () => {
                    self.advance();
                    self.advance();
                    "session_authorization"
                }
            };
            let value = self.set_value()?;
            return Ok(Statement::Set { scope, name: name.to_string(), value });
        }
        let name = self.setting_name()?;
        if !self.accept("to") {
            self.expect_operator("=")?;
        }
        let value = self.set_value()?;
        Ok(Statement::Set { scope, name, value })
    }

    fn set_value(&mut self) -> Result<SetValue> {
        if self.accept("default") {
            return Ok(SetValue::Default);
        }
        if self.is_word(0, "local") {
            self.advance();
            return Ok(SetValue::Default);
        }
        let values = self.list(Self::one_set_value)?;
        Ok(SetValue::Values(values))
    }

    fn one_set_value(&mut self) -> Result<String> {
        let sign = if self.accept_operator("-") {
            "-"
        } else {
            self.accept_operator("+");
            ""
        };
        let value = match self.peek(0) {
            TokenKind::Text(text) => text.to_string(),
            TokenKind::Integer(digits) | TokenKind::Decimal(digits) => format!("{sign}{digits}"),
            TokenKind::Word(word) => word.to_string(),
            TokenKind::Quoted(name) => name.clone(),
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(value)
    }

    /// PREPARE, EXECUTE, DEALLOCATE.
    pub fn prepared(&mut self, word: &str) -> Result<Statement> {
        let at = self.position();
        self.advance();
        match word {
            "prepare" if self.is_word(0, "transaction") => {
                let message = "two-phase commit is not supported";
                Err(self.error(at, SqlState::FEATURE_NOT_SUPPORTED, message))
            }
            "prepare" => {
                let name = self.name()?;
                let types =
                    if self.is_mark(0, "(") { self.in_parentheses(Self::type_name)? } else { Vec::new() };
                self.expect("as")?;
                let start = self.position();
                let statement = Box::new(self.data_statement()?);
                let text = self.text_since(start).to_string();
                self.parameters = 0;
                Ok(Statement::Prepare { name, types, statement, text })
            }
            "execute" => {
                let name = self.name()?;
                let args =
                    if self.is_mark(0, "(") { self.in_parentheses(Self::expression)? } else { Vec::new() };
                Ok(Statement::Execute { name, args })
            }
            _ => {
                self.accept("prepare");
                Ok(Statement::Deallocate(if self.accept("all") { None } else { Some(self.name()?) }))
            }
        }
    }

    /// DECLARE, FETCH, MOVE, CLOSE.
    pub fn cursor(&mut self, word: &str) -> Result<Statement> {
        self.advance();
        match word {
            "declare" => self.declare(),
            "close" => Ok(Statement::Close(if self.accept("all") { None } else { Some(self.name()?) })),
            _ => self.fetch(word == "move"),
        }
    }

    fn declare(&mut self) -> Result<Statement> {
        let name = self.name()?;
        let (mut binary, mut scroll) = (false, None);
        loop {
            match () {
                () if self.accept("binary") => binary = true,
                () if self.accept("insensitive") || self.accept("asensitive") => {}
                () if self.accept("scroll") => scroll = Some(true),
                () if self.accept_words(&["no", "scroll"]) => scroll = Some(false),
                () => break,
            }
        }
        self.expect("cursor")?;
        let hold = self.accept_words(&["with", "hold"]);
        if !hold {
            self.accept_words(&["without", "hold"]);
        }
        self.expect("for")?;
        let start = self.position();
        let query = Box::new(Statement::Query(Box::new(self.query()?)));
        let text = self.text_since(start).to_string();
        Ok(Statement::Declare(DeclareCursor { name, binary, scroll, hold, query, text }))
    }

    fn fetch(&mut self, moves: bool) -> Result<Statement> {
        let direction = match () {
            () if self.accept("next") => FetchDirection::Forward(1),
            () if self.accept("prior") => FetchDirection::Forward(-1),
            () if self.accept("first") => FetchDirection::Absolute(1),
            () if self.accept("last") => FetchDirection::Absolute(-1),
            () if self.accept("absolute") => FetchDirection::Absolute(self.signed_integer()?),
            () if self.accept("relative") => FetchDirection::Relative(self.signed_integer()?),
            () if self.accept("all") => FetchDirection::Forward(i64::MAX),
            () if self.accept("forward") => FetchDirection::Forward(self.fetch_count()?),
            () if self.accept("backward") => FetchDirection::Forward(self.fetch_count()?.saturating_neg()),
            () if matches!(self.peek(0), TokenKind::Integer(_) | TokenKind::Operator(_)) => {
                FetchDirection::Forward(self.signed_integer()?)
            }
            () => FetchDirection::Forward(1),
        };
        if !self.accept("from") {
            self.accept("in");
        }
        Ok(Statement::Fetch(Fetch { cursor: self.name()?, direction, moves }))
    }

    fn fetch_count(&mut self) -> Result<i64> {
        if self.accept("all") {
            return Ok(i64::MAX);
        }
        match self.peek(0) {
            TokenKind::Integer(_) | TokenKind::Operator(_) => self.signed_integer(),
            _ => Ok(1),
        }
    }

    /// COPY.
    pub fn copy(&mut self) -> Result<Statement> {
        self.expect("copy")?;
        self.accept("binary");
        let source = if self.is_mark(0, "(") {
            CopySource::Query(Box::new(self.query_in_parentheses()?))
        } else {
            let name = self.object_name()?;
            let columns = if self.is_mark(0, "(") { self.names_in_parentheses()? } else { Vec::new() };
            CopySource::Table { name, columns }
        };
        let from = matches!(source, CopySource::Table { .. }) && self.accept("from");
        if !from {
            self.expect("to")?;
        }
        let direction = if from { CopyDirection::From } else { CopyDirection::To };
        let file = self.copy_file(from)?;
        self.accept("with");
        let options = if self.is_mark(0, "(") {
            self.in_parentheses(Self::copy_option)?
        } else {
            self.old_copy_options()?
        };
        let filter = if from && self.accept("where") { Some(self.expression()?) } else { None };
        Ok(Statement::Copy(Box::new(Copy { source, direction, file, options, filter })))
    }

    fn copy_file(&mut self, from: bool) -> Result<Option<String>> {
        if self.accept(if from { "stdin" } else { "stdout" }) {
            return Ok(None);
        }
        if self.is_word(0, "program") {
            let message = "COPY from and to programs is not supported";
            return Err(self.error(self.position(), SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        self.string().map(Some)
    }

    fn copy_option(&mut self) -> Result<CopyOption> {
        let at = self.position();
        let name = self.label()?.text;
        let value = match self.peek(0) {
            TokenKind::Mark("(") => CopyValue::Columns(self.names_in_parentheses()?),
            TokenKind::Mark(")" | ",") => CopyValue::None,
            TokenKind::Operator("*") => {
                self.advance();
                CopyValue::All
            }
            _ => CopyValue::Text(self.one_set_value()?),
        };
        Ok(CopyOption { name, value, at })
    }

    /// `CSV HEADER DELIMITER ',' …` without parentheses.
    fn old_copy_options(&mut self) -> Result<Vec<CopyOption>> {
        let mut options = Vec::new();
        loop {
            let at = self.position();
            let option = |name: &str, value| CopyOption { name: name.to_string(), value, at };
            match () {
                () if self.accept("csv") => {
                    options.push(option("format", CopyValue::Text("csv".to_string())))
                }
                () if self.accept("binary") => {
                    options.push(option("format", CopyValue::Text("binary".to_string())))
                }
                () if self.accept("header") => options.push(option("header", CopyValue::None)),
                () if self.accept("freeze") => options.push(option("freeze", CopyValue::None)),
                () if self.accept_words(&["force", "quote"]) => {
                    let value = if self.accept_operator("*") {
                        CopyValue::All
                    } else {
                        CopyValue::Columns(self.list(Self::name)?)
                    };
                    options.push(option("force_quote", value));
                }
                () if self.accept_words(&["force", "not", "null"]) => {
                    options.push(option("force_not_null", CopyValue::Columns(self.list(Self::name)?)));
                }
                () if self.accept_words(&["force", "null"]) => {
                    options.push(option("force_null", CopyValue::Columns(self.list(Self::name)?)));
                }
                () if self.is_one_of(&["delimiter", "null", "quote", "escape", "encoding"]) => {
                    let name = self.label()?.text;
                    self.accept("as");
                    options.push(option(&name, CopyValue::Text(self.string()?)));
                }
                () => return Ok(options),
            }
        }
    }

    /// EXPLAIN.
    pub fn explain(&mut self) -> Result<Statement> {
        self.expect("explain")?;
        for (word, kind) in [
            ("function", ObjectKind::Function),
            ("procedure", ObjectKind::Procedure),
            ("routine", ObjectKind::Routine),
        ] {
            if self.accept(word) {
                let name = self.routine_name()?;
                return Ok(Statement::ExplainRoutine { kind, name });
            }
        }
        let mut options = ExplainOptions { costs: true, timing: true, ..ExplainOptions::default() };
        if self.is_mark(0, "(") && !self.starts_query_in_parentheses() {
            self.in_parentheses(|parser| parser.explain_option(&mut options))?;
        } else {
            options.analyze = self.accept("analyze") || self.accept("analyse");
            options.verbose = self.accept("verbose");
        }
        let start = self.position();
        let statement = Box::new(self.nested(Self::statement)?);
        let text = self.text_since(start).to_string();
        Ok(Statement::Explain { options, statement, text })
    }

    fn explain_option(&mut self, options: &mut ExplainOptions) -> Result<()> {
        let at = self.position();
        let name = self.label()?.text;
        let value = match self.peek(0) {
            TokenKind::Mark(_) => "true".to_string(),
            _ => self.one_set_value()?,
        };
        let on = !matches!(value.as_str(), "false" | "off" | "0");
        match name.as_str() {
            "analyze" | "analyse" => options.analyze = on,
            "verbose" => options.verbose = on,
            "costs" => options.costs = on,
            "timing" => options.timing = on,
            "buffers" | "summary" | "settings" | "wal" => {}
            "format" if matches!(value.as_str(), "text" | "json") => options.json = value == "json",
            "format" => {
                let message = format!("EXPLAIN format \"{value}\" is not supported");
                return Err(self
                    .error(at, SqlState::FEATURE_NOT_SUPPORTED, message)
                    .with_hint("Use text or json."));
            }
            _ => {
                let message = format!("unrecognized EXPLAIN option \"{name}\"");
                return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
            }
        }
        Ok(())
    }

    /// VACUUM, ANALYZE, CHECKPOINT, REINDEX, CLUSTER.
    pub fn maintenance(&mut self, word: &str) -> Result<Statement> {
        self.advance();
        match word {
            "checkpoint" => return Ok(Statement::Checkpoint),
            "reindex" => return self.reindex(),
            "cluster" => return self.cluster(),
            _ => {}
        }
        let mut analyze = word != "vacuum";
        if self.is_mark(0, "(") {
            self.in_parentheses(|parser| {
                let name = parser.label()?.text;
                let on = match parser.peek(0) {
                    TokenKind::Mark(_) => true,
                    _ => !matches!(parser.one_set_value()?.as_str(), "false" | "off" | "0"),
                };
                analyze |= on && matches!(name.as_str(), "analyze" | "analyse");
                Ok(())
            })?;
        }
        while self.is_one_of(&["full", "freeze", "verbose", "analyze", "analyse"]) {
            analyze |= self.is_one_of(&["analyze", "analyse"]);
            self.advance();
        }
        let mut tables = Vec::new();
        if !self.is_end() && !self.is_mark(0, ";") {
            tables = self.list(|parser| {
                let name = parser.object_name()?;
                if parser.is_mark(0, "(") {
                    if !analyze {
                        let message = "ANALYZE option must be specified when a column list is provided";
                        return Err(SqlError::unsupported(message));
                    }
                    parser.names_in_parentheses()?;
                }
                Ok(name)
            })?;
        }
        Ok(if word == "vacuum" {
            Statement::Vacuum { tables, analyze }
        } else {
            Statement::Analyze { tables }
        })
    }

    fn reindex(&mut self) -> Result<Statement> {
        let options = self.maintenance_options("REINDEX", &["verbose", "concurrently", "tablespace"])?;
        if !self.is_one_of(&["index", "table", "schema", "database", "system"]) {
            return Err(self.unexpected());
        }
        let target = self.label()?.text;
        let concurrently = self.accept("concurrently") || options.iter().any(|name| name == "concurrently");
        let target = match target.as_str() {
            "index" => ReorganizeTarget::Relation(ObjectKind::Index, self.object_name()?),
            "table" => ReorganizeTarget::Relation(ObjectKind::Table, self.object_name()?),
            "schema" => ReorganizeTarget::Schema(self.name()?),
            target => ReorganizeTarget::Database { name: self.name()?, is_system: target == "system" },
        };
        Ok(Statement::Reorganize(Reorganize { tag: "REINDEX", target, index: None, concurrently }))
    }

    /// CLUSTER, also as before PostgreSQL 8.3: `CLUSTER index ON table`.
    fn cluster(&mut self) -> Result<Statement> {
        self.maintenance_options("CLUSTER", &["verbose"])?;
        self.accept("verbose");
        let mut index = None;
        let target = match self.is_end() || self.is_mark(0, ";") {
            true => ReorganizeTarget::All,
            false if self.is_word(1, "on") => {
                index = Some(self.name()?);
                self.expect("on")?;
                ReorganizeTarget::Relation(ObjectKind::Table, self.object_name()?)
            }
            false => {
                let table = self.object_name()?;
                if self.accept("using") {
                    index = Some(self.name()?);
                }
                ReorganizeTarget::Relation(ObjectKind::Table, table)
            }
        };
        Ok(Statement::Reorganize(Reorganize { tag: "CLUSTER", target, index, concurrently: false }))
    }

    /// `(VERBOSE, …)` of REINDEX and CLUSTER: those that are on.
    fn maintenance_options(&mut self, statement: &str, known: &[&str]) -> Result<Vec<String>> {
        let mut options = Vec::new();
        if self.is_mark(0, "(") {
            self.in_parentheses(|parser| {
                let at = parser.position();
                let name = parser.label()?.text;
                if !known.contains(&name.as_str()) {
                    let message = format!("unrecognized {statement} option \"{name}\"");
                    return Err(parser.error(at, SqlState::SYNTAX_ERROR, message));
                }
                let is_on = match parser.peek(0) {
                    TokenKind::Mark(_) => true,
                    _ => !matches!(parser.one_set_value()?.as_str(), "false" | "off" | "0"),
                };
                options.extend(is_on.then_some(name));
                Ok(())
            })?;
        }
        Ok(options)
    }

    /// LISTEN, NOTIFY, UNLISTEN.
    pub fn notification(&mut self, word: &str) -> Result<Statement> {
        self.advance();
        match word {
            "listen" => Ok(Statement::Listen(self.name()?)),
            "notify" => {
                let channel = self.name()?;
                let payload = if self.accept_mark(",") { Some(self.string()?) } else { None };
                Ok(Statement::Notify { channel, payload })
            }
            _ => Ok(Statement::Unlisten(if self.accept_operator("*") { None } else { Some(self.name()?) })),
        }
    }
}
