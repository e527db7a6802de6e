//! Calls of the functions that PostgreSQL's operators have: `int4eq(a, b)` is `a = b`.
//!
//! Each line of the table names a function, its operator, and the types of the operands; `-` is the left operand of a
//! prefix operator.
//!
//! Source: PostgreSQL 15, `pg_operator.dat`.

use crate::bind::binder::Binder;
use crate::bind::tree::BoundExpr;
use crate::error::Result;
use crate::functions::resolve::no_function;
use crate::parse::syntax::At;
use crate::types::Type;

const TABLE: &str = include_str!("operator_functions.txt");

/// The operator of a function, and the types of its operands.
fn operator_of(name: &str, count: usize) -> Option<(&'static str, Vec<Type>)> {
    let mut lines = TABLE.lines().map(|line| line.split(' '));
    let mut line = lines.find(|line| line.clone().next() == Some(name))?;
    let operator = line.nth(1)?;
    let types: Vec<Type> = line.filter_map(Type::from_name).collect();
    (types.len() == count).then_some((operator, types))
}

/// Returns true if an operator has a function of this name.
pub(super) fn is_operator_function(name: &str, count: usize) -> bool {
    operator_of(name, count).is_some()
}

impl Binder<'_> {
    /// The operator that a function implements, with the arguments as its operands.
    pub(super) fn operator_call(&mut self, name: &str, args: Vec<BoundExpr>, at: At) -> Result<BoundExpr> {
        let given: Vec<Type> = args.iter().map(BoundExpr::ty).collect();
        let unknown = |binder: &Self| binder.at(no_function(name, &given), at);
        let Some((operator, types)) = operator_of(name, args.len()) else { return Err(unknown(self)) };
        let mut operands = Vec::with_capacity(args.len());
        for (arg, ty) in args.into_iter().zip(types) {
            let is_literal = arg.ty() == Type::Unknown;
            let operand = self.implicit(arg, ty, at);
            operands.push(operand.map_err(|error| if is_literal { error } else { unknown(self) })?);
        }
        match operands.len() {
            1 => self.prefix(operator, operands.remove(0), at),
            _ => {
                let right = operands.remove(1);
                self.operator(operator, operands.remove(0), right, at)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{TABLE, operator_of};
    use crate::types::Type;

    #[test]
    fn every_line_names_an_operator_and_known_types() {
        for line in TABLE.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let count = if fields[2] == "-" { 1 } else { 2 };
            assert_eq!(fields.len(), 4, "{line}");
            assert_eq!(operator_of(fields[0], count).map(|found| found.0), Some(fields[1]), "{line}");
        }
    }

    #[test]
    fn a_function_is_found_by_its_number_of_arguments() {
        assert_eq!(operator_of("booleq", 2), Some(("=", vec![Type::Bool, Type::Bool])));
        assert_eq!(operator_of("int4um", 1), Some(("-", vec![Type::Int4])));
        assert_eq!(operator_of("booleq", 1), None);
        assert_eq!(operator_of("nosuch", 2), None);
    }
}
