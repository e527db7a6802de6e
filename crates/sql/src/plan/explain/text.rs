//! Expressions as EXPLAIN shows them, in PostgreSQL's form: `(a = 5)`, `'x'::text`.

use crate::plan::expression::{Call, Comparison, Expr, SubPlanKind};
use crate::types::text::to_text;
use crate::types::{Environment, Type, Value};

/// Context in which expressions are shown.
pub(super) struct Names<'n> {
    /// The names of the slots of a row.
    pub(super) slots: &'n [String],
    pub(super) environment: &'n dyn Environment,
}

impl Names<'_> {
    /// An expression as text.
    pub(super) fn shown(&self, expr: &Expr) -> String {
        match expr {
            Expr::Constant(value) => self.constant(value),
            Expr::Slot(slot) => {
                self.slots.get(*slot).cloned().unwrap_or_else(|| format!("column{}", slot + 1))
            }
            Expr::Parameter(number) => format!("${}", number + 1),
            Expr::Outer(_) => "(outer value)".to_string(),
            Expr::CaseOperand => "CASE_TEST_EXPR".to_string(),
            Expr::Call(call) => self.call(call),
            Expr::Compare(comparison, sides) => self.binary(symbol(*comparison), &sides[0], &sides[1]),
            Expr::Cast(cast) => format!("({})::{}", self.shown(&cast.operand), cast.cast.to.display_name()),
            Expr::And(parts) => format!("({})", self.list(parts, " AND ")),
            Expr::Or(parts) => format!("({})", self.list(parts, " OR ")),
            Expr::Not(part) => format!("(NOT {})", self.shown(part)),
            Expr::IsNull(part, negated) => {
                format!("({} IS {}NULL)", self.shown(part), if *negated { "NOT " } else { "" })
            }
            Expr::IsTruth(part, value, negated) => {
                let value = format!("{value:?}").to_uppercase();
                format!("({} IS {}{value})", self.shown(part), if *negated { "NOT " } else { "" })
            }
            Expr::IsDistinct(sides, _, negated) => {
                let symbol = if *negated { "IS NOT DISTINCT FROM" } else { "IS DISTINCT FROM" };
                self.binary(symbol, &sides[0], &sides[1])
            }
            Expr::Coalesce(parts) => format!("COALESCE({})", self.list(parts, ", ")),
            Expr::NullIf(sides, _) => format!("NULLIF({})", self.list(&sides[..], ", ")),
            Expr::MinMax(kind, parts) => {
                format!("{}({})", format!("{kind:?}").to_uppercase(), self.list(parts, ", "))
            }
            Expr::Case(_) => "CASE … END".to_string(),
            Expr::InList(list) => {
                let (symbol, quantifier) = if list.negated { ("<>", "ALL") } else { ("=", "ANY") };
                let operand = self.shown(&list.operand);
                format!("({operand} {symbol} {quantifier} (ARRAY[{}]))", self.list(&list.list, ", "))
            }
            Expr::Quantified(quantified) => format!(
                "({} {} {} ({}))",
                self.shown(&quantified.operand),
                quantified.operator.function.name,
                format!("{:?}", quantified.quantifier).to_uppercase(),
                self.shown(&quantified.array)
            ),
            Expr::Array(parts, _) => format!("ARRAY[{}]", self.list(parts, ", ")),
            Expr::Row(parts, ..) => format!("ROW({})", self.list(parts, ", ")),
            Expr::Subscript(parts) => format!("{}[{}]", self.shown(&parts.0), self.list(&parts.1, "][")),
            Expr::Slice(parts) => format!("{}[…]", self.shown(&parts.0)),
            Expr::Field(part, number) => format!("({}).f{}", self.shown(part), number + 1),
            Expr::Subquery(query) => {
                let exists = if matches!(query.kind, SubPlanKind::Exists) { "EXISTS" } else { "" };
                let hashed = if query.keyed.is_some() { "hashed " } else { "" };
                format!("{exists}({hashed}SubPlan)")
            }
        }
    }

    /// An expression that a column of this type is compared with.
    pub(super) fn shown_as(&self, expr: &Expr, ty: Type) -> String {
        match expr {
            Expr::Constant(Value::Bytes(bytes)) => match crate::types::network::text_of(ty, bytes) {
                Some(text) => format!("'{text}'::{}", ty.display_name()),
                None => self.shown(expr),
            },
            expr => self.shown(expr),
        }
    }

    /// Expressions as one text.
    pub(super) fn list(&self, parts: &[Expr], between: &str) -> String {
        parts.iter().map(|part| self.shown(part)).collect::<Vec<_>>().join(between)
    }

    fn binary(&self, symbol: &str, left: &Expr, right: &Expr) -> String {
        format!("({} {symbol} {})", self.shown(left), self.shown(right))
    }

    fn call(&self, call: &Call) -> String {
        let name = call.function.name;
        let is_operator = !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        match &call.arguments[..] {
            [left, right] if is_operator => self.binary(name, left, right),
            [operand] if is_operator => format!("({name} {})", self.shown(operand)),
            arguments => format!("{name}({})", self.list(arguments, ", ")),
        }
    }

    fn constant(&self, value: &Value) -> String {
        let ty = match value {
            Value::Null => return "NULL".to_string(),
            Value::Bool(value) => return value.to_string(),
            Value::Int2(_) | Value::Int4(_) | Value::Int8(_) if value.any_int() >= 0 => {
                return value.any_int().to_string();
            }
            Value::Int2(_) => Type::Int2,
            Value::Int4(_) => Type::Int4,
            Value::Int8(_) => Type::Int8,
            Value::Float4(_) => Type::Float4,
            Value::Float8(_) => Type::Float8,
            Value::Numeric(_) => Type::Numeric,
            Value::Text(_) => Type::Text,
            Value::Bpchar(_) => Type::Bpchar,
            Value::Bytes(_) => Type::Bytea,
            Value::Date(_) => Type::Date,
            Value::Time(_) => Type::Time,
            Value::Timestamp(_) => Type::Timestamp,
            Value::Timestamptz(_) => Type::Timestamptz,
            Value::Interval(_) => Type::Interval,
            Value::Uuid(_) => Type::Uuid,
            Value::Json(_) => Type::Json,
            Value::Jsonb(_) => Type::Jsonb,
            Value::Array(array) => Type::array_of(array.element),
            _ => return "(…)".to_string(),
        };
        match to_text(self.environment, ty, value) {
            Ok(text) => format!("'{}'::{}", text.replace('\'', "''"), ty.display_name()),
            Err(_) => "(…)".to_string(),
        }
    }
}

/// The symbol of a comparison.
pub(super) fn symbol(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "=",
        Comparison::NotEqual => "<>",
        Comparison::Less => "<",
        Comparison::LessEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterEqual => ">=",
    }
}
