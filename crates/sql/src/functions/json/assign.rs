//! Documents with a part replaced, as `UPDATE … SET j['a'][0] = '1'` has them.
//!
//! # Invariants
//! - Missing containers on the way are created: an array for a step that is an integer, else an object. Arrays are
//!   filled with `null`. A scalar on the way is an error.
//!
//! Source: PostgreSQL 15, `jsonb_set_element`, `setPath` and `push_path` in `jsonfuncs.c`.

use super::convert::composed_jsonb;
use super::paths::{array_index, invalid};
use crate::error::Result;
use crate::functions::array_parts::{no_subscript, subscripts};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::types::array::require_elements;
use crate::types::jsonb::{DEPTH_MAX, Jsonb, Members};
use crate::types::text::too_deep;
use crate::types::{Environment, Value};

/// The table; the binder alone calls this.
pub(super) const FUNCTIONS: &[Definition] =
    &[scalar("heddle_set_path(jsonb, jsonb, text[], bool) jsonb", set_path).nullable()];

fn set_path(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let begins_with_index = v[3] == Value::Bool(true);
    with_path(&v[0], &v[1], subscripts(&v[2], "jsonb")?, begins_with_index, context.environment)
}

/// A document with a part replaced. `begins_with_index`: true if the first step is an integer, which decides the kind
/// of document that NULL becomes.
pub(crate) fn with_path(
    document: &Value,
    new: &Value,
    steps: &[Value],
    begins_with_index: bool,
    environment: &mut dyn Environment,
) -> Result<Value> {
    // A longer path leads deeper than any document: it is refused before a level is created for each step.
    if steps.len() > DEPTH_MAX {
        return Err(too_deep());
    }
    let steps = steps.iter().map(|step| match step {
        Value::Null => Err(no_subscript("jsonb")),
        step => Ok(step.str()),
    });
    let steps: Vec<&str> = steps.collect::<Result<_>>()?;
    let new = if new.is_null() { Jsonb::Null } else { new.as_jsonb().clone() };
    let mut document = match document {
        Value::Null if begins_with_index => Jsonb::Array(Vec::new()),
        Value::Null => Jsonb::Object(Members::default()),
        document => document.as_jsonb().clone(),
    };
    replace(&mut document, &steps, 0, new, environment)?;
    composed_jsonb(document)
}

/// Replaces the value that the steps from `level` on lead to.
fn replace(
    part: &mut Jsonb,
    steps: &[&str],
    level: usize,
    new: Jsonb,
    environment: &mut dyn Environment,
) -> Result<()> {
    let Some(&step) = steps.get(level) else {
        *part = new;
        return Ok(());
    };
    crate::stack::grow(|| match part {
        Jsonb::Object(members) => {
            let member = match members.remove(step) {
                Some(mut member) => {
                    replace(&mut member, steps, level + 1, new, environment)?;
                    member
                }
                None => created(&steps[level + 1..], new, environment)?,
            };
            members.insert(step.into(), member);
            Ok(())
        }
        Jsonb::Array(values) => {
            let index = array_index(step, level + 1)?;
            let at = if index < 0 { index + values.len() as i64 } else { index };
            let at = usize::try_from(at).map_err(|_| {
                invalid(format!("path element at position {} is out of range: {index}", level + 1))
            })?;
            if let Some(value) = values.get_mut(at) {
                return replace(value, steps, level + 1, new, environment);
            }
            let value = created(&steps[level + 1..], new, environment)?;
            require_elements(at, environment)?;
            values.resize(at, Jsonb::Null);
            values.push(value);
            Ok(())
        }
        _ => Err(invalid("cannot replace existing key")
            .with_detail("The path assumes key is a composite object, but it is a scalar value.")),
    })
}

/// A value nested in the containers that the steps name.
fn created(steps: &[&str], new: Jsonb, environment: &mut dyn Environment) -> Result<Jsonb> {
    let mut value = new;
    for step in steps.iter().rev() {
        value = match step.parse::<i32>() {
            Ok(index) => {
                let at = usize::try_from(index).unwrap_or(0);
                require_elements(at, environment)?;
                let mut values = vec![Jsonb::Null; at];
                values.push(value);
                Jsonb::Array(values)
            }
            Err(_) => Jsonb::Object(Members::from_pairs(vec![((*step).into(), value)])),
        };
    }
    Ok(value)
}
