//! Domains: what a column's values are values of, as the schema declares it.
//!
//! A column that references a table shares the domain of that table's key. Where that key has several columns, the
//! referencing column represents its last one, and the others are the columns of its own table that share their
//! domains: `c_d_id` references `district`, whose key is (`d_w_id`, `d_id`), and `c_w_id` shares the domain of `d_w_id`;
//! so a customer's district is named by both, as the district itself is. A column may also be given a domain by name.
//! A column without any declaration names itself: the last column of a key names the row, with the columns
//! before it, and a column outside of the key its own values.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::schedule::reference::Attribute;
use crate::storage::definition::TableDefinition;
use crate::storage::table::TableCore;

/// Finds tables by their names.
pub(crate) type Schema<'s> = dyn Fn(&str) -> Option<Arc<TableCore>> + 's;

/// References of references are followed so far: a circle of them ends somewhere.
const DEPTH: usize = 8;

/// The domain of a column's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domain {
    /// Its name.
    pub(crate) attribute: Attribute,
    /// The columns of the table whose values together are a value of it.
    pub(crate) columns: SmallVec<[usize; 4]>,
}

/// A column by its own name.
pub(crate) fn literal(table: &TableDefinition, column: usize) -> Attribute {
    Attribute::named(&["column", table.name(), &table.columns()[column].name])
}

/// The rows of a table.
fn rows_of(table: &str) -> Attribute {
    Attribute::named(&["table", table])
}

/// The domain of a column.
pub(crate) fn domain(table: &TableDefinition, column: usize, schema: &Schema<'_>) -> Domain {
    follow(table, column, schema, DEPTH)
}

fn follow(table: &TableDefinition, column: usize, schema: &Schema<'_>, depth: usize) -> Domain {
    let definition = &table.columns()[column];
    if let Some(name) = &definition.domain {
        return Domain { attribute: Attribute::named(&["domain", name]), columns: smallvec![column] };
    }
    if let (Some(referenced), true) = (&definition.references, depth > 0)
        && let Some(domain) = referenced_domain(table, column, referenced, schema, depth)
    {
        return domain;
    }
    let key = table.key();
    match key.iter().position(|position| *position == column) {
        Some(place) if place + 1 == key.len() => {
            Domain { attribute: rows_of(table.name()), columns: key.into() }
        }
        Some(place) => Domain { attribute: literal(table, column), columns: key[..=place].into() },
        None => Domain { attribute: literal(table, column), columns: smallvec![column] },
    }
}

/// The domain of a column that references a table; `None` if the other columns of that table's key are not declared
/// here.
fn referenced_domain(
    table: &TableDefinition,
    column: usize,
    referenced: &str,
    schema: &Schema<'_>,
    depth: usize,
) -> Option<Domain> {
    let Some(referenced) = schema(referenced) else {
        // Not made yet, or never: its name is as good.
        return Some(Domain { attribute: rows_of(referenced), columns: smallvec![column] });
    };
    let referenced = referenced.definition();
    let (last, before) = referenced.key().split_last()?;
    if before.is_empty() {
        let Domain { attribute, .. } = follow(referenced, *last, schema, depth - 1);
        return Some(Domain { attribute, columns: smallvec![column] });
    }
    let mut columns = SmallVec::new();
    for other in before {
        let wanted = follow(referenced, *other, schema, depth - 1).attribute;
        let shares =
            |own: &usize| *own != column && follow(table, *own, schema, depth - 1).attribute == wanted;
        columns.push((0..table.columns().len()).find(shares)?);
    }
    columns.push(column);
    Some(Domain { attribute: rows_of(referenced.name()), columns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::definition::ColumnDefinition;
    use crate::storage::epoch::FIRST;
    use crate::storage::store::Store;
    use crate::types::DataType::Int64;

    fn wholesaler() -> Vec<Arc<TableCore>> {
        let store = Store::new(FIRST, 4, false);
        let warehouse = TableDefinition::new("warehouse").column("w_id", Int64).primary_key(["w_id"]);
        let district = TableDefinition::new("district")
            .column("d_w_id", Int64)
            .references("warehouse")
            .column("d_id", Int64)
            .column("d_tax", Int64)
            .primary_key(["d_w_id", "d_id"]);
        let customer = TableDefinition::new("customer")
            .column("c_d_id", Int64)
            .references("district")
            .column("c_w_id", Int64)
            .references("warehouse")
            .column("c_id", Int64)
            .column("c_friend", Int64)
            .references("nobody")
            .column("c_age", Int64)
            .domain("years")
            .primary_key(["c_w_id", "c_d_id", "c_id"]);
        let shop = TableDefinition::new("shop")
            .column("id", Int64)
            .references("warehouse")
            .column("age", Int64)
            .domain("years")
            .column("d", Int64)
            .references("district")
            .primary_key(["id"]);
        let lost = TableDefinition::new("lost").column("id", Int64).column("d", Int64).references("district");
        let circle = TableDefinition::new("circle").column("id", Int64).references("circle");
        [warehouse, district, customer, shop, lost.primary_key(["id"]), circle.primary_key(["id"])]
            .into_iter()
            .zip(16..)
            .map(|(definition, id)| store.add_table(id, definition))
            .collect()
    }

    fn of(name: &str) -> (Attribute, Vec<String>) {
        let tables = wholesaler();
        let schema = |wanted: &str| tables.iter().find(|table| table.definition().name() == wanted).cloned();
        let (table, column) = name.split_once('.').expect("table.column");
        let table = schema(table).expect("it is there");
        let position = table.definition().position(column).expect("it is there");
        let domain = domain(table.definition(), position, &schema);
        let names = domain.columns.iter().map(|&column| &table.definition().columns()[column]);
        (domain.attribute, names.map(|ColumnDefinition { name, .. }| name.clone()).collect())
    }

    #[test]
    fn a_column_that_references_a_key_shares_its_domain() {
        let (warehouse, own) = of("warehouse.w_id");
        assert_eq!(own, ["w_id"]);
        assert_eq!(of("district.d_w_id"), (warehouse, vec!["d_w_id".to_string()]));
        assert_eq!(of("customer.c_w_id").0, warehouse);
        assert_eq!(of("shop.id"), (warehouse, vec!["id".to_string()]), "a key that is a reference itself");
    }

    #[test]
    fn a_key_of_several_columns_is_named_by_all_of_them_in_its_order() {
        let (district, own) = of("district.d_id");
        assert_eq!(own, ["d_w_id", "d_id"]);
        let (of_customer, columns) = of("customer.c_d_id");
        assert_eq!((of_customer, columns), (district, vec!["c_w_id".to_string(), "c_d_id".to_string()]));
        assert_eq!(of("customer.c_id").1, ["c_w_id", "c_d_id", "c_id"]);
        assert_ne!(of("customer.c_id").0, district);
        assert_eq!(of("shop.d"), (district, vec!["id".to_string(), "d".to_string()]));
    }

    #[test]
    fn declared_domains_are_shared_and_the_rest_names_itself() {
        assert_eq!(of("customer.c_age").0, of("shop.age").0);
        assert_eq!(of("district.d_tax").1, ["d_tax"]);
        assert_ne!(of("district.d_tax").0, of("shop.age").0);
        assert_eq!(of("customer.c_friend"), (rows_of("nobody"), vec!["c_friend".to_string()]));
    }

    #[test]
    fn what_lacks_the_rest_of_a_key_names_itself_and_circles_end() {
        assert_eq!(of("lost.d").1, ["d"]);
        assert_ne!(of("lost.d").0, of("district.d_id").0);
        assert_eq!(of("circle.id").1, ["id"]);
    }
}
