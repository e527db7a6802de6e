//! The syntax of ALTER TABLE.

use crate::error::Result;
use crate::parse::parser::Parser;
use crate::parse::syntax::{
    AlterAction, AlterTable, ColumnConstraintKind, ColumnSetting, Name, ObjectKind, PersistenceName,
    Statement, TargetKind,
};
use crate::parse::tables::option_texts;

impl Parser<'_> {
    /// ALTER TABLE, after TABLE.
    pub fn alter_table(&mut self) -> Result<Statement> {
        let if_exists = self.accept_words(&["if", "exists"]);
        self.accept("only");
        let name = self.object_name()?;
        self.accept_operator("*");
        if let Some(statement) = self.owner_to(TargetKind::Table, &name, if_exists, "ALTER TABLE")? {
            return Ok(statement);
        }
        let actions = self.list(Self::alter_action)?;
        let kind = ObjectKind::Table;
        Ok(Statement::AlterTable(Box::new(AlterTable { kind, name, if_exists, actions })))
    }

    /// The actions of ALTER INDEX and ALTER MATERIALIZED VIEW.
    pub(in crate::parse) fn other_actions(&mut self, kind: ObjectKind) -> Result<Vec<AlterAction>> {
        self.list(|parser| {
            if kind != ObjectKind::Index || !parser.accept("alter") {
                return parser.alter_action();
            }
            parser.accept("column");
            parser.signed_integer()?;
            parser.expect_words(&["set", "statistics"])?;
            parser.signed_integer()?;
            Ok(AlterAction::Ignored)
        })
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
                let resets = self.is_word(0, "reset");
                self.advance();
                Ok(AlterAction::Parameters { resets, parameters: self.parameters()? })
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
            () if self.is_words(&["enable", "trigger"]) || self.is_words(&["disable", "trigger"]) => {
                let is_enabled = self.accept("enable") || !self.accept("disable");
                self.expect("trigger")?;
                let is_all = self.accept("all") || self.accept("user");
                let name = if is_all { None } else { Some(self.name()?) };
                Ok(AlterAction::EnableTrigger { name, is_enabled })
            }
            () if self.is_one_of(&["enable", "disable", "force", "no"]) => {
                Err(self.refused("row security, rules and triggers of replicas are not supported"))
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
                let target = self.signed_integer()?.clamp(-1, 10_000) as i32;
                Ok(AlterAction::ColumnSetting { column, setting: ColumnSetting::Statistics(target) })
            }
            () if self.accept_words(&["set", "storage"]) => {
                let setting = ColumnSetting::Storage(self.label()?.text);
                Ok(AlterAction::ColumnSetting { column, setting })
            }
            () if self.accept_words(&["set", "compression"]) => {
                let setting = ColumnSetting::Compression(self.label()?.text);
                Ok(AlterAction::ColumnSetting { column, setting })
            }
            () if self.is_one_of(&["set", "reset"]) && self.is_mark(1, "(") => {
                let is_reset = !self.accept("set");
                if is_reset {
                    self.advance();
                }
                let options = option_texts(&self.parameters()?);
                let setting = ColumnSetting::Options { options, is_reset };
                Ok(AlterAction::ColumnSetting { column, setting })
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
