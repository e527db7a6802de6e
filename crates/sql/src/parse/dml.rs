//! INSERT, UPDATE, DELETE, MERGE.

use crate::error::Result;
use crate::parse::parser::{Parser, Reference};
use crate::parse::syntax::{
    Assignment, At, ConflictClause, ConflictTargetSyntax, Delete, Expr, ExprKind, Insert, InsertColumn,
    Merge, MergeActionSyntax, MergeWhen, Name, ObjectName, Query, SelectItem, Statement, Update, With,
};

impl Parser<'_> {
    /// A query or a statement that writes rows, perhaps with WITH before it.
    pub fn data_statement(&mut self) -> Result<Statement> {
        let with = self.with()?;
        if self.accept("insert") {
            return Ok(Statement::Insert(Box::new(self.insert(with)?)));
        }
        if self.accept("update") {
            return Ok(Statement::Update(Box::new(self.update(with)?)));
        }
        if self.accept("delete") {
            return Ok(Statement::Delete(Box::new(self.delete(with)?)));
        }
        if self.accept("merge") {
            return Ok(Statement::Merge(Box::new(self.merge(with)?)));
        }
        let mut query = self.query()?;
        if let Some(with) = with {
            query = match query.with {
                None => Query { with: Some(with), ..query },
                Some(_) => return Err(self.unexpected()),
            };
        }
        Ok(Statement::Query(Box::new(query)))
    }

    fn insert(&mut self, with: Option<With>) -> Result<Insert> {
        self.expect("into")?;
        self.refer(Reference::Relation);
        let table = self.object_name()?;
        let alias = if self.accept("as") { Some(self.name()?) } else { None };
        let mut columns = Vec::new();
        if self.is_mark(0, "(") && !self.starts_query_in_parentheses() {
            columns = self.in_parentheses(|parser| {
                let at = parser.position();
                let name = parser.name()?;
                let part = parser.part_of(&name, at)?;
                Ok(InsertColumn { name, part })
            })?;
        }
        let overriding = self.overriding()?;
        let source =
            if self.accept_words(&["default", "values"]) { None } else { Some(Box::new(self.query()?)) };
        let on_conflict = self.conflict_clause()?;
        let returning = self.returning()?;
        Ok(Insert { with, table, alias, columns, overriding, source, on_conflict, returning })
    }

    fn overriding(&mut self) -> Result<Option<bool>> {
        if !self.accept("overriding") {
            return Ok(None);
        }
        let system = self.accept("system");
        if !system {
            self.expect("user")?;
        }
        self.expect("value")?;
        Ok(Some(system))
    }

    fn conflict_clause(&mut self) -> Result<Option<ConflictClause>> {
        let at = self.position();
        if !self.accept_words(&["on", "conflict"]) {
            return Ok(None);
        }
        let target = if self.accept_words(&["on", "constraint"]) {
            ConflictTargetSyntax::Constraint(self.name()?)
        } else if self.is_mark(0, "(") {
            let columns = self.in_parentheses(|parser| {
                let column = parser.expression()?;
                if let Some(_class) = parser.accept_name() {}
                Ok(column)
            })?;
            let filter = if self.accept("where") { Some(self.expression()?) } else { None };
            ConflictTargetSyntax::Columns(columns, filter)
        } else {
            ConflictTargetSyntax::None
        };
        self.expect("do")?;
        if self.accept("nothing") {
            return Ok(Some(ConflictClause { target, update: None, at }));
        }
        self.expect_words(&["update", "set"])?;
        let sets = self.list(Self::assignment)?;
        let filter = if self.accept("where") { Some(self.expression()?) } else { None };
        Ok(Some(ConflictClause { target, update: Some((sets, filter)), at }))
    }

    fn returning(&mut self) -> Result<Vec<SelectItem>> {
        if self.accept("returning") { self.list(Self::select_item) } else { Ok(Vec::new()) }
    }

    fn assignment(&mut self) -> Result<Assignment> {
        let at = self.position();
        if self.is_mark(0, "(") {
            let columns = self.names_in_parentheses()?;
            self.expect_operator("=")?;
            let value = self.expression()?;
            return Ok(Assignment { columns, row: true, part: None, value, at });
        }
        let column = self.name()?;
        let part = self.part_of(&column, at)?;
        self.expect_operator("=")?;
        let value = self.expression()?;
        Ok(Assignment { columns: vec![column], row: false, part, value, at })
    }

    /// The brackets and fields after a column that is written.
    fn part_of(&mut self, column: &Name, at: At) -> Result<Option<Expr>> {
        let mut part = None;
        loop {
            let whole = || Expr { kind: ExprKind::Column(vec![column.clone()]), at, height: 1 };
            if self.is_mark(0, "[") {
                part = Some(self.subscript(part.unwrap_or_else(whole), at)?);
            } else if self.accept_mark(".") {
                let operand = part.unwrap_or_else(whole);
                let height = operand.height;
                let kind = ExprKind::Field { operand: Box::new(operand), name: self.label()? };
                part = Some(self.above(kind, at, height)?);
            } else {
                return Ok(part);
            }
        }
    }

    /// The table of UPDATE, DELETE, MERGE and its alias.
    fn target(&mut self) -> Result<(ObjectName, Option<Name>)> {
        self.accept("only");
        self.refer(Reference::Relation);
        let table = self.object_name()?;
        self.accept_operator("*");
        let alias = if self.accept("as") {
            Some(self.name()?)
        } else if self.is_one_of(&["set", "using"]) {
            None
        } else {
            self.accept_name()
        };
        Ok((table, alias))
    }

    fn filter(&mut self) -> Result<Option<Expr>> {
        if self.accept("where") { self.expression().map(Some) } else { Ok(None) }
    }

    fn update(&mut self, with: Option<With>) -> Result<Update> {
        let (table, alias) = self.target()?;
        self.expect("set")?;
        let sets = self.list(Self::assignment)?;
        let from = if self.accept("from") { self.table_refs()? } else { Vec::new() };
        let filter = self.filter()?;
        let returning = self.returning()?;
        Ok(Update { with, table, alias, sets, from, filter, returning })
    }

    fn delete(&mut self, with: Option<With>) -> Result<Delete> {
        self.expect("from")?;
        let (table, alias) = self.target()?;
        let using = if self.accept("using") { self.table_refs()? } else { Vec::new() };
        let filter = self.filter()?;
        let returning = self.returning()?;
        Ok(Delete { with, table, alias, using, filter, returning })
    }

    fn merge(&mut self, with: Option<With>) -> Result<Merge> {
        self.expect("into")?;
        let (table, alias) = self.target()?;
        self.expect("using")?;
        let source = self.table_ref()?;
        self.expect("on")?;
        let on = self.expression()?;
        let mut arms = Vec::new();
        while self.is_word(0, "when") {
            arms.push(self.merge_when()?);
        }
        if arms.is_empty() {
            return Err(self.unexpected());
        }
        Ok(Merge { with, table, alias, source, on, arms })
    }

    fn merge_when(&mut self) -> Result<MergeWhen> {
        let at = self.position();
        self.expect("when")?;
        let matched = !self.accept("not");
        self.expect("matched")?;
        let condition = if self.accept("and") { Some(self.expression()?) } else { None };
        self.expect("then")?;
        let action = match () {
            () if self.accept_words(&["do", "nothing"]) => MergeActionSyntax::Nothing,
            () if matched && self.accept("delete") => MergeActionSyntax::Delete,
            () if matched && self.accept_words(&["update", "set"]) => {
                MergeActionSyntax::Update(self.list(Self::assignment)?)
            }
            () if !matched && self.accept("insert") => self.merge_insert()?,
            () => return Err(self.unexpected()),
        };
        Ok(MergeWhen { matched, condition, action, at })
    }

    fn merge_insert(&mut self) -> Result<MergeActionSyntax> {
        let columns = if self.is_mark(0, "(") { self.names_in_parentheses()? } else { Vec::new() };
        let overriding = self.overriding()?;
        let is_plain = columns.is_empty() && overriding.is_none();
        let values = if is_plain && self.accept_words(&["default", "values"]) {
            None
        } else {
            self.expect("values")?;
            Some(self.in_parentheses(Self::expression)?)
        };
        Ok(MergeActionSyntax::Insert { columns, overriding, values })
    }
}
