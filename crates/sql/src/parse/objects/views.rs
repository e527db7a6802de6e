//! The syntax of views: CREATE VIEW, materialized and recursive ones, and REFRESH.

use crate::error::{Result, SqlError};
use crate::parse::parser::Parser;
use crate::parse::quote_identifier;
use crate::parse::syntax::{CreateView, Name, ObjectName, PersistenceName, Query, Refresh, Statement};

impl Parser<'_> {
    pub(super) fn create_view(
        &mut self,
        or_replace: bool,
        persistence: PersistenceName,
        materialized: bool,
        recursive: bool,
    ) -> Result<Statement> {
        let if_not_exists = self.accept_words(&["if", "not", "exists"]);
        let name = self.object_name()?;
        let columns = if self.is_mark(0, "(") { self.names_in_parentheses()? } else { Vec::new() };
        if materialized && self.accept("using") {
            self.name()?;
        }
        let mut options = Vec::new();
        if self.is_word(0, "with") && self.is_mark(1, "(") {
            self.advance();
            options = self.parameters()?;
        }
        if materialized && self.accept("tablespace") {
            self.name()?;
        }
        self.expect("as")?;
        let start = self.position();
        let mut query = Box::new(self.query()?);
        let mut text = self.text_since(start).to_string();
        let mut text_at = start;
        if recursive {
            (query, text) = self.recursive_view(&name, &columns, &text)?;
            text_at = 0;
        }
        let mut with_data = true;
        if self.accept("with") {
            match () {
                () if materialized && self.accept("data") => {}
                () if materialized && self.accept_words(&["no", "data"]) => with_data = false,
                () if materialized => return Err(self.unexpected()),
                () => {
                    let option = if self.accept("local") { "local" } else { "cascaded" };
                    if option == "cascaded" {
                        self.accept("cascaded");
                    }
                    self.expect("check")?;
                    self.expect("option")?;
                    options.push(("check_option".to_string(), Some(option.to_string())));
                }
            }
        }
        let temporary = persistence == PersistenceName::Temporary;
        Ok(Statement::CreateView(Box::new(CreateView {
            name,
            or_replace,
            temporary,
            materialized,
            if_not_exists,
            columns,
            options,
            with_data,
            query,
            text,
            text_at,
        })))
    }

    /// The query of CREATE RECURSIVE VIEW as the query that it abbreviates.
    fn recursive_view(
        &self,
        name: &ObjectName,
        columns: &[Name],
        text: &str,
    ) -> Result<(Box<Query>, String)> {
        if columns.is_empty() {
            return Err(self.unexpected());
        }
        let columns: Vec<String> = columns.iter().map(|column| quote_identifier(&column.text)).collect();
        let (name, columns) = (quote_identifier(name.last()), columns.join(", "));
        let text = format!("WITH RECURSIVE {name} ({columns}) AS ({text}) SELECT {columns} FROM {name}");
        let parsed = crate::parse::parse(&text).map_err(SqlError::without_position)?.pop();
        match parsed.map(|parsed| parsed.statement) {
            Some(Statement::Query(query)) => Ok((query, text)),
            _ => Err(self.unexpected()),
        }
    }

    /// REFRESH MATERIALIZED VIEW.
    pub fn refresh(&mut self) -> Result<Statement> {
        self.expect("refresh")?;
        self.expect("materialized")?;
        self.expect("view")?;
        let concurrently = self.accept("concurrently");
        let name = self.object_name()?;
        let mut with_data = true;
        if self.accept("with") {
            with_data = !self.accept("no");
            self.expect("data")?;
        }
        Ok(Statement::Refresh(Refresh { name, concurrently, with_data }))
    }
}
