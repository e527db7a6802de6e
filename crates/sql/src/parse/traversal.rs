//! SEARCH and CYCLE of recursive queries, and TABLESAMPLE.

use crate::error::{Result, SqlError, SqlState};
use crate::parse::parse_expression;
use crate::parse::parser::Parser;
use crate::parse::syntax::{
    Alias, Call, CallArg, CycleClause, Expr, ExprKind, NOWHERE, Name, ObjectName, Query, QueryBodySyntax,
    SearchClause, Select, SelectItem, TableRef,
};

/// The name of a sampled table in the query that takes the sample.
const SAMPLED: &str = "heddle sampled";

impl Parser<'_> {
    /// `SEARCH DEPTH|BREADTH FIRST BY columns SET column`, if it is here.
    pub(super) fn search_clause(&mut self) -> Result<Option<SearchClause>> {
        let at = self.position();
        if !self.accept("search") {
            return Ok(None);
        }
        let is_breadth = self.accept("breadth");
        if !is_breadth {
            self.expect("depth")?;
        }
        self.expect_words(&["first", "by"])?;
        let columns = self.list(Self::name)?;
        self.expect("set")?;
        Ok(Some(SearchClause { is_breadth, columns, sequence: self.name()?, at }))
    }

    /// `CYCLE columns SET mark [TO value DEFAULT value] USING path`, if it is here.
    pub(super) fn cycle_clause(&mut self) -> Result<Option<CycleClause>> {
        let at = self.position();
        if !self.accept("cycle") {
            return Ok(None);
        }
        let columns = self.list(Self::name)?;
        self.expect("set")?;
        let mark = self.name()?;
        let constant = |kind| Expr { kind, at, height: 1 };
        let mut values = (constant(ExprKind::Bool(true)), constant(ExprKind::Bool(false)));
        if self.accept("to") {
            values.0 = self.expression()?;
            self.expect("default")?;
            values.1 = self.expression()?;
        }
        self.expect("using")?;
        Ok(Some(CycleClause { columns, mark, values, path: self.name()?, at }))
    }

    /// TABLESAMPLE behind a table: a query that takes the sample. Without places of rows, a sample of pages is one of rows.
    pub(super) fn sampled(&mut self, name: ObjectName, alias: Option<Alias>) -> Result<TableRef> {
        let at = self.position();
        self.expect("tablesample")?;
        let method = self.name()?;
        if !matches!(method.text.as_str(), "bernoulli" | "system") {
            let message = format!("tablesample method {} does not exist", method.text);
            return Err(self.error(method.at, SqlState::UNDEFINED_OBJECT, message));
        }
        let arguments = self.in_parentheses(Self::expression)?;
        let count = arguments.len();
        let Ok([percentage]) = <[Expr; 1]>::try_from(arguments) else {
            let message = format!("tablesample method {} requires 1 argument, not {count}", method.text);
            return Err(self.error(method.at, SqlState::INVALID_TABLESAMPLE_ARGUMENT, message));
        };
        let seed = match self.accept("repeatable") {
            true => {
                self.expect_mark("(")?;
                let seed = self.expression()?;
                self.expect_mark(")")?;
                Some(seed)
            }
            false => None,
        };
        sample_query(name, alias, (percentage, seed), at)
    }
}

/// `(SELECT * FROM table WHERE heddle_is_sampled(…)) AS alias`
fn sample_query(
    name: ObjectName,
    alias: Option<Alias>,
    (percentage, seed): (Expr, Option<Expr>),
    at: u32,
) -> Result<TableRef> {
    let own = name.last().to_string();
    let mut filter = parse_expression(match seed {
        Some(_) => "heddle_is_sampled(null, null, \"heddle sampled\")",
        None => "heddle_is_sampled(null)",
    })?;
    let ExprKind::Call(call) = &mut filter.kind else {
        return Err(SqlError::internal("a sample has no condition"));
    };
    set_arguments(call, [Some(percentage), seed]);
    let inner = Alias { name: Name { text: SAMPLED.to_string(), at }, columns: Vec::new() };
    let select = Select {
        targets: vec![SelectItem::All(NOWHERE)],
        from: vec![TableRef::Table { name, alias: Some(inner) }],
        filter: Some(filter),
        ..Select::empty(at)
    };
    let query = Box::new(Query::plain(QueryBodySyntax::Select(Box::new(select)), at));
    let alias = alias.unwrap_or_else(|| Alias { name: Name { text: own, at }, columns: Vec::new() });
    Ok(TableRef::Query { query, alias: Some(alias), lateral: false, at })
}

fn set_arguments(call: &mut Call, values: [Option<Expr>; 2]) {
    let given = |arg: &mut CallArg, value: Option<Expr>| {
        if let Some(value) = value {
            arg.value = value;
        }
    };
    call.args.iter_mut().zip(values).for_each(|(arg, value)| given(arg, value));
}
