//! The parameters of a statement, lent from where they are kept: nothing is copied to run it.

use crate::bind::VariableRef;
use crate::types::Value;

/// The values of a statement's parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parameters<'p> {
    /// One value for each parameter.
    Values(&'p [Value]),
    /// The variables of a routine's body, and which of them each parameter is.
    Variables(&'p [Value], &'p [VariableRef]),
}

/// The value of a field of a row variable without a row.
static NULL: Value = Value::Null;

impl<'p> Parameters<'p> {
    /// The value of the parameter with this number, counted from 0.
    #[inline]
    pub(crate) fn get(self, number: usize) -> Option<&'p Value> {
        let (values, variables) = match self {
            Parameters::Values(values) => return values.get(number),
            Parameters::Variables(values, variables) => (values, variables),
        };
        let variable = variables.get(number)?;
        match (values.get(variable.slot)?, variable.field) {
            (value, None) => Some(value),
            (Value::Record(record), Some(field)) => Some(record.values.get(field).unwrap_or(&NULL)),
            (_, Some(_)) => Some(&NULL),
        }
    }
}

impl<'p> From<&'p [Value]> for Parameters<'p> {
    fn from(values: &'p [Value]) -> Parameters<'p> {
        Parameters::Values(values)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::types::record::RecordValue;

    #[test]
    fn variables_are_found_by_slot_and_field() {
        let row = RecordValue { fields: Arc::from([]), values: [Value::Int4(7), Value::Int4(8)].into() };
        let values = [Value::Int8(1), Value::Record(Arc::new(row)), Value::Null];
        let variable = |slot, field| VariableRef { slot, field };
        let variables = [
            variable(1, Some(1)),
            variable(0, None),
            variable(2, Some(0)),
            variable(1, Some(2)),
            variable(3, None),
        ];
        let parameters = Parameters::Variables(&values, &variables);
        let found = [
            Some(&Value::Int4(8)),
            Some(&Value::Int8(1)),
            Some(&Value::Null),
            Some(&Value::Null),
            None,
            None,
        ];
        for (number, expected) in found.into_iter().enumerate() {
            assert_eq!(parameters.get(number), expected, "parameter {number}");
        }
        assert_eq!(Parameters::from(&values[..]).get(0), Some(&Value::Int8(1)));
        assert_eq!(Parameters::from(&values[..]).get(3), None);
    }
}
