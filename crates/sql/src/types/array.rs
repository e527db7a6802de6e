//! An array value: dimensions, lower bounds and the elements in row-major order.
//!
//! Invariants: there are as many elements as the product of the dimensions' lengths; no dimension is empty, so the
//! empty array has no dimensions.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::error::{Result, SqlError, SqlState};
use crate::types::{Environment, Type, Value};

/// The most dimensions of an array.
pub const DIMENSIONS_MAX: usize = 6;
/// The most elements of an array.
pub const ELEMENTS_MAX: usize = 134_217_727;

/// One dimension of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dimension {
    /// Number of elements; at least 1.
    pub length: i32,
    /// The subscript of the first element: 1 unless it was given.
    pub lower: i32,
}

impl Dimension {
    /// The subscript of the last element.
    pub fn upper(self) -> i32 {
        self.lower.wrapping_add(self.length - 1)
    }
}

/// An array.
#[derive(Clone, Debug)]
pub struct ArrayValue {
    /// The type of the elements.
    pub element: Type,
    /// The dimensions from the outermost; none in an empty array.
    pub dimensions: Vec<Dimension>,
    /// The elements, the last subscript moving fastest.
    pub values: Vec<Value>,
}

impl ArrayValue {
    /// The empty array.
    pub fn empty(element: Type) -> ArrayValue {
        ArrayValue { element, dimensions: Vec::new(), values: Vec::new() }
    }

    /// An array of one dimension that starts at 1.
    pub fn list(element: Type, values: Vec<Value>) -> ArrayValue {
        ArrayValue::list_from(element, 1, values)
    }

    /// An array of one dimension.
    pub fn list_from(element: Type, lower: i32, values: Vec<Value>) -> ArrayValue {
        if values.is_empty() {
            return ArrayValue::empty(element);
        }
        let dimensions = vec![Dimension { length: values.len() as i32, lower }];
        ArrayValue { element, dimensions, values }
    }

    /// An array of these dimensions.
    pub fn with_dimensions(element: Type, dimensions: Vec<Dimension>, values: Vec<Value>) -> ArrayValue {
        if values.is_empty() {
            ArrayValue::empty(element)
        } else {
            ArrayValue { element, dimensions, values }
        }
    }

    /// `ARRAY[a, b, …]` of arrays: one more dimension outside; all must have the same dimensions.
    pub fn nest(element: Type, parts: &[Value]) -> Result<ArrayValue> {
        let mut values = Vec::new();
        let mut inner: Option<&[Dimension]> = None;
        let mut has_empty = false;
        for part in parts {
            let Value::Array(array) = part else {
                has_empty = true;
                continue;
            };
            if array.dimensions.is_empty() {
                has_empty = true;
                continue;
            }
            match inner {
                None => inner = Some(&array.dimensions),
                Some(first) if first == array.dimensions.as_slice() => {}
                Some(_) => return Err(unequal_dimensions()),
            }
            values.extend_from_slice(&array.values);
        }
        let Some(inner) = inner else { return Ok(ArrayValue::empty(element)) };
        if has_empty {
            return Err(unequal_dimensions());
        }
        if inner.len() >= DIMENSIONS_MAX {
            return Err(too_many_dimensions(inner.len() + 1));
        }
        let mut dimensions = vec![Dimension { length: parts.len() as i32, lower: 1 }];
        dimensions.extend_from_slice(inner);
        check_size(values.len())?;
        Ok(ArrayValue { element, dimensions, values })
    }

    /// The element at these subscripts, or NULL outside of the array.
    pub fn get(&self, subscripts: &[i32]) -> Value {
        self.offset(subscripts).map_or(Value::Null, |at| self.values[at].clone())
    }

    /// Position in `values` of the element with these subscripts.
    pub fn offset(&self, subscripts: &[i32]) -> Option<usize> {
        if subscripts.len() != self.dimensions.len() || subscripts.is_empty() {
            return None;
        }
        let mut at = 0;
        for (&subscript, dimension) in subscripts.iter().zip(&self.dimensions) {
            if subscript < dimension.lower || subscript > dimension.upper() {
                return None;
            }
            at =
                at * dimension.length as usize + (i64::from(subscript) - i64::from(dimension.lower)) as usize;
        }
        Some(at)
    }

    /// `a[l:u][…]`: the part between these bounds; a missing bound is the array's own. Lower bounds become 1.
    pub fn slice(&self, bounds: &[(Option<i32>, Option<i32>)]) -> ArrayValue {
        if self.dimensions.is_empty() || bounds.len() > self.dimensions.len() {
            return ArrayValue::empty(self.element);
        }
        let mut ranges = Vec::new();
        for (at, dimension) in self.dimensions.iter().enumerate() {
            let (lower, upper) = bounds.get(at).copied().unwrap_or((None, None));
            let lower = lower.unwrap_or(dimension.lower).max(dimension.lower);
            let upper = upper.unwrap_or(dimension.upper()).min(dimension.upper());
            if lower > upper {
                return ArrayValue::empty(self.element);
            }
            ranges.push(((lower - dimension.lower) as usize, (upper - dimension.lower) as usize));
        }
        let mut values = Vec::new();
        self.copy_slice(&ranges, 0, 0, &mut values);
        let length = |(from, to): &(usize, usize)| Dimension { length: (to - from + 1) as i32, lower: 1 };
        ArrayValue::with_dimensions(self.element, ranges.iter().map(length).collect(), values)
    }

    fn copy_slice(&self, ranges: &[(usize, usize)], depth: usize, offset: usize, into: &mut Vec<Value>) {
        let stride: usize = self.dimensions[depth + 1..].iter().map(|inner| inner.length as usize).product();
        for at in ranges[depth].0..=ranges[depth].1 {
            let offset = offset + at * stride;
            if depth + 1 == ranges.len() {
                into.push(self.values[offset].clone());
            } else {
                self.copy_slice(ranges, depth + 1, offset, into);
            }
        }
    }

    /// The array with one element replaced, as `UPDATE … SET a[i] = v` does it: a list grows, with NULLs between.
    pub fn with_element(
        &self,
        subscripts: &[i32],
        value: Value,
        environment: &mut dyn Environment,
    ) -> Result<ArrayValue> {
        if self.dimensions.is_empty() {
            let dimensions = subscripts.iter().map(|&lower| Dimension { length: 1, lower }).collect();
            return Ok(ArrayValue { element: self.element, dimensions, values: vec![value] });
        }
        if subscripts.len() != self.dimensions.len() {
            return Err(subscript_error("wrong number of array subscripts"));
        }
        if let Some(at) = self.offset(subscripts) {
            let mut array = self.clone();
            array.values[at] = value;
            return Ok(array);
        }
        if self.dimensions.len() != 1 {
            return Err(subscript_error("array subscript out of range"));
        }
        self.grown(subscripts[0], value, environment)
    }

    fn grown(&self, subscript: i32, value: Value, environment: &mut dyn Environment) -> Result<ArrayValue> {
        let dimension = self.dimensions[0];
        let lower = i64::from(subscript.min(dimension.lower));
        let upper = i64::from(subscript.max(dimension.upper()));
        let length = (upper - lower + 1) as usize;
        require_elements(length, environment)?;
        let mut values = vec![Value::Null; length];
        let from = (i64::from(dimension.lower) - lower) as usize;
        values[from..from + self.values.len()].clone_from_slice(&self.values);
        values[(i64::from(subscript) - lower) as usize] = value;
        Ok(ArrayValue::list_from(self.element, lower as i32, values))
    }

    /// Returns true if some element is NULL.
    pub fn has_nulls(&self) -> bool {
        self.values.iter().any(Value::is_null)
    }
}

/// An error unless an array may have this many elements.
pub fn check_size(elements: usize) -> Result<()> {
    if elements <= ELEMENTS_MAX {
        return Ok(());
    }
    let message = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
}

/// An error unless an array may have this many elements, and there is memory for them.
pub fn require_elements(elements: usize, environment: &mut dyn Environment) -> Result<()> {
    check_size(elements)?;
    environment.require_value(elements * size_of::<Value>())
}

/// A subscript is wrong (2202E).
pub fn subscript_error(message: &str) -> SqlError {
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
}

fn unequal_dimensions() -> SqlError {
    subscript_error("multidimensional arrays must have array expressions with matching dimensions")
}

/// An array would have more dimensions than are allowed.
pub fn too_many_dimensions(found: usize) -> SqlError {
    let message =
        format!("number of array dimensions ({found}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

impl Ord for ArrayValue {
    fn cmp(&self, other: &ArrayValue) -> Ordering {
        let shape = || {
            let dimensions = self.dimensions.len().cmp(&other.dimensions.len());
            dimensions.then_with(|| {
                let shapes = |array: &ArrayValue| {
                    array.dimensions.iter().map(|it| (it.length, it.lower)).collect::<Vec<_>>()
                };
                shapes(self).cmp(&shapes(other))
            })
        };
        self.values.cmp(&other.values).then_with(shape)
    }
}

impl PartialOrd for ArrayValue {
    fn partial_cmp(&self, other: &ArrayValue) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ArrayValue {
    fn eq(&self, other: &ArrayValue) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ArrayValue {}

impl Hash for ArrayValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.values.hash(state);
    }
}
