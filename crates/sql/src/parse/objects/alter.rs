//! The syntax of ALTER for objects that are neither tables nor sequences, and the choice of an ALTER's statement.

use crate::error::Result;
use crate::parse::parser::Parser;
use crate::parse::syntax::{
    AlterAction, AlterTable, AlterType, AttributeChange, AttributeDefinition, ObjectKind, ObjectName,
    SettingsOf, Statement, TargetKind,
};

impl Parser<'_> {
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
            () if self.accept("system") => self.alter_system(),
            () if self.is_words(&["database"]) => self.alter_database(at),
            () if self.accept("trigger") => self.change_trigger(false),
            () if self.accept("domain") => self.alter_domain(),
            () if self.accept("extension") => self.alter_extension(),
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

    /// ALTER DATABASE: OWNER TO, SET and RESET of settings.
    fn alter_database(&mut self, at: u32) -> Result<Statement> {
        self.advance();
        let name = self.object_name()?;
        if let Some(statement) = self.owner_to(TargetKind::Database, &name, false, "ALTER DATABASE")? {
            return Ok(statement);
        }
        if let ([database], false) = (&name.parts[..], self.is_words(&["set", "tablespace"]))
            && let Some(statement) = self.kept_setting(SettingsOf::Database, Some(database.clone()))?
        {
            return Ok(statement);
        }
        self.skip_statement();
        Ok(Statement::Unsupported { what: "ALTER DATABASE".to_string(), hint: None, at })
    }

    /// `SET SCHEMA name`, if it is there.
    pub(in crate::parse) fn set_schema(
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
            () if self.accept_words(&["rename", "attribute"]) => {
                let from = self.name()?;
                self.expect("to")?;
                let to = self.name()?;
                let cascade = self.cascade();
                AlterType::RenameAttribute { from, to, cascade }
            }
            () if self.is_one_of(&["add", "drop", "alter"]) && self.is_word(1, "attribute") => {
                AlterType::Attributes(self.list(Self::attribute_change)?)
            }
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

    /// One of the changes of attributes that ALTER TYPE lists.
    fn attribute_change(&mut self) -> Result<AttributeChange> {
        Ok(match () {
            () if self.accept_words(&["add", "attribute"]) => {
                let attribute = self.type_attribute()?;
                self.cascade();
                AttributeChange::Add(attribute)
            }
            () if self.accept_words(&["drop", "attribute"]) => {
                let if_exists = self.accept_words(&["if", "exists"]);
                let name = self.name()?;
                self.cascade();
                AttributeChange::Drop { name, if_exists }
            }
            () => {
                self.expect_words(&["alter", "attribute"])?;
                let name = self.name()?;
                self.accept_words(&["set", "data"]);
                self.expect("type")?;
                let ty = self.type_name()?;
                let collation = self.accept("collate").then(|| self.object_name()).transpose()?;
                self.cascade();
                AttributeChange::Alter(AttributeDefinition { name, ty, collation })
            }
        })
    }

    /// ALTER INDEX, VIEW, MATERIALIZED VIEW, SCHEMA: RENAME TO, OWNER TO, SET SCHEMA; actions of ALTER TABLE.
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
            return Ok(Statement::AlterTable(Box::new(AlterTable { kind, name, if_exists, actions })));
        }
        if matches!(kind, ObjectKind::Index | ObjectKind::MaterializedView) {
            let actions = self.other_actions(kind)?;
            return Ok(Statement::AlterTable(Box::new(AlterTable { kind, name, if_exists, actions })));
        }
        if kind == ObjectKind::View
            && (self.is_word(0, "set") || self.is_word(0, "reset"))
            && self.is_mark(1, "(")
        {
            let resets = self.is_word(0, "reset");
            self.advance();
            let actions = vec![AlterAction::Parameters { resets, parameters: self.parameters()? }];
            return Ok(Statement::AlterTable(Box::new(AlterTable { kind, name, if_exists, actions })));
        }
        Err(self.refused(&format!("{tag} of this kind is not supported")))
    }
}
