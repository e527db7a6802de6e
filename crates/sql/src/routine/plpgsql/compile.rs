//! From the text of a PL/pgSQL body to its tree: blocks, declarations, and the pieces of SQL in them.
//!
//! # Invariants
//! - Every name of a variable is resolved here, but for those inside of SQL, which the binder resolves when a fragment is
//!   planned, in the scope that is noted with it.
//! - Texts of SQL are parsed here, so that mistakes in their grammar show when the routine is created.
//!
//! Source: PostgreSQL 15, `pl_gram.y`, `pl_comp.c`.

mod declarations;
mod fragments;

use crate::bind::NameConflict;
use crate::catalog::Routine;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::Parser;
use crate::routine::plpgsql::conditions;
use crate::routine::plpgsql::tree::{
    Block, Handler, Program, RowType, Scope, Statement, Variable, VariableKind,
};
use crate::session::SessionEnvironment;
use crate::types::{Modifier, Type};

/// A body while it is compiled.
pub(super) struct Compiler<'t, 'e> {
    pub(super) parser: Parser<'t>,
    pub(super) environment: &'e mut SessionEnvironment,
    pub(super) routine: &'e Routine,
    pub(super) variables: Vec<Variable>,
    pub(super) scopes: Vec<Scope>,
    /// The innermost scope.
    pub(super) scope: usize,
}

/// The token that ends a fragment.
#[derive(Clone, Copy)]
pub(super) enum End {
    Word(&'static str),
    Mark(&'static str),
}

fn syntax(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// Compiles a body.
///
/// # Errors
/// 42601 and other errors of class 42.
pub(crate) fn compile(environment: &mut SessionEnvironment, routine: &Routine) -> Result<Program> {
    let mut compiler = Compiler {
        parser: Parser::counted(&routine.body)?,
        environment,
        routine,
        variables: Vec::new(),
        scopes: vec![Scope { parent: None, label: Some(routine.name.clone()), names: Vec::new() }],
        scope: 0,
    };
    let conflict = compiler.options()?;
    let (arguments, inputs) = compiler.arguments();
    let found = compiler.value_variable("found", Type::Bool);
    if routine.result == Type::Trigger {
        compiler.trigger_variables();
    }
    let block = compiler.outer_block()?;
    let Compiler { variables, scopes, environment, .. } = compiler;
    let result = RowType::new(environment.catalog.result_columns(routine));
    let signature = match routine.oid {
        0 => routine.name.clone(),
        _ => routine.signature(|ty| environment.catalog.type_display(ty)),
    };
    Ok(Program { block, variables, scopes, conflict, found, arguments, inputs, result, signature })
}

impl<'t> Compiler<'t, '_> {
    /// `#variable_conflict …` and other options in front of the body.
    fn options(&mut self) -> Result<NameConflict> {
        let mut conflict = NameConflict::Error;
        while self.parser.accept_operator("#") {
            let option = self.parser.label()?.text;
            let value = self.parser.label()?.text;
            match (option.as_str(), value.as_str()) {
                ("variable_conflict", "error") => conflict = NameConflict::Error,
                ("variable_conflict", "use_variable") => conflict = NameConflict::Variable,
                ("variable_conflict", "use_column") => conflict = NameConflict::Column,
                ("print_strict_params", _) => {}
                _ => return Err(self.parser.unexpected()),
            }
        }
        Ok(conflict)
    }

    /// Declares the arguments: the variables of all, and of those that are given values.
    fn arguments(&mut self) -> (Vec<usize>, Vec<usize>) {
        let (mut slots, mut inputs) = (Vec::new(), Vec::new());
        for argument in &self.routine.arguments {
            let table = argument.row_of.or(argument.ty.row_relation());
            let slot = match self.row_of_domain(table, argument.domain) {
                Some(row) => self.plain_variable(&argument.name, row),
                None if argument.domain.is_none() => self.value_variable(&argument.name, argument.ty),
                None => {
                    let (ty, domain) = (argument.ty, argument.domain);
                    let kind = VariableKind::Value { ty, modifier: Modifier::NONE, domain };
                    self.plain_variable(&argument.name, kind)
                }
            };
            if argument.mode.is_input() || self.routine.is_procedure {
                inputs.push(slot);
                self.scopes[0].names.push((format!("${}", inputs.len()), slot));
            }
            slots.push(slot);
        }
        (slots, inputs)
    }

    /// Declares a variable in the innermost scope.
    pub(super) fn declare(&mut self, variable: Variable) -> usize {
        let slot = self.variables.len();
        if !variable.name.is_empty() {
            self.scopes[self.scope].names.push((variable.name.clone(), slot));
        }
        self.variables.push(variable);
        slot
    }

    pub(super) fn value_variable(&mut self, name: &str, ty: Type) -> usize {
        let kind = match ty {
            Type::Refcursor => VariableKind::Cursor { query: None, arguments: Vec::new() },
            ty => VariableKind::Value { ty, modifier: Modifier::NONE, domain: None },
        };
        self.plain_variable(name, kind)
    }

    pub(super) fn plain_variable(&mut self, name: &str, kind: VariableKind) -> usize {
        let name = name.to_string();
        self.declare(Variable { name, kind, is_constant: false, is_not_null: false, default: None })
    }

    fn trigger_variables(&mut self) {
        for name in ["new", "old"] {
            self.plain_variable(name, VariableKind::Row(None));
        }
        for name in
            ["tg_name", "tg_when", "tg_level", "tg_op", "tg_relname", "tg_table_name", "tg_table_schema"]
        {
            self.value_variable(name, Type::Text);
        }
        self.value_variable("tg_relid", Type::Oid);
        self.value_variable("tg_nargs", Type::Int4);
        self.value_variable("tg_argv", Type::array_of(Type::Text));
    }

    /// Opens a scope; the one before, to be restored by [`leave`](Self::leave).
    pub(super) fn enter(&mut self, label: Option<String>) -> usize {
        self.scopes.push(Scope { parent: Some(self.scope), label, names: Vec::new() });
        std::mem::replace(&mut self.scope, self.scopes.len() - 1)
    }

    pub(super) fn leave(&mut self, scope: usize) {
        self.scope = scope;
    }

    /// The variable of this name, perhaps with a label in front; and how many parts name it.
    pub(super) fn find(&self, parts: &[&str]) -> Option<(usize, usize)> {
        find_variable(&self.scopes, self.scope, parts)
    }

    /// The line of a position.
    pub(super) fn line(&self) -> u32 {
        let before = &self.parser.text.as_bytes()[..self.parser.position() as usize];
        before.iter().filter(|&&byte| byte == b'\n').count() as u32 + 1
    }

    fn outer_block(&mut self) -> Result<Block> {
        let label = self.label()?;
        if !self.parser.is_one_of(&["declare", "begin"]) {
            return Err(self.parser.unexpected());
        }
        let block = self.block(label)?;
        self.parser.accept_mark(";");
        self.parser.end_of_text()?;
        Ok(block)
    }

    /// `<<label>>`
    pub(super) fn label(&mut self) -> Result<Option<String>> {
        if !self.parser.accept_operator("<<") {
            return Ok(None);
        }
        let name = self.parser.label()?.text;
        self.parser.expect_operator(">>")?;
        Ok(Some(name))
    }

    /// `[DECLARE …] BEGIN … [EXCEPTION …] END [label]`.
    pub(super) fn block(&mut self, label: Option<String>) -> Result<Block> {
        let outer = self.enter(label.clone());
        let block = crate::stack::grow(|| self.block_in_scope(label, outer));
        self.leave(outer);
        block
    }

    fn block_in_scope(&mut self, label: Option<String>, outer: usize) -> Result<Block> {
        let mut declared = Vec::new();
        while self.parser.accept("declare") {
            while !self.parser.is_one_of(&["begin", "declare"]) {
                declared.extend(self.declaration(outer)?);
            }
        }
        self.parser.expect("begin")?;
        let body = self.statements(&["exception", "end"])?;
        let mut handlers = Vec::new();
        let mut error_variables = None;
        if self.parser.accept("exception") {
            let outer = self.enter(None);
            let state = self.value_variable("sqlstate", Type::Text);
            error_variables = Some((state, self.value_variable("sqlerrm", Type::Text)));
            while self.parser.accept("when") {
                handlers.push(self.handler()?);
            }
            self.leave(outer);
        }
        self.parser.expect("end")?;
        self.end_label(label.as_deref())?;
        Ok(Block { label, declared, body, handlers, error_variables })
    }

    /// The label behind END, which must be the one in front.
    pub(super) fn end_label(&mut self, label: Option<&str>) -> Result<()> {
        if self.parser.is_mark(0, ";") || self.parser.is_end() {
            return Ok(());
        }
        let name = self.parser.label()?;
        match label {
            Some(label) if label == name.text => Ok(()),
            Some(label) => {
                Err(syntax(format!("end label \"{}\" differs from block's label \"{label}\"", name.text)))
            }
            None => Err(syntax(format!("end label \"{}\" specified for unlabeled block", name.text))),
        }
    }

    fn handler(&mut self) -> Result<Handler> {
        let mut conditions = Vec::new();
        loop {
            if self.parser.accept("sqlstate") {
                let text = self.parser.string()?;
                let state = conditions::state_from(&text).ok_or_else(|| syntax("invalid SQLSTATE code"))?;
                conditions.push(crate::routine::plpgsql::tree::Condition::State(state));
            } else {
                conditions.push(conditions::named(&self.parser.label()?.text)?);
            }
            if !self.parser.accept("or") {
                break;
            }
        }
        self.parser.expect("then")?;
        Ok(Handler { conditions, body: self.statements(&["when", "end"])? })
    }

    /// Statements up to one of these words.
    pub(super) fn statements(&mut self, ends: &[&str]) -> Result<Vec<Statement>> {
        let mut statements = Vec::new();
        while !self.parser.is_one_of(ends) {
            if self.parser.is_end() {
                return Err(self.parser.unexpected());
            }
            statements.push(crate::stack::grow(|| self.statement())?);
        }
        Ok(statements)
    }
}

/// The variable that a name means from a scope on, and how many parts of the name are the variable's.
pub(super) fn find_variable(scopes: &[Scope], scope: usize, parts: &[&str]) -> Option<(usize, usize)> {
    let mut at = Some(scope);
    while let Some(number) = at {
        let scope = &scopes[number];
        let named =
            |name: &str| scope.names.iter().rev().find(|(known, _)| known == name).map(|(_, slot)| *slot);
        if let Some(slot) = parts.first().and_then(|name| named(name)) {
            return Some((slot, 1));
        }
        if let [label, name, ..] = parts
            && scope.label.as_deref() == Some(*label)
            && let Some(slot) = named(name)
        {
            return Some((slot, 2));
        }
        at = scope.parent;
    }
    None
}
