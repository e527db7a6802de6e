//! Functions of top-K sets: insertion, union, and their entries as rows.

use std::sync::Arc;

use super::definition::{Definition, FunctionContext, Rows, RowsOf, scalar, set};
use crate::error::Result;
use crate::types::record::{RecordField, RecordValue};
use crate::types::top_k::{ENTRIES_MAX, Entry, entries, merged, set_of};
use crate::types::{Type, Value};

/// The function that inserts one entry.
pub(crate) const INSERT: &str = "topk_insert";
/// The function that inserts all entries of a set.
pub(crate) const MERGE: &str = "topk_merge";

/// The functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("topk_insert(topk, score numeric, key text) topk", insert).nullable(),
    scalar("topk_insert(topk, score numeric, key text, payload text) topk", insert).nullable(),
    scalar("topk_merge(topk, topk) topk", |_, v| merge(&v[0], &v[1])).nullable(),
    set("topk_entries(topk) setof record score numeric; key text; payload text", rows),
];

/// The set with one more entry; without a score or a key there is none.
fn insert(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    if v[1].is_null() || v[2].is_null() {
        return Ok(v[0].clone());
    }
    let payload = v.get(3).filter(|payload| !payload.is_null()).map(|payload| payload.str().to_owned());
    let entry = Entry { score: v[1].as_numeric().clone(), key: v[2].str().to_owned(), payload };
    merge(&v[0], &set_of(ENTRIES_MAX, &[entry])?)
}

/// The entries of both sets; NULL is a set without entries.
fn merge(one: &Value, other: &Value) -> Result<Value> {
    match (one, other) {
        (Value::Null, set) | (set, Value::Null) => Ok(set.clone()),
        (one, other) => merged(one.as_bytes(), other.as_bytes()),
    }
}

fn rows(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Box<dyn Rows>> {
    let field = |name: &str, kind| RecordField { name: name.into(), kind };
    let fields: Arc<[RecordField]> =
        Arc::from([field("score", Type::Numeric), field("key", Type::Text), field("payload", Type::Text)]);
    let row = move |entry: Entry| {
        let payload = entry.payload.map_or(Value::Null, Value::text);
        let values = Box::new([Value::Numeric(entry.score), Value::text(entry.key), payload]);
        Ok(Value::Record(Arc::new(RecordValue { fields: fields.clone(), values })))
    };
    Ok(Box::new(RowsOf(entries(v[0].as_bytes())?.into_iter().map(row))))
}
