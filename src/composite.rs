//! Composites: structs and tuples as a procedure's parameters, and as rows of its output.
//!
//! A composite is a list of fields with names and types, as PostgreSQL's composite types are. `#[derive(Composite)]`
//! (crate `heddledb-derive`) makes one of a struct; tuples of up to six fields are composites whose fields are called by
//! their positions.
//!
//! Invariants: nothing is stored as a composite. A call carries [`Args`]; each key and body reads them as the
//! composite, without an allocation unless a tuple copies a text.

use crate::error::{Error, Result};
use crate::pipeline::call::Output;
use crate::typed::ColumnType;
use crate::types::{Args, DataType, Value, ValueRef, for_each_tuple};

/// A struct or tuple as which values are read: the arguments of a call, or a row of its
/// [`Output`](crate::Output).
///
/// ```
/// use heddledb::{Action, Composite, Database, ProcedureDefinition, Table};
///
/// #[derive(Table)]
/// struct Account {
///     #[table(key)]
///     id: i64,
///     balance: i64,
/// }
///
/// #[derive(Composite)]
/// struct Transfer {
///     from: i64,
///     to: i64,
///     amount: i64,
/// }
///
/// let db = Database::in_memory()?;
/// let accounts = db.table_of::<Account>()?;
/// # db.run(|tx| {
/// #     tx.insert(&accounts, &Account { id: 7, balance: 100 })?;
/// #     tx.insert(&accounts, &Account { id: 9, balance: 0 })
/// # })?;
/// let pay = Action::commute(&accounts)
///     .with::<Transfer>()
///     .key(|transfer, key| key.push(transfer.from))
///     .body(|transfer, action| action.add("balance", -transfer.amount));
/// let receive = Action::write(&accounts)
///     .with::<Transfer>()
///     .key(|transfer, key| key.push(transfer.to))
///     .body(|transfer, action| {
///         action.add("balance", transfer.amount)?;
///         let balance = action.get()?.map_or(Ok(0), |account| account.int("balance"))?;
///         Ok(action.return_values((transfer.to, balance)))
///     });
/// let transfer = db.register(ProcedureDefinition::new("transfer").phase([pay, receive]))?;
/// let output = db.call(&transfer, Transfer { from: 7, to: 9, amount: 10 })?;
/// assert_eq!(output.rows_as::<(i64, i64)>()?, [(9, 10)]);
/// # Ok::<(), heddledb::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of values",
    label = "add `#[derive(heddledb::Composite)]` to the struct, or give a tuple, such as `(i64, String)`"
)]
pub trait Composite: Sized {
    /// The form in which keys and bodies read it: the same, but structs lend their texts and bytes: a `String` is a
    /// `&str` there.
    type Ref<'v>;

    /// Reads it without a copy of its texts and bytes.
    ///
    /// # Errors
    /// There is another number of values; a value does not fit its field.
    fn borrow_from(values: &[Value]) -> Result<Self::Ref<'_>>;

    /// Reads it.
    ///
    /// # Errors
    /// Same errors as [`borrow_from`](Self::borrow_from).
    fn from_values(values: &[Value]) -> Result<Self>;
}

/// A composite that can be a procedure's parameters: each field determines its type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the parameters of a procedure",
    label = "add `#[derive(heddledb::Composite)]` to the struct, or give a tuple, such as `(i64, String)`"
)]
pub trait Parameters: Composite {
    /// The names and types, in order.
    ///
    /// # Errors
    /// A type that a field declares as text is none.
    fn parameters() -> Result<Vec<(String, DataType)>>;
}

/// Reads a field.
///
/// # Errors
/// The value does not fit it.
#[doc(hidden)]
#[inline(always)]
pub fn read_field<'v, T>(value: &'v Value, name: &str) -> Result<T>
where
    T: TryFrom<ValueRef<'v>, Error = Error>,
{
    // The usual field, without a look at the other kinds: nothing else is compiled into keys and bodies.
    if let Value::Int(int) = value
        && let Ok(read) = T::try_from(ValueRef::Int(*int))
    {
        return Ok(read);
    }
    read_other(value, name)
}

#[inline(never)]
fn read_other<'v, T>(value: &'v Value, name: &str) -> Result<T>
where
    T: TryFrom<ValueRef<'v>, Error = Error>,
{
    T::try_from(value.as_value_ref()).map_err(|error| match error {
        Error::WrongRead { holds, read_as, .. } => {
            Error::WrongRead { what: name.to_string(), holds, read_as }
        }
        other => other.in_column(name),
    })
}

/// The error for a number of values that is not the number of fields.
#[doc(hidden)]
#[cold]
pub fn wrong_number<T>(fields: usize, values: usize) -> Result<T> {
    Err(Error::WrongType {
        what: "a list of values".to_string(),
        expected: format!("{fields} values"),
        found: format!("{values}"),
    })
}

macro_rules! tuples {
    ($($count:literal: $($name:ident)+;)*) => {$(
        impl<$($name: for<'v> TryFrom<ValueRef<'v>, Error = Error>),+> Composite for ($($name,)+) {
            type Ref<'v> = Self;

            #[inline(always)]
            fn borrow_from(values: &[Value]) -> Result<Self> {
                Self::from_values(values)
            }

            #[inline(always)]
            #[allow(non_snake_case)]
            fn from_values(values: &[Value]) -> Result<Self> {
                let [$($name),+] = values else { return wrong_number($count, values.len()) };
                Ok(($(read_field::<$name>($name, "a field of a tuple")?,)+))
            }
        }

        impl<$($name: ColumnType + for<'v> TryFrom<ValueRef<'v>, Error = Error>),+> Parameters for ($($name,)+) {
            fn parameters() -> Result<Vec<(String, DataType)>> {
                let types = [$($name::data_type()),+].into_iter();
                Ok((1..).map(|number: usize| format!("parameter {number}")).zip(types).collect())
            }
        }

        impl<$($name: Into<Value>),+> From<($($name,)+)> for Args {
            #[inline]
            fn from(values: ($($name,)+)) -> Args {
                #[allow(non_snake_case)]
                let ($($name,)+) = values;
                let mut args = Args::default();
                $(args.push($name);)+
                args
            }
        }
    )*};
}

for_each_tuple!(tuples);

impl Args {
    /// The arguments as a struct or a tuple.
    ///
    /// ```
    /// use heddledb::args;
    /// #[derive(heddledb::Composite)]
    /// struct Greeting {
    ///     name: String,
    ///     times: u32,
    /// }
    /// let args = args!["Ada", 2];
    /// let greeting = args.to::<Greeting>()?;
    /// assert_eq!((greeting.name, greeting.times), ("Ada", 2)); // the text is lent
    /// assert!(args.to::<(i64, i64)>().is_err());
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The number of arguments is not that of the fields; one does not fit its field.
    #[inline(always)]
    pub fn to<P: Composite>(&self) -> Result<P::Ref<'_>> {
        P::borrow_from(self)
    }
}

impl Output {
    /// The rows, each as a tuple of Rust types, or a struct with `#[derive(Composite)]`, checked.
    ///
    /// ```
    /// use heddledb::Output;
    /// # use heddledb::{Action, DataType, Database, ProcedureDefinition, TableDefinition, args, row};
    /// # let db = Database::in_memory()?;
    /// # let items = db.create_table(TableDefinition::new("item").column("id", DataType::Int64).primary_key(["id"]))?;
    /// # let both = Action::read(&items).body(|action| {
    /// #     action.return_row(vec![7.into(), "pen".into()]);
    /// #     Ok(action.return_row(vec![9.into(), None::<i64>.into()]))
    /// # });
    /// # let list = db.register(ProcedureDefinition::new("list").phase([both]))?;
    /// let output: Output = db.call(&list, args![])?;
    /// let items: Vec<(u32, Option<String>)> = output.rows_as()?;
    /// assert_eq!(items, [(7, Some("pen".to_string())), (9, None)]);
    /// assert!(output.rows_as::<(i64,)>().is_err()); // there are two values
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// A row has another number of values; a value does not fit its type.
    pub fn rows_as<T: Composite>(&self) -> Result<Vec<T>> {
        self.rows.iter().map(|row| T::from_values(row)).collect()
    }
}
