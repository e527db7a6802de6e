//! Room on the stack for rules that call themselves: parsing, binding, planning and evaluating nested statements.
//!
//! Invariants: nesting is limited elsewhere (`parse::NESTING_MAX`, `parse::HEIGHT_MAX`), so that the room is bounded;
//! a statement within those limits never exhausts the stack, however small the caller's thread is.

/// Less than this is left: a new stretch is allocated. The recursion over a document of the greatest depth
/// (`types::jsonb::DEPTH_MAX`) has to fit, because it does not ask for more.
const LEAST_BYTES: usize = 1024 * 1024;
/// The size of a new stretch.
const STRETCH_BYTES: usize = 4 * 1024 * 1024;

/// The stack of a statement that may nest deeply.
const DEEP_BYTES: usize = 32 * 1024 * 1024;
/// Texts shorter than this cannot nest so deeply that an ordinary stack is too small.
const SHALLOW_TEXT_BYTES: usize = 768;

/// Runs what recurs over a statement of this text's length: planning, evaluating, copying and dropping its trees.
pub(crate) fn for_text<T>(text_bytes: usize, step: impl FnOnce() -> T) -> T {
    if text_bytes <= SHALLOW_TEXT_BYTES {
        step()
    } else {
        stacker::maybe_grow(DEEP_BYTES / 2, DEEP_BYTES, step)
    }
}

/// Runs a step of a recursion with enough stack for it.
pub(crate) fn grow<T>(step: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LEAST_BYTES, STRETCH_BYTES, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::bytes::{read_value, write_value};
    use crate::types::Value;
    use crate::types::jsonb::DEPTH_MAX;
    use crate::types::text::{check_json, jsonb_text, parse_jsonb, pretty_text};

    #[test]
    fn the_deepest_document_fits_on_the_stack_that_is_left_at_least() {
        let nested = |open: &str, close: &str| {
            let text = format!("{}1{}", open.repeat(DEPTH_MAX), close.repeat(DEPTH_MAX));
            check_json(&text).expect("as deep as it may be");
            let tree = parse_jsonb(&text).expect("as deep as it may be");
            assert_eq!(tree.clone(), tree);
            assert!(tree.heap_size() > DEPTH_MAX && pretty_text(&tree).is_ok());
            assert_eq!(jsonb_text(&tree).map(|text| text.replace(' ', "")), Ok(text));
            let (value, mut bytes) = (Value::jsonb(tree), Vec::new());
            write_value(&value, &mut bytes);
            assert_eq!(read_value(&mut &bytes[..]), Some(value));
        };
        let both = move || {
            nested("[", "]");
            nested("{\"a\":", "}");
        };
        let thread = std::thread::Builder::new().stack_size(LEAST_BYTES).spawn(both);
        thread.expect("a thread starts").join().expect("the stack suffices");
    }
}
