//! FROM: tables, queries, functions, joins, aliases.

use crate::error::Result;
use crate::parse::parser::{Parser, Reference};
use crate::parse::syntax::{Alias, At, Call, ColumnOfFunction, ExprKind, JoinCondition, JoinType, TableRef};

impl Parser<'_> {
    /// The names after FROM, JOIN, commas, parentheses, USING and ONLY, whatever they mean.
    pub fn relation_names(mut self) -> Vec<crate::parse::syntax::ObjectName> {
        let mut names = Vec::new();
        while !self.is_end() {
            let leads = self.is_one_of(&["from", "join", "only", "lateral", "table"])
                || self.is_mark(0, ",")
                || self.is_mark(0, "(");
            self.advance();
            if leads {
                let mark = self.mark();
                match self.object_name() {
                    Ok(name) => names.push(name),
                    Err(_) => self.rewind(mark),
                }
            }
        }
        names
    }

    /// The comma list of FROM.
    pub fn table_refs(&mut self) -> Result<Vec<TableRef>> {
        self.list(Self::table_ref)
    }

    /// An item of FROM with the joins after it.
    pub fn table_ref(&mut self) -> Result<TableRef> {
        self.nested(|parser| {
            let mut left = parser.table_primary()?;
            let mut joins = 0;
            loop {
                let at = parser.position();
                let Some((kind, natural)) = parser.join_kind()? else { return Ok(left) };
                joins += 1;
                if joins > crate::parse::NESTING_MAX {
                    return Err(parser.too_deep());
                }
                let right = if kind == JoinType::Cross || natural {
                    parser.table_primary()?
                } else {
                    // `a JOIN b JOIN c ON … ON …`: the right side may itself be a join.
                    parser.table_ref_before_condition()?
                };
                let condition = match kind {
                    JoinType::Cross => JoinCondition::None,
                    _ if natural => JoinCondition::Natural(parser.last_end()),
                    _ => parser.join_condition()?,
                };
                let (left_side, right) = (Box::new(left), Box::new(right));
                left = TableRef::Join { left: left_side, right, kind, condition, alias: None, at };
            }
        })
    }

    /// The right side of a join: a primary, with joins of its own if their conditions are first.
    fn table_ref_before_condition(&mut self) -> Result<TableRef> {
        let primary = self.table_primary()?;
        if self.is_one_of(&["on", "using"]) {
            return Ok(primary);
        }
        self.nested(|parser| {
            let at = parser.position();
            let Some((kind, natural)) = parser.join_kind()? else { return Err(parser.unexpected()) };
            if kind == JoinType::Cross || natural {
                return Err(parser.unexpected());
            }
            let right = Box::new(parser.table_ref_before_condition()?);
            let condition = parser.join_condition()?;
            Ok(TableRef::Join { left: Box::new(primary), right, kind, condition, alias: None, at })
        })
    }

    fn join_kind(&mut self) -> Result<Option<(JoinType, bool)>> {
        if self.accept_words(&["cross", "join"]) {
            return Ok(Some((JoinType::Cross, false)));
        }
        let natural = self.accept("natural");
        let kind = match () {
            () if self.accept("inner") => JoinType::Inner,
            () if self.is_word(0, "join") => JoinType::Inner,
            () if self.accept("left") => JoinType::Left,
            () if self.accept("right") => JoinType::Right,
            () if self.accept("full") => JoinType::Full,
            () if natural => return Err(self.unexpected()),
            () => return Ok(None),
        };
        if kind != JoinType::Inner {
            self.accept("outer");
        }
        self.expect("join")?;
        Ok(Some((kind, natural)))
    }

    fn join_condition(&mut self) -> Result<JoinCondition> {
        if self.accept("using") {
            let columns = self.names_in_parentheses()?;
            let alias = if self.accept("as") { Some(self.name()?) } else { None };
            return Ok(JoinCondition::Using(columns, alias));
        }
        self.expect("on")?;
        Ok(JoinCondition::On(self.expression()?))
    }

    fn table_primary(&mut self) -> Result<TableRef> {
        let at = self.position();
        let lateral = self.accept("lateral");
        if self.is_mark(0, "(") {
            return self.parenthesis_in_from(lateral, at);
        }
        if self.is_word(0, "rows") && self.is_word(1, "from") {
            return self.rows_from(lateral, at);
        }
        let mark = self.mark();
        if let Some(call) = self.function_in_from()? {
            return self.function_tail(vec![(call, Vec::new())], lateral, at);
        }
        self.rewind(mark);
        if lateral {
            return Err(self.unexpected());
        }
        let only = self.accept("only");
        let parentheses = only && self.accept_mark("(");
        self.refer(Reference::Relation);
        let name = self.object_name()?;
        if parentheses {
            self.expect_mark(")")?;
        }
        self.accept_operator("*");
        let alias = self.alias()?;
        if self.is_word(0, "tablesample") {
            return self.sampled(name, alias);
        }
        Ok(TableRef::Table { name, alias })
    }

    /// A query, or a join, in parentheses.
    fn parenthesis_in_from(&mut self, lateral: bool, at: At) -> Result<TableRef> {
        if self.starts_query_in_parentheses() {
            let query = Box::new(self.query_in_parentheses()?);
            let alias = self.alias()?;
            return Ok(TableRef::Query { query, alias, lateral, at });
        }
        self.expect_mark("(")?;
        let mut inner = self.table_ref()?;
        self.expect_mark(")")?;
        match &mut inner {
            TableRef::Join { alias, .. } => *alias = self.alias()?,
            _ => return Err(self.unexpected()),
        }
        Ok(inner)
    }

    /// A function call, also one that SQL spells without parentheses.
    fn function_in_from(&mut self) -> Result<Option<Call>> {
        let call_follows = self.is_mark(1, "(")
            || self.is_mark(1, ".")
            || self.is_one_of(&[
                "current_date",
                "current_timestamp",
                "current_user",
                "session_user",
                "localtimestamp",
                "current_catalog",
            ]);
        if !call_follows {
            return Ok(None);
        }
        if let Some(special) = self.special_function()? {
            return match special.kind {
                ExprKind::Call(call) => Ok(Some(*call)),
                _ => Err(self.unexpected()),
            };
        }
        self.function_call()
    }

    fn rows_from(&mut self, lateral: bool, at: At) -> Result<TableRef> {
        self.advance();
        self.advance();
        let calls = self.in_parentheses(|parser| {
            let call = parser.function_in_from()?.ok_or_else(|| parser.unexpected())?;
            let columns = if parser.accept("as") { parser.function_columns()? } else { Vec::new() };
            Ok((call, columns))
        })?;
        self.function_tail(calls, lateral, at)
    }

    fn function_tail(
        &mut self,
        calls: Vec<(Call, Vec<ColumnOfFunction>)>,
        lateral: bool,
        at: At,
    ) -> Result<TableRef> {
        let ordinality = self.accept_words(&["with", "ordinality"]);
        let mut columns = Vec::new();
        let mut alias = None;
        if self.is_word(0, "as") && self.is_mark(1, "(") {
            self.advance();
            columns = self.function_columns()?;
        } else {
            let explicit = self.accept("as");
            let name = if explicit { Some(self.name()?) } else { self.alias_name() };
            if let Some(name) = name {
                let mut names = Vec::new();
                if self.is_mark(0, "(") {
                    if self.is_mark(2, ",") || self.is_mark(2, ")") {
                        names = self.names_in_parentheses()?;
                    } else {
                        columns = self.function_columns()?;
                    }
                }
                alias = Some(Alias { name, columns: names });
            }
        }
        Ok(TableRef::Function { calls, ordinality, alias, columns, lateral, at })
    }

    fn function_columns(&mut self) -> Result<Vec<ColumnOfFunction>> {
        self.in_parentheses(|parser| Ok(ColumnOfFunction { name: parser.name()?, ty: parser.type_name()? }))
    }

    /// A name that may follow an item of FROM without AS: anything that may name a table.
    fn alias_name(&mut self) -> Option<crate::parse::syntax::Name> {
        if self.is_one_of(&["set"]) {
            return None;
        }
        self.accept_name()
    }

    /// An alias with names for columns, if one is here.
    fn alias(&mut self) -> Result<Option<Alias>> {
        let name = if self.accept("as") { Some(self.name()?) } else { self.alias_name() };
        let Some(name) = name else { return Ok(None) };
        let columns = if self.is_mark(0, "(") { self.names_in_parentheses()? } else { Vec::new() };
        Ok(Some(Alias { name, columns }))
    }
}
