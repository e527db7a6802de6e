//! The declarations of a PL/pgSQL block: variables, cursors and rows, and their types.

use std::sync::Arc;

use super::{Compiler, End, syntax};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::TokenKind;
use crate::parse::syntax::RoutineType;
use crate::routine::plpgsql::tree::{RowType, Variable, VariableKind};
use crate::types::Type;

impl<'t> Compiler<'t, '_> {
    /// Hides the block's further names from what has been compiled: a default or a cursor's query sees those before it only.
    fn hide_later_names(&mut self) {
        let label = self.scopes[self.scope].label.clone();
        self.enter(label);
    }

    /// Returns true if a name is declared since the scope around the block.
    fn is_declared(&self, name: &str, outer: usize) -> bool {
        let of = |&scope: &usize| self.scopes[scope].parent.filter(|&parent| parent != outer);
        let mut scopes = std::iter::successors(Some(self.scope), of);
        scopes.any(|scope| self.scopes[scope].names.iter().any(|(known, _)| known == name))
    }

    /// A declaration in a block within this scope; none for an alias.
    pub(super) fn declaration(&mut self, outer: usize) -> Result<Option<usize>> {
        let name = self.parser.label()?.text;
        if self.is_declared(&name, outer) {
            return Err(syntax(format!("duplicate declaration at or near \"{name}\"")));
        }
        if self.parser.accept_words(&["alias", "for"]) {
            let of = match self.parser.peek(0) {
                TokenKind::Parameter(number) => {
                    let name = format!("${number}");
                    self.parser.advance();
                    name
                }
                _ => self.parser.label()?.text,
            };
            let Some((slot, _)) = self.find(&[&of]) else {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("variable \"{of}\" does not exist"),
                ));
            };
            self.scopes[self.scope].names.push((name, slot));
            self.parser.expect_mark(";")?;
            return Ok(None);
        }
        let is_cursor =
            self.parser.is_one_of(&["cursor", "scroll"]) || self.parser.is_words(&["no", "scroll"]);
        if is_cursor {
            return self.cursor_declaration(name).map(Some);
        }
        let is_constant = self.parser.accept("constant");
        let ty = self.parser.routine_type()?;
        let kind = self.variable_kind(&ty)?;
        if self.parser.accept("collate") {
            self.parser.object_name()?;
        }
        let is_not_null = self.parser.accept_words(&["not", "null"]);
        let has_default = self.parser.accept("default")
            || self.parser.accept_mark(":=")
            || self.parser.accept_operator("=");
        let default = if has_default { Some(self.expression(&[End::Mark(";")])?) } else { None };
        self.parser.expect_mark(";")?;
        if is_not_null && default.is_none() {
            let message =
                format!("variable \"{name}\" must have a default value, since it's declared NOT NULL");
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        if has_default {
            self.hide_later_names();
        }
        Ok(Some(self.declare(Variable { name, kind, is_constant, is_not_null, default })))
    }

    /// `[NO SCROLL] CURSOR [(name type, …)] FOR query`.
    fn cursor_declaration(&mut self, name: String) -> Result<usize> {
        self.parser.accept("no");
        self.parser.accept("scroll");
        self.parser.expect("cursor")?;
        let outer = self.enter(None);
        let mut arguments = Vec::new();
        if self.parser.accept_mark("(") {
            loop {
                let argument = self.parser.label()?.text;
                let ty = self.parser.routine_type()?;
                let kind = self.variable_kind(&ty)?;
                arguments.push(self.plain_variable(&argument, kind));
                if !self.parser.accept_mark(",") {
                    break;
                }
            }
            self.parser.expect_mark(")")?;
        }
        if !self.parser.accept("for") {
            self.parser.expect("is")?;
        }
        let query = Some(self.whole_statement(&[End::Mark(";")])?);
        self.parser.expect_mark(";")?;
        self.leave(outer);
        self.hide_later_names();
        Ok(self.plain_variable(&name, VariableKind::Cursor { query, arguments }))
    }

    /// The kind of a variable that is a row of this table or composite type, or a value of this domain over it.
    pub(super) fn row_of_domain(&self, table: Option<u32>, domain: Option<u32>) -> Option<VariableKind> {
        let columns = self.environment.catalog.row_columns(table?)?;
        let mut row = RowType::new(columns);
        row.domain = domain;
        Some(VariableKind::Row(Some(Arc::new(row))))
    }

    /// The kind of a variable of this type.
    fn variable_kind(&mut self, ty: &RoutineType) -> Result<VariableKind> {
        let parts: Vec<&str> = ty.name.name.parts.iter().map(|part| part.text.as_str()).collect();
        if ty.is_copied
            && let Some((slot, used)) = self.find(&parts)
            && used == parts.len()
        {
            return Ok(match &self.variables[slot].kind {
                VariableKind::Value { ty, modifier, domain } => {
                    VariableKind::Value { ty: *ty, modifier: *modifier, domain: *domain }
                }
                VariableKind::Row(columns) => VariableKind::Row(columns.clone()),
                VariableKind::Cursor { .. } => VariableKind::Cursor { query: None, arguments: Vec::new() },
            });
        }
        let resolved = crate::ddl::routine::resolve_type(self.environment, ty)?;
        let table = resolved.row_of.or(resolved.ty.row_relation());
        if let Some(row) = self.row_of_domain(table, resolved.domain) {
            return Ok(row);
        }
        match resolved.ty {
            Type::Record => Ok(VariableKind::Row(None)),
            Type::Refcursor => Ok(VariableKind::Cursor { query: None, arguments: Vec::new() }),
            ty if ty.is_polymorphic()
                || matches!(ty, Type::Void | Type::Trigger | Type::Any | Type::Cstring) =>
            {
                let message = format!("variable has pseudo-type {}", ty.display_name());
                Err(SqlError::unsupported(message))
            }
            ty => Ok(VariableKind::Value { ty, modifier: resolved.modifier, domain: resolved.domain }),
        }
    }
}
