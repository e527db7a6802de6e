//! The syntax of constraints: of columns and of tables, with their timing and the tables they refer to.

use crate::error::{Result, SqlState};
use crate::parse::parser::Parser;
use crate::parse::syntax::{
    ColumnConstraint, ColumnConstraintKind, Name, Reference, ReferenceAction, TableConstraint,
    TableConstraintKind, Timing,
};

impl Parser<'_> {
    pub(super) fn starts_table_constraint(&self) -> bool {
        self.is_one_of(&["constraint", "check", "unique", "primary", "foreign"])
            || (self.is_word(0, "exclude") && (self.is_mark(1, "(") || self.is_word(1, "using")))
    }

    pub(super) fn column_constraint(&mut self) -> Result<Option<ColumnConstraint>> {
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
    pub(super) fn generated(&mut self) -> Result<ColumnConstraintKind> {
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

    /// DEFERRABLE and the like after a unique constraint.
    fn timing(&mut self) -> Result<Timing> {
        let (deferrable, initially_deferred) = self.constraint_attributes()?;
        Ok(Timing { deferrable, initially_deferred })
    }

    /// DEFERRABLE and the like: true if it may be deferred, and true if it is at first.
    pub(super) fn constraint_attributes(&mut self) -> Result<(bool, bool)> {
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

    /// The target of a foreign key, after REFERENCES.
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

    pub(super) fn table_constraint(&mut self) -> Result<TableConstraint> {
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
}
