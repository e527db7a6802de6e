//! Queries: SELECT, VALUES, TABLE, set operations, WITH, ORDER BY, LIMIT, row locks.

use crate::error::{Result, SqlState};
use crate::parse::lexer::TokenKind;
use crate::parse::parser::{Parser, Reference};
use crate::parse::syntax::{
    Cte, DistinctClause, Expr, ExprKind, GroupItem, LockClause, LockStrengthName, LockWaitName, OrderItem,
    Query, QueryBodySyntax, Select, SelectItem, SetOperator, Statement, TableRef, With,
};

/// Words that may follow a select list.
pub(super) const AFTER_SELECT_LIST: [&str; 14] = [
    "from",
    "where",
    "group",
    "having",
    "window",
    "union",
    "intersect",
    "except",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
    "into",
];

impl Parser<'_> {
    /// Returns true if a query begins here, without parentheses.
    pub fn starts_query(&self) -> bool {
        self.is_one_of(&["select", "values", "with"])
            || (self.is_word(0, "table") && !self.is_mark(1, "("))
            || self.starts_query_in_parentheses()
    }

    /// Returns true if a query begins after one or several parentheses, and is not just an operand: `((SELECT 1) + 1)`.
    pub fn starts_query_in_parentheses(&self) -> bool {
        let mut depth = 0;
        while self.is_mark(depth, "(") {
            depth += 1;
        }
        let query = ["select", "values", "with"].iter().any(|word| self.is_word(depth, word))
            || (self.is_word(depth, "table") && depth > 0);
        if depth <= 1 || !query {
            return depth == 1 && query;
        }
        self.query_ends_inner_parentheses(depth)
    }

    /// Returns true if the query continues after a closing parenthesis, or all of its parentheses end.
    fn query_ends_inner_parentheses(&self, depth: usize) -> bool {
        let (mut open, mut ahead) = (depth, depth);
        loop {
            match self.peek(ahead) {
                TokenKind::Mark("(") => open += 1,
                TokenKind::Mark(")") => {
                    open -= 1;
                    if open < depth {
                        break;
                    }
                }
                TokenKind::End => return true,
                _ => {}
            }
            ahead += 1;
        }
        while open > 0 && matches!(self.peek(ahead + 1), TokenKind::Mark(")")) {
            open -= 1;
            ahead += 1;
        }
        match self.peek(ahead + 1) {
            _ if open == 0 => true,
            TokenKind::Word(word) => matches!(
                word.as_ref(),
                "union" | "intersect" | "except" | "order" | "limit" | "offset" | "fetch" | "for"
            ),
            _ => false,
        }
    }

    pub fn query_in_parentheses(&mut self) -> Result<Query> {
        self.expect_mark("(")?;
        let query = self.query()?;
        self.expect_mark(")")?;
        Ok(query)
    }

    /// A query.
    pub fn query(&mut self) -> Result<Query> {
        self.nested(|parser| {
            let with = parser.with()?;
            let mut query = parser.query_after_with()?;
            if with.is_some() {
                query = Self::attach(with, query);
            }
            Ok(query)
        })
    }

    /// Puts a WITH before a query that may have one of its own.
    fn attach(with: Option<With>, mut query: Query) -> Query {
        if query.with.is_none() {
            query.with = with;
            return query;
        }
        let at = query.at;
        let body = QueryBodySyntax::Query(Box::new(query));
        Query { with, ..Query::plain(body, at) }
    }

    fn query_after_with(&mut self) -> Result<Query> {
        let at = self.position();
        let (body, _) = self.set_operations(0)?;
        let mut query = match body {
            QueryBodySyntax::Query(inner) if !self.clause_follows() => return Ok(*inner),
            body => Query::plain(body, at),
        };
        if self.accept_words(&["order", "by"]) {
            query.order_by = self.order_items()?;
        }
        self.limits_and_locks(&mut query)?;
        Ok(query)
    }

    fn clause_follows(&self) -> bool {
        self.is_one_of(&["order", "limit", "offset", "fetch", "for"])
    }

    /// Set operations by precedence climbing: INTERSECT binds tighter. Also how deep the tree leans to the left.
    fn set_operations(&mut self, least: u8) -> Result<(QueryBodySyntax, u32)> {
        let (mut left, mut height) = (self.query_primary()?, 0);
        loop {
            let at = self.position();
            let (operator, level) = match () {
                () if self.is_word(0, "union") => (SetOperator::Union, 1),
                () if self.is_word(0, "except") => (SetOperator::Except, 1),
                () if self.is_word(0, "intersect") => (SetOperator::Intersect, 2),
                () => return Ok((left, height)),
            };
            if level < least {
                return Ok((left, height));
            }
            self.advance();
            let all = self.accept("all");
            if !all {
                self.accept("distinct");
            }
            let (right, right_height) = self.nested(|parser| parser.set_operations(level + 1))?;
            height = height.max(right_height) + 1;
            if height > crate::parse::NESTING_MAX {
                return Err(self.too_deep());
            }
            left = QueryBodySyntax::Set { operator, all, left: Box::new(left), right: Box::new(right), at };
        }
    }

    fn query_primary(&mut self) -> Result<QueryBodySyntax> {
        if self.is_mark(0, "(") {
            let query = self.query_in_parentheses()?;
            return Ok(QueryBodySyntax::Query(Box::new(query)));
        }
        if self.accept("values") {
            let rows = self.list(|parser| parser.in_parentheses(Self::expression))?;
            return Ok(QueryBodySyntax::Values(rows));
        }
        let at = self.position();
        if self.accept("table") {
            self.accept("only");
            self.refer(Reference::Relation);
            let name = self.object_name()?;
            self.accept_operator("*");
            let mut select = Select::empty(at);
            select.targets.push(SelectItem::All(at));
            select.from.push(TableRef::Table { name, alias: None });
            return Ok(QueryBodySyntax::Select(Box::new(select)));
        }
        self.expect("select")?;
        Ok(QueryBodySyntax::Select(Box::new(self.select_after_keyword(at)?)))
    }

    fn select_after_keyword(&mut self, at: u32) -> Result<Select> {
        let mut select = Select::empty(at);
        if self.accept("distinct") {
            select.distinct = if self.accept("on") {
                DistinctClause::On(self.in_parentheses(Self::expression)?)
            } else {
                DistinctClause::All
            };
        } else {
            self.accept("all");
        }
        if !self.ends_select_list() {
            select.targets = self.list(Self::select_item)?;
        }
        if self.accept("into") {
            self.accept("temporary");
            self.accept("table");
            select.into = Some(self.object_name()?);
        }
        if self.accept("from") {
            select.from = self.table_refs()?;
        }
        if self.accept("where") {
            select.filter = Some(self.expression()?);
        }
        if self.accept_words(&["group", "by"]) {
            select.group_distinct = self.accept("distinct");
            if !select.group_distinct {
                self.accept("all");
            }
            select.group_by = self.list(Self::group_item)?;
        }
        if self.accept("having") {
            select.having = Some(self.expression()?);
        }
        if self.accept("window") {
            select.windows = self.list(|parser| {
                let name = parser.name()?;
                parser.expect("as")?;
                Ok((name, parser.window_definition()?))
            })?;
        }
        Ok(select)
    }

    fn ends_select_list(&self) -> bool {
        self.is_end() || self.is_mark(0, ")") || self.is_mark(0, ";") || self.is_one_of(&AFTER_SELECT_LIST)
    }

    /// An item of a target list or of RETURNING.
    pub fn select_item(&mut self) -> Result<SelectItem> {
        let at = self.position();
        if self.accept_operator("*") {
            return Ok(SelectItem::All(at));
        }
        let expr = self.expression()?;
        if self.is_mark(0, ".") && self.is_operator(1, "*") {
            return match expr.kind {
                ExprKind::Column(parts) => {
                    self.advance();
                    self.advance();
                    Ok(SelectItem::AllOf(parts))
                }
                _ => Err(self.unexpected()),
            };
        }
        if let ExprKind::AllFields(operand) = &expr.kind
            && let ExprKind::Column(parts) = &operand.kind
        {
            return Ok(SelectItem::AllOf(parts.clone()));
        }
        let alias = if self.accept("as") { Some(self.label()?) } else { self.bare_label() };
        Ok(SelectItem::Expr { expr, alias })
    }

    fn group_item(&mut self) -> Result<GroupItem> {
        self.nested(|parser| {
            if parser.is_word(0, "rollup") && parser.is_mark(1, "(") {
                parser.advance();
                return Ok(GroupItem::Rollup(parser.in_parentheses(Self::group_item)?));
            }
            if parser.is_word(0, "cube") && parser.is_mark(1, "(") {
                parser.advance();
                return Ok(GroupItem::Cube(parser.in_parentheses(Self::group_item)?));
            }
            if parser.accept_words(&["grouping", "sets"]) {
                return Ok(GroupItem::Sets(parser.in_parentheses(Self::group_item)?));
            }
            if parser.is_mark(0, "(") && parser.is_mark(1, ")") {
                parser.advance();
                parser.advance();
                return Ok(GroupItem::Set(Vec::new()));
            }
            let expr = parser.expression()?;
            if !matches!(expr.kind, ExprKind::Row(_)) || parser.is_named_row(&expr) {
                return Ok(GroupItem::Expr(expr));
            }
            let mut fields = Vec::new();
            parser.add_group_fields(expr, &mut fields);
            Ok(GroupItem::Set(fields))
        })
    }

    /// Returns true if a row is written as `ROW(…)`: that groups by one value, and `(a, b)` by a and b.
    fn is_named_row(&self, expr: &Expr) -> bool {
        !self.text[expr.at as usize..].starts_with('(')
    }

    fn add_group_fields(&self, expr: Expr, fields: &mut Vec<Expr>) {
        if self.is_named_row(&expr) {
            fields.push(expr);
            return;
        }
        match expr.kind {
            ExprKind::Row(parts) => parts.into_iter().for_each(|part| self.add_group_fields(part, fields)),
            _ => fields.push(expr),
        }
    }

    /// The items of an ORDER BY.
    pub fn order_items(&mut self) -> Result<Vec<OrderItem>> {
        self.list(|parser| {
            let expr = parser.expression()?;
            let mut descending = parser.accept("desc");
            if !descending {
                parser.accept("asc");
            }
            if parser.accept("using") {
                descending = match parser.operator_name()?.symbol.as_str() {
                    ">" => true,
                    "<" => false,
                    _ => return Err(parser.unexpected()),
                };
            }
            let mut nulls_first = descending;
            if parser.accept("nulls") {
                nulls_first = parser.accept("first");
                if !nulls_first {
                    parser.expect("last")?;
                }
            }
            Ok(OrderItem { expr, descending, nulls_first })
        })
    }

    /// LIMIT, OFFSET, FETCH, FOR, in any order that PostgreSQL accepts.
    fn limits_and_locks(&mut self, query: &mut Query) -> Result<()> {
        loop {
            let at = self.position();
            if self.accept("limit") {
                if !self.accept("all") {
                    query.limit = Some(self.expression()?);
                }
                if self.is_mark(0, ",") {
                    return Err(self
                        .error(self.position(), SqlState::SYNTAX_ERROR, "LIMIT #,# syntax is not supported")
                        .with_hint("Use separate LIMIT and OFFSET clauses."));
                }
            } else if self.accept("offset") {
                query.offset = Some(self.expression()?);
                if !self.accept("rows") {
                    self.accept("row");
                }
            } else if self.is_word(0, "fetch") && (self.is_word(1, "first") || self.is_word(1, "next")) {
                self.fetch_first(query)?;
            } else if self.accept("for") {
                if self.accept_words(&["read", "only"]) {
                    continue;
                }
                query.locks.push(self.lock_clause(at)?);
            } else {
                return Ok(());
            }
        }
    }

    /// `FETCH FIRST n ROWS ONLY` or WITH TIES.
    fn fetch_first(&mut self, query: &mut Query) -> Result<()> {
        self.advance();
        self.advance();
        let at = self.position();
        let limit = if self.is_one_of(&["row", "rows"]) {
            Expr { kind: ExprKind::Integer("1".to_string()), at, height: 1 }
        } else {
            self.postfix_with_sign()?
        };
        query.limit = Some(limit);
        if !self.accept("row") {
            self.expect("rows")?;
        }
        if self.accept_words(&["with", "ties"]) {
            query.with_ties = true;
            Ok(())
        } else {
            self.expect("only")
        }
    }

    fn postfix_with_sign(&mut self) -> Result<Expr> {
        self.expression_above(super::expressions::level::SIGN)
    }

    fn lock_clause(&mut self, at: u32) -> Result<LockClause> {
        let strength = match () {
            () if self.accept("update") => LockStrengthName::Update,
            () if self.accept_words(&["no", "key", "update"]) => LockStrengthName::NoKeyUpdate,
            () if self.accept("share") => LockStrengthName::Share,
            () if self.accept_words(&["key", "share"]) => LockStrengthName::KeyShare,
            () => return Err(self.unexpected()),
        };
        let of = if self.accept("of") { self.list(Self::name)? } else { Vec::new() };
        let wait = match () {
            () if self.accept("nowait") => LockWaitName::NoWait,
            () if self.accept_words(&["skip", "locked"]) => LockWaitName::SkipLocked,
            () => LockWaitName::Wait,
        };
        Ok(LockClause { strength, of, wait, at })
    }

    /// WITH, if it is here.
    pub fn with(&mut self) -> Result<Option<With>> {
        if !self.accept("with") {
            return Ok(None);
        }
        let recursive = self.accept("recursive");
        let ctes = self.list(|parser| parser.cte(recursive))?;
        Ok(Some(With { recursive, ctes }))
    }

    fn cte(&mut self, recursive: bool) -> Result<Cte> {
        self.refer(Reference::Cte);
        let name = self.name()?;
        let columns = if self.is_mark(0, "(") { self.names_in_parentheses()? } else { Vec::new() };
        self.expect("as")?;
        let materialized = match () {
            () if self.accept("materialized") => Some(true),
            () if self.accept_words(&["not", "materialized"]) => Some(false),
            () => None,
        };
        let start = self.mark();
        self.expect_mark("(")?;
        let statement = self.nested(|parser| {
            if parser.is_one_of(&["insert", "update", "delete", "merge"]) {
                parser.data_statement()
            } else {
                Ok(Statement::Query(Box::new(parser.query()?)))
            }
        })?;
        self.expect_mark(")")?;
        let search = self.search_clause()?;
        let cycle = self.cycle_clause()?;
        let words = if recursive { self.names_since(start) } else { Vec::new() };
        Ok(Cte { name, columns, materialized, statement: Box::new(statement), search, cycle, words })
    }
}

impl Query {
    /// A query of a body alone.
    pub fn plain(body: QueryBodySyntax, at: u32) -> Query {
        Query {
            with: None,
            body,
            order_by: Vec::new(),
            limit: None,
            with_ties: false,
            offset: None,
            locks: Vec::new(),
            at,
        }
    }
}

impl Select {
    /// A SELECT without any clause.
    pub fn empty(at: u32) -> Select {
        Select {
            distinct: DistinctClause::No,
            targets: Vec::new(),
            into: None,
            from: Vec::new(),
            filter: None,
            group_by: Vec::new(),
            group_distinct: false,
            having: None,
            windows: Vec::new(),
            at,
        }
    }
}
