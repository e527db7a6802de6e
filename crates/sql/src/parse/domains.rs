//! Schemas with their elements, and domains: CREATE SCHEMA, CREATE DOMAIN, ALTER DOMAIN.

use crate::error::Result;
use crate::parse::parser::Parser;
use crate::parse::syntax::{
    AlterDomain, CreateDomain, DomainChange, ObjectKind, RoleName, Statement, TargetKind,
};

impl Parser<'_> {
    /// CREATE SCHEMA, with the statements that create the objects in it.
    pub(super) fn create_schema(&mut self) -> Result<Statement> {
        let if_not_exists = self.accept_words(&["if", "not", "exists"]);
        let own_name = if self.is_word(0, "authorization") { None } else { Some(self.name()?) };
        let owner = if self.accept("authorization") { Some(self.role_name()?) } else { None };
        let name = match (own_name, &owner) {
            (Some(name), _) => Some(name),
            (None, Some(RoleName::Named(name))) => Some(name.clone()),
            _ => None,
        };
        let mut elements = Vec::new();
        while self.is_one_of(&["create", "grant"]) {
            if if_not_exists {
                return Err(self.refused("CREATE SCHEMA IF NOT EXISTS cannot include schema elements"));
            }
            let is_grant = self.is_word(0, "grant");
            let element = if is_grant { self.privilege("grant")? } else { self.create()? };
            let is_element = is_grant
                || matches!(
                    element,
                    Statement::CreateTable(_)
                        | Statement::CreateIndex(_)
                        | Statement::CreateView(_)
                        | Statement::CreateSequence(_)
                        | Statement::CreateTrigger(_)
                );
            if !is_element {
                return Err(self.unexpected());
            }
            elements.push(element);
        }
        Ok(Statement::CreateSchema { name, owner, if_not_exists, elements })
    }

    /// CREATE DOMAIN.
    pub(super) fn create_domain(&mut self) -> Result<Statement> {
        let name = self.object_name()?;
        self.accept("as");
        let ty = self.type_name()?;
        let mut domain = CreateDomain { name, ty, default: None, not_null: false, checks: Vec::new() };
        loop {
            let constraint = if self.accept("constraint") { Some(self.name()?) } else { None };
            match () {
                () if self.accept("collate") => {
                    self.object_name()?;
                }
                () if self.accept("default") => {
                    domain.default = Some(self.text_expression(Self::restricted_expression)?);
                }
                () if self.accept_words(&["not", "null"]) => domain.not_null = true,
                () if self.accept("null") => domain.not_null = false,
                () if self.accept("check") => {
                    self.expect_mark("(")?;
                    domain.checks.push((constraint, self.text_expression(Self::expression)?));
                    self.expect_mark(")")?;
                }
                () if constraint.is_some() => return Err(self.unexpected()),
                () => return Ok(Statement::CreateDomain(Box::new(domain))),
            }
        }
    }

    /// ALTER DOMAIN.
    pub(super) fn alter_domain(&mut self) -> Result<Statement> {
        let name = self.object_name()?;
        if let Some(statement) = self.set_schema(ObjectKind::Domain, &name, false)? {
            return Ok(statement);
        }
        if let Some(statement) = self.owner_to(TargetKind::Domain, &name, false, "ALTER DOMAIN")? {
            return Ok(statement);
        }
        if self.accept_words(&["rename", "to"]) {
            let to = self.name()?;
            return Ok(Statement::Rename { kind: ObjectKind::Domain, name, if_exists: false, to });
        }
        let change = self.domain_change()?;
        Ok(Statement::AlterDomain(Box::new(AlterDomain { name, change })))
    }

    fn domain_change(&mut self) -> Result<DomainChange> {
        Ok(match () {
            () if self.accept_words(&["set", "default"]) => {
                DomainChange::Default(Some(self.text_expression(Self::expression)?))
            }
            () if self.accept_words(&["drop", "default"]) => DomainChange::Default(None),
            () if self.accept_words(&["set", "not", "null"]) => DomainChange::NotNull(true),
            () if self.accept_words(&["drop", "not", "null"]) => DomainChange::NotNull(false),
            () if self.accept("add") => {
                let name = if self.accept("constraint") { Some(self.name()?) } else { None };
                self.expect("check")?;
                self.expect_mark("(")?;
                let condition = self.text_expression(Self::expression)?;
                self.expect_mark(")")?;
                let is_valid = !self.accept_words(&["not", "valid"]);
                DomainChange::AddCheck { name, condition, is_valid }
            }
            () if self.accept_words(&["drop", "constraint"]) => {
                let if_exists = self.accept_words(&["if", "exists"]);
                let name = self.name()?;
                self.cascade();
                DomainChange::DropConstraint { name, if_exists }
            }
            () if self.accept_words(&["rename", "constraint"]) => {
                let from = self.name()?;
                self.expect("to")?;
                DomainChange::RenameConstraint { from, to: self.name()? }
            }
            () if self.accept_words(&["validate", "constraint"]) => DomainChange::Validate(self.name()?),
            () => return Err(self.unexpected()),
        })
    }
}
