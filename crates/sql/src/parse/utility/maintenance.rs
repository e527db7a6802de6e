//! The syntax of VACUUM, ANALYZE, REINDEX, CLUSTER and their like.

use crate::error::{Result, SqlError, SqlState};
use crate::parse::lexer::TokenKind;
use crate::parse::parser::Parser;
use crate::parse::syntax::{Maintenance, ObjectKind, Reorganize, ReorganizeTarget, Statement};

impl Parser<'_> {
    /// VACUUM, ANALYZE, CHECKPOINT, REINDEX, CLUSTER.
    pub fn maintenance(&mut self, word: &str) -> Result<Statement> {
        self.advance();
        match word {
            "checkpoint" => return Ok(Statement::Checkpoint),
            "reindex" => return self.reindex(),
            "cluster" => return self.cluster(),
            _ => {}
        }
        let mut asked = Maintenance { tables: Vec::new(), analyze: word != "vacuum", verbose: false };
        if self.is_mark(0, "(") {
            self.in_parentheses(|parser| {
                let name = parser.label()?.text;
                let on = match parser.peek(0) {
                    TokenKind::Mark(_) => true,
                    _ => !matches!(parser.one_set_value()?.as_str(), "false" | "off" | "0"),
                };
                asked.analyze |= on && matches!(name.as_str(), "analyze" | "analyse");
                asked.verbose |= on && name == "verbose";
                Ok(())
            })?;
        }
        while self.is_one_of(&["full", "freeze", "verbose", "analyze", "analyse"]) {
            asked.analyze |= self.is_one_of(&["analyze", "analyse"]);
            asked.verbose |= self.is_one_of(&["verbose"]);
            self.advance();
        }
        if !self.is_end() && !self.is_mark(0, ";") {
            asked.tables = self.list(|parser| {
                let name = parser.object_name()?;
                if !parser.is_mark(0, "(") {
                    return Ok((name, Vec::new()));
                }
                if !asked.analyze {
                    let message = "ANALYZE option must be specified when a column list is provided";
                    return Err(SqlError::unsupported(message));
                }
                Ok((name, parser.names_in_parentheses()?))
            })?;
        }
        Ok(if word == "vacuum" { Statement::Vacuum(asked) } else { Statement::Analyze(asked) })
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
}
