//! The syntax of DROP and TRUNCATE.

use crate::error::Result;
use crate::parse::parser::Parser;
use crate::parse::syntax::{Drop, ObjectKind, Statement};

impl Parser<'_> {
    /// DROP.
    pub fn drop(&mut self) -> Result<Statement> {
        let at = self.position();
        self.expect("drop")?;
        if self.accept("role") || self.accept("user") || self.accept("group") {
            return self.drop_role();
        }
        if self.accept("owned") {
            return self.drop_owned();
        }
        if self.accept("trigger") {
            return self.change_trigger(true);
        }
        let start = self.position();
        let kind = self.object_kind()?;
        let what = format!("DROP {}", self.text_since(start).to_uppercase());
        if matches!(
            kind,
            ObjectKind::Trigger
                | ObjectKind::Other
                | ObjectKind::Column
                | ObjectKind::Constraint
                | ObjectKind::Database
        ) {
            self.skip_statement();
            return Ok(Statement::Unsupported { what, hint: None, at });
        }
        if matches!(kind, ObjectKind::Function | ObjectKind::Procedure | ObjectKind::Routine) {
            return self.drop_routines(kind);
        }
        let concurrently = self.accept("concurrently");
        let if_exists = self.accept_words(&["if", "exists"]);
        let names = self.list(Self::object_name)?;
        let cascade = self.cascade();
        Ok(Statement::Drop(Drop { kind, names, if_exists, cascade, concurrently }))
    }

    /// TRUNCATE.
    pub fn truncate(&mut self) -> Result<Statement> {
        self.expect("truncate")?;
        self.accept("table");
        let tables = self.list(|parser| {
            parser.accept("only");
            let name = parser.object_name()?;
            parser.accept_operator("*");
            Ok(name)
        })?;
        let restart_identity = self.accept_words(&["restart", "identity"]);
        self.accept_words(&["continue", "identity"]);
        let cascade = self.cascade();
        Ok(Statement::Truncate { tables, restart_identity, cascade })
    }
}
