//! CREATE TABLE and ALTER TABLE.

mod alter;
mod constraints;

use crate::error::{Result, SqlState};
use crate::parse::lexer::TokenKind;
use crate::parse::parser::Parser;
use crate::parse::syntax::{
    ColumnDefinition, CreateTable, CreateTableAs, LikeClause, OnCommit, PersistenceName, Statement, TextExpr,
};

impl Parser<'_> {
    /// An expression together with its text.
    pub fn text_expression(
        &mut self,
        rule: impl FnOnce(&mut Self) -> Result<crate::parse::syntax::Expr>,
    ) -> Result<TextExpr> {
        let start = self.position();
        let expr = rule(self)?;
        Ok(TextExpr { expr, text: self.text_since(start).to_string() })
    }

    fn text_in_parentheses(&mut self) -> Result<TextExpr> {
        self.expect_mark("(")?;
        let expr = self.text_expression(Self::expression)?;
        self.expect_mark(")")?;
        Ok(expr)
    }

    /// CREATE TABLE, after TABLE.
    pub fn create_table(&mut self, persistence: PersistenceName) -> Result<Statement> {
        let if_not_exists = self.accept_words(&["if", "not", "exists"]);
        let name = self.object_name()?;
        if self.is_word(0, "partition") || self.is_word(0, "of") {
            return Err(self.refused("table partitions and typed tables are not supported"));
        }
        let as_query = self.is_word(0, "as") || self.is_one_of(&["with", "on", "tablespace", "using"]);
        if as_query || self.is_names_then_as() {
            return self.create_table_as(name, persistence, if_not_exists);
        }
        let mut table = CreateTable {
            name,
            persistence,
            if_not_exists,
            columns: Vec::new(),
            constraints: Vec::new(),
            likes: Vec::new(),
            on_commit: OnCommit::PreserveRows,
            options: Vec::new(),
        };
        self.expect_mark("(")?;
        if !self.is_mark(0, ")") {
            self.list(|parser| parser.table_element(&mut table))?;
        }
        self.expect_mark(")")?;
        if self.is_word(0, "inherits") || self.is_word(0, "partition") {
            return Err(self.refused("table inheritance and partitions are not supported"));
        }
        (table.on_commit, table.options) = self.table_options()?;
        Ok(Statement::CreateTable(Box::new(table)))
    }

    pub fn refused(&self, message: &str) -> crate::error::SqlError {
        self.error(self.position(), SqlState::FEATURE_NOT_SUPPORTED, message)
    }

    /// Returns true if names in parentheses follow and then AS: `CREATE TABLE t (a, b) AS SELECT …`.
    fn is_names_then_as(&self) -> bool {
        let mut ahead = 0;
        if !self.is_mark(ahead, "(") {
            return false;
        }
        loop {
            ahead += 1;
            if !matches!(self.peek(ahead), TokenKind::Word(_) | TokenKind::Quoted(_)) {
                return false;
            }
            ahead += 1;
            match self.peek(ahead) {
                TokenKind::Mark(",") => {}
                TokenKind::Mark(")") => {
                    return ["as", "with", "on", "without"].iter().any(|word| self.is_word(ahead + 1, word));
                }
                _ => return false,
            }
        }
    }

    fn create_table_as(
        &mut self,
        name: crate::parse::syntax::ObjectName,
        persistence: PersistenceName,
        if_not_exists: bool,
    ) -> Result<Statement> {
        let columns = if self.is_mark(0, "(") { self.names_in_parentheses()? } else { Vec::new() };
        let (on_commit, _) = self.table_options()?;
        self.expect("as")?;
        let query = Box::new(self.query()?);
        let with_data = if self.accept_words(&["with", "no", "data"]) {
            false
        } else {
            self.accept_words(&["with", "data"]);
            true
        };
        Ok(Statement::CreateTableAs(Box::new(CreateTableAs {
            name,
            persistence,
            if_not_exists,
            columns,
            on_commit,
            query,
            with_data,
        })))
    }

    /// `WITH (fillfactor = 100)`, `ON COMMIT …`, `TABLESPACE x`, `USING method`.
    fn table_options(&mut self) -> Result<(OnCommit, Vec<String>)> {
        let (mut on_commit, mut options) = (OnCommit::PreserveRows, Vec::new());
        loop {
            match () {
                () if self.is_word(0, "with") && self.is_mark(1, "(") => {
                    self.advance();
                    options = self.storage_parameters()?;
                }
                () if self.accept_words(&["without", "oids"]) => {}
                () if self.accept_words(&["on", "commit"]) => {
                    on_commit = match () {
                        () if self.accept_words(&["preserve", "rows"]) => OnCommit::PreserveRows,
                        () if self.accept_words(&["delete", "rows"]) => OnCommit::DeleteRows,
                        () if self.accept("drop") => OnCommit::Drop,
                        () => return Err(self.unexpected()),
                    };
                }
                () if self.accept("tablespace") || self.accept("using") => {
                    self.name()?;
                }
                () => return Ok((on_commit, options)),
            }
        }
    }

    /// Storage parameters: they are kept for those that read definitions.
    pub fn storage_parameters(&mut self) -> Result<Vec<String>> {
        let at = self.position();
        let parameters = self.parameters()?;
        match parameters.iter().find(|(name, _)| !is_storage_parameter(name)) {
            Some((name, _)) => {
                let message = format!("unrecognized parameter \"{name}\"");
                Err(self.error(at, SqlState::INVALID_PARAMETER_VALUE, message))
            }
            None => Ok(option_texts(&parameters)),
        }
    }

    /// `(name [= value], …)`: names and values.
    pub fn parameters(&mut self) -> Result<Vec<(String, Option<String>)>> {
        self.in_parentheses(|parser| {
            let mut name = parser.label()?.text;
            while parser.accept_mark(".") {
                name = format!("{name}.{}", parser.label()?.text);
            }
            let value = if parser.accept_operator("=") { Some(parser.one_set_value()?) } else { None };
            Ok((name, value))
        })
    }

    fn table_element(&mut self, table: &mut CreateTable) -> Result<()> {
        if self.accept("like") {
            let position = table.columns.len();
            let name = self.object_name()?;
            let mut including = Vec::new();
            while self.is_one_of(&["including", "excluding"]) {
                let include = self.accept("including");
                if !include {
                    self.advance();
                }
                let what = self.label()?.text;
                if include {
                    including.push(what);
                } else {
                    including.retain(|included| *included != what);
                }
            }
            table.likes.push(LikeClause { table: name, position, including });
            return Ok(());
        }
        if self.starts_table_constraint() {
            table.constraints.push(self.table_constraint()?);
        } else {
            table.columns.push(self.column_definition()?);
        }
        Ok(())
    }

    fn column_definition(&mut self) -> Result<ColumnDefinition> {
        let name = self.name()?;
        let ty = self.type_name()?;
        let mut column = ColumnDefinition { name, ty, collation: None, constraints: Vec::new() };
        loop {
            if self.accept("collate") {
                column.collation = Some(self.object_name()?);
            } else if self.is_one_of(&["compression", "storage"]) {
                self.advance();
                self.label()?;
            } else if let Some(constraint) = self.column_constraint()? {
                column.constraints.push(constraint);
            } else {
                return Ok(column);
            }
        }
    }
}

/// Returns true if a table, an index or a materialized view may have a storage parameter of this name.
pub(crate) fn is_storage_parameter(name: &str) -> bool {
    const NAMES: [&str; 14] = [
        "autosummarize",
        "buffering",
        "deduplicate_items",
        "fastupdate",
        "fillfactor",
        "gin_pending_list_limit",
        "log_autovacuum_min_duration",
        "oids",
        "pages_per_range",
        "parallel_workers",
        "toast_tuple_target",
        "user_catalog_table",
        "vacuum_index_cleanup",
        "vacuum_truncate",
    ];
    NAMES.contains(&name) || name.starts_with("autovacuum_") || name.starts_with("toast.")
}

/// Parameters as the catalogs show them: `fillfactor=70`.
pub(crate) fn option_texts(parameters: &[(String, Option<String>)]) -> Vec<String> {
    let text =
        |(name, value): &(String, Option<String>)| format!("{name}={}", value.as_deref().unwrap_or("true"));
    parameters.iter().map(text).collect()
}
