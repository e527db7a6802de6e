//! GRANT, REVOKE, ALTER DEFAULT PRIVILEGES, OWNER TO, REASSIGN OWNED, DROP OWNED.
//!
//! Source: PostgreSQL 15, `gram.y` (`GrantStmt` and on).

use crate::error::Result;
use crate::parse::parser::Parser;
use crate::parse::syntax::{
    GrantTarget, Name, ObjectKind, ObjectName, PrivilegeChange, PrivilegeStatement, RoleName, Statement,
    TargetKind,
};

/// A privilege with its columns.
type Privilege = (Option<String>, Vec<Name>);

impl Parser<'_> {
    /// GRANT and REVOKE, of privileges and of roles.
    pub fn privilege(&mut self, word: &str) -> Result<Statement> {
        self.advance();
        let grants = word == "grant";
        let admin = !grants && self.accept_words(&["admin", "option", "for"]);
        let option = !grants && self.accept_words(&["grant", "option", "for"]);
        let mark = self.mark();
        let privileges = self.privileges();
        let Ok(privileges) = privileges else {
            self.rewind(mark);
            return self.grant_role(grants, admin);
        };
        if !self.is_word(0, "on") {
            self.rewind(mark);
            return self.grant_role(grants, admin);
        }
        self.advance();
        let Some(on) = self.grant_target()? else {
            self.skip_statement();
            let what = format!("{} on such an object", word.to_uppercase());
            return Ok(Statement::Unsupported { what, hint: None, at: 0 });
        };
        let change = self.grantees(grants, privileges, option)?;
        Ok(Statement::Privilege(Box::new(PrivilegeStatement::Change { change, on })))
    }

    fn privileges(&mut self) -> Result<Vec<Privilege>> {
        if self.accept("all") {
            self.accept("privileges");
            let columns = if self.is_mark(0, "(") { self.names_in_parentheses()? } else { Vec::new() };
            return Ok(vec![(None, columns)]);
        }
        self.list(|parser| {
            let name = parser.label()?.text.to_uppercase();
            let columns = if parser.is_mark(0, "(") { parser.names_in_parentheses()? } else { Vec::new() };
            Ok((Some(name), columns))
        })
    }

    /// The target after ON; `None` for a kind of objects of which there are none.
    fn grant_target(&mut self) -> Result<Option<GrantTarget>> {
        if self.accept("all") {
            let kind = match () {
                () if self.accept("tables") => TargetKind::Table,
                () if self.accept("sequences") => TargetKind::Sequence,
                () if self.is_one_of(&["functions", "procedures", "routines"]) => {
                    self.advance();
                    TargetKind::Routine
                }
                () => return Ok(None),
            };
            self.expect_words(&["in", "schema"])?;
            return Ok(Some(GrantTarget::AllIn(kind, self.list(Self::name)?)));
        }
        let routine = match () {
            () if self.accept("function") => Some(ObjectKind::Function),
            () if self.accept("procedure") => Some(ObjectKind::Procedure),
            () if self.accept("routine") => Some(ObjectKind::Routine),
            () => None,
        };
        if let Some(kind) = routine {
            return Ok(Some(GrantTarget::Routines(kind, self.list(Self::routine_name)?)));
        }
        let kind = match () {
            () if self.accept("table") => TargetKind::Table,
            () if self.accept("sequence") => TargetKind::Sequence,
            () if self.accept("schema") => TargetKind::Schema,
            () if self.accept("database") => TargetKind::Database,
            () if self.accept("type") => TargetKind::Type,
            () if self.accept("domain") => TargetKind::Domain,
            () if self.accept("language") => TargetKind::Language,
            () if self.is_one_of(&["tablespace", "parameter", "foreign"])
                || self.is_words(&["large", "object"]) =>
            {
                return Ok(None);
            }
            () => TargetKind::Table,
        };
        Ok(Some(GrantTarget::Objects(kind, self.list(Self::object_name)?)))
    }

    /// TO or FROM, and what follows.
    fn grantees(
        &mut self,
        grants: bool,
        privileges: Vec<Privilege>,
        option: bool,
    ) -> Result<PrivilegeChange> {
        self.expect(if grants { "to" } else { "from" })?;
        let grantees = self.list(|parser| {
            parser.accept("group");
            parser.role_name()
        })?;
        let option = option || (grants && self.accept_words(&["with", "grant", "option"]));
        let by = self.accept_words(&["granted", "by"]);
        let grantor = if by { Some(self.role_name()?) } else { None };
        let cascade = !grants && self.cascade();
        Ok(PrivilegeChange { grants, privileges, grantees, option, grantor, cascade })
    }

    /// ALTER DEFAULT PRIVILEGES, after these words.
    pub fn default_privileges(&mut self) -> Result<Statement> {
        let (mut roles, mut schemas) = (Vec::new(), Vec::new());
        loop {
            if self.accept_words(&["for", "role"]) || self.accept_words(&["for", "user"]) {
                roles = self.list(Self::role_name)?;
            } else if self.accept_words(&["in", "schema"]) {
                schemas = self.list(Self::name)?;
            } else {
                break;
            }
        }
        let grants = self.accept("grant");
        if !grants {
            self.expect("revoke")?;
        }
        let option = !grants && self.accept_words(&["grant", "option", "for"]);
        let privileges = self.privileges()?;
        self.expect("on")?;
        let kind = match () {
            () if self.accept("tables") => TargetKind::Table,
            () if self.accept("sequences") => TargetKind::Sequence,
            () if self.accept("types") => TargetKind::Type,
            () if self.accept("schemas") => TargetKind::Schema,
            () if self.accept("functions") || self.accept("routines") => TargetKind::Routine,
            () => {
                self.skip_statement();
                let what = "ALTER DEFAULT PRIVILEGES on such objects".to_string();
                return Ok(Statement::Unsupported { what, hint: None, at: 0 });
            }
        };
        let change = self.grantees(grants, privileges, option)?;
        let statement = PrivilegeStatement::Default { roles, schemas, change, kind };
        Ok(Statement::Privilege(Box::new(statement)))
    }

    /// `OWNER TO role`, if it is there.
    pub fn owner_to(
        &mut self,
        kind: TargetKind,
        name: &ObjectName,
        if_exists: bool,
        tag: &'static str,
    ) -> Result<Option<Statement>> {
        if !self.accept_words(&["owner", "to"]) {
            return Ok(None);
        }
        let to = self.role_name()?;
        let statement = PrivilegeStatement::Owner { kind, name: name.clone(), if_exists, to, tag };
        Ok(Some(Statement::Privilege(Box::new(statement))))
    }

    /// REASSIGN OWNED BY.
    pub fn reassign_owned(&mut self) -> Result<Statement> {
        self.expect_words(&["reassign", "owned", "by"])?;
        let from: Vec<RoleName> = self.list(Self::role_name)?;
        self.expect("to")?;
        let to = self.role_name()?;
        Ok(Statement::Privilege(Box::new(PrivilegeStatement::ReassignOwned { from, to })))
    }

    /// DROP OWNED BY, after OWNED.
    pub fn drop_owned(&mut self) -> Result<Statement> {
        self.expect("by")?;
        let by = self.list(Self::role_name)?;
        let cascade = self.cascade();
        Ok(Statement::Privilege(Box::new(PrivilegeStatement::DropOwned { by, cascade })))
    }
}
