//! The syntax of sequences and of their options.

use crate::error::Result;
use crate::parse::parser::Parser;
use crate::parse::syntax::{
    ObjectKind, PersistenceName, SequenceOption, SequenceStatement, Statement, TargetKind,
};

impl Parser<'_> {
    pub(super) fn create_sequence(&mut self, persistence: PersistenceName) -> Result<Statement> {
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

    pub(super) fn alter_sequence(&mut self) -> Result<Statement> {
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
}
