//! CREATE, ALTER and DROP of functions, procedures and triggers; DO and CALL.

use crate::catalog::{ArgumentMode, Language, Stability, TriggerTime};
use crate::error::{Result, SqlState};
use crate::parse::lexer::TokenKind;
use crate::parse::parser::Parser;
use crate::parse::syntax::{
    AlterRoutine, ArgumentSyntax, CallStatement, CreateRoutine, CreateTrigger, Do, DropRoutines, ExprKind,
    ObjectKind, ObjectName, RoutineChange, RoutineName, RoutineOptions, RoutineSetting, RoutineType,
    Statement, TextExpr, TriggerChange,
};

impl Parser<'_> {
    /// CREATE FUNCTION and CREATE PROCEDURE, after their words.
    pub fn create_routine(&mut self, or_replace: bool, is_procedure: bool) -> Result<Statement> {
        let name = self.object_name()?;
        let mut arguments = self.argument_list()?;
        let mut returns = None;
        if !is_procedure && self.accept("returns") {
            if self.accept("table") {
                arguments.extend(self.in_parentheses(|parser| {
                    let name = Some(parser.label()?);
                    let ty = parser.routine_type()?;
                    Ok(ArgumentSyntax { name, mode: ArgumentMode::Table, ty, default: None })
                })?);
            } else {
                returns = Some(self.routine_type()?);
            }
        }
        let options = self.routine_options()?;
        Ok(Statement::CreateRoutine(Box::new(CreateRoutine {
            name,
            or_replace,
            is_procedure,
            arguments,
            returns,
            options,
        })))
    }

    fn argument_list(&mut self) -> Result<Vec<ArgumentSyntax>> {
        self.expect_mark("(")?;
        if self.accept_mark(")") {
            return Ok(Vec::new());
        }
        let arguments = self.list(Self::argument)?;
        self.expect_mark(")")?;
        Ok(arguments)
    }

    /// `[mode] [name] [mode] type [DEFAULT value]`.
    fn argument(&mut self) -> Result<ArgumentSyntax> {
        let mut mode = self.argument_mode();
        let mark = self.mark();
        // A name, if a type follows it; else the word is the type's own.
        let name = self.function_name();
        let mut ty = None;
        if name.is_some() {
            mode = mode.or_else(|| self.argument_mode());
            let begins_type = matches!(self.peek(0), TokenKind::Word(_) | TokenKind::Quoted(_))
                && !self.is_one_of(&["default", "varying", "precision"]);
            let is_long = self.is_one_of(&["with", "without", "array", "year", "month", "day", "hour"]);
            ty = if begins_type && !is_long { Some(self.routine_type()?) } else { None };
        }
        let (name, ty) = match ty {
            Some(ty) => (name, ty),
            None => {
                self.rewind(mark);
                (None, self.routine_type()?)
            }
        };
        let mut default = None;
        if self.accept("default") || self.accept_operator("=") || self.accept_mark(":=") {
            let start = self.position();
            let expr = self.expression()?;
            default = Some(TextExpr { expr, text: self.text_since(start).to_string() });
        }
        Ok(ArgumentSyntax { name, mode: mode.unwrap_or(ArgumentMode::In), ty, default })
    }

    fn argument_mode(&mut self) -> Option<ArgumentMode> {
        Some(match () {
            () if self.accept("in") => match self.accept("out") {
                true => ArgumentMode::InOut,
                false => ArgumentMode::In,
            },
            () if self.accept("out") => ArgumentMode::Out,
            () if self.accept("inout") => ArgumentMode::InOut,
            () if self.accept("variadic") => ArgumentMode::Variadic,
            () => return None,
        })
    }

    /// A type, or `name%TYPE`, or `name%ROWTYPE`.
    pub fn routine_type(&mut self) -> Result<RoutineType> {
        let name = self.type_name()?;
        let (mut is_copied, mut is_row) = (false, false);
        if self.is_operator(0, "%") {
            is_copied = self.is_word(1, "type");
            is_row = self.is_word(1, "rowtype");
            if is_copied || is_row {
                self.advance();
                self.advance();
            }
        }
        Ok(RoutineType { name, is_copied, is_row })
    }

    /// A statement of a body in the SQL standard's form. RETURN is a query of one value.
    fn body_statement(&mut self) -> Result<String> {
        if self.accept("return") {
            let start = self.position();
            self.expression()?;
            return Ok(format!("SELECT {}", self.text_since(start)));
        }
        let start = self.position();
        self.data_statement()?;
        Ok(self.text_since(start).to_string())
    }

    fn routine_options(&mut self) -> Result<RoutineOptions> {
        let mut options = RoutineOptions::default();
        while self.routine_option(&mut options)? {}
        Ok(options)
    }

    /// One option. False: there is none.
    fn routine_option(&mut self, options: &mut RoutineOptions) -> Result<bool> {
        match () {
            () if self.accept("language") => options.language = Some(self.language()?),
            () if self.accept("as") => options.body = Some(self.string()?),
            () if self.is_word(0, "return") => options.statements = Some(vec![self.body_statement()?]),
            () if self.accept_words(&["begin", "atomic"]) => {
                let mut statements = Vec::new();
                while !self.accept("end") {
                    statements.push(self.body_statement()?);
                    self.expect_mark(";")?;
                }
                options.statements = Some(statements);
            }
            () if self.accept("immutable") => options.stability = Some(Stability::Immutable),
            () if self.accept("stable") => options.stability = Some(Stability::Stable),
            () if self.accept("volatile") => options.stability = Some(Stability::Volatile),
            () if self.accept("strict") => options.is_strict = Some(true),
            () if self.accept_words(&["returns", "null", "on", "null", "input"]) => {
                options.is_strict = Some(true);
            }
            () if self.accept_words(&["called", "on", "null", "input"]) => options.is_strict = Some(false),
            () if self.accept("leakproof") => options.is_leakproof = Some(true),
            () if self.accept_words(&["not", "leakproof"]) => options.is_leakproof = Some(false),
            () if self.accept_words(&["external", "security"]) || self.accept("security") => {
                let is_definer = !self.accept("invoker");
                if is_definer {
                    self.expect("definer")?;
                }
                options.is_definer = Some(is_definer);
            }
            () if self.accept("parallel") => {
                self.label()?;
            }
            () if self.accept("cost") || self.accept("rows") => {
                if !matches!(self.peek(0), TokenKind::Integer(_) | TokenKind::Decimal(_)) {
                    return Err(self.unexpected());
                }
                self.advance();
            }
            () if self.is_word(0, "set") => options.settings.push(self.routine_setting()?),
            () if self.is_one_of(&["window", "support", "transform"]) => {
                let word = self.label()?.text.to_uppercase();
                return Err(self.refused(&format!("{word} in a function's definition is not supported")));
            }
            () => return Ok(false),
        }
        Ok(true)
    }

    /// Options as ALTER FUNCTION changes them: RESET, too.
    fn altered_options(&mut self) -> Result<RoutineOptions> {
        let mut options = RoutineOptions::default();
        loop {
            if self.is_word(0, "reset") {
                let Statement::Reset(name) = self.setting("reset")? else { return Err(self.unexpected()) };
                options.settings.push(RoutineSetting::Reset(name));
            } else if !self.routine_option(&mut options)? {
                return Ok(options);
            }
        }
    }

    fn language(&mut self) -> Result<Language> {
        let at = self.position();
        let name = match self.peek(0) {
            TokenKind::Text(text) => text.to_ascii_lowercase(),
            TokenKind::Word(word) => word.to_string(),
            TokenKind::Quoted(name) => name.clone(),
            _ => return Err(self.unexpected()),
        };
        self.advance();
        match name.as_str() {
            "sql" => Ok(Language::Sql),
            "plpgsql" => Ok(Language::Plpgsql),
            _ => {
                let message = format!("language \"{name}\" does not exist");
                let error = self.error(at, SqlState::UNDEFINED_OBJECT, message);
                Err(error.with_hint("The languages of functions are sql and plpgsql."))
            }
        }
    }

    /// `name [(types)]`.
    pub fn routine_name(&mut self) -> Result<RoutineName> {
        let name = self.object_name()?;
        let types = match self.is_mark(0, "(") {
            true => {
                let arguments = self.argument_list()?.into_iter();
                Some(arguments.filter(|it| it.mode.is_input()).map(|argument| argument.ty).collect())
            }
            false => None,
        };
        Ok(RoutineName { name, types })
    }

    /// DROP FUNCTION and the like, after their words.
    pub fn drop_routines(&mut self, kind: ObjectKind) -> Result<Statement> {
        let if_exists = self.accept_words(&["if", "exists"]);
        let names = self.list(Self::routine_name)?;
        let cascade = self.cascade();
        Ok(Statement::DropRoutines(DropRoutines { kind, names, if_exists, cascade }))
    }

    /// ALTER FUNCTION and the like, after their words.
    pub fn alter_routine(&mut self, kind: ObjectKind) -> Result<Statement> {
        let name = self.routine_name()?;
        let change = match () {
            () if self.accept_words(&["rename", "to"]) => RoutineChange::Rename(self.name()?),
            () if self.accept_words(&["owner", "to"]) => RoutineChange::Owner(self.role_name()?),
            () if self.accept_words(&["set", "schema"]) => RoutineChange::Schema(self.name()?),
            () => {
                let options = self.altered_options()?;
                self.accept("restrict");
                if options == RoutineOptions::default() {
                    return Err(self.unexpected());
                }
                RoutineChange::Options(options)
            }
        };
        Ok(Statement::AlterRoutine(Box::new(AlterRoutine { kind, name, change })))
    }

    /// CREATE TRIGGER, after its words.
    pub fn create_trigger(&mut self, or_replace: bool, is_constraint: bool) -> Result<Statement> {
        let name = self.name()?;
        let time = match () {
            () if self.accept("before") => TriggerTime::Before,
            () if self.accept("after") => TriggerTime::After,
            () if self.accept_words(&["instead", "of"]) => {
                return Err(self.refused("INSTEAD OF triggers are not supported"));
            }
            () => return Err(self.unexpected()),
        };
        let mut trigger = CreateTrigger {
            name,
            or_replace,
            time,
            on_insert: false,
            on_update: false,
            on_delete: false,
            on_truncate: false,
            old_table: None,
            new_table: None,
            is_constraint,
            is_deferrable: false,
            is_deferred: false,
            columns: Vec::new(),
            table: ObjectName { parts: Vec::new() },
            for_each_row: false,
            condition: None,
            function: ObjectName { parts: Vec::new() },
            arguments: Vec::new(),
        };
        self.trigger_events(&mut trigger)?;
        self.expect("on")?;
        trigger.table = self.object_name()?;
        if is_constraint && self.accept("from") {
            self.object_name()?;
        }
        self.trigger_timing(&mut trigger)?;
        while self.is_word(0, "referencing")
            || self.is_words(&["old", "table"])
            || self.is_words(&["new", "table"])
        {
            self.transition_tables(&mut trigger)?;
        }
        if self.accept("for") {
            self.accept("each");
            trigger.for_each_row = self.accept("row");
            if !trigger.for_each_row {
                self.expect("statement")?;
            }
        }
        if self.accept("when") {
            self.expect_mark("(")?;
            let start = self.position();
            let expr = self.expression()?;
            trigger.condition = Some(TextExpr { expr, text: self.text_since(start).to_string() });
            self.expect_mark(")")?;
        }
        self.expect("execute")?;
        if !self.accept("function") {
            self.expect("procedure")?;
        }
        trigger.function = self.object_name()?;
        self.expect_mark("(")?;
        if !self.accept_mark(")") {
            trigger.arguments = self.list(Self::trigger_argument)?;
            self.expect_mark(")")?;
        }
        Ok(Statement::CreateTrigger(Box::new(trigger)))
    }

    fn trigger_events(&mut self, trigger: &mut CreateTrigger) -> Result<()> {
        loop {
            match () {
                () if self.accept("insert") => trigger.on_insert = true,
                () if self.accept("delete") => trigger.on_delete = true,
                () if self.accept("update") => {
                    trigger.on_update = true;
                    if self.accept("of") {
                        trigger.columns = self.list(Self::name)?;
                    }
                }
                () if self.accept("truncate") => trigger.on_truncate = true,
                () => return Err(self.unexpected()),
            }
            if !self.accept("or") {
                return Ok(());
            }
        }
    }

    /// `[NOT] DEFERRABLE [INITIALLY …]` of a constraint trigger.
    fn trigger_timing(&mut self, trigger: &mut CreateTrigger) -> Result<()> {
        if !trigger.is_constraint {
            return Ok(());
        }
        let is_never = self.accept_words(&["not", "deferrable"]);
        trigger.is_deferrable = !is_never && self.accept("deferrable");
        if self.accept("initially") {
            trigger.is_deferred = self.accept("deferred");
            if !trigger.is_deferred {
                self.expect("immediate")?;
            }
            if trigger.is_deferred && is_never {
                let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
                return Err(self.error(self.position(), SqlState::SYNTAX_ERROR, message));
            }
            trigger.is_deferrable |= trigger.is_deferred;
            if !is_never && !trigger.is_deferrable {
                trigger.is_deferrable = self.accept("deferrable");
            }
        }
        Ok(())
    }

    /// `REFERENCING {OLD | NEW} TABLE [AS] name …`
    fn transition_tables(&mut self, trigger: &mut CreateTrigger) -> Result<()> {
        self.accept("referencing");
        loop {
            let is_old = match () {
                () if self.is_words(&["old", "row"]) || self.is_words(&["new", "row"]) => {
                    let hint = "Use OLD TABLE or NEW TABLE for naming transition tables.";
                    return Err(self
                        .refused("ROW variable naming in the REFERENCING clause is not supported")
                        .with_hint(hint));
                }
                () if self.accept_words(&["old", "table"]) => true,
                () if self.accept_words(&["new", "table"]) => false,
                () => return Ok(()),
            };
            self.accept("as");
            let name = self.name()?;
            let place = if is_old { &mut trigger.old_table } else { &mut trigger.new_table };
            if place.replace(name).is_some() {
                let which = if is_old { "OLD" } else { "NEW" };
                let message = format!("{which} TABLE cannot be specified multiple times");
                return Err(self.error(self.position(), SqlState::INVALID_OBJECT_DEFINITION, message));
            }
        }
    }

    fn trigger_argument(&mut self) -> Result<String> {
        let text = match self.peek(0) {
            TokenKind::Text(text) => text.to_string(),
            TokenKind::Integer(digits) | TokenKind::Decimal(digits) => (*digits).to_string(),
            TokenKind::Word(word) => word.to_string(),
            TokenKind::Quoted(name) => name.clone(),
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(text)
    }

    /// DROP TRIGGER and ALTER TRIGGER, after their words.
    pub fn change_trigger(&mut self, drops: bool) -> Result<Statement> {
        let if_exists = drops && self.accept_words(&["if", "exists"]);
        let name = self.name()?;
        self.expect("on")?;
        let table = self.object_name()?;
        let mut to = None;
        if drops {
            self.cascade();
        } else {
            self.expect_words(&["rename", "to"])?;
            to = Some(self.name()?);
        }
        Ok(Statement::ChangeTrigger(TriggerChange { name, table, if_exists, to }))
    }

    /// DO.
    pub fn do_block(&mut self) -> Result<Statement> {
        self.expect("do")?;
        let (mut language, mut body) = (Language::Plpgsql, None);
        loop {
            if self.accept("language") {
                language = self.language()?;
            } else if body.is_none() && matches!(self.peek(0), TokenKind::Text(_)) {
                body = Some(self.string()?);
            } else {
                break;
            }
        }
        let Some(body) = body else { return Err(self.unexpected()) };
        Ok(Statement::Do(Do { language, body }))
    }

    /// CALL.
    pub fn call_statement(&mut self) -> Result<Statement> {
        let at = self.position();
        self.expect("call")?;
        let expr = self.expression()?;
        match expr.kind {
            ExprKind::Call(call) => Ok(Statement::Call(Box::new(CallStatement { call: *call, at }))),
            _ => {
                Err(self.error(expr.at, SqlState::SYNTAX_ERROR, "CALL needs a procedure with its arguments"))
            }
        }
    }
}
