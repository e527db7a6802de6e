//! CREATE TABLE and ALTER TABLE.

use crate::error::{Result, SqlState};
use crate::parse::lexer::TokenKind;
use crate::parse::parser::Parser;
use crate::parse::syntax::{
    AlterAction, AlterTable, ColumnConstraint, ColumnConstraintKind, ColumnDefinition, CreateTable,
    CreateTableAs, LikeClause, Name, OnCommit, PersistenceName, Reference, ReferenceAction, Statement,
    TableConstraint, TableConstraintKind, TargetKind, TextExpr, Timing,
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

    /// CREATE TABLE, behind TABLE.
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
        };
        self.expect_mark("(")?;
        if !self.is_mark(0, ")") {
            self.list(|parser| parser.table_element(&mut table))?;
        }
        self.expect_mark(")")?;
        if self.is_word(0, "inherits") || self.is_word(0, "partition") {
            return Err(self.refused("table inheritance and partitions are not supported"));
        }
        table.on_commit = self.table_options()?;
        Ok(Statement::CreateTable(Box::new(table)))
    }

    pub fn refused(&self, message: &str) -> crate::error::SqlError {
        self.error(self.position(), SqlState::FEATURE_NOT_SUPPORTED, message)
    }

    /// Whether names in parentheses follow and then AS: `CREATE TABLE t (a, b) AS SELECT …`.
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
        let on_commit = self.table_options()?;
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
    fn table_options(&mut self) -> Result<OnCommit> {
        let mut on_commit = OnCommit::PreserveRows;
        loop {
            match () {
                () if self.is_word(0, "with") && self.is_mark(1, "(") => {
                    self.advance();
                    self.storage_parameters()?;
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
                () => return Ok(on_commit),
            }
        }
    }

    /// `(name = value, …)`: accepted without effect.
    pub fn storage_parameters(&mut self) -> Result<()> {
        self.in_parentheses(|parser| {
            parser.label()?;
            while parser.accept_mark(".") {
                parser.label()?;
            }
            if parser.accept_operator("=") {
                match parser.peek(0) {
                    TokenKind::Mark(_) | TokenKind::End => return Err(parser.unexpected()),
                    TokenKind::Operator(_) => {
                        parser.signed_integer()?;
                    }
                    _ => parser.advance(),
                }
            }
            Ok(())
        })?;
        Ok(())
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

    fn starts_table_constraint(&self) -> bool {
        self.is_one_of(&["constraint", "check", "unique", "primary", "foreign"])
            || (self.is_word(0, "exclude") && (self.is_mark(1, "(") || self.is_word(1, "using")))
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

    fn column_constraint(&mut self) -> Result<Option<ColumnConstraint>> {
        let at = self.position();
        let name = if self.accept("constraint") { Some(self.name()?) } else { None };
        let kind = match () {
            () if self.accept_words(&["not", "null"]) => ColumnConstraintKind::NotNull,
            () if self.accept("null") => ColumnConstraintKind::Null,
            () if self.accept("default") => {
                ColumnConstraintKind::Default(self.text_expression(Self::restricted_expression)?)
            }
            () if self.accept("generated") => self.generated()?,
            () if self.accept("check") => {
                let check = self.text_in_parentheses()?;
                self.accept_words(&["no", "inherit"]);
                ColumnConstraintKind::Check(check)
            }
            () if self.accept("unique") => {
                let nulls_equal = self.nulls_equal();
                self.index_parameters()?;
                ColumnConstraintKind::Unique { nulls_equal, timing: self.timing()? }
            }
            () if self.accept_words(&["primary", "key"]) => {
                self.index_parameters()?;
                ColumnConstraintKind::PrimaryKey(self.timing()?)
            }
            () if self.accept("references") => ColumnConstraintKind::References(self.reference()?),
            () if name.is_none() => return Ok(None),
            () => return Err(self.unexpected()),
        };
        self.constraint_attributes()?;
        Ok(Some(ColumnConstraint { name, kind, at }))
    }

    /// `ALWAYS AS (expression) STORED`, `{ALWAYS | BY DEFAULT} AS IDENTITY [(options)]`.
    fn generated(&mut self) -> Result<ColumnConstraintKind> {
        let always = self.accept("always");
        if !always {
            self.expect_words(&["by", "default"])?;
        }
        self.expect("as")?;
        if self.accept("identity") {
            let options = self.sequence_options_in_parentheses()?;
            return Ok(ColumnConstraintKind::Identity { always, options });
        }
        let expr = self.text_in_parentheses()?;
        self.expect("stored")?;
        Ok(ColumnConstraintKind::Generated(expr))
    }

    /// `NULLS [NOT] DISTINCT`: whether NULLs are equal.
    pub fn nulls_equal(&mut self) -> bool {
        let nulls_equal = self.accept_words(&["nulls", "not", "distinct"]);
        if !nulls_equal {
            self.accept_words(&["nulls", "distinct"]);
        }
        nulls_equal
    }

    /// `INCLUDE (…)`, `WITH (…)`, `USING INDEX TABLESPACE x`.
    fn index_parameters(&mut self) -> Result<Vec<Name>> {
        let include = if self.accept("include") { self.names_in_parentheses()? } else { Vec::new() };
        if self.is_word(0, "with") && self.is_mark(1, "(") {
            self.advance();
            self.storage_parameters()?;
        }
        if self.accept_words(&["using", "index", "tablespace"]) {
            self.name()?;
        }
        Ok(include)
    }

    /// DEFERRABLE and its kin behind a unique constraint.
    fn timing(&mut self) -> Result<Timing> {
        let (deferrable, initially_deferred) = self.constraint_attributes()?;
        Ok(Timing { deferrable, initially_deferred })
    }

    /// DEFERRABLE and its kin: whether it may be deferred, and whether it is at first.
    fn constraint_attributes(&mut self) -> Result<(bool, bool)> {
        let (mut deferrable, mut deferred, mut is_refused) = (false, false, false);
        loop {
            if is_refused && deferred {
                let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
                return Err(self.error(self.position(), SqlState::SYNTAX_ERROR, message));
            }
            match () {
                () if self.accept_words(&["not", "deferrable"]) => (deferrable, is_refused) = (false, true),
                () if self.accept("deferrable") => deferrable = true,
                () if self.accept_words(&["initially", "deferred"]) => (deferrable, deferred) = (true, true),
                () if self.accept_words(&["initially", "immediate"]) => deferred = false,
                () => return Ok((deferrable, deferred)),
            }
        }
    }

    /// Behind REFERENCES.
    fn reference(&mut self) -> Result<Reference> {
        let table = self.object_name()?;
        let columns = if self.is_mark(0, "(") { self.names_in_parentheses()? } else { Vec::new() };
        let mut reference = Reference {
            table,
            columns,
            is_full: false,
            on_delete: ReferenceAction::NoAction,
            on_update: ReferenceAction::NoAction,
            deferrable: false,
            initially_deferred: false,
        };
        loop {
            match () {
                () if self.accept("match") => {
                    reference.is_full = self.accept("full");
                    if !reference.is_full && !self.accept("simple") {
                        return Err(self.refused("MATCH PARTIAL is not supported"));
                    }
                }
                () if self.accept_words(&["on", "delete"]) => {
                    reference.on_delete = self.reference_action()?
                }
                () if self.accept_words(&["on", "update"]) => {
                    reference.on_update = self.reference_action()?
                }
                () => break,
            }
        }
        (reference.deferrable, reference.initially_deferred) = self.constraint_attributes()?;
        Ok(reference)
    }

    fn reference_action(&mut self) -> Result<ReferenceAction> {
        let action = match () {
            () if self.accept_words(&["no", "action"]) => ReferenceAction::NoAction,
            () if self.accept("restrict") => ReferenceAction::Restrict,
            () if self.accept("cascade") => ReferenceAction::Cascade,
            () if self.accept_words(&["set", "null"]) => ReferenceAction::SetNull,
            () if self.accept_words(&["set", "default"]) => ReferenceAction::SetDefault,
            () => return Err(self.unexpected()),
        };
        if self.is_mark(0, "(") {
            return Err(self.refused("ON DELETE SET NULL with a list of columns is not supported"));
        }
        Ok(action)
    }

    fn table_constraint(&mut self) -> Result<TableConstraint> {
        let at = self.position();
        let name = if self.accept("constraint") { Some(self.name()?) } else { None };
        let kind = match () {
            () if self.accept("check") => TableConstraintKind::Check(self.text_in_parentheses()?),
            () if self.accept("unique") => self.key_constraint(false)?,
            () if self.accept_words(&["primary", "key"]) => self.key_constraint(true)?,
            () if self.accept_words(&["foreign", "key"]) => {
                let columns = self.names_in_parentheses()?;
                self.expect("references")?;
                TableConstraintKind::ForeignKey { columns, reference: self.reference()? }
            }
            () if self.is_word(0, "exclude") => {
                return Err(self.refused("exclusion constraints are not supported"));
            }
            () => return Err(self.unexpected()),
        };
        self.constraint_attributes()?;
        self.accept_words(&["no", "inherit"]);
        let not_valid = self.accept_words(&["not", "valid"]);
        Ok(TableConstraint { name, kind, not_valid, at })
    }

    fn key_constraint(&mut self, primary: bool) -> Result<TableConstraintKind> {
        if self.accept_words(&["using", "index"]) {
            return Ok(TableConstraintKind::UsingIndex {
                index: self.name()?,
                primary,
                timing: self.timing()?,
            });
        }
        let nulls_equal = !primary && self.nulls_equal();
        let columns = self.names_in_parentheses()?;
        let include = self.index_parameters()?;
        let timing = self.timing()?;
        Ok(if primary {
            TableConstraintKind::PrimaryKey { columns, include, timing }
        } else {
            TableConstraintKind::Unique { columns, include, nulls_equal, timing }
        })
    }

    /// ALTER TABLE, behind TABLE.
    pub fn alter_table(&mut self) -> Result<Statement> {
        let if_exists = self.accept_words(&["if", "exists"]);
        self.accept("only");
        let name = self.object_name()?;
        self.accept_operator("*");
        if let Some(statement) = self.owner_to(TargetKind::Table, &name, if_exists, "ALTER TABLE")? {
            return Ok(statement);
        }
        let actions = self.list(Self::alter_action)?;
        Ok(Statement::AlterTable(Box::new(AlterTable { name, if_exists, actions })))
    }

    fn alter_action(&mut self) -> Result<AlterAction> {
        match () {
            () if self.accept("add") => self.alter_add(),
            () if self.accept("drop") => self.alter_drop(),
            () if self.accept("alter") => self.alter_column(),
            () if self.accept("rename") => self.alter_rename(),
            () if self.accept_words(&["validate", "constraint"]) => {
                Ok(AlterAction::ValidateConstraint(self.name()?))
            }
            () if self.accept_words(&["set", "schema"]) => Ok(AlterAction::SetSchema(self.name()?)),
            () if self.accept_words(&["set", "logged"]) => {
                Ok(AlterAction::SetPersistence(PersistenceName::Permanent))
            }
            () if self.accept_words(&["set", "unlogged"]) => {
                Ok(AlterAction::SetPersistence(PersistenceName::Unlogged))
            }
            () if self.accept_words(&["set", "tablespace"]) => {
                self.label()?;
                Ok(AlterAction::Ignored)
            }
            () if (self.is_word(0, "set") || self.is_word(0, "reset")) && self.is_mark(1, "(") => {
                self.advance();
                self.storage_parameters()?;
                Ok(AlterAction::Ignored)
            }
            () if self.accept_words(&["cluster", "on"]) => {
                self.name()?;
                Ok(AlterAction::Ignored)
            }
            () if self.accept_words(&["set", "without", "cluster"]) => Ok(AlterAction::Ignored),
            () if self.accept_words(&["replica", "identity"]) => {
                self.label()?;
                Ok(AlterAction::Ignored)
            }
            () if self.is_one_of(&["enable", "disable", "force", "no"]) => {
                Err(self.refused("row security, rules and triggers are not supported"))
            }
            () if self.is_one_of(&["attach", "detach", "inherit", "of"]) => {
                Err(self.refused("table partitions and inheritance are not supported"))
            }
            () => Err(self.unexpected()),
        }
    }

    fn alter_add(&mut self) -> Result<AlterAction> {
        if self.starts_table_constraint() {
            return Ok(AlterAction::AddConstraint(self.table_constraint()?));
        }
        self.accept("column");
        let if_not_exists = self.accept_words(&["if", "not", "exists"]);
        Ok(AlterAction::AddColumn { column: self.column_definition()?, if_not_exists })
    }

    fn alter_drop(&mut self) -> Result<AlterAction> {
        let constraint = self.accept("constraint");
        if !constraint {
            self.accept("column");
        }
        let if_exists = self.accept_words(&["if", "exists"]);
        let name = self.name()?;
        let cascade = self.cascade();
        Ok(if constraint {
            AlterAction::DropConstraint { name, if_exists, cascade }
        } else {
            AlterAction::DropColumn { name, if_exists, cascade }
        })
    }

    /// CASCADE (true), RESTRICT or nothing.
    pub fn cascade(&mut self) -> bool {
        let cascade = self.accept("cascade");
        if !cascade {
            self.accept("restrict");
        }
        cascade
    }

    fn alter_column(&mut self) -> Result<AlterAction> {
        if self.accept("constraint") {
            return Ok(AlterAction::AlterConstraint {
                name: self.name()?,
                timing: self.constraint_attributes()?,
            });
        }
        self.accept("column");
        let column = self.name()?;
        match () {
            () if self.accept_words(&["set", "default"]) => {
                let default = self.text_expression(Self::expression)?;
                Ok(AlterAction::SetDefault { column, default: Some(default) })
            }
            () if self.accept_words(&["drop", "default"]) => {
                Ok(AlterAction::SetDefault { column, default: None })
            }
            () if self.accept_words(&["set", "not", "null"]) => {
                Ok(AlterAction::SetNotNull { column, not_null: true })
            }
            () if self.accept_words(&["drop", "not", "null"]) => {
                Ok(AlterAction::SetNotNull { column, not_null: false })
            }
            () if self.accept_words(&["drop", "identity"]) => {
                Ok(AlterAction::DropIdentity { column, if_exists: self.accept_words(&["if", "exists"]) })
            }
            () if self.accept_words(&["drop", "expression"]) => {
                Ok(AlterAction::DropExpression { column, if_exists: self.accept_words(&["if", "exists"]) })
            }
            () if self.accept_words(&["add", "generated"]) => match self.generated()? {
                ColumnConstraintKind::Identity { always, options } => {
                    Ok(AlterAction::AddIdentity { column, always, options })
                }
                _ => Err(self.unexpected()),
            },
            () if self.accept("type") || self.accept_words(&["set", "data", "type"]) => {
                let ty = self.type_name()?;
                let collation = if self.accept("collate") { Some(self.object_name()?) } else { None };
                let using =
                    self.accept("using").then(|| self.text_expression(Self::expression)).transpose()?;
                Ok(AlterAction::SetType { column, ty, collation, using })
            }
            () if self.accept_words(&["set", "statistics"]) => {
                self.signed_integer()?;
                Ok(AlterAction::Ignored)
            }
            () if self.accept_words(&["set", "storage"]) || self.accept_words(&["set", "compression"]) => {
                self.label()?;
                Ok(AlterAction::Ignored)
            }
            () => self.change_identity(column),
        }
    }

    /// `{SET GENERATED {ALWAYS | BY DEFAULT} | SET option | RESTART [[WITH] value]} …`.
    fn change_identity(&mut self, column: Name) -> Result<AlterAction> {
        let (mut always, mut options) = (None, Vec::new());
        while self.is_one_of(&["set", "restart"]) {
            if self.accept_words(&["set", "generated"]) {
                always = Some(self.accept("always"));
                if always == Some(false) {
                    self.expect_words(&["by", "default"])?;
                }
                continue;
            }
            self.accept("set");
            options.push(self.sequence_option()?.ok_or_else(|| self.unexpected())?);
        }
        if always.is_none() && options.is_empty() {
            return Err(self.unexpected());
        }
        Ok(AlterAction::ChangeIdentity { column, always, options })
    }

    fn alter_rename(&mut self) -> Result<AlterAction> {
        if self.accept("to") {
            return Ok(AlterAction::RenameTable(self.name()?));
        }
        let constraint = self.accept("constraint");
        if !constraint {
            self.accept("column");
        }
        let from = self.name()?;
        self.expect("to")?;
        let to = self.name()?;
        Ok(if constraint {
            AlterAction::RenameConstraint { from, to }
        } else {
            AlterAction::RenameColumn { from, to }
        })
    }
}
