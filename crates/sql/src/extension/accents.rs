//! `unaccent`: letters without their accents, by PostgreSQL's rules.

use std::sync::LazyLock;

use hashbrown::HashMap;

use crate::error::Result;
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::interrupt::step;
use crate::types::Value;

/// The table.
pub(super) const FUNCTIONS: &[Definition] = &[scalar("unaccent(text) text", unaccented).stable()];

/// The replacement of each character: `unaccent.txt` is PostgreSQL 15's `unaccent.rules`.
static RULES: LazyLock<HashMap<char, &'static str>> = LazyLock::new(|| {
    let rule = |line: &'static str| {
        let mut words = line.split_whitespace();
        let mut from = words.next()?.chars();
        let first = from.next()?;
        from.next().is_none().then(|| (first, words.next().unwrap_or_default()))
    };
    include_str!("unaccent.txt").lines().filter_map(rule).collect()
});

fn unaccented(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let text = v[0].str();
    if text.is_ascii() {
        return Ok(v[0].clone());
    }
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        step()?;
        match RULES.get(&character) {
            Some(becomes) => out.push_str(becomes),
            None => out.push(character),
        }
    }
    Ok(Value::text(out))
}
