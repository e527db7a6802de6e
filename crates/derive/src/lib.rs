//! `#[derive(Table)]` makes a struct the row of a table, `#[derive(ColumnValue)]` an enum or a struct around a value a column,
//! `#[derive(Composite)]` a struct the parameters or a row of the output of a procedure. Use them through the crate `heddledb`, which re-exports them.
//!
//! `attributes` parses `#[table(…)]`, `expand` writes the implementation. An attribute that cannot be parsed
//! is an error at its place, which names the valid ones; a definition that makes no sense as a table (an
//! unknown column in an index, a default of the wrong type) is refused by the engine, when the table is
//! opened.

mod attributes;
mod column_value;
mod composite;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct with named fields the row of a table: implements `heddledb::TableRow`, so that `db.table_of::<Row>()` opens the
/// table, and transactions read and write its rows as structs.
///
/// Each field is a column of its name; a field of type `Option` may be NULL, others may not. On fields:
///
/// - `#[table(key)]`: the column belongs to the primary key; several do in the order of the fields. At least one is needed.
/// - `#[table(identity)]`, `#[table(identity(always))]`: a sequence gives the column's value (`Tx::insert_new`; of an `Option` field
///   also where it is `None`).
/// - `#[table(index)]`, `#[table(unique)]`: a secondary index of this column alone, called `TABLE_COLUMN`.
/// - `#[table(default = 0)]`: the column's value where none is given (`Tx::insert_columns`).
/// - `#[table(check = "stock >= 0")]`: a condition that every row must pass, called `TABLE_COLUMN_check`.
/// - `#[table(foreign_key = "customer")]`: a foreign key, called `TABLE_COLUMN_fkey`: the column holds a key of this table, which is opened
///   before, or NULL. For several columns, or actions other than refusing, add `TableDefinition::foreign_key` to `Row::definition()` (of the trait
///   `heddledb::TableRow`), and open that.
/// - `#[table(references = "customer")]`: the column refers to this table's key. Kept as knowledge for the scheduler, not enforced.
/// - `#[table(data_type = "decimal(12, 2)")]`: the column's type, where the field's does not say it (decimals, tuples, top-K sets), or
///   another one is wanted.
/// - `#[table(name = "kind")]`: the column's name.
///
/// On the struct:
///
/// - `#[table(name = "orders")]`: the table's name; unless said, the struct's in snake case.
/// - `#[table(key(a, b))]`: the primary key, in another order than the fields'.
/// - `#[table(index(by_day(day, shop)))]`, `#[table(unique(by_code(code)))]`: a secondary index of several columns.
/// - `#[table(check(in_stock = "stock >= 0"))]`: a condition with a name.
/// - `#[table(routing(shop))]`: the columns by which rows are partitioned.
/// - `#[table(hash)]`, `#[table(ordered)]`: only this primary index, instead of both.
#[proc_macro_derive(Table, attributes(table))]
pub fn derive_table(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    attributes::read(&input)
        .map(|table| expand::expand(&input, &table))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes a type of your own a column's: implements `heddledb::ColumnValue` and `heddledb::AsValue`, so that it can be a field of a row's struct (an
/// `Option` of it, too), and a value in `row!`, `key!` and `set!`.
///
/// - An enum without fields is stored as text, the names of its variants in snake case; `#[column(name = "…")]` on a variant: as this text.
/// - `#[column(integer)]` on the enum: as 32-bit integers, those that the variants have as Rust numbers them.
/// - A struct around one value is stored as that value.
#[proc_macro_derive(ColumnValue, attributes(column))]
pub fn derive_column_value(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    column_value::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct with named fields a composite: implements `heddledb::Composite` and `heddledb::Parameters`, so that it can be the
/// parameters of a procedure (`Action::with`) and a row of its output (`Output::rows_as`), and a conversion into `heddledb::Args`.
///
/// Each field is a parameter of its name. If there are fields of type `String` or `Vec<u8>`, or an `Option` of one, keys and bodies
/// get a `…Ref`, a struct with the same fields that borrows them.
///
/// - `#[composite(data_type = "decimal(12, 2)")]`: the parameter's type, where the field's does not say it.
#[proc_macro_derive(Composite, attributes(composite))]
pub fn derive_composite(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    composite::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
