//! The definitions of the catalog's own tables, which are fixed.

use super::{
    ADDED_COLUMNS, CHECKS, COLUMNS, EVALUATORS, FEEDS, FOREIGN_KEYS, IDENTITIES, INDEXES, ROUTING, SEQUENCES,
    SUCCESSORS, TABLES,
};
use crate::storage::definition::{PrimaryIndex, TableDefinition};
use crate::storage::table::TableId;
use crate::types::DataType;

/// The catalog's own tables.
pub(crate) fn definitions() -> [(TableId, TableDefinition); 12] {
    let tables = TableDefinition::new("heddle_table")
        .column("table_id", DataType::Int64)
        .column("name", DataType::Text)
        .not_null()
        .column("primary_index", DataType::Text)
        .not_null()
        .primary_key(["table_id"])
        .primary_index(PrimaryIndex::Ordered);
    let columns = TableDefinition::new("heddle_column")
        .column("table_id", DataType::Int64)
        .column("position", DataType::Int64)
        .column("name", DataType::Text)
        .not_null()
        .column("type", DataType::Text)
        .not_null()
        .column("not_null", DataType::Bool)
        .not_null()
        .column("default", DataType::Bytes)
        .column("key_position", DataType::Int64)
        .column("references", DataType::Text)
        .column("domain", DataType::Text)
        .primary_key(["table_id", "position"])
        .primary_index(PrimaryIndex::Ordered);
    let indexes = TableDefinition::new("heddle_index")
        .column("table_id", DataType::Int64)
        .column("position", DataType::Int64)
        .column("name", DataType::Text)
        .not_null()
        .column("unique", DataType::Bool)
        .not_null()
        .column("columns", DataType::Text)
        .not_null()
        .primary_key(["table_id", "position"])
        .primary_index(PrimaryIndex::Ordered);
    let routing = TableDefinition::new("heddle_routing")
        .column("table_id", DataType::Int64)
        .column("position", DataType::Int64)
        .column("column_position", DataType::Int64)
        .not_null()
        .primary_key(["table_id", "position"])
        .primary_index(PrimaryIndex::Ordered);
    let number = |definition: TableDefinition, name: &str| definition.column(name, DataType::Int64);
    let sequences = TableDefinition::new("heddle_sequence").column("name", DataType::Text);
    let sequences = ["start", "increment", "min", "max"]
        .iter()
        .fold(sequences, |definition, name| number(definition, name).not_null());
    let sequences = sequences.column("cycle", DataType::Bool).not_null();
    let sequences = number(number(sequences, "cache").not_null(), "resume_at")
        .primary_key(["name"])
        .primary_index(PrimaryIndex::Ordered);
    [
        (TABLES, tables),
        (COLUMNS, columns),
        (INDEXES, indexes),
        (ROUTING, routing),
        (SEQUENCES, sequences),
        (CHECKS, check_table()),
        (FOREIGN_KEYS, foreign_key_table()),
        (FEEDS, feed_table()),
        (SUCCESSORS, successor_table()),
        (IDENTITIES, identity_table()),
        (EVALUATORS, evaluator_table()),
        (ADDED_COLUMNS, added_column_table()),
    ]
}

fn check_table() -> TableDefinition {
    TableDefinition::new("heddle_check")
        .column("table_id", DataType::Int64)
        .column("position", DataType::Int64)
        .column("name", DataType::Text)
        .not_null()
        .column("condition", DataType::Text)
        .not_null()
        .primary_key(["table_id", "position"])
        .primary_index(PrimaryIndex::Ordered)
}

fn feed_table() -> TableDefinition {
    TableDefinition::new("heddle_feed")
        .column("name", DataType::Text)
        .column("table_id", DataType::Int64)
        .not_null()
        .column("epoch", DataType::Int64)
        .not_null()
        .column("log_bytes", DataType::Int64)
        .not_null()
        .primary_key(["name"])
        .primary_index(PrimaryIndex::Ordered)
}

fn successor_table() -> TableDefinition {
    TableDefinition::new("heddle_successor")
        .column("table_id", DataType::Int64)
        .column("successor", DataType::Int64)
        .not_null()
        .primary_key(["table_id"])
        .primary_index(PrimaryIndex::Ordered)
}

fn identity_table() -> TableDefinition {
    TableDefinition::new("heddle_identity")
        .column("table_id", DataType::Int64)
        .column("column_position", DataType::Int64)
        .not_null()
        .column("always", DataType::Bool)
        .not_null()
        .column("sequence", DataType::Text)
        .not_null()
        .primary_key(["table_id"])
        .primary_index(PrimaryIndex::Ordered)
}

fn evaluator_table() -> TableDefinition {
    TableDefinition::new("heddle_evaluator")
        .column("table_id", DataType::Int64)
        .column("evaluator", DataType::Text)
        .not_null()
        .primary_key(["table_id"])
        .primary_index(PrimaryIndex::Ordered)
}

fn added_column_table() -> TableDefinition {
    TableDefinition::new("heddle_added_column")
        .column("table_id", DataType::Int64)
        .column("position", DataType::Int64)
        .column("past_value", DataType::Bytes)
        .primary_key(["table_id", "position"])
        .primary_index(PrimaryIndex::Ordered)
}

fn foreign_key_table() -> TableDefinition {
    TableDefinition::new("heddle_foreign_key")
        .column("table_id", DataType::Int64)
        .column("position", DataType::Int64)
        .column("place", DataType::Int64)
        .column("name", DataType::Text)
        .not_null()
        .column("column", DataType::Text)
        .not_null()
        .column("referenced_table", DataType::Text)
        .not_null()
        .column("referenced_column", DataType::Text)
        .column("on_delete", DataType::Text)
        .not_null()
        .column("on_update", DataType::Text)
        .not_null()
        .column("deferred", DataType::Bool)
        .not_null()
        .primary_key(["table_id", "position", "place"])
        .primary_index(PrimaryIndex::Ordered)
}
