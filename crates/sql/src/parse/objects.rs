//! CREATE, ALTER and DROP of everything but tables; COMMENT; TRUNCATE.

mod alter;
mod drop;
mod extensions;
mod sequences;
mod views;

use crate::error::Result;
use crate::parse::parser::Parser;
use crate::parse::syntax::{
    AlterRoutine, AttributeDefinition, Comment, CreateIndex, IndexElement, ObjectKind, PersistenceName,
    RoleStatement, RoutineChange, Statement,
};

impl Parser<'_> {
    /// CREATE.
    pub fn create(&mut self) -> Result<Statement> {
        let at = self.position();
        self.expect("create")?;
        let or_replace = self.accept_words(&["or", "replace"]);
        if !self.accept("global") {
            self.accept("local");
        }
        let persistence = match () {
            () if self.accept("temporary") || self.accept("temp") => PersistenceName::Temporary,
            () if self.accept("unlogged") => PersistenceName::Unlogged,
            () => PersistenceName::Permanent,
        };
        match () {
            () if self.accept("table") => self.create_table(persistence),
            () if self.accept("recursive") => {
                self.expect("view")?;
                self.create_view(or_replace, persistence, false, true)
            }
            () if self.accept("view") => self.create_view(or_replace, persistence, false, false),
            () if self.accept_words(&["materialized", "view"]) => {
                self.create_view(or_replace, persistence, true, false)
            }
            () if self.accept("sequence") => self.create_sequence(persistence),
            () if self.accept("unique") => {
                self.expect("index")?;
                self.create_index(true, at)
            }
            () if self.accept("index") => self.create_index(false, at),
            () if self.accept("schema") => self.create_schema(),
            () if self.accept("type") => self.create_type(at),
            () if self.accept("domain") => self.create_domain(),
            () if self.accept("function") => self.create_routine(or_replace, false),
            () if self.accept("procedure") => self.create_routine(or_replace, true),
            () if self.accept("role") || self.accept("group") => self.create_role(false),
            () if self.accept("user") => self.create_role(true),
            () if self.accept("trigger") => self.create_trigger(or_replace, false),
            () if self.accept_words(&["constraint", "trigger"]) => self.create_trigger(or_replace, true),
            () if self.accept("extension") => self.create_extension(),
            () => self.create_unsupported(at),
        }
    }

    fn create_unsupported(&mut self, at: u32) -> Result<Statement> {
        const KINDS: &[(&str, Option<&str>)] = &[
            ("rule", None),
            ("policy", None),
            (
                "database",
                Some(
                    "A server serves one database: start another server on another directory, or let tests use this database.",
                ),
            ),
            ("aggregate", None),
            ("operator", None),
            ("cast", None),
            ("collation", None),
            ("publication", None),
            ("subscription", None),
            ("tablespace", None),
            ("statistics", Some("ANALYZE gathers the statistics that the planner uses.")),
            ("foreign", None),
            ("server", None),
            ("language", None),
            ("text", None),
            ("event", None),
            ("constraint", None),
            ("conversion", None),
            ("access", None),
        ];
        let Some((kind, hint)) = KINDS.iter().find(|(kind, _)| self.is_word(0, kind)) else {
            return Err(self.unexpected());
        };
        self.advance();
        self.skip_statement();
        Ok(Statement::Unsupported { what: format!("CREATE {}", kind.to_uppercase()), hint: *hint, at })
    }

    fn create_index(&mut self, unique: bool, at: u32) -> Result<Statement> {
        let concurrently = self.accept("concurrently");
        let if_not_exists = self.accept_words(&["if", "not", "exists"]);
        let name = if self.is_word(0, "on") { None } else { Some(self.name()?) };
        self.expect("on")?;
        self.accept("only");
        let table = self.object_name()?;
        let method = if self.accept("using") { Some(self.name()?) } else { None };
        let elements = self.in_parentheses(Self::index_element)?;
        let include = if self.accept("include") { self.names_in_parentheses()? } else { Vec::new() };
        let nulls_equal = self.nulls_equal();
        if self.is_word(0, "with") && self.is_mark(1, "(") {
            self.advance();
            self.storage_parameters()?;
        }
        if self.accept("tablespace") {
            self.name()?;
        }
        let filter = if self.accept("where") { Some(self.text_expression(Self::expression)?) } else { None };
        Ok(Statement::CreateIndex(Box::new(CreateIndex {
            name,
            table,
            unique,
            concurrently,
            if_not_exists,
            method,
            elements,
            include,
            filter,
            nulls_equal,
            at,
        })))
    }

    fn index_element(&mut self) -> Result<IndexElement> {
        let expr = if self.accept_mark("(") {
            let expr = self.text_expression(Self::expression)?;
            self.expect_mark(")")?;
            expr
        } else {
            self.text_expression(Self::postfix)?
        };
        if self.accept("collate") {
            self.object_name()?;
        }
        let class =
            if self.is_one_of(&["asc", "desc", "nulls"]) || self.is_mark(0, ",") || self.is_mark(0, ")") {
                None
            } else {
                let class = Some(self.object_name()?);
                if self.is_mark(0, "(") {
                    self.storage_parameters()?;
                }
                class
            };
        let descending = self.accept("desc");
        if !descending {
            self.accept("asc");
        }
        let nulls_first = match () {
            () if self.accept_words(&["nulls", "first"]) => Some(true),
            () if self.accept_words(&["nulls", "last"]) => Some(false),
            () => None,
        };
        Ok(IndexElement { expr, class, descending, nulls_first })
    }

    fn create_type(&mut self, at: u32) -> Result<Statement> {
        let name = self.object_name()?;
        if self.accept_words(&["as", "enum"]) {
            self.expect_mark("(")?;
            let labels = if self.is_mark(0, ")") { Vec::new() } else { self.list(Self::string)? };
            self.expect_mark(")")?;
            return Ok(Statement::CreateEnum { name, labels });
        }
        if self.accept("as") {
            let mut attributes = Vec::new();
            self.expect_mark("(")?;
            if !self.accept_mark(")") {
                attributes = self.list(Self::type_attribute)?;
                self.expect_mark(")")?;
            }
            return Ok(Statement::CreateComposite { name, attributes });
        }
        self.skip_statement();
        let hint = Some("Enums, composite types and domains are supported.");
        Ok(Statement::Unsupported { what: "CREATE TYPE of this kind".to_string(), hint, at })
    }

    /// `name type [COLLATE collation]`: an attribute of a composite type.
    pub(in crate::parse) fn type_attribute(&mut self) -> Result<AttributeDefinition> {
        let (name, ty) = (self.name()?, self.type_name()?);
        let collation = self.accept("collate").then(|| self.object_name()).transpose()?;
        Ok(AttributeDefinition { name, ty, collation })
    }

    fn object_kind(&mut self) -> Result<ObjectKind> {
        let kind = match () {
            () if self.accept("table") => ObjectKind::Table,
            () if self.accept("index") => ObjectKind::Index,
            () if self.accept("view") => ObjectKind::View,
            () if self.accept_words(&["materialized", "view"]) => ObjectKind::MaterializedView,
            () if self.accept("sequence") => ObjectKind::Sequence,
            () if self.accept("schema") => ObjectKind::Schema,
            () if self.accept("type") => ObjectKind::Type,
            () if self.accept("domain") => ObjectKind::Domain,
            () if self.accept("column") => ObjectKind::Column,
            () if self.accept("constraint") => ObjectKind::Constraint,
            () if self.accept("database") => ObjectKind::Database,
            () if self.accept("function") => ObjectKind::Function,
            () if self.accept("procedure") => ObjectKind::Procedure,
            () if self.accept("routine") => ObjectKind::Routine,
            () if self.accept("trigger") => ObjectKind::Trigger,
            () if self.accept("extension") => ObjectKind::Extension,
            () if self.is_one_of(&[
                "rule",
                "policy",
                "aggregate",
                "collation",
                "cast",
                "operator",
                "language",
                "publication",
                "subscription",
                "server",
                "statistics",
            ]) =>
            {
                self.advance();
                ObjectKind::Other
            }
            () => return Err(self.unexpected()),
        };
        Ok(kind)
    }

    /// COMMENT ON.
    pub fn comment(&mut self) -> Result<Statement> {
        let at = self.position();
        self.expect_words(&["comment", "on"])?;
        if self.accept("role") {
            let name = self.role_name()?;
            self.expect("is")?;
            let text = if self.accept("null") { None } else { Some(self.string()?) };
            return Ok(Statement::Role(Box::new(RoleStatement::Comment { name, text })));
        }
        let kind = self.object_kind()?;
        if kind == ObjectKind::Other {
            self.skip_statement();
            return Ok(Statement::Unsupported {
                what: "COMMENT on such an object".to_string(),
                hint: None,
                at,
            });
        }
        if matches!(kind, ObjectKind::Function | ObjectKind::Procedure | ObjectKind::Routine) {
            let name = self.routine_name()?;
            self.expect("is")?;
            let text = if self.accept("null") { None } else { Some(self.string()?) };
            let change = RoutineChange::Comment(text);
            return Ok(Statement::AlterRoutine(Box::new(AlterRoutine { kind, name, change })));
        }
        let name = self.object_name()?;
        let (mut on, mut on_domain) = (None, false);
        if matches!(kind, ObjectKind::Constraint | ObjectKind::Trigger) {
            self.expect("on")?;
            on_domain = kind == ObjectKind::Constraint && self.accept("domain");
            on = Some(self.object_name()?);
        }
        self.expect("is")?;
        let text = if self.accept("null") { None } else { Some(self.string()?) };
        Ok(Statement::Comment(Comment { kind, name, on, on_domain, text }))
    }
}
