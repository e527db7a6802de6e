//! Conversions that the binder writes out: implicit ones of operands, those of assignments, those of CAST.
//!
//! Source: PostgreSQL 15, chapter 10 "Type Conversion", `parse_coerce.c`.

use crate::bind::binder::Binder;
use crate::bind::tree::{BoundExpr, CaseArms, SubqueryKind};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::resolve::common_type;
use crate::parse::syntax::At;
use crate::types::cast::{CastContext, find_cast, no_cast};
use crate::types::text::from_text;
use crate::types::{Modifier, Type, Value};

impl Binder<'_> {
    /// The expression as a value of another type, where that needs no words.
    pub fn implicit(&mut self, expr: BoundExpr, ty: Type, at: At) -> Result<BoundExpr> {
        self.coerce(expr, ty, Modifier::NONE, CastContext::Implicit, at)
    }

    /// The expression as a value of another type and modifier, or an error.
    pub fn coerce(
        &mut self,
        expr: BoundExpr,
        ty: Type,
        modifier: Modifier,
        context: CastContext,
        at: At,
    ) -> Result<BoundExpr> {
        let from = expr.ty();
        let explicit = context == CastContext::Explicit;
        if from == Type::Unknown
            && let Some(known) = self.settle_unknown(&expr, ty, modifier, explicit, at)?
        {
            return self.checked_row(known, at);
        }
        if from == ty && modifier.is_none() {
            return Ok(expr);
        }
        if let (BoundExpr::Row { .. }, Type::Record) = (&expr, ty) {
            return Ok(expr);
        }
        if let (BoundExpr::Row { fields, is_nullable: false, .. }, Type::Composite(_)) = (&expr, ty) {
            return self.row_as(fields.clone(), ty, context, at);
        }
        if let BoundExpr::Constant { value: Value::Null, .. } = expr
            && (from == ty || find_cast(from, ty, context).is_some())
        {
            return Ok(null_of(ty, modifier, explicit));
        }
        if let (BoundExpr::Array { elements, .. }, Some(element)) = (&expr, ty.element())
            && explicit
        {
            let elements = elements.clone();
            return self.array_elements_as(elements, element, ty, modifier, at);
        }
        if from != ty && find_cast(from, ty, context).is_none() {
            let message = format!("cannot cast type {} to {}", self.type_text(from), self.type_text(ty));
            return Err(self.at(no_cast(from, ty), at)).map_err(|error| match (from, ty) {
                (Type::Enum(_) | Type::Composite(_), _) | (_, Type::Enum(_) | Type::Composite(_)) => {
                    self.error(at, SqlState::CANNOT_COERCE, message)
                }
                _ => error,
            });
        }
        if ty == Type::Interval && from != ty && !modifier.is_none() {
            // A text is read as an interval of all fields, which then loses some: '5' are seconds, not minutes.
            let operand = Box::new(expr);
            let whole = BoundExpr::Cast { operand, ty, modifier: Modifier::NONE, explicit };
            return Ok(BoundExpr::Cast { operand: Box::new(whole), ty, modifier, explicit });
        }
        self.checked_row(BoundExpr::Cast { operand: Box::new(expr), ty, modifier, explicit }, at)
    }

    /// `ROW(…)` as a row of a composite type.
    fn row_as(
        &mut self,
        fields: Vec<BoundExpr>,
        ty: Type,
        context: CastContext,
        at: At,
    ) -> Result<BoundExpr> {
        let columns = ty.row_relation().and_then(|oid| self.context.catalog.row_columns(oid));
        let columns = columns.unwrap_or_default();
        let refused = |binder: &Self, detail: String| {
            let message = format!("cannot cast type record to {}", binder.type_text(ty));
            binder.error(at, SqlState::CANNOT_COERCE, message).with_detail(detail)
        };
        if fields.len() != columns.len() {
            let many = if fields.len() > columns.len() { "many" } else { "few" };
            return Err(refused(self, format!("Input has too {many} columns.")));
        }
        let mut cast = Vec::with_capacity(fields.len());
        for (number, (field, column)) in fields.into_iter().zip(&columns).enumerate() {
            // Literals in a row were texts before it had a type.
            let field = match field {
                BoundExpr::Constant { value: value @ (Value::Null | Value::Text(_)), ty: Type::Text } => {
                    BoundExpr::constant(value, Type::Unknown)
                }
                field => field,
            };
            let from = field.ty();
            if from != Type::Unknown && from != column.ty && find_cast(from, column.ty, context).is_none() {
                let (from, to) = (self.type_text(from), self.type_text(column.ty));
                let detail = format!("Cannot cast type {from} to {to} in column {}.", number + 1);
                return Err(refused(self, detail));
            }
            let value = self.coerce(field, column.ty, column.modifier, context, at)?;
            cast.push(self.checked_field(value, (ty, number), at)?);
        }
        Ok(self.row_of(cast, ty))
    }

    /// Values of the types that a composite type's fields have, as a row of it.
    pub(super) fn row_of(&self, fields: Vec<BoundExpr>, ty: Type) -> BoundExpr {
        let columns = ty.row_relation().and_then(|oid| self.context.catalog.row_columns(oid));
        let names = columns.unwrap_or_default().iter().map(|column| column.name.as_str().into()).collect();
        let row = Box::new(BoundExpr::Row { fields, names: Some(names), is_nullable: false });
        BoundExpr::Cast { operand: row, ty, modifier: Modifier::NONE, explicit: false }
    }

    fn array_elements_as(
        &mut self,
        elements: Vec<BoundExpr>,
        element: Type,
        ty: Type,
        modifier: Modifier,
        at: At,
    ) -> Result<BoundExpr> {
        let mut cast = Vec::with_capacity(elements.len());
        for expr in elements {
            let target = if expr.ty().is_array() && !element.is_vector() { ty } else { element };
            cast.push(self.coerce(expr, target, modifier, CastContext::Explicit, at)?);
        }
        Ok(BoundExpr::Array { elements: cast, ty })
    }

    /// Reads a literal as a value of a type. Names of objects in a stored definition are resolved along its own path.
    pub fn literal_value(&mut self, ty: Type, modifier: Modifier, text: &str) -> Result<Value> {
        if !self.is_stored_text() || !ty.is_reg() {
            return from_text(self.environment, ty, modifier, text);
        }
        let before = self.environment.look_up_along(Some(self.path.clone()));
        let value = from_text(self.environment, ty, modifier, text);
        self.environment.look_up_along(before);
        value
    }

    /// A literal or a parameter whose type was not known gets one.
    fn settle_unknown(
        &mut self,
        expr: &BoundExpr,
        ty: Type,
        modifier: Modifier,
        explicit: bool,
        at: At,
    ) -> Result<Option<BoundExpr>> {
        match expr {
            BoundExpr::Constant { value: Value::Null, .. } => Ok(Some(null_of(ty, modifier, explicit))),
            BoundExpr::Constant { value: Value::Text(text), .. } if ty != Type::Unknown => {
                let input_modifier = if matches!(ty, Type::Interval) { modifier } else { Modifier::NONE };
                let value =
                    self.literal_value(ty, input_modifier, text).map_err(|error| self.at(error, at))?;
                self.note_literal(at, text, ty, &value);
                let constant = BoundExpr::constant(value, ty);
                if modifier.is_none() {
                    return Ok(Some(constant));
                }
                Ok(Some(BoundExpr::Cast { operand: Box::new(constant), ty, modifier, explicit }))
            }
            BoundExpr::Parameter { number, .. } if ty != Type::Unknown => {
                if let Some(known) = self.parameters[*number].filter(|&known| known != ty) {
                    let parameter = BoundExpr::Parameter { number: *number, ty: known };
                    let context = if explicit { CastContext::Explicit } else { CastContext::Implicit };
                    return self.coerce(parameter, ty, modifier, context, at).map(Some);
                }
                self.parameters[*number] = Some(ty);
                let parameter = BoundExpr::Parameter { number: *number, ty };
                if modifier.is_none() {
                    return Ok(Some(parameter));
                }
                Ok(Some(BoundExpr::Cast { operand: Box::new(parameter), ty, modifier, explicit }))
            }
            // A query's column of unknown type was made text when the query ended; the rest is CASE and the like.
            _ => Ok(None),
        }
    }

    /// The modifier of an expression's type: of a column, of a cast, of an expression that returns values of one
    /// modifier.
    ///
    /// Source: PostgreSQL 15, `exprTypmod`.
    pub fn modifier_of(&self, expr: &BoundExpr) -> Modifier {
        let of_all = |exprs: &[&BoundExpr]| {
            let mut modifiers = exprs.iter().map(|expr| self.modifier_of(expr));
            let first = modifiers.next().unwrap_or(Modifier::NONE);
            if modifiers.all(|modifier| modifier == first) { first } else { Modifier::NONE }
        };
        match expr {
            BoundExpr::Cast { modifier, .. } => *modifier,
            BoundExpr::Column { .. } => {
                let entries = self.scopes.iter().rev().flat_map(|scope| &scope.entries);
                let found = entries.flat_map(|entry| &entry.columns).find(|column| column.expr == *expr);
                found.map_or(Modifier::NONE, |column| column.modifier)
            }
            BoundExpr::Case { arms, otherwise, .. } => {
                let values: Vec<&BoundExpr> =
                    arms.iter().map(|arm| &arm.then).chain([&**otherwise]).collect();
                of_all(&values)
            }
            BoundExpr::Coalesce { operands, .. }
            | BoundExpr::MinMax { operands, .. }
            | BoundExpr::Array { elements: operands, .. } => of_all(&operands.iter().collect::<Vec<_>>()),
            BoundExpr::NullIf { operands, .. } => self.modifier_of(&operands[0]),
            BoundExpr::Subscript { array, .. } | BoundExpr::Slice { array, .. } => self.modifier_of(array),
            BoundExpr::Subquery(subquery) => match subquery.kind {
                SubqueryKind::Scalar { .. } | SubqueryKind::Array { .. } => {
                    subquery.query.columns[0].modifier
                }
                _ => Modifier::NONE,
            },
            _ => Modifier::NONE,
        }
    }

    /// The expression as a truth value, for WHERE and the like.
    pub fn condition(&mut self, expr: BoundExpr, clause: &str, at: At) -> Result<BoundExpr> {
        let from = expr.ty();
        if from == Type::Bool {
            return Ok(expr);
        }
        if from != Type::Unknown && find_cast(from, Type::Bool, CastContext::Implicit).is_none() {
            let message =
                format!("argument of {clause} must be type boolean, not type {}", self.type_text(from));
            return Err(self.error(at, SqlState::DATATYPE_MISMATCH, message));
        }
        self.implicit(expr, Type::Bool, at)
    }

    /// Converts an expression to a column's type, as an assignment does.
    pub fn assigned(
        &mut self,
        expr: BoundExpr,
        ty: Type,
        modifier: Modifier,
        column: &str,
        at: At,
    ) -> Result<BoundExpr> {
        let from = expr.ty();
        if from != ty && from != Type::Unknown && find_cast(from, ty, CastContext::Assignment).is_none() {
            let message = format!(
                "column \"{column}\" is of type {} but expression is of type {}",
                self.type_text(ty),
                self.type_text(from)
            );
            let hint = "You will need to rewrite or cast the expression.";
            return Err(self.error(at, SqlState::DATATYPE_MISMATCH, message).with_hint(hint));
        }
        self.coerce(expr, ty, modifier, CastContext::Assignment, at)
    }

    /// Expressions of CASE, COALESCE, VALUES and the like, all as their common type.
    pub fn unify(&mut self, exprs: Vec<BoundExpr>, what: &str, at: At) -> Result<(Vec<BoundExpr>, Type)> {
        let types: Vec<Type> = exprs.iter().map(BoundExpr::ty).collect();
        let ty = match (self.common(&types, what, at), common_type(&types)) {
            (Err(error), Some(ty)) if error.state() == SqlState::CANNOT_COERCE => {
                // Literals before the one without a conversion may fail first.
                let known = |from: Type| from == ty || find_cast(from, ty, CastContext::Implicit).is_some();
                let reached =
                    exprs.into_iter().take_while(|expr| expr.ty() == Type::Unknown || known(expr.ty()));
                for expr in reached {
                    self.implicit(expr, ty, at)?;
                }
                return Err(error);
            }
            (common, _) => common?,
        };
        let unified =
            exprs.into_iter().map(|expr| self.implicit(expr, ty, at)).collect::<Result<Vec<_>>>()?;
        Ok((unified, ty))
    }

    /// The common type of several, or `CASE types integer and text cannot be matched`.
    pub fn common(&self, types: &[Type], what: &str, at: At) -> Result<Type> {
        if let Some(ty) = common_type(types)
            && types.iter().all(|&from| {
                from == ty || from == Type::Unknown || find_cast(from, ty, CastContext::Implicit).is_some()
            })
        {
            return Ok(ty);
        }
        let known: Vec<Type> = types.iter().copied().filter(|&ty| ty != Type::Unknown).collect();
        let first = known.first().copied().unwrap_or(Type::Text);
        let other = known.iter().copied().find(|ty| ty.category() != first.category());
        let other = other.or_else(|| known.iter().copied().find(|&ty| ty != first)).unwrap_or(first);
        let is_one_category = first.category() == other.category();
        let (first, other) = (self.type_text(first), self.type_text(other));
        // Within a category PostgreSQL chooses a type, and then finds no conversion.
        let (state, message) = match is_one_category {
            true => (SqlState::CANNOT_COERCE, format!("{what} could not convert type {other} to {first}")),
            false => {
                (SqlState::DATATYPE_MISMATCH, format!("{what} types {first} and {other} cannot be matched"))
            }
        };
        Err(self.error(at, state, message))
    }

    /// A result column: a type that is still unknown becomes text.
    pub fn known(&mut self, expr: BoundExpr, at: At) -> Result<BoundExpr> {
        if expr.ty() == Type::Unknown { self.implicit(expr, Type::Text, at) } else { Ok(expr) }
    }

    /// Arms of a CASE and its ELSE as one type.
    pub fn unify_arms(
        &mut self,
        arms: CaseArms,
        otherwise: BoundExpr,
        at: At,
    ) -> Result<(CaseArms, BoundExpr, Type)> {
        // PostgreSQL considers ELSE first.
        let mut types = vec![otherwise.ty()];
        types.extend(arms.iter().map(|arm| arm.then.ty()));
        let ty = self.common(&types, "CASE", at)?;
        let mut unified = Vec::with_capacity(arms.len());
        for mut arm in arms {
            arm.then = self.implicit(arm.then, ty, at)?;
            unified.push(arm);
        }
        let otherwise = self.implicit(otherwise, ty, at)?;
        Ok((unified, otherwise, ty))
    }
}

/// NULL as a value of a type; the modifier is kept where the result's description shows it.
fn null_of(ty: Type, modifier: Modifier, explicit: bool) -> BoundExpr {
    let null = BoundExpr::null(ty);
    match explicit && !modifier.is_none() {
        true => BoundExpr::Cast { operand: Box::new(null), ty, modifier, explicit },
        false => null,
    }
}

/// `could not determine data type of parameter $1` (42P18).
pub(crate) fn indeterminate(number: usize) -> SqlError {
    let message = format!("could not determine data type of parameter ${}", number + 1);
    SqlError::new(SqlState::INDETERMINATE_DATATYPE, message)
}
