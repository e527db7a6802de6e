//! Function calls, window clauses, and the functions that SQL spells in its own way (EXTRACT, TRIM, POSITION, …).

use crate::error::{Result, SqlState};
use crate::parse::lexer::TokenKind;
use crate::parse::parser::{Parser, Reference};
use crate::parse::syntax::{
    At, Call, CallArg, ExclusionName, Expr, ExprKind, FrameClause, FrameLimit, FrameUnitName, Name,
    ObjectName, Over, WindowDefinition,
};

impl Call {
    /// A call of a built-in function.
    pub fn builtin(name: &str, args: Vec<Expr>, at: At) -> Call {
        let part = |text: &str| Name { text: text.to_string(), at };
        Call {
            name: ObjectName { parts: vec![part("pg_catalog"), part(name)] },
            args: args.into_iter().map(|value| CallArg { name: None, value, place: (0, 0) }).collect(),
            star: false,
            variadic: false,
            distinct: false,
            order_by: Vec::new(),
            within_group: false,
            filter: None,
            over: None,
        }
    }

    /// The height of its highest argument.
    pub fn height(&self) -> u32 {
        let args = self.args.iter().map(|arg| arg.value.height);
        let order = self.order_by.iter().map(|item| item.expr.height);
        let filter = self.filter.iter().map(|filter| filter.height);
        args.chain(order).chain(filter).max().unwrap_or(0)
    }
}

impl Parser<'_> {
    /// A call of a built-in function, as an expression.
    pub fn call_of(&self, name: &str, args: Vec<Expr>, at: At) -> ExprKind {
        ExprKind::Call(Box::new(Call::builtin(name, args, at)))
    }

    /// A function call, if a name followed by a parenthesis is here.
    pub fn function_call(&mut self) -> Result<Option<Call>> {
        let Some(name) = self.function_object_name()? else { return Ok(None) };
        if !self.is_mark(0, "(") {
            return Ok(None);
        }
        let at = name.at();
        self.refer_at(Reference::Function, at);
        self.expect_mark("(")?;
        let mut call = Call { name, ..Call::builtin("", Vec::new(), at) };
        if self.accept_operator("*") {
            call.star = true;
        } else if !self.is_mark(0, ")") {
            if self.accept("distinct") {
                call.distinct = true;
            } else {
                self.accept("all");
            }
            call.args = self.list(|parser| parser.call_arg(&mut call.variadic))?;
            if self.accept_words(&["order", "by"]) {
                call.order_by = self.order_items()?;
            }
        }
        self.expect_mark(")")?;
        self.call_suffix(&mut call)?;
        Ok(Some(call))
    }

    fn function_object_name(&mut self) -> Result<Option<ObjectName>> {
        let qualified = self.is_mark(1, ".");
        let first = if qualified { self.accept_name() } else { self.function_name() };
        let Some(first) = first else { return Ok(None) };
        let mut parts = vec![first];
        while self.is_mark(0, ".") && !self.is_operator(1, "*") {
            self.advance();
            parts.push(self.label()?);
        }
        Ok(Some(ObjectName { parts }))
    }

    fn call_arg(&mut self, variadic: &mut bool) -> Result<CallArg> {
        *variadic |= self.accept("variadic");
        let named = matches!(self.peek(0), TokenKind::Word(_) | TokenKind::Quoted(_))
            && (self.is_mark(1, "=>") || self.is_mark(1, ":="));
        let name = if named {
            let name = self.label()?;
            self.advance();
            Some(name)
        } else {
            None
        };
        let start = self.position();
        let value = self.expression()?;
        Ok(CallArg { name, value, place: (start, self.last_end()) })
    }

    /// WITHIN GROUP, FILTER, OVER.
    fn call_suffix(&mut self, call: &mut Call) -> Result<()> {
        if self.accept_words(&["within", "group"]) {
            if !call.order_by.is_empty() || call.distinct {
                return Err(self.error(
                    self.position(),
                    SqlState::SYNTAX_ERROR,
                    "cannot use multiple ORDER BY clauses with WITHIN GROUP",
                ));
            }
            self.expect_mark("(")?;
            self.expect_words(&["order", "by"])?;
            call.order_by = self.order_items()?;
            call.within_group = true;
            self.expect_mark(")")?;
        }
        if self.is_word(0, "filter") && self.is_mark(1, "(") {
            self.advance();
            self.expect_mark("(")?;
            self.expect("where")?;
            call.filter = Some(self.expression()?);
            self.expect_mark(")")?;
        }
        if self.accept("over") {
            call.over = Some(if self.is_mark(0, "(") {
                Over::Window(Box::new(self.window_definition()?))
            } else {
                Over::Name(self.name()?)
            });
        }
        Ok(())
    }

    /// A window in parentheses.
    pub fn window_definition(&mut self) -> Result<WindowDefinition> {
        let at = self.position();
        self.expect_mark("(")?;
        let clause = self.is_one_of(&["partition", "order", "rows", "range", "groups"]);
        let base = if clause || self.is_mark(0, ")") { None } else { Some(self.name()?) };
        let partition_by =
            if self.accept_words(&["partition", "by"]) { self.expressions()? } else { Vec::new() };
        let order_by = if self.accept_words(&["order", "by"]) { self.order_items()? } else { Vec::new() };
        let frame = self.frame_clause()?;
        self.expect_mark(")")?;
        Ok(WindowDefinition { base, partition_by, order_by, frame, at })
    }

    fn frame_clause(&mut self) -> Result<Option<FrameClause>> {
        let at = self.position();
        let unit = match () {
            () if self.accept("rows") => FrameUnitName::Rows,
            () if self.accept("range") => FrameUnitName::Range,
            () if self.accept("groups") => FrameUnitName::Groups,
            () => return Ok(None),
        };
        let (start, end) = if self.accept("between") {
            let start = self.frame_limit()?;
            self.expect("and")?;
            (start, Some(self.frame_limit()?))
        } else {
            (self.frame_limit()?, None)
        };
        let mut exclusion = ExclusionName::NoOthers;
        if self.accept("exclude") {
            exclusion = match () {
                () if self.accept_words(&["no", "others"]) => ExclusionName::NoOthers,
                () if self.accept_words(&["current", "row"]) => ExclusionName::CurrentRow,
                () if self.accept("group") => ExclusionName::Group,
                () if self.accept("ties") => ExclusionName::Ties,
                () => return Err(self.unexpected()),
            };
        }
        self.check_frame(&start, end.as_ref(), at)?;
        Ok(Some(FrameClause { unit, start, end, exclusion, at }))
    }

    fn frame_limit(&mut self) -> Result<FrameLimit> {
        if self.accept_words(&["unbounded", "preceding"]) {
            return Ok(FrameLimit::UnboundedPreceding);
        }
        if self.accept_words(&["unbounded", "following"]) {
            return Ok(FrameLimit::UnboundedFollowing);
        }
        if self.accept_words(&["current", "row"]) {
            return Ok(FrameLimit::CurrentRow);
        }
        let offset = self.expression()?;
        if self.accept("preceding") {
            return Ok(FrameLimit::Preceding(offset));
        }
        self.expect("following")?;
        Ok(FrameLimit::Following(offset))
    }

    fn check_frame(&self, start: &FrameLimit, end: Option<&FrameLimit>, at: At) -> Result<()> {
        let rank = |limit: &FrameLimit| match limit {
            FrameLimit::UnboundedPreceding => 0,
            FrameLimit::Preceding(_) => 1,
            FrameLimit::CurrentRow => 2,
            FrameLimit::Following(_) => 3,
            FrameLimit::UnboundedFollowing => 4,
        };
        let end_rank = end.map_or(2, rank);
        let message = match (rank(start), end_rank) {
            (4, _) => "frame start cannot be UNBOUNDED FOLLOWING",
            (_, 0) => "frame end cannot be UNBOUNDED PRECEDING",
            (3, 2) if end.is_none() => "frame starting from following row cannot end with current row",
            (2, 1) => "frame starting from current row cannot have preceding rows",
            (3, 1 | 2) => "frame starting from following row cannot have preceding rows",
            _ => return Ok(()),
        };
        Err(self.error(at, SqlState::WINDOWING_ERROR, message))
    }

    /// Functions with a grammar of their own; `None` if none is here.
    pub fn special_function(&mut self) -> Result<Option<Expr>> {
        let at = self.position();
        let TokenKind::Word(word) = self.peek(0) else { return Ok(None) };
        let word = word.to_string();
        if !self.is_mark(1, "(") {
            return self.value_function(&word, at);
        }
        let make = match word.as_str() {
            "coalesce" => ExprKind::Coalesce,
            "greatest" => ExprKind::Greatest,
            "least" => ExprKind::Least,
            "grouping" => ExprKind::Grouping,
            "nullif" => return self.null_if(at).map(Some),
            "extract" => return self.extract(at).map(Some),
            "position" => return self.position_call(at).map(Some),
            "substring" => return self.substring(at),
            "overlay" => return self.overlay(at),
            "trim" => return self.trim(at).map(Some),
            "normalize" => return self.normalize(at).map(Some),
            _ => return self.value_function(&word, at),
        };
        self.advance();
        let args = self.in_parentheses(Self::expression)?;
        let height = args.iter().map(|expr| expr.height).max().unwrap_or(0);
        self.above(make(args), at, height).map(Some)
    }

    /// CURRENT_DATE and the like, which have no parentheses (or a precision).
    fn value_function(&mut self, word: &str, at: At) -> Result<Option<Expr>> {
        let name = match word {
            "current_date" | "current_time" | "current_timestamp" | "localtime" | "localtimestamp"
            | "current_user" | "session_user" | "current_catalog" => word,
            "current_role" => "current_user",
            "user" => "current_user",
            "current_schema" if !self.is_mark(1, "(") => "current_schema",
            _ => return Ok(None),
        };
        self.advance();
        let mut args = Vec::new();
        if self.is_mark(0, "(")
            && matches!(name, "current_time" | "current_timestamp" | "localtime" | "localtimestamp")
        {
            args = self.in_parentheses(Self::expression)?;
        }
        let kind = self.call_of(name, args, at);
        self.above(kind, at, 1).map(Some)
    }

    fn null_if(&mut self, at: At) -> Result<Expr> {
        self.advance();
        self.expect_mark("(")?;
        let left = Box::new(self.expression()?);
        self.expect_mark(",")?;
        let right = Box::new(self.expression()?);
        self.expect_mark(")")?;
        let height = left.height.max(right.height);
        self.above(ExprKind::NullIf(left, right), at, height)
    }

    /// `EXTRACT(field FROM source)`.
    fn extract(&mut self, at: At) -> Result<Expr> {
        self.advance();
        self.expect_mark("(")?;
        let field_at = self.position();
        let field = match self.peek(0) {
            TokenKind::Text(_) => self.string()?,
            _ => self.label()?.text,
        };
        self.expect("from")?;
        let source = self.expression()?;
        self.expect_mark(")")?;
        let height = source.height;
        let field = Expr { kind: ExprKind::Text(field), at: field_at, height: 1 };
        let call = self.call_of("extract", vec![field, source], at);
        self.above(call, at, height)
    }

    /// `POSITION(part IN whole)`.
    fn position_call(&mut self, at: At) -> Result<Expr> {
        self.advance();
        self.expect_mark("(")?;
        let part = self.restricted_expression()?;
        self.expect("in")?;
        let whole = self.restricted_expression()?;
        self.expect_mark(")")?;
        let height = part.height.max(whole.height);
        let call = self.call_of("position", vec![whole, part], at);
        self.above(call, at, height)
    }

    /// `SUBSTRING(text FROM start FOR count)`, `SUBSTRING(text SIMILAR pattern ESCAPE c)`; plain calls are left alone.
    fn substring(&mut self, at: At) -> Result<Option<Expr>> {
        let mark = self.mark();
        self.advance();
        self.expect_mark("(")?;
        let mut args = vec![self.expression()?];
        let mut name = "substring";
        if self.accept("from") {
            args.push(self.expression()?);
            if self.accept("for") {
                args.push(self.expression()?);
            }
        } else if self.accept("for") {
            let count = self.expression()?;
            let start = if self.accept("from") {
                self.expression()?
            } else {
                Expr { kind: ExprKind::Integer("1".to_string()), at, height: 1 }
            };
            args.extend([start, count]);
        } else if self.accept("similar") {
            args.push(self.expression()?);
            self.expect("escape")?;
            args.push(self.expression()?);
        } else {
            while self.accept_mark(",") {
                args.push(self.expression()?);
            }
            name = "substring";
        }
        if !self.accept_mark(")") {
            self.rewind(mark);
            return Err(self.unexpected());
        }
        self.finish_call(name, args, at).map(Some)
    }

    /// `OVERLAY(text PLACING part FROM start FOR count)`.
    fn overlay(&mut self, at: At) -> Result<Option<Expr>> {
        self.advance();
        self.expect_mark("(")?;
        let mut args = vec![self.expression()?];
        if self.accept("placing") {
            args.push(self.expression()?);
            self.expect("from")?;
            args.push(self.expression()?);
            if self.accept("for") {
                args.push(self.expression()?);
            }
        } else {
            while self.accept_mark(",") {
                args.push(self.expression()?);
            }
        }
        self.expect_mark(")")?;
        self.finish_call("overlay", args, at).map(Some)
    }

    /// `TRIM([LEADING | TRAILING | BOTH] [characters] FROM text)`.
    fn trim(&mut self, at: At) -> Result<Expr> {
        self.advance();
        self.expect_mark("(")?;
        let name = match () {
            () if self.accept("leading") => "ltrim",
            () if self.accept("trailing") => "rtrim",
            () => {
                self.accept("both");
                "btrim"
            }
        };
        self.accept("from");
        let mut args = self.expressions()?;
        if self.accept("from") {
            let mut texts = self.expressions()?;
            texts.append(&mut args);
            args = texts;
        }
        self.expect_mark(")")?;
        self.finish_call(name, args, at)
    }

    /// `NORMALIZE(text [, form])`.
    fn normalize(&mut self, at: At) -> Result<Expr> {
        self.advance();
        self.expect_mark("(")?;
        let mut args = vec![self.expression()?];
        if self.accept_mark(",") {
            let form_at = self.position();
            args.push(Expr {
                kind: ExprKind::Text(self.label()?.text.to_uppercase()),
                at: form_at,
                height: 1,
            });
        }
        self.expect_mark(")")?;
        self.finish_call("normalize", args, at)
    }

    fn finish_call(&mut self, name: &str, args: Vec<Expr>, at: At) -> Result<Expr> {
        let height = args.iter().map(|expr| expr.height).max().unwrap_or(0);
        let mut call = Call::builtin(name, args, at);
        self.call_suffix(&mut call)?;
        self.above(ExprKind::Call(Box::new(call)), at, height)
    }
}
