//! The errors of calls that no function or operator fits.

use crate::error::{SqlError, SqlState};
use crate::types::Type;

fn type_list(kinds: &[Type]) -> String {
    kinds.iter().map(|kind| kind.display_name()).collect::<Vec<_>>().join(", ")
}

pub(super) fn call_text(name: &str, arguments: &[Type]) -> String {
    format!("{name}({})", type_list(arguments))
}

pub(super) fn operator_text(symbol: &str, operands: &[Type]) -> String {
    match operands {
        [operand] => format!("{symbol} {}", operand.display_name()),
        [left, right] => format!("{} {symbol} {}", left.display_name(), right.display_name()),
        _ => symbol.to_string(),
    }
}

/// The functions of PostgreSQL that read and write large objects.
fn is_of_large_objects(name: &str) -> bool {
    name.starts_with("lo_") || matches!(name, "loread" | "lowrite")
}

/// `function f(integer) does not exist` (42883); 0A000 for one that PostgreSQL has, and that is refused.
pub fn no_function(name: &str, arguments: &[Type]) -> SqlError {
    if is_of_large_objects(name) {
        return SqlError::unsupported("large objects are not supported")
            .with_hint("Use a column of type bytea.");
    }
    let message = format!("function {} does not exist", call_text(name, arguments));
    let hint =
        "No function matches the given name and argument types. You might need to add explicit type casts.";
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(hint)
}

/// `operator does not exist: integer + boolean` (42883).
pub fn no_operator(symbol: &str, operands: &[Type]) -> SqlError {
    let message = format!("operator does not exist: {}", operator_text(symbol, operands));
    let hint = match operands.len() {
        1 => {
            "No operator matches the given name and argument type. You might need to add an explicit type cast."
        }
        _ => {
            "No operator matches the given name and argument types. You might need to add explicit type casts."
        }
    };
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(hint)
}
