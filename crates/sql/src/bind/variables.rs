//! Variables of routines, as statements inside their bodies name them.
//!
//! A variable becomes a parameter of the statement; the binder notes the variable of each parameter.
//!
//! Source: PostgreSQL 15, `pl_comp.c` (`resolve_column_ref`, `plpgsql_post_column_ref`).

use crate::bind::binder::Binder;
use crate::bind::tree::BoundExpr;
use crate::error::{Result, SqlState};
use crate::parse::syntax::{At, Name};
use crate::types::Type;

/// A variable, or a field of a row variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VariableRef {
    /// The variable's number.
    pub slot: usize,
    /// The field's position.
    pub field: Option<usize>,
}

/// The meaning of a name that could be a variable and a column (`#variable_conflict`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameConflict {
    Error,
    Variable,
    Column,
}

/// The variables that a statement may name.
pub(crate) trait Names {
    /// The variable of this name, perhaps qualified, with its type.
    ///
    /// # Errors
    /// 55000 for a field of a row variable that has no fields yet; 42703 for one that it does not have.
    fn find(&self, parts: &[&str]) -> Result<Option<(VariableRef, Type)>>;

    /// The fields of a row variable of this name.
    fn fields(&self, parts: &[&str]) -> Result<Option<Vec<(String, VariableRef, Type)>>>;

    /// The rule for a name that could be a variable and a column.
    fn conflict(&self) -> NameConflict;
}

/// The variables that a binder has, and those that were named so far, by the numbers of their parameters.
pub(crate) struct Variables<'a> {
    pub names: &'a dyn Names,
    pub used: Vec<VariableRef>,
}

impl Binder<'_> {
    /// The variable that a name means, if there is one.
    pub fn variable(&mut self, parts: &[Name]) -> Result<Option<BoundExpr>> {
        let Some(variables) = &self.variables else { return Ok(None) };
        let parts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
        let Some((variable, ty)) = variables.names.find(&parts)? else { return Ok(None) };
        Ok(Some(self.use_variable(variable, ty)))
    }

    fn use_variable(&mut self, variable: VariableRef, ty: Type) -> BoundExpr {
        let Some(variables) = &mut self.variables else { return BoundExpr::null(ty) };
        let known = variables.used.iter().position(|used| *used == variable);
        let number = known.unwrap_or(variables.used.len());
        if known.is_none() {
            variables.used.push(variable);
            self.parameters.push(Some(ty));
        }
        BoundExpr::Parameter { number, ty }
    }

    /// The fields of the row variable that `name.*` means, with their names.
    pub fn variable_fields(&mut self, qualifier: &[Name]) -> Result<Option<Vec<(String, BoundExpr)>>> {
        let Some(variables) = &self.variables else { return Ok(None) };
        let parts: Vec<&str> = qualifier.iter().map(|part| part.text.as_str()).collect();
        let Some(fields) = variables.names.fields(&parts)? else { return Ok(None) };
        let field = |(name, variable, ty)| (name, self.use_variable(variable, ty));
        Ok(Some(fields.into_iter().map(field).collect()))
    }

    /// Resolves a name that may be a column's and a variable's.
    pub fn column_or_variable(
        &mut self,
        parts: &[Name],
        at: At,
        is_column: bool,
    ) -> Result<Option<BoundExpr>> {
        let Some(conflict) = self.variables.as_ref().map(|variables| variables.names.conflict()) else {
            return Ok(None);
        };
        if is_column && conflict == NameConflict::Column {
            return Ok(None);
        }
        let variable = match self.variable(parts) {
            // The fields of a row that was not assigned matter only if nothing else is meant.
            Err(_) if is_column => None,
            other => other?,
        };
        match variable {
            Some(_) if is_column && conflict == NameConflict::Error => {
                let names: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
                let message = format!("column reference \"{}\" is ambiguous", names.join("."));
                let detail = "It could refer to either a PL/pgSQL variable or a table column.";
                Err(self.error(at, SqlState::AMBIGUOUS_COLUMN, message).with_detail(detail))
            }
            other => Ok(other),
        }
    }

    /// `$n`: an argument of the routine whose body is bound.
    pub fn numbered_variable(&mut self, number: u32, at: At) -> Result<Option<BoundExpr>> {
        if self.variables.is_none() {
            return Ok(None);
        }
        let name = Name { text: format!("${number}"), at };
        self.variable(&[name])
    }
}
