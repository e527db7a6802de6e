//! The nine tables, with all columns of the specification.
//!
//! Tables whose rows are found by the whole key have a hash index. Those of which a first row or a range is
//! wanted are ordered: `new_order` (the oldest), `order_line` (all of an order), `history` (whose keys only
//! grow). `history`, which has no key in the specification, is keyed by the warehouse, a caller, and the
//! caller's own count.
//!
//! Identifiers have 64 bits in hashed keys, where those are encoded fastest, and 32 in ordered ones: an ordered index
//! tells keys apart by the eight bytes behind what they share, which then are two columns. Money is an exact decimal.

use heddledb::{DataType, Database, PrimaryIndex, Result, Table, TableDefinition};

pub(super) const WAREHOUSE: &str = "warehouse";
pub(super) const DISTRICT: &str = "district";
pub(super) const CUSTOMER: &str = "customer";
pub(super) const HISTORY: &str = "history";
pub(super) const NEW_ORDER: &str = "new_order";
pub(super) const ORDERS: &str = "orders";
pub(super) const ORDER_LINE: &str = "order_line";
pub(super) const ITEM: &str = "item";
pub(super) const STOCK: &str = "stock";

/// Names of the tables, in the order in which they are created.
pub(super) const NAMES: [&str; 9] =
    [WAREHOUSE, DISTRICT, CUSTOMER, HISTORY, NEW_ORDER, ORDERS, ORDER_LINE, ITEM, STOCK];

/// Customers by district, last name, first name.
pub(super) const BY_NAME: &str = "customer_by_name";
/// Orders by district, customer, number.
pub(super) const BY_CUSTOMER: &str = "orders_by_customer";

/// Districts of each warehouse.
pub(super) const DISTRICTS: i64 = 10;

/// The tables of an open database.
#[derive(Clone)]
pub(super) struct Tables {
    pub warehouse: Table,
    pub district: Table,
    pub customer: Table,
    pub history: Table,
    pub new_order: Table,
    pub orders: Table,
    pub order_line: Table,
    pub item: Table,
    pub stock: Table,
}

impl Tables {
    /// Looks the tables up, and makes those that are missing.
    /// `apart`: a warehouse's stock is divided among executors, by its items.
    pub fn create(db: &Database, apart: bool) -> Result<Self> {
        let definitions = [
            warehouse(),
            district(),
            customer(),
            history(),
            new_order(),
            orders(),
            order_line(),
            item(),
            if apart { stock().routing(["s_w_id", "s_i_id"]) } else { stock() },
        ];
        for definition in definitions {
            if crate::scan::table_if_there(db, definition.name())?.is_none() {
                db.create_table(definition)?;
            }
        }
        Self::open(db)
    }

    /// Looks the tables up.
    pub fn open(db: &Database) -> Result<Self> {
        Ok(Self {
            warehouse: db.table(WAREHOUSE)?,
            district: db.table(DISTRICT)?,
            customer: db.table(CUSTOMER)?,
            history: db.table(HISTORY)?,
            new_order: db.table(NEW_ORDER)?,
            orders: db.table(ORDERS)?,
            order_line: db.table(ORDER_LINE)?,
            item: db.table(ITEM)?,
            stock: db.table(STOCK)?,
        })
    }
}

const ID: DataType = DataType::Int64;
const SHORT_ID: DataType = DataType::Int32;
const COUNT: DataType = DataType::Int32;
const TEXT: DataType = DataType::Text;
const TIME: DataType = DataType::Timestamp;
const MONEY: DataType = DataType::Decimal { precision: 12, scale: 2 };
/// Taxes and discounts.
const SHARE: DataType = DataType::Decimal { precision: 4, scale: 4 };

/// Adds columns that are never NULL.
fn columns(definition: TableDefinition, columns: &[(&str, DataType)]) -> TableDefinition {
    columns
        .iter()
        .fold(definition, |definition, (name, kind)| definition.column(*name, kind.clone()).not_null())
}

/// Adds the columns of an address.
fn address(definition: TableDefinition, prefix: &str) -> TableDefinition {
    ["street_1", "street_2", "city", "state", "zip"]
        .iter()
        .fold(definition, |definition, name| definition.column(format!("{prefix}_{name}"), TEXT).not_null())
}

fn warehouse() -> TableDefinition {
    let named = columns(TableDefinition::new(WAREHOUSE), &[("w_id", ID), ("w_name", TEXT)]);
    columns(address(named, "w"), &[("w_tax", SHARE), ("w_ytd", MONEY)])
        .primary_key(["w_id"])
        .primary_index(PrimaryIndex::Hash)
}

fn district() -> TableDefinition {
    let keyed = TableDefinition::new(DISTRICT).column("d_w_id", ID).references(WAREHOUSE);
    let named = columns(keyed, &[("d_id", ID), ("d_name", TEXT)]);
    columns(address(named, "d"), &[("d_tax", SHARE), ("d_ytd", MONEY), ("d_next_o_id", ID)])
        .primary_key(["d_w_id", "d_id"])
        .primary_index(PrimaryIndex::Hash)
}

fn customer() -> TableDefinition {
    let keyed = TableDefinition::new(CUSTOMER).column("c_w_id", ID).references(WAREHOUSE);
    let keyed = keyed.column("c_d_id", ID).references(DISTRICT);
    let names = [("c_id", ID), ("c_first", TEXT), ("c_middle", TEXT), ("c_last", TEXT)];
    let rest = [
        ("c_phone", TEXT),
        ("c_since", TIME),
        ("c_credit", TEXT),
        ("c_credit_lim", MONEY),
        ("c_discount", SHARE),
        ("c_balance", MONEY),
        ("c_ytd_payment", MONEY),
        ("c_payment_cnt", COUNT),
        ("c_delivery_cnt", COUNT),
        ("c_data", TEXT),
    ];
    columns(address(columns(keyed, &names), "c"), &rest)
        .primary_key(["c_w_id", "c_d_id", "c_id"])
        .primary_index(PrimaryIndex::Hash)
        .index(BY_NAME, ["c_w_id", "c_d_id", "c_last", "c_first"])
}

fn history() -> TableDefinition {
    let keyed = TableDefinition::new(HISTORY).column("h_w_id", ID).references(WAREHOUSE);
    let rest = [
        ("h_caller", ID),
        ("h_sequence", ID),
        ("h_c_id", ID),
        ("h_c_d_id", ID),
        ("h_c_w_id", ID),
        ("h_d_id", ID),
        ("h_date", TIME),
        ("h_amount", MONEY),
        ("h_data", TEXT),
    ];
    columns(keyed, &rest)
        .primary_key(["h_w_id", "h_caller", "h_sequence"])
        .primary_index(PrimaryIndex::Ordered)
}

fn new_order() -> TableDefinition {
    let keyed = TableDefinition::new(NEW_ORDER).column("no_w_id", SHORT_ID).references(WAREHOUSE);
    let keyed = keyed.column("no_d_id", SHORT_ID).references(DISTRICT);
    columns(keyed, &[("no_o_id", SHORT_ID)])
        .primary_key(["no_w_id", "no_d_id", "no_o_id"])
        .primary_index(PrimaryIndex::Ordered)
}

fn orders() -> TableDefinition {
    let keyed = TableDefinition::new(ORDERS).column("o_w_id", SHORT_ID).references(WAREHOUSE);
    let keyed = keyed.column("o_d_id", SHORT_ID).references(DISTRICT);
    let known = [("o_id", SHORT_ID), ("o_c_id", SHORT_ID), ("o_entry_d", TIME)];
    columns(
        columns(keyed, &known).column("o_carrier_id", COUNT),
        &[("o_ol_cnt", COUNT), ("o_all_local", COUNT)],
    )
    .primary_key(["o_w_id", "o_d_id", "o_id"])
    .primary_index(PrimaryIndex::Hash)
    .unique_index(BY_CUSTOMER, ["o_w_id", "o_d_id", "o_c_id", "o_id"])
}

fn order_line() -> TableDefinition {
    let keyed = TableDefinition::new(ORDER_LINE).column("ol_w_id", SHORT_ID).references(WAREHOUSE);
    let keyed = keyed.column("ol_d_id", SHORT_ID).references(DISTRICT);
    let known = [("ol_o_id", SHORT_ID), ("ol_number", SHORT_ID), ("ol_i_id", ID), ("ol_supply_w_id", ID)];
    let rest = [("ol_quantity", COUNT), ("ol_amount", MONEY), ("ol_dist_info", TEXT)];
    columns(columns(keyed, &known).column("ol_delivery_d", TIME), &rest)
        .primary_key(["ol_w_id", "ol_d_id", "ol_o_id", "ol_number"])
        .primary_index(PrimaryIndex::Ordered)
}

fn item() -> TableDefinition {
    let all = [("i_id", ID), ("i_im_id", ID), ("i_name", TEXT), ("i_price", MONEY), ("i_data", TEXT)];
    columns(TableDefinition::new(ITEM), &all).primary_key(["i_id"]).primary_index(PrimaryIndex::Hash)
}

fn stock() -> TableDefinition {
    let keyed = TableDefinition::new(STOCK).column("s_w_id", ID).references(WAREHOUSE);
    let keyed = columns(keyed.column("s_i_id", ID).references(ITEM), &[("s_quantity", COUNT)]);
    let with_districts = (1..=DISTRICTS)
        .fold(keyed, |definition, district| definition.column(dist_column(district), TEXT).not_null());
    let rest = [("s_ytd", ID), ("s_order_cnt", COUNT), ("s_remote_cnt", COUNT), ("s_data", TEXT)];
    columns(with_districts, &rest).primary_key(["s_w_id", "s_i_id"]).primary_index(PrimaryIndex::Hash)
}

/// The column of a stock's information for a district.
pub(super) fn dist_column(district: i64) -> String {
    format!("s_dist_{district:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_columns_of_the_specification_are_there() {
        let definitions = [
            (warehouse(), 9),
            (district(), 11),
            (customer(), 21),
            // Its key has a caller and a sequence besides.
            (history(), 8 + 2),
            (new_order(), 3),
            (orders(), 8),
            (order_line(), 10),
            (item(), 5),
            (stock(), 17),
        ];
        for ((definition, columns), name) in definitions.iter().zip(NAMES) {
            assert_eq!((definition.name(), definition.columns().len()), (name, *columns));
        }
        let may_be_null = |definition: TableDefinition| {
            let columns = definition.columns().iter().filter(|column| !column.not_null);
            columns.map(|column| column.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(may_be_null(orders()), ["o_carrier_id"]);
        assert_eq!(may_be_null(order_line()), ["ol_delivery_d"]);
        assert_eq!(dist_column(3), "s_dist_03");
    }
}
