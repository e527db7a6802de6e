//! Values into variables.
//!
//! Source: PostgreSQL 15, `exec_assign_value` and `exec_move_row` in `pl_exec.c`.

use std::sync::Arc;

use crate::catalog::ResultColumn;
use crate::error::{Result, SqlError, SqlState};
use crate::functions::with_path;
use crate::routine::plpgsql::interpret::{Interpreter, is_row_of_trigger};
use crate::routine::plpgsql::statements::single_row;
use crate::routine::plpgsql::tree::{Into, RowType, Target, VariableKind};
use crate::routine::query::QueryPlan;
use crate::routine::value::{as_domain, composed, convert, record};
use crate::types::array::ArrayValue;
use crate::types::record::RecordValue;
use crate::types::{Environment, Modifier, Type, Value};

impl Interpreter<'_, '_> {
    /// Assigns a value of a type.
    pub(super) fn assign(&mut self, target: &Target, value: Value, ty: Type) -> Result<()> {
        if target.is_variable() {
            return self.assign_variable(target.slot, value, ty);
        }
        let subscripts = self.subscripts(target)?;
        self.assign_at(target, &subscripts, value, ty)
    }

    /// Assigns a value of a type, to the element with these subscripts if there are any.
    pub(super) fn assign_at(
        &mut self,
        target: &Target,
        subscripts: &[Value],
        value: Value,
        ty: Type,
    ) -> Result<()> {
        if let (Some(field), false) = (&target.field, target.inner.is_empty()) {
            if !subscripts.is_empty() {
                let message = "elements of fields of fields cannot be assigned";
                return Err(SqlError::unsupported(message).with_hint("Assign the whole field."));
            }
            return self.assign_inner(target, field, value, ty);
        }
        if !subscripts.is_empty() {
            return self.assign_element(target, subscripts, value, ty);
        }
        match &target.field {
            None => self.assign_variable(target.slot, value, ty),
            Some(field) => self.assign_field(target.slot, field, value, ty),
        }
    }

    pub(super) fn assign_variable(&mut self, slot: usize, value: Value, from: Type) -> Result<()> {
        let variable = &self.program.variables[slot];
        let value = match &variable.kind {
            VariableKind::Value { ty, modifier, domain } => {
                let value = convert(self.execution.environment, value, from, *ty, *modifier)?;
                as_domain(self.execution, *domain, value)?
            }
            VariableKind::Cursor { .. } => {
                convert(self.execution.environment, value, from, Type::Text, Modifier::NONE)?
            }
            VariableKind::Row(row_type) => return self.assign_whole_row(slot, row_type.as_deref(), value),
        };
        if variable.is_not_null && value.is_null() {
            let message =
                format!("null value cannot be assigned to variable \"{}\" declared NOT NULL", variable.name);
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        self.values[slot] = value;
        Ok(())
    }

    fn assign_whole_row(&mut self, slot: usize, row_type: Option<&RowType>, value: Value) -> Result<()> {
        let row = match value {
            Value::Record(row) => Some(row),
            Value::Null => None,
            _ => {
                let message = "cannot assign non-composite value to a record variable";
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
            }
        };
        let is_null = row.is_none();
        let value = match (row_type, row) {
            (None, Some(row)) => Value::Record(row),
            (None, None) => Value::Null,
            (Some(row_type), Some(row)) if Arc::ptr_eq(&row_type.fields, &row.fields) => Value::Record(row),
            (Some(row_type), Some(row)) if row_type.holds(&row.fields) => {
                let values = match Arc::try_unwrap(row) {
                    Ok(row) => row.values,
                    Err(shared) => shared.values.clone(),
                };
                Value::Record(Arc::new(RecordValue { fields: row_type.fields.clone(), values }))
            }
            (Some(row_type), row) => {
                let values = self.row_as(&row_type.columns, row.as_deref())?;
                record(&row_type.fields, values)
            }
        };
        if let Some(domain) = row_type.and_then(|row_type| row_type.domain) {
            let checked = if is_null { Value::Null } else { value.clone() };
            as_domain(self.execution, Some(domain), checked)?;
        }
        self.values[slot] = value;
        Ok(())
    }

    /// A row's values as those of columns: by their places; values that it lacks are NULL.
    pub(super) fn row_as(
        &mut self,
        columns: &[ResultColumn],
        row: Option<&RecordValue>,
    ) -> Result<Vec<Value>> {
        let mut values = Vec::with_capacity(columns.len());
        for (at, column) in columns.iter().enumerate() {
            let given = row.and_then(|row| Some((row.values.get(at)?.clone(), row.fields.get(at)?.kind)));
            let value = match given {
                Some((value, from)) => {
                    convert(self.execution.environment, value, from, column.ty, column.modifier)?
                }
                None => Value::Null,
            };
            values.push(as_domain(self.execution, column.domain, value)?);
        }
        Ok(values)
    }

    fn assign_field(&mut self, slot: usize, field: &str, value: Value, from: Type) -> Result<()> {
        let variable = &self.program.variables[slot];
        if let (Value::Null, Some(fields)) = (&self.values[slot], &self.absent)
            && is_row_of_trigger(self.program, slot)
        {
            self.values[slot] = record(fields, vec![Value::Null; fields.len()]);
        }
        let Value::Record(row) = &self.values[slot] else {
            let message = format!("record \"{}\" is not assigned yet", variable.name);
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                .with_detail("The tuple structure of a not-yet-assigned record is indeterminate."));
        };
        let Some(at) = row.fields.iter().position(|known| *known.name == *field) else {
            let message = format!("record \"{}\" has no field \"{field}\"", variable.name);
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        let row = row.clone();
        let (modifier, domain) = match &variable.kind {
            VariableKind::Row(Some(row)) => {
                row.columns.get(at).map_or((Modifier::NONE, None), |it| (it.modifier, it.domain))
            }
            _ => (Modifier::NONE, None),
        };
        let value = convert(self.execution.environment, value, from, row.fields[at].kind, modifier)?;
        let value = as_domain(self.execution, domain, value)?;
        let mut values = row.values.to_vec();
        values[at] = value;
        let changed = composed(&row.fields, values)?;
        if let VariableKind::Row(Some(row_type)) = &variable.kind {
            as_domain(self.execution, row_type.domain, changed.clone())?;
        }
        self.values[slot] = changed;
        Ok(())
    }

    /// `row.field.inner := value`: the field gets a row with another value in it.
    fn assign_inner(&mut self, target: &Target, field: &str, value: Value, from: Type) -> Result<()> {
        let (current, ty) = self.current(target)?;
        let row = self.with_inner(current, ty, &target.inner, (value, from))?;
        self.assign_field(target.slot, field, row, ty)
    }

    /// A row of a composite type with the value of a field of it, or of one in it, replaced.
    fn with_inner(
        &mut self,
        row: Value,
        ty: Type,
        path: &[String],
        (value, from): (Value, Type),
    ) -> Result<Value> {
        let Some((name, rest)) = path.split_first() else { return Ok(value) };
        let catalog = self.execution.environment.catalog.clone();
        let Some(shape) = catalog.shape(ty.oid()).filter(|_| ty.row_relation().is_some()) else {
            let message = format!("type {} is not composite", catalog.type_display(ty));
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        };
        let Some(at) = shape.fields.iter().position(|field| *field.name == **name) else {
            let message = format!(
                "cannot assign to field \"{name}\": there is no such column in data type {}",
                catalog.type_display(ty)
            );
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        let mut values = match row {
            Value::Record(row) => row.values.to_vec(),
            _ => vec![Value::Null; shape.fields.len()],
        };
        let (kind, modifier) = (shape.fields[at].kind, shape.modifiers[at]);
        values[at] = match rest.is_empty() {
            true => convert(self.execution.environment, value, from, kind, modifier)?,
            false => self.with_inner(std::mem::take(&mut values[at]), kind, rest, (value, from))?,
        };
        composed(&shape.fields, values)
    }

    /// The subscripts of a target: integers, or texts where it is a `jsonb`. They are computed before the value that is
    /// assigned.
    pub(super) fn subscripts(&mut self, target: &Target) -> Result<Vec<Value>> {
        let is_jsonb = !target.is_variable() && matches!(self.current(target), Ok((_, Type::Jsonb)));
        let what = if is_jsonb { "jsonb" } else { "array" };
        let mut subscripts = Vec::with_capacity(target.subscripts.len());
        for subscript in &target.subscripts {
            let (value, from) = self.evaluate(subscript)?;
            let ty = match (is_jsonb, from) {
                (false, _) | (true, Type::Int2 | Type::Int4) => Type::Int4,
                (true, Type::Unknown | Type::Text | Type::Varchar | Type::Bpchar | Type::Name) => Type::Text,
                (true, other) => {
                    let name = self.execution.environment.catalog.type_display(other);
                    let message = format!("subscript type {name} is not supported");
                    let hint = "jsonb subscript must be coercible to either integer or text.";
                    return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).with_hint(hint));
                }
            };
            match convert(self.execution.environment, value, from, ty, Modifier::NONE)? {
                Value::Null => {
                    let message = format!("{what} subscript in assignment must not be null");
                    return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
                }
                value => subscripts.push(value),
            }
        }
        Ok(subscripts)
    }

    /// `value[subscript] := value`, of a variable or of a field.
    fn assign_element(
        &mut self,
        target: &Target,
        subscripts: &[Value],
        value: Value,
        from: Type,
    ) -> Result<()> {
        let (current, ty) = self.current(target)?;
        let plain = Target {
            slot: target.slot,
            field: target.field.clone(),
            inner: Vec::new(),
            subscripts: Vec::new(),
        };
        if ty == Type::Jsonb {
            let value = convert(self.execution.environment, value, from, ty, Modifier::NONE)?;
            let begins_with_index = matches!(subscripts, [Value::Int4(_), ..]);
            let step = |subscript: &Value| match subscript {
                Value::Int4(index) => Value::text(index.to_string()),
                key => key.clone(),
            };
            let steps: Vec<Value> = subscripts.iter().map(step).collect();
            let environment = &mut *self.execution.environment;
            let document = with_path(&current, &value, &steps, begins_with_index, environment)?;
            environment.note_value(&document)?;
            return self.assign_at(&plain, &[], document, ty);
        }
        let Some(element) = ty.element() else {
            let name = self.execution.environment.catalog.type_display(ty);
            let message = format!("cannot subscript type {name} because it does not support subscripting");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        };
        let value = convert(self.execution.environment, value, from, element, Modifier::NONE)?;
        let subscripts: Vec<i32> = subscripts.iter().map(Value::int4).collect();
        let environment = &mut *self.execution.environment;
        let array = match &current {
            Value::Array(array) => array.with_element(&subscripts, value, environment)?,
            _ => ArrayValue::empty(element).with_element(&subscripts, value, environment)?,
        };
        let array = Value::array(array);
        environment.note_value(&array)?;
        self.assign_at(&plain, &[], array, ty)
    }

    /// A target's value and its type.
    fn current(&self, target: &Target) -> Result<(Value, Type)> {
        match (&self.program.variables[target.slot].kind, &target.field, &self.values[target.slot]) {
            (VariableKind::Value { ty, .. }, None, value) => Ok((value.clone(), *ty)),
            (VariableKind::Row(_), Some(field), Value::Record(row)) => {
                let at = row.fields.iter().position(|known| *known.name == **field);
                let found = at.map(|at| (row.values[at].clone(), row.fields[at].kind));
                found.ok_or_else(|| {
                    let message = format!("record has no field \"{field}\"");
                    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
                })
            }
            _ => Err(SqlError::new(SqlState::DATATYPE_MISMATCH, "only arrays have elements")),
        }
    }

    /// Assigns a query's row, or that there is none: to a row variable as a whole, else column by column. The values are taken
    /// out of the row.
    pub(super) fn assign_row(
        &mut self,
        into: &Into,
        plan: &QueryPlan,
        row: Option<&mut Vec<Value>>,
    ) -> Result<()> {
        let is_row = |slot: usize| matches!(self.program.variables[slot].kind, VariableKind::Row(_));
        if let Some(slot) = single_row(&into.targets, is_row) {
            let Some(row) = row else {
                let value = match &self.program.variables[slot].kind {
                    VariableKind::Row(Some(row_type)) => row_type.empty.clone(),
                    _ => record(&plan.fields, vec![Value::Null; plan.columns.len()]),
                };
                return self.assign_variable(slot, value, Type::Record);
            };
            let values = std::mem::take(row);
            // A query of one column that is a row gives that row.
            let value = match (&values[..], &self.program.variables[slot].kind) {
                ([value @ Value::Record(_)], _) => value.clone(),
                (_, VariableKind::Row(Some(row_type))) if row_type.holds(&plan.fields) => {
                    composed(&row_type.fields, values)?
                }
                _ => composed(&plan.fields, values)?,
            };
            return self.assign_variable(slot, value, Type::Record);
        }
        let mut values = row.into_iter().flat_map(|row| row.drain(..));
        for (at, target) in into.targets.iter().enumerate() {
            let ty = plan.columns.get(at).map_or(Type::Unknown, |column| column.ty);
            self.assign(target, values.next().unwrap_or_default(), ty)?;
        }
        Ok(())
    }
}
