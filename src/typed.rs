//! Typed tables: rows as structs, above the dynamic interface.
//!
//! `#[derive(Table)]` (crate `heddledb-derive`) implements [`TableRow`]; a [`TableOf`] is a [`Table`] whose
//! rows are that struct. Methods of transactions and snapshots are generic over the handle ([`TableHandle`]),
//! which determines the type of their rows.
//!
//! Invariants: a struct's columns are read and written by position, and only of a table that was found to have them there: a
//! schema change makes another table of it, which is checked again. A typed access costs what the dynamic one does.

mod column_type;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use bumpalo::Bump;

pub use self::column_type::{ColumnType, ColumnValue, StoredType, read_column_value, wrong_column_value};
use crate::base::atomics::{AtomicU64, Ordering};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::feed::ChangedColumns;
use crate::row::{OwnedRow, Row};
use crate::storage::definition::TableDefinition;
use crate::storage::table::TableCore;
use crate::table::Table;
use crate::types::memory::Refused;
use crate::types::{Value, ValueRef};

/// A struct that is a table's row: implemented by `#[derive(Table)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a row of a table",
    label = "add `#[derive(heddledb::Table)]` to the struct"
)]
pub trait TableRow: Sized {
    /// Its values, one for each column.
    type Values<'v>: AsRef<[ValueRef<'v>]>
    where
        Self: 'v;

    /// The table: columns, key, indexes, defaults and checks.
    fn definition() -> TableDefinition;

    /// The columns of the struct, and the table that was found to have them.
    #[doc(hidden)]
    fn shape() -> &'static RowShape;

    /// Its values, in the order of the columns.
    fn values(&self) -> Self::Values<'_>;

    /// Reads the columns, by position, of a row of a table that has this shape.
    #[doc(hidden)]
    fn from_columns(row: &Row<'_>) -> Result<Self>;
}

/// The columns of a struct, and the table that was last found to have them.
#[doc(hidden)]
#[derive(Debug)]
pub struct RowShape {
    columns: &'static [&'static str],
    /// The identity of that table; 0: none.
    checked: AtomicU64,
}

impl RowShape {
    /// The shape of a struct with these columns.
    pub const fn new(columns: &'static [&'static str]) -> RowShape {
        RowShape { columns, checked: AtomicU64::new(0) }
    }

    /// Refuses a table that does not begin with these columns.
    #[inline]
    fn check(&self, table: &TableCore) -> Result<()> {
        let (store, id) = table.identity();
        let identity = store << 32 | u64::from(id);
        // Relaxed: only a table that was checked is ever stored, so an old one costs another check.
        if self.checked.load(Ordering::Relaxed) == identity { Ok(()) } else { self.compare(table, identity) }
    }

    #[cold]
    fn compare(&self, table: &TableCore, identity: u64) -> Result<()> {
        let definition = table.definition();
        let names: Vec<_> = definition.columns().iter().map(|column| column.name.as_str()).collect();
        if !names.starts_with(self.columns) {
            return Err(Error::TableDiffers {
                table: definition.name().to_string(),
                difference: format!(
                    "its columns are {}, and the struct's are {}",
                    names.join(", "),
                    self.columns.join(", ")
                ),
            });
        }
        // Identities of more stores than 32 bits count would mix.
        if table.identity().0 < 1 << 32 {
            self.checked.store(identity, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A table whose rows are structs: a [`Table`] that knows their type.
///
/// ```
/// use heddledb::{Database, Table, Timestamp};
///
/// #[derive(Debug, PartialEq, Table)]
/// #[table(check(in_stock = "stock >= 0"))]
/// struct Item {
///     #[table(key)]
///     id: i64,
///     #[table(index)]
///     name: String,
///     #[table(default = 0)]
///     stock: i64,
///     sold_at: Option<Timestamp>, // nullable
/// }
///
/// let db = Database::in_memory()?;
/// let items = db.table_of::<Item>()?; // opened, or created
/// db.run(|tx| {
///     tx.insert(&items, &Item { id: 1, name: "pen".into(), stock: 3, sold_at: None })?;
///     tx.insert(&items, &Item { id: 2, name: "ink".into(), stock: 0, sold_at: None })
/// })?;
/// db.run(|tx| {
///     let Some(mut pen) = tx.get(&items, 1)? else { return Ok(()) };
///     pen.stock -= 1;
///     pen.sold_at = Some(Timestamp::now());
///     tx.update_row(&items, &pen)
/// })?;
/// let in_stock = db.read(|snapshot| {
///     let items = snapshot.scan(&items, ..)?.collect::<heddledb::Result<Vec<Item>>>()?;
///     Ok(items.into_iter().filter(|item| item.stock > 0).map(|item| item.name).collect::<Vec<_>>())
/// })?;
/// assert_eq!(in_stock, ["pen"]);
/// assert!(db.run(|tx| tx.add(&items, 2, "stock", -1)).is_err()); // the check
/// # Ok::<(), heddledb::Error>(())
/// ```
pub struct TableOf<R> {
    table: Table,
    rows: PhantomData<fn() -> R>,
}

impl<R> Clone for TableOf<R> {
    fn clone(&self) -> Self {
        TableOf { table: self.table.clone(), rows: PhantomData }
    }
}

impl<R> Deref for TableOf<R> {
    type Target = Table;

    #[inline]
    fn deref(&self) -> &Table {
        &self.table
    }
}

impl<R> fmt::Debug for TableOf<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("TableOf").field(&self.table.name()).finish()
    }
}

impl Database {
    /// Opens the table of a struct's rows, and creates it if it does not exist, as
    /// [`open_table`](Self::open_table) does.
    ///
    /// # Errors
    /// Same errors as [`open_table`](Self::open_table).
    pub fn table_of<R: TableRow>(&self) -> Result<TableOf<R>> {
        self.open_table(R::definition())?.rows_of()
    }
}

impl Table {
    /// Returns a handle of the table whose rows are read and written as structs.
    ///
    /// # Errors
    /// [`Error::TableDiffers`]: it does not begin with the struct's columns.
    pub fn rows_of<R: TableRow>(self) -> Result<TableOf<R>> {
        R::shape().check(self.core())?;
        Ok(TableOf { table: self, rows: PhantomData })
    }
}

impl<'tx> Row<'tx> {
    /// The row as a struct.
    ///
    /// # Errors
    /// [`Error::TableDiffers`]: its table does not begin with the struct's columns; a value does not fit its field.
    #[inline]
    pub fn to<R: TableRow>(&self) -> Result<R> {
        R::shape().check(self.table())?;
        R::from_columns(self)
    }

    /// The field at this position.
    #[doc(hidden)]
    #[inline]
    pub fn field<T: StoredType>(&self, position: usize) -> Result<T> {
        T::read(self, position)
    }
}

impl OwnedRow {
    /// The row as a struct.
    ///
    /// # Errors
    /// Same errors as [`Row::to`].
    pub fn to<R: TableRow>(&self) -> Result<R> {
        self.row().to()
    }
}

impl ChangedColumns {
    /// Turns the old row into the new one, for a copy that keeps rows as structs.
    ///
    /// ```
    /// # use heddledb::{Options, set};
    /// use std::collections::HashMap;
    ///
    /// use heddledb::{Change, Database, Table};
    ///
    /// #[derive(Debug, PartialEq, Table)]
    /// struct Item {
    ///     #[table(key)]
    ///     id: i64,
    ///     name: String,
    ///     stock: i64,
    /// }
    ///
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = Database::open(directory.path(), Options::default())?;
    /// let items = db.table_of::<Item>()?;
    /// let mut feed = db.watch(&items, db.snapshot()?.epoch())?;
    /// # db.run(|tx| tx.insert(&items, &Item { id: 1, name: "pen".into(), stock: 3 }))?;
    /// # db.run(|tx| { tx.add(&items, 1, "stock", -1)?; tx.update(&items, 1, set! { name: "pencil" }) })?;
    /// let mut cache: HashMap<i64, Item> = HashMap::new();
    /// while let Some(batch) = feed.try_next()? {
    ///     for change in &batch {
    ///         let id = change.key().map(|key| i64::try_from(&key[0])).transpose()?.unwrap_or_default();
    ///         match change {
    ///             Change::Insert { row, .. } => _ = cache.insert(id, row.to()?),
    ///             Change::Update { columns, .. } => columns.apply_to_row(cache.get_mut(&id).expect("it was inserted"))?,
    ///             Change::Delete { .. } => _ = cache.remove(&id),
    ///             _ => cache.clear(), // emptied, rewritten or dropped
    ///         }
    ///     }
    /// }
    /// assert_eq!(cache[&1], Item { id: 1, name: "pencil".into(), stock: 2 });
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same errors as [`Row::to`]; the row is not the one that was changed: an operation fails on it.
    pub fn apply_to_row<R: TableRow>(&self, row: &mut R) -> Result<()> {
        let table = self.table();
        R::shape().check(table)?;
        let mut values: Vec<Value> = row.values().as_ref().iter().map(|value| value.to_value()).collect();
        self.apply_to_first(&mut values)?;
        let (layout, arena) = (table.layout(), Bump::new());
        let mut words = vec![0; layout.words()];
        for (position, value) in values.iter().enumerate() {
            let value = layout.checked(position, value.into())?;
            layout.put(&mut words, position, value, &arena).map_err(Refused::error)?;
        }
        *row = R::from_columns(&Row::new(table, &words))?;
        Ok(())
    }
}

/// A handle of a table, which determines the type of its rows: a [`Table`]'s are [`Row`]s, a [`TableOf`]'s
/// are structs.
pub trait TableHandle {
    /// A row in a transaction.
    type Row<'tx>;
    /// A row of a snapshot.
    type OwnedRow;

    /// The table.
    fn as_table(&self) -> &Table;

    /// Converts a row to this handle's row type.
    #[doc(hidden)]
    fn row<'tx>(row: Row<'tx>) -> Result<Self::Row<'tx>>;

    /// Converts a row of a snapshot to this handle's row type.
    #[doc(hidden)]
    fn owned_row(row: OwnedRow) -> Result<Self::OwnedRow>;
}

impl TableHandle for Table {
    type Row<'tx> = Row<'tx>;
    type OwnedRow = OwnedRow;

    #[inline]
    fn as_table(&self) -> &Table {
        self
    }

    #[inline]
    fn row<'tx>(row: Row<'tx>) -> Result<Row<'tx>> {
        Ok(row)
    }

    #[inline]
    fn owned_row(row: OwnedRow) -> Result<OwnedRow> {
        Ok(row)
    }
}

impl<R: TableRow> TableHandle for TableOf<R> {
    type Row<'tx> = R;
    type OwnedRow = R;

    #[inline]
    fn as_table(&self) -> &Table {
        &self.table
    }

    #[inline]
    fn row(row: Row<'_>) -> Result<R> {
        row.to()
    }

    #[inline]
    fn owned_row(row: OwnedRow) -> Result<R> {
        row.to()
    }
}

impl<T: TableHandle + ?Sized> TableHandle for &T {
    type Row<'tx> = T::Row<'tx>;
    type OwnedRow = T::OwnedRow;

    #[inline]
    fn as_table(&self) -> &Table {
        (**self).as_table()
    }

    #[inline]
    fn row<'tx>(row: Row<'tx>) -> Result<T::Row<'tx>> {
        T::row(row)
    }

    #[inline]
    fn owned_row(row: OwnedRow) -> Result<T::OwnedRow> {
        T::owned_row(row)
    }
}

/// A row to insert into the table of this handle: values in the order of the columns, or a struct that is its row.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be inserted into a `{T}`",
    label = "give `&` of the table's struct, or `row![..]` with a value for each column"
)]
pub trait IntoRow<'v, T: ?Sized> {
    /// The values.
    #[doc(hidden)]
    type Values: AsRef<[ValueRef<'v>]>;

    /// The values, if they are of this table's columns.
    #[doc(hidden)]
    fn into_row(self, table: &Table) -> Result<Self::Values>;
}

/// Rows that are values already.
macro_rules! of_values {
    ($([$($parameter:tt)*] $source:ty;)*) => {$(
        impl<'v, $($parameter)* T: ?Sized> IntoRow<'v, T> for $source {
            type Values = Self;

            #[inline]
            fn into_row(self, _: &Table) -> Result<Self> {
                Ok(self)
            }
        }
    )*};
}

of_values! {
    [const N: usize,] [ValueRef<'v>; N];
    ['r, const N: usize,] &'r [ValueRef<'v>; N];
    ['r,] &'r [ValueRef<'v>];
    [] Vec<ValueRef<'v>>;
    ['r,] &'r Vec<ValueRef<'v>>;
}

impl<'v, R: TableRow> IntoRow<'v, TableOf<R>> for &'v R {
    type Values = R::Values<'v>;

    #[inline]
    fn into_row(self, table: &Table) -> Result<R::Values<'v>> {
        R::shape().check(table.core())?;
        Ok(self.values())
    }
}
