//! CREATE DOMAIN and ALTER DOMAIN.
//!
//! # Invariants
//! - Statements find a domain's rules by its oid when they are planned, so a change takes effect with the catalog that
//!   holds it. A rule is added only if the stored values meet it.
//! - A domain over a domain names the one beneath: its rules hold, too, and change with it.

use std::sync::Arc;

use heddledb::TableChange;

use crate::bind::{Binder, Checks, Clause};
use crate::catalog::rights::RightsKind;
use crate::catalog::store::Object;
use crate::catalog::{Check, Column, Domain, Table, UserType};
use crate::ddl::create_table::{free_name, refuse_subquery};
use crate::ddl::qualified;
use crate::ddl::renamed_names::{rename_in_texts, renaming_of_type};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{AlterDomain, CreateDomain, DomainChange, Expr, Name, ObjectName, TextExpr};
use crate::parse::{parse_expression, quote_identifier};
use crate::session::{Connection, Severity};
use crate::types::{Modifier, Type};

const TAG: &str = "ALTER DOMAIN";

impl Connection {
    pub(crate) fn create_domain(&mut self, create: &CreateDomain, text: &str) -> Result<&'static str> {
        let mut catalog = self.catalog_to_change();
        let schema = self.schema_for(&create.name, false)?;
        self.type_is_free(&schema, create.name.last())?;
        let named = self.with_binder(text, |binder| binder.named_type(&create.ty))?;
        self.check_type_usage(&named)?;
        let base = named.domain.as_deref();
        let mut checks: Vec<Check> = Vec::new();
        for (name, condition) in &create.checks {
            let check = self.domain_check(create.name.last(), named.ty, &checks, (name, condition), text)?;
            checks.push(check);
        }
        let default = create.default.as_ref();
        let default = default
            .map(|it| self.domain_default(create.name.last(), (named.ty, named.modifier), it, text))
            .transpose()?;
        let domain = Domain {
            oid: catalog.new_oid(),
            schema: schema.clone(),
            name: create.name.last().to_string(),
            ty: named.ty,
            modifier: named.modifier,
            default: default.or_else(|| base.and_then(|base| base.default.clone())),
            not_null: create.not_null,
            checks,
            base: base.map(|base| base.oid),
            comment: None,
            rights: self.new_rights(RightsKind::Type, &schema),
        };
        catalog.put_type(UserType::Domain(Arc::new(domain.clone())));
        self.publish(&[Object::Domain(domain)], catalog)?;
        Ok("CREATE DOMAIN")
    }

    /// A new check of a domain, under a name that the others leave free.
    fn domain_check(
        &mut self,
        domain: &str,
        ty: Type,
        others: &[Check],
        (name, condition): (&Option<Name>, &TextExpr),
        text: &str,
    ) -> Result<Check> {
        let is_taken = |name: &str| others.iter().any(|check| check.name == name);
        let name = match name {
            Some(name) if is_taken(&name.text) => {
                let message = format!("constraint \"{}\" for domain \"{domain}\" already exists", name.text);
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
            }
            Some(name) => name.text.clone(),
            None => free_name(domain, "", "check", is_taken),
        };
        let bind = |binder: &mut Binder<'_>, expr: &Expr| {
            binder.detached(|binder| {
                binder.add_value(ty);
                binder.clause_condition(expr, Clause::Check)
            })
        };
        let bound = self.with_binder(text, |binder| bind(binder, &condition.expr))?;
        refuse_subquery(&bound, "check constraint")?;
        let stored = parse_expression(&condition.text)?;
        let condition = self.definition_text(&condition.text, |binder| bind(binder, &stored).map(|_| ()))?;
        Ok(Check { name, condition, comment: None })
    }

    /// The text of a domain's default, whose value its type must take.
    fn domain_default(
        &mut self,
        domain: &str,
        (ty, modifier): (Type, Modifier),
        default: &TextExpr,
        text: &str,
    ) -> Result<String> {
        let bind = |binder: &mut Binder<'_>, expr: &Expr| {
            binder.detached(|binder| {
                let bound = binder.in_clause(Clause::Default, |binder| binder.expr(expr))?;
                binder.assigned(bound, ty, modifier, domain, 0)
            })
        };
        self.with_binder(text, |binder| bind(binder, &default.expr))?;
        let stored = parse_expression(&default.text)?;
        self.definition_text(&default.text, |binder| bind(binder, &stored).map(|_| ()))
    }

    /// The domain of this name, which the current role owns.
    fn own_domain(&self, name: &ObjectName) -> Result<Arc<Domain>> {
        let environment = self.environment();
        environment.check_usage_of(name)?;
        match environment.catalog.find_type(name.schema(), name.last(), &environment.path()) {
            Some(UserType::Domain(domain)) => {
                self.check_owner(&domain.rights, "domain", &domain.name)?;
                Ok(domain.clone())
            }
            Some(UserType::Enum(_) | UserType::Composite(_)) => {
                let message = format!("\"{name}\" is not a domain");
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            None => {
                let message = format!("type \"{name}\" does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
            }
        }
    }

    /// Puts a changed domain in the place of the one that was there.
    fn replace_domain(&mut self, before: &Domain, changed: Domain) -> Result<()> {
        let mut catalog = self.catalog_to_change();
        catalog.remove_type(&before.schema, &before.name);
        catalog.put_type(UserType::Domain(Arc::new(changed.clone())));
        self.publish(&[Object::Domain(changed)], catalog)
    }

    pub(super) fn rename_domain(&mut self, name: &ObjectName, to: &str) -> Result<&'static str> {
        let domain = self.own_domain(name)?;
        self.type_is_free(&domain.schema, to)?;
        let mut catalog = self.catalog_to_change();
        let before = catalog.clone();
        let renaming =
            renaming_of_type(&before, (&domain.schema, &domain.name), (domain.schema.as_str(), to));
        let changed = rename_in_texts(&mut catalog, &renaming);
        self.publish(&changed, catalog)?;
        let domain = self.own_domain(name)?;
        self.replace_domain(&domain, Domain { name: to.to_string(), ..domain.as_ref().clone() })?;
        Ok(TAG)
    }

    pub(super) fn alter_domain(&mut self, alter: &AlterDomain, text: &str) -> Result<&'static str> {
        let domain = self.own_domain(&alter.name)?;
        let mut changed = domain.as_ref().clone();
        match &alter.change {
            DomainChange::Default(default) => {
                let default = default.as_ref();
                changed.default = default
                    .map(|it| self.domain_default(&domain.name, (domain.ty, domain.modifier), it, text))
                    .transpose()?;
            }
            DomainChange::NotNull(not_null) => {
                changed.not_null = *not_null;
                self.change_nulls_of(&domain, *not_null)?;
            }
            DomainChange::AddCheck { name, condition, is_valid } => {
                let check =
                    self.domain_check(&domain.name, domain.ty, &domain.checks, (name, condition), text)?;
                if *is_valid {
                    self.check_stored_values(&domain, &check)?;
                }
                changed.checks.push(check);
            }
            DomainChange::DropConstraint { name, if_exists } => {
                match check_named(&domain, &name.text) {
                    Err(error) if *if_exists => {
                        let message = format!("{}, skipping", error.message());
                        let state = SqlState::SUCCESSFUL_COMPLETION;
                        self.environment_mut().add_notice(Severity::Notice, state, message);
                    }
                    found => _ = changed.checks.remove(found?),
                };
            }
            DomainChange::RenameConstraint { from, to } => {
                let position = check_named(&domain, &from.text)?;
                if check_named(&domain, &to.text).is_ok() {
                    let message =
                        format!("constraint \"{}\" for domain {} already exists", to.text, domain.name);
                    return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                }
                changed.checks[position].name.clone_from(&to.text);
            }
            DomainChange::Validate(name) => {
                let position = check_named(&domain, &name.text)?;
                self.check_stored_values(&domain, &domain.checks[position])?;
            }
        }
        self.replace_domain(&domain, changed)?;
        Ok(TAG)
    }

    /// The columns of a domain and of those over it: their tables and names.
    fn columns_of(&self, domain: &Domain) -> Vec<(Arc<Table>, String)> {
        let catalog = self.current_catalog();
        let is_over = |column: &&Column| {
            let of = column.domain.and_then(|oid| catalog.domain_by_oid(oid));
            of.is_some_and(|of| catalog.domains_of(of).iter().any(|it| it.oid == domain.oid))
        };
        let of_table = |table: &Arc<Table>| -> Vec<(Arc<Table>, String)> {
            let columns = table.visible().iter().filter(is_over);
            columns.map(|column| (table.clone(), column.name.clone())).collect()
        };
        catalog.tables().flat_map(of_table).collect()
    }

    /// An error if a stored value of the domain violates a check.
    fn check_stored_values(&mut self, domain: &Domain, check: &Check) -> Result<()> {
        for (table, column) in self.columns_of(domain) {
            let sql = format!(
                "select 1 from (select {} as value from {}) as stored where not ({}) limit 1",
                quote_identifier(&column),
                qualified(&table),
                check.condition
            );
            if !self.run_own(&sql, Checks::Nothing)?.is_empty() {
                let message = format!(
                    "column \"{column}\" of table \"{}\" contains values that violate the new constraint",
                    table.name
                );
                return Err(SqlError::new(SqlState::CHECK_VIOLATION, message)
                    .with_table(table.schema.clone(), table.name.clone())
                    .with_column(column));
            }
        }
        Ok(())
    }

    /// SET NOT NULL and DROP NOT NULL of a domain for the columns of it, which keep the rule themselves.
    fn change_nulls_of(&mut self, domain: &Domain, not_null: bool) -> Result<()> {
        let columns = self.columns_of(domain);
        if !not_null && domain.not_null && !columns.is_empty() {
            // Columns do not know whether they were declared NOT NULL themselves.
            let message = "DROP NOT NULL of a domain that columns use is not supported";
            return Err(SqlError::unsupported(message).with_hint("Alter the columns."));
        }
        if !not_null {
            return Ok(());
        }
        for (table, column) in columns {
            self.refuse_nulls(&table, &column).map_err(|error| {
                let message = format!("column \"{column}\" of table \"{}\" contains null values", table.name);
                if error.state() == SqlState::NOT_NULL_VIOLATION {
                    SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
                } else {
                    error
                }
            })?;
            self.change_engine(&table, TableChange::new().not_null(column.as_str()), &column)?;
            let current = self.current(table.oid)?;
            self.redefine(&current, |table| {
                let of_domain = table.columns.iter_mut().filter(|known| known.name == column);
                of_domain.for_each(|column| column.not_null = true);
            })?;
        }
        Ok(())
    }
}

/// The position of a domain's check.
fn check_named(domain: &Domain, name: &str) -> Result<usize> {
    domain.checks.iter().position(|check| check.name == name).ok_or_else(|| {
        let message = format!("constraint \"{name}\" of domain \"{}\" does not exist", domain.name);
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    })
}
