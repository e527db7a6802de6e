//! The values that a procedure's phases set.

use std::any::{Any, type_name};
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::types::Value;

/// A value that a phase passes on under a number.
#[derive(Clone)]
pub(crate) enum PhaseValue {
    Value(Value),
    /// A value of any Rust type.
    Any(Arc<dyn Any + Send + Sync>),
}

impl<T: Into<Value>> From<T> for PhaseValue {
    fn from(value: T) -> PhaseValue {
        PhaseValue::Value(value.into())
    }
}

impl fmt::Debug for PhaseValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PhaseValue::Value(value) => fmt::Debug::fmt(value, formatter),
            PhaseValue::Any(_) => formatter.write_str("a Rust value"),
        }
    }
}

/// The values that earlier phases have set.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// In the order of their numbers, which are the procedure's choice: usually 0, 1, 2, so that a value is at its
    /// number.
    values: Vec<(usize, PhaseValue)>,
}

impl Values {
    /// The values of the first phase: one empty set for all calls, so that none of them has to drop it.
    #[inline]
    pub(crate) fn none() -> &'static Values {
        static NONE: Values = Values { values: Vec::new() };
        &NONE
    }

    /// The position of the value of this number, or where it would be.
    #[inline]
    fn place(&self, number: usize) -> std::result::Result<usize, usize> {
        match self.values.get(number) {
            Some((there, _)) if *there == number => Ok(number),
            _ => self.values.binary_search_by_key(&number, |(there, _)| *there),
        }
    }

    /// The value that an earlier phase set under this number.
    ///
    /// # Errors
    /// None did.
    pub fn get(&self, number: usize) -> Result<&Value> {
        match self.find(number)? {
            PhaseValue::Value(value) => Ok(value),
            PhaseValue::Any(_) => {
                Err(wrong_type(number, "a value of a column", "a Rust value; read it with any"))
            }
        }
    }

    /// The value of any Rust type that an earlier phase set under this number by
    /// [`ActionContext::set_any`](crate::ActionContext::set_any).
    ///
    /// # Errors
    /// None did, or it is of another type.
    pub fn any<T: Any + Send + Sync>(&self, number: usize) -> Result<&T> {
        let found = match self.find(number)? {
            PhaseValue::Any(value) => value.downcast_ref(),
            PhaseValue::Value(_) => None,
        };
        found.ok_or_else(|| wrong_type(number, type_name::<T>(), "a value of another type"))
    }

    fn find(&self, number: usize) -> Result<&PhaseValue> {
        match self.place(number) {
            Ok(place) => Ok(&self.values[place].1),
            Err(_) => Err(not_set(number)),
        }
    }

    /// The integer that an earlier phase set under this number.
    ///
    /// # Errors
    /// None did, or it is none.
    pub fn int(&self, number: usize) -> Result<i64> {
        match self.get(number)? {
            Value::Int(value) => Ok(*value),
            other => Err(Error::WrongType {
                what: format!("value {number}"),
                expected: "an integer".to_string(),
                found: format!("{other:?}"),
            }),
        }
    }

    /// Forgets all values, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.values.clear();
    }

    /// Number of values for which there is memory.
    pub(crate) fn capacity(&self) -> usize {
        self.values.capacity()
    }

    /// Takes what a phase has set.
    pub(crate) fn take(&mut self, fresh: &mut Vec<(usize, PhaseValue)>) {
        self.values.reserve(fresh.len());
        fresh.drain(..).for_each(|(number, value)| self.set(number, value));
    }

    fn set(&mut self, number: usize, value: PhaseValue) {
        if self.values.last().is_none_or(|(last, _)| *last < number) {
            return self.values.push((number, value));
        }
        match self.place(number) {
            Ok(place) => self.values[place].1 = value,
            Err(place) => self.values.insert(place, (number, value)),
        }
    }
}

#[cold]
fn wrong_type(number: usize, expected: &str, found: &str) -> Error {
    let (expected, found) = (expected.to_string(), found.to_string());
    Error::WrongType { what: format!("value {number}"), expected, found }
}

#[cold]
fn not_set(number: usize) -> Error {
    Error::ValueNotSet { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_phase_sees_the_last_value_of_each_number() {
        let mut values = Values::default();
        let mut fresh: Vec<(usize, PhaseValue)> = [(0, 5), (2, 7), (1, 6), (2, 8)]
            .into_iter()
            .map(|(number, value)| (number, value.into()))
            .collect();
        values.take(&mut fresh);
        assert!(fresh.is_empty());
        let read = |number| values.int(number).ok();
        assert_eq!([read(0), read(1), read(2), read(3)], [Some(5), Some(6), Some(8), None]);
        values.take(&mut vec![(1, Value::Text("a".to_string()).into())]);
        assert!(values.get(1).is_ok() && values.int(1).is_err());
        assert!(Values::none().get(0).is_err());
        values.take(&mut vec![(3, PhaseValue::Any(Arc::new(vec![1_i64, 2])))]);
        assert_eq!(values.any::<Vec<i64>>(3), Ok(&vec![1, 2]));
        assert!(values.get(3).is_err() && values.any::<Vec<u8>>(3).is_err() && values.any::<i64>(0).is_err());
        assert!(matches!(values.any::<i64>(9), Err(Error::ValueNotSet { number: 9 })));
    }
}
