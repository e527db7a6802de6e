//! Labels by hand: which column of which record is to be split, and for which operation.

use std::str::FromStr;

use heddledb::{DataType, Database, SplitOperation, Table, Value, ValueRef};

use crate::failure::{Failure, Result};

/// Form of a label.
const FORM: &str = "TABLE.COLUMN:KEY:OPERATION, for example incr1.value:1:add";

/// A label as it was written: the table is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitLabel {
    table: String,
    column: String,
    /// The key's values, separated by commas.
    key: String,
    operation: SplitOperation,
}

impl FromStr for SplitLabel {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        // A text key may have colons of its own: the operation is behind the last one.
        let parts = text.split_once(':').and_then(|(place, rest)| {
            let (table, column) = place.split_once('.')?;
            let (key, operation) = rest.rsplit_once(':')?;
            Some([table, column, key, operation])
        });
        match parts {
            Some(parts) if parts.iter().all(|part| !part.is_empty()) => {
                let [table, column, key, operation] = parts;
                let operation = operation.parse().map_err(|error: heddledb::Error| error.to_string())?;
                let [table, column, key] = [table, column, key].map(str::to_owned);
                Ok(Self { table, column, key, operation })
            }
            _ => Err(format!("write it as {FORM}")),
        }
    }
}

impl std::fmt::Display for SplitLabel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { table, column, key, operation } = self;
        write!(f, "{table}.{column}:{key}:{operation}")
    }
}

impl SplitLabel {
    /// Puts the label on its record.
    pub fn put(&self, db: &Database) -> Result {
        let table = db.table(&self.table)?;
        let key = self.key(&table)?;
        let key: Vec<ValueRef<'_>> = key.iter().map(ValueRef::from).collect();
        let put = db.split(&table, key, self.column.as_str(), self.operation);
        put.map_err(|error| Failure::Usage(format!("--split {self}: {error}")))
    }

    /// Reads the key as one of the table's.
    fn key(&self, table: &Table) -> Result<Vec<Value>> {
        let definition = table.definition();
        let types: Vec<&DataType> =
            definition.key().iter().map(|&place| &definition.columns()[place].data_type).collect();
        let parts: Vec<&str> = self.key.split(',').collect();
        let key = match parts.len() == types.len() {
            true => parts.iter().zip(types).map(|(part, of)| value(part, of)).collect::<Option<Vec<_>>>(),
            false => None,
        };
        key.ok_or_else(|| {
            Failure::Usage(format!(
                "--split {self}: {:?} is no key of the table {:?}; write it as {FORM}",
                self.key, self.table
            ))
        })
    }
}

/// A key's value, read as one of its type.
fn value(text: &str, of: &DataType) -> Option<Value> {
    match of {
        DataType::Int32 | DataType::Int64 => text.parse().ok().map(Value::Int),
        DataType::Text => Some(Value::Text(text.to_owned())),
        DataType::Bool => text.parse().ok().map(Value::Bool),
        DataType::Date => text.parse().ok().map(Value::Date),
        DataType::Timestamp => text.parse().ok().map(Value::Timestamp),
        DataType::Uuid => text.parse().ok().map(Value::Uuid),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use heddledb::{Durability, Options, TableDefinition};

    use super::*;

    fn label(text: &str) -> SplitLabel {
        text.parse().unwrap()
    }

    fn database() -> Database {
        let db = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
        let definition = TableDefinition::new("place")
            .column("country", DataType::Text)
            .column("number", DataType::Int64)
            .column("visits", DataType::Int64)
            .not_null()
            .primary_key(["country", "number"]);
        db.create_table(definition).unwrap();
        db
    }

    #[test]
    fn labels_are_read_and_written_alike() {
        for text in ["incr1.value:1:add", "place.visits:a:b,7:max"] {
            assert_eq!(label(text).to_string(), text);
        }
        assert_eq!(label("place.visits:a:b,7:max").key, "a:b,7");
    }

    #[test]
    fn an_invalid_label_is_refused_with_the_expected_form() {
        for text in
            ["", "incr1", "incr1.value", "incr1.value:1", "incr1:1:add", ".value:1:add", "a.b::add", "a.b:1:"]
        {
            assert!(text.parse::<SplitLabel>().unwrap_err().contains("TABLE.COLUMN:KEY:OPERATION"), "{text}");
        }
    }

    #[test]
    fn an_unknown_operation_is_refused_with_the_known_ones() {
        let message = "incr1.value:1:double".parse::<SplitLabel>().unwrap_err();
        assert!(message.contains("double") && message.contains("ordered-put"), "{message}");
    }

    #[test]
    fn a_label_finds_its_record() {
        let db = database();
        let written = label("place.visits:NL,-7:add");
        let table = db.table("place").unwrap();
        assert_eq!(written.key(&table).unwrap(), [Value::from("NL"), Value::Int(-7)]);
        written.put(&db).unwrap();
    }

    #[test]
    fn a_label_that_fits_no_table_is_refused() {
        let db = database();
        let message = |text: &str| label(text).put(&db).unwrap_err().to_string();
        assert!(message("nowhere.visits:1:add").contains("nowhere"));
        assert!(message("place.nothing:NL,1:add").contains("nothing"));
        assert!(message("place.visits:NL:add").contains("\"NL\""));
        assert!(message("place.visits:NL,seven:add").contains("seven"));
        assert!(message("place.country:NL,1:max").contains("--split place.country:NL,1:max"));
    }
}
