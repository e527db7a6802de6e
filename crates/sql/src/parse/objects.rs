//! CREATE, ALTER and DROP of everything but tables; COMMENT; TRUNCATE.

use crate::error::{Result, SqlError, SqlState};
use crate::parse::parser::Parser;
use crate::parse::quote_identifier;
use crate::parse::syntax::{
    AlterAction, AlterRoutine, AlterTable, AlterType, Comment, CreateIndex, CreateView, Drop, IndexElement,
    Name, ObjectKind, ObjectName, PersistenceName, Query, Refresh, RoleStatement, RoutineChange,
    SequenceOption, SequenceStatement, Statement, TargetKind,
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
            () if self.accept("trigger") => self.create_trigger(or_replace),
            () => self.create_unsupported(at),
        }
    }

    fn create_unsupported(&mut self, at: u32) -> Result<Statement> {
        const KINDS: &[(&str, Option<&str>)] = &[
            ("rule", None),
            ("extension", None),
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
        // Scripts of Rails and dumps begin with it, and the language is there.
        let is_accepted = *kind == "extension" && self.accept_words(&["if", "not", "exists"]);
        let extension = (*kind == "extension").then(|| self.name()).transpose()?.map(|name| name.text);
        let is_there = extension.as_deref() == Some("plpgsql");
        let hint = extension.map_or(*hint, |name| instead_of_extension(&name));
        self.skip_statement();
        if is_there && is_accepted {
            return Ok(Statement::NoEffect { tag: "CREATE EXTENSION" });
        }
        if is_there {
            let message = "extension \"plpgsql\" already exists";
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        Ok(Statement::Unsupported { what: format!("CREATE {}", kind.to_uppercase()), hint, at })
    }

    fn create_view(
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
        if self.is_word(0, "with") && self.is_mark(1, "(") {
            self.advance();
            self.storage_parameters()?;
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
                () => return Err(self.refused("WITH CHECK OPTION is not supported")),
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
            with_data,
            query,
            text,
            text_at,
        })))
    }

    /// The query of CREATE RECURSIVE VIEW as the one that it stands for.
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

    fn create_sequence(&mut self, persistence: PersistenceName) -> Result<Statement> {
        let tolerant = self.accept_words(&["if", "not", "exists"]);
        let name = self.object_name()?;
        let options = self.sequence_options()?;
        let temporary = persistence == PersistenceName::Temporary;
        Ok(Statement::CreateSequence(Box::new(SequenceStatement { name, tolerant, temporary, options })))
    }

    pub fn sequence_options_in_parentheses(&mut self) -> Result<Vec<SequenceOption>> {
        if !self.accept_mark("(") {
            return Ok(Vec::new());
        }
        let options = self.sequence_options()?;
        self.expect_mark(")")?;
        Ok(options)
    }

    fn sequence_options(&mut self) -> Result<Vec<SequenceOption>> {
        let mut options = Vec::new();
        while let Some(option) = self.sequence_option()? {
            options.push(option);
        }
        Ok(options)
    }

    pub fn sequence_option(&mut self) -> Result<Option<SequenceOption>> {
        let option = match () {
            () if self.accept("as") => SequenceOption::As(self.type_name()?),
            () if self.accept("start") => {
                self.accept("with");
                SequenceOption::Start(self.signed_integer()?)
            }
            () if self.accept("restart") => {
                let number = matches!(
                    self.peek(0),
                    crate::parse::lexer::TokenKind::Integer(_) | crate::parse::lexer::TokenKind::Operator(_)
                );
                let value = if self.accept("with") || number { Some(self.signed_integer()?) } else { None };
                SequenceOption::Restart(value)
            }
            () if self.accept("increment") => {
                self.accept("by");
                SequenceOption::Increment(self.signed_integer()?)
            }
            () if self.accept("minvalue") => SequenceOption::Minimum(Some(self.signed_integer()?)),
            () if self.accept("maxvalue") => SequenceOption::Maximum(Some(self.signed_integer()?)),
            () if self.accept_words(&["no", "minvalue"]) => SequenceOption::Minimum(None),
            () if self.accept_words(&["no", "maxvalue"]) => SequenceOption::Maximum(None),
            () if self.accept_words(&["no", "cycle"]) => SequenceOption::Cycle(false),
            () if self.accept("cycle") => SequenceOption::Cycle(true),
            () if self.accept("cache") => SequenceOption::Cache(self.signed_integer()?),
            () if self.accept_words(&["owned", "by"]) => {
                let owner = if self.accept("none") { None } else { Some(self.object_name()?) };
                SequenceOption::OwnedBy(owner)
            }
            () if self.accept_words(&["sequence", "name"]) => SequenceOption::Name(self.object_name()?),
            () => return Ok(None),
        };
        Ok(Some(option))
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
        self.skip_statement();
        let hint = Some("Enums (CREATE TYPE name AS ENUM) and domains are supported.");
        Ok(Statement::Unsupported { what: "CREATE TYPE of this kind".to_string(), hint, at })
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
        if kind == ObjectKind::Extension && self.is_word(0, "plpgsql") {
            // Dumps of earlier versions of PostgreSQL say what the language is.
            self.skip_statement();
            return Ok(Statement::NoEffect { tag: "COMMENT" });
        }
        if matches!(kind, ObjectKind::Other | ObjectKind::Extension) {
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

    /// ALTER.
    pub fn alter(&mut self) -> Result<Statement> {
        let at = self.position();
        self.expect("alter")?;
        match () {
            () if self.accept("table") => self.alter_table(),
            () if self.accept("sequence") => self.alter_sequence(),
            () if self.accept("type") => self.alter_type(),
            () if self.accept("function") => self.alter_routine(ObjectKind::Function),
            () if self.accept("procedure") => self.alter_routine(ObjectKind::Procedure),
            () if self.accept("routine") => self.alter_routine(ObjectKind::Routine),
            () if self.accept("role") || self.accept("user") || self.accept("group") => self.alter_role(),
            () if self.accept_words(&["default", "privileges"]) => self.default_privileges(),
            () if self.is_words(&["database"]) => self.alter_database(at),
            () if self.accept("trigger") => self.change_trigger(false),
            () if self.accept("domain") => self.alter_domain(),
            () if self.is_one_of(&["index", "view", "schema"])
                || self.is_words(&["materialized", "view"]) =>
            {
                self.alter_other()
            }
            () => {
                let start = self.position();
                self.label()?;
                let what = format!("ALTER {}", self.text_since(start).to_uppercase());
                self.skip_statement();
                Ok(Statement::Unsupported { what, hint: None, at })
            }
        }
    }

    fn alter_sequence(&mut self) -> Result<Statement> {
        let tolerant = self.accept_words(&["if", "exists"]);
        let name = self.object_name()?;
        if self.accept_words(&["rename", "to"]) {
            let to = self.name()?;
            return Ok(Statement::Rename { kind: ObjectKind::Sequence, name, if_exists: tolerant, to });
        }
        if let Some(statement) = self.owner_to(TargetKind::Sequence, &name, tolerant, "ALTER SEQUENCE")? {
            return Ok(statement);
        }
        if let Some(statement) = self.set_schema(ObjectKind::Sequence, &name, tolerant)? {
            return Ok(statement);
        }
        let options = self.sequence_options()?;
        if options.is_empty() {
            return Err(self.unexpected());
        }
        Ok(Statement::AlterSequence(Box::new(SequenceStatement {
            name,
            tolerant,
            temporary: false,
            options,
        })))
    }

    /// ALTER DATABASE: OWNER TO.
    fn alter_database(&mut self, at: u32) -> Result<Statement> {
        self.advance();
        let name = self.object_name()?;
        if let Some(statement) = self.owner_to(TargetKind::Database, &name, false, "ALTER DATABASE")? {
            return Ok(statement);
        }
        self.skip_statement();
        Ok(Statement::Unsupported { what: "ALTER DATABASE".to_string(), hint: None, at })
    }

    /// `SET SCHEMA name`, if it is there.
    pub(super) fn set_schema(
        &mut self,
        kind: ObjectKind,
        name: &ObjectName,
        if_exists: bool,
    ) -> Result<Option<Statement>> {
        if self.accept_words(&["set", "schema"]) {
            let (name, to) = (name.clone(), self.name()?);
            return Ok(Some(Statement::SetSchema { kind, name, if_exists, to }));
        }
        Ok(None)
    }

    fn alter_type(&mut self) -> Result<Statement> {
        let name = self.object_name()?;
        let change = match () {
            () if self.accept_words(&["add", "value"]) => {
                let if_not_exists = self.accept_words(&["if", "not", "exists"]);
                let value = self.string()?;
                let place = match () {
                    () if self.accept("before") => Some((true, self.string()?)),
                    () if self.accept("after") => Some((false, self.string()?)),
                    () => None,
                };
                AlterType::AddValue { value, if_not_exists, place }
            }
            () if self.accept_words(&["rename", "value"]) => {
                let from = self.string()?;
                self.expect("to")?;
                AlterType::RenameValue { from, to: self.string()? }
            }
            () if self.accept_words(&["rename", "to"]) => AlterType::Rename(self.name()?),
            () => {
                if let Some(statement) = self.set_schema(ObjectKind::Type, &name, false)? {
                    return Ok(statement);
                }
                let owner = self.owner_to(TargetKind::Type, &name, false, "ALTER TYPE")?;
                return owner.ok_or_else(|| self.refused("ALTER TYPE of this kind is not supported"));
            }
        };
        Ok(Statement::AlterType { name, change })
    }

    /// ALTER INDEX, VIEW, SCHEMA: RENAME TO, OWNER TO and SET SCHEMA; storage parameters without effect.
    fn alter_other(&mut self) -> Result<Statement> {
        let (kind, target, tag) = match () {
            () if self.accept("index") => (ObjectKind::Index, TargetKind::Index, "ALTER INDEX"),
            () if self.accept("view") => (ObjectKind::View, TargetKind::View, "ALTER VIEW"),
            () if self.accept_words(&["materialized", "view"]) => {
                (ObjectKind::MaterializedView, TargetKind::MaterializedView, "ALTER MATERIALIZED VIEW")
            }
            () if self.accept("schema") => (ObjectKind::Schema, TargetKind::Schema, "ALTER SCHEMA"),
            () => return Err(self.unexpected()),
        };
        let if_exists = self.accept_words(&["if", "exists"]);
        let name = self.object_name()?;
        if self.accept_words(&["rename", "to"]) {
            return Ok(Statement::Rename { kind, name, if_exists, to: self.name()? });
        }
        if let Some(statement) = self.owner_to(target, &name, if_exists, tag)? {
            return Ok(statement);
        }
        if matches!(kind, ObjectKind::View | ObjectKind::MaterializedView)
            && let Some(statement) = self.set_schema(kind, &name, if_exists)?
        {
            return Ok(statement);
        }
        let is_view = matches!(kind, ObjectKind::View | ObjectKind::MaterializedView);
        if is_view && self.accept("rename") {
            self.accept("column");
            let from = self.name()?;
            self.expect("to")?;
            let actions = vec![AlterAction::RenameColumn { from, to: self.name()? }];
            return Ok(Statement::AlterTable(Box::new(AlterTable { name, if_exists, actions })));
        }
        if self.accept("set") && self.is_mark(0, "(") {
            self.storage_parameters()?;
            return Ok(Statement::NoEffect { tag });
        }
        Err(self.refused(&format!("{tag} of this kind is not supported")))
    }
}

/// What there is instead of an extension of PostgreSQL.
fn instead_of_extension(name: &str) -> Option<&'static str> {
    Some(match name {
        "uuid-ossp" => "uuid_generate_v4() and gen_random_uuid() are built in.",
        "pgcrypto" => "gen_random_uuid(), md5() and sha224() to sha512() are built in.",
        "citext" => "Use text, and a unique index on lower(column).",
        "hstore" => "Use jsonb.",
        "pg_stat_statements" => "The view pg_stat_statements is built in.",
        _ => "The functions of common extensions, such as gen_random_uuid(), are built in.",
    })
}
