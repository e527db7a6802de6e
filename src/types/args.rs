//! The arguments of a call, and the macros that make keys, rows and arguments from Rust values.

use std::ops::Deref;

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::types::assignment::exact_float;
use crate::types::{Date, Decimal, Timestamp, Uuid, Value};

/// A key: an array of [`ValueRef`](crate::ValueRef), one for each column. It accepts the values that
/// [`row!`](crate::row) accepts.
#[macro_export]
macro_rules! key {
    () => { [] as [$crate::ValueRef<'static>; 0] };
    ($($value:expr),+ $(,)?) => { [$($crate::AsValue::as_value(&$value)),+] };
}

/// A row: an array of [`ValueRef`](crate::ValueRef), one for each column.
///
/// The values are borrowed, not moved: integers of every type up to 64 bits, floats, texts and bytes (owned or borrowed),
/// [`SystemTime`](std::time::SystemTime), jiff's timestamps and dates, the crate's own types, and an `Option` of each.
///
/// ```
/// # use heddledb::{DataType, Database, Durability, Options, TableDefinition, key, row};
/// # let db = Database::in_memory()?;
/// # let files = db.create_table(TableDefinition::new("file").column("id", DataType::Int64)
/// #     .column("name", DataType::Text).column("bytes", DataType::Int64).column("owner", DataType::Text).primary_key(["id"]))?;
/// let (name, bytes, owner) = (String::from("notes"), 512_usize, Option::<String>::None);
/// db.run(|tx| tx.insert(&files, row![1_u64, name, bytes, owner]))?;
/// assert_eq!(name, "notes"); // it was not moved
/// // An integer beyond 64 bits with a sign is refused where it would be stored.
/// assert!(db.run(|tx| tx.insert(&files, row![u64::MAX, name, bytes, owner])).is_err());
/// # Ok::<(), heddledb::Error>(())
/// ```
#[macro_export]
macro_rules! row {
    () => { [] as [$crate::ValueRef<'static>; 0] };
    ($($value:expr),+ $(,)?) => { [$($crate::AsValue::as_value(&$value)),+] };
}

/// New values of columns, by name, for [`Tx::update`](crate::Tx::update) and
/// [`Tx::insert_columns`](crate::Tx::insert_columns). The values are those that [`row!`](crate::row) takes.
///
/// ```
/// # use heddledb::{DataType, Database, Durability, Options, TableDefinition, key, row, set};
/// # let db = Database::in_memory()?;
/// # let items = db.create_table(TableDefinition::new("item").column("id", DataType::Int64)
/// #     .column("price", DataType::Int64).column("name", DataType::Text).primary_key(["id"]))?;
/// db.run(|tx| {
///     tx.insert_columns(&items, set! { id: 7, price: 10 })?;
///     tx.update(&items, 7, set! { price: 12, name: "pen" })
/// })?;
/// # assert_eq!(db.run(|tx| tx.get(&items, 7)?.unwrap().int("price"))?, 12);
/// # Ok::<(), heddledb::Error>(())
/// ```
#[macro_export]
macro_rules! set {
    ($($column:ident: $value:expr),+ $(,)?) => {
        &[$((stringify!($column), $crate::AsValue::as_value(&$value))),+]
    };
}

/// The arguments of a call: [`Args`](crate::Args) of these values.
#[macro_export]
macro_rules! args {
    ($($value:expr),* $(,)?) => {
        [$($crate::Value::from($value)),*].into_iter().collect::<$crate::Args>()
    };
}

/// The arguments of a call, in their order.
///
/// ```
/// use heddledb::args;
/// let args = args![7, "seven", Option::<i64>::None];
/// assert_eq!(args.int(0)?, 7);
/// assert_eq!(args.text(1)?, "seven");
/// assert!(args.is_null(2)?);
/// assert!(args.int(1).is_err());
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args(SmallVec<[Value; 8]>);

impl Args {
    /// Removes all arguments, and keeps their memory.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds an argument behind the others.
    #[inline]
    pub fn push(&mut self, value: impl Into<Value>) {
        self.0.push(value.into());
    }

    /// The values, in their order.
    pub(crate) fn into_vec(self) -> Vec<Value> {
        self.0.into_vec()
    }

    /// Replaces the arguments by these integers, in their memory: if as many integers are there, each number
    /// is copied, and nothing else is done.
    #[inline]
    pub fn set_integers(&mut self, integers: &[i64]) {
        let there = self.0.as_mut_slice();
        if there.len() != integers.len() {
            return self.renew(integers);
        }
        for (there, integer) in there.iter_mut().zip(integers) {
            match there {
                Value::Int(there) => *there = *integer,
                other => *other = Value::Int(*integer),
            }
        }
    }

    #[cold]
    fn renew(&mut self, integers: &[i64]) {
        self.clear();
        self.0.extend(integers.iter().copied().map(Value::Int));
    }

    /// The argument at this position, counted from 0.
    #[inline]
    pub fn get(&self, position: usize) -> Result<&Value> {
        match self.0.get(position) {
            Some(value) => Ok(value),
            None => self.too_few(position),
        }
    }

    #[cold]
    fn too_few<T>(&self, position: usize) -> Result<T> {
        Err(Error::WrongType {
            what: format!("argument {position} (counted from 0)"),
            expected: "a value".to_owned(),
            found: format!("nothing, there are {} arguments", self.0.len()),
        })
    }

    /// Returns true if the argument at this position is NULL.
    pub fn is_null(&self, position: usize) -> Result<bool> {
        self.get(position).map(Value::is_null)
    }

    /// The exact number at this position; an integer is one.
    pub fn decimal(&self, position: usize) -> Result<Decimal> {
        match self.get(position)? {
            Value::Decimal(value) => Ok(*value),
            Value::Int(value) => Ok(Decimal::from(*value)),
            _ => self.wrong(position, "a decimal"),
        }
    }

    /// The floating point number at this position; an integer that it can represent exactly is accepted, as
    /// in a column.
    pub fn float(&self, position: usize) -> Result<f64> {
        match self.get(position)? {
            Value::Float(value) => Ok(*value),
            Value::Int(value) => exact_float(*value, "")
                .map_err(|error| error.in_column(&format!("argument {position} (counted from 0)"))),
            _ => self.wrong(position, "a float"),
        }
    }

    #[cold]
    fn wrong<T>(&self, position: usize, expected: &str) -> Result<T> {
        let found = self.get(position)?.as_value_ref().kind();
        Err(Error::WrongType {
            what: format!("argument {position} (counted from 0)"),
            expected: expected.to_owned(),
            found: found.to_owned(),
        })
    }
}

/// Defines one getter for each kind of argument, which refuses every other kind and NULL.
macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident -> $result:ty, $pattern:pat => $value:expr, $expected:literal;)*) => {
        impl Args {$(
            $(#[$doc])*
            #[inline]
            pub fn $name(&self, position: usize) -> Result<$result> {
                match self.0.get(position) {
                    Some($pattern) => Ok($value),
                    Some(_) => self.wrong(position, $expected),
                    None => self.too_few(position),
                }
            }
        )*}
    };
}

getters! {
    /// The truth value at this position.
    bool -> bool, Value::Bool(value) => *value, "a bool";
    /// The integer at this position.
    int -> i64, Value::Int(value) => *value, "an integer";
    /// The text at this position.
    text -> &str, Value::Text(value) => value, "a text";
    /// The byte string at this position.
    bytes -> &[u8], Value::Bytes(value) => value, "bytes";
    /// The day at this position.
    date -> Date, Value::Date(value) => *value, "a date";
    /// The time at this position.
    timestamp -> Timestamp, Value::Timestamp(value) => *value, "a timestamp";
    /// The identifier at this position.
    uuid -> Uuid, Value::Uuid(value) => *value, "a uuid";
}

impl Deref for Args {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.0
    }
}

impl FromIterator<Value> for Args {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Args {
        Args(values.into_iter().collect())
    }
}

impl From<Vec<Value>> for Args {
    fn from(values: Vec<Value>) -> Args {
        Args(values.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::types::TupleType;
    use crate::types::{DataType, OrderedTuple};

    #[test]
    fn each_getter_gives_its_kind_and_names_the_position_of_another() {
        let args =
            args![true, 7, 0.5, "text", vec![1_u8], Date::MIN, Timestamp::MAX, Uuid::from_bytes([7; 16])];
        assert!(args.bool(0).unwrap());
        assert_eq!(args.int(1).unwrap(), 7);
        assert_eq!(args.float(2).unwrap(), 0.5);
        assert_eq!(args.text(3).unwrap(), "text");
        assert_eq!(args.bytes(4).unwrap(), [1]);
        assert_eq!(args.date(5).unwrap(), Date::MIN);
        assert_eq!(args.timestamp(6).unwrap(), Timestamp::MAX);
        assert_eq!(args.uuid(7).unwrap(), Uuid::from_bytes([7; 16]));
        assert_eq!(args.len(), 8);
        let error = args.int(3).unwrap_err().to_string();
        assert!(
            error.contains("argument 3") && error.contains("an integer") && error.contains("a text"),
            "{error}"
        );
        for position in 0..8 {
            let found = [
                args.bool(position).is_ok(),
                args.int(position).is_ok(),
                args.float(position).is_ok() && args.int(position).is_err(),
                args.text(position).is_ok(),
                args.bytes(position).is_ok(),
                args.date(position).is_ok(),
                args.timestamp(position).is_ok(),
                args.uuid(position).is_ok(),
            ];
            assert_eq!(found.iter().filter(|&&is_ok| is_ok).count(), 1, "position {position}");
        }
    }

    #[test]
    fn an_integer_is_an_exact_number_and_a_float_if_there_is_that_one() {
        let args = args!["1.50".parse::<Decimal>().unwrap(), 3, 1.5, i64::MAX];
        assert_eq!(args.float(1).unwrap(), 3.0);
        assert!(args.float(3).unwrap_err().to_string().contains("argument 3"));
        assert_eq!(args.decimal(0).unwrap().to_string(), "1.50");
        assert_eq!(args.decimal(1).unwrap(), Decimal::from(3));
        assert!(args.decimal(2).is_err());
    }

    #[test]
    fn a_position_beyond_the_end_is_an_error_that_tells_how_many_there_are() {
        let args = args![1, 2];
        for error in [args.get(2).unwrap_err(), args.int(2).unwrap_err(), args.is_null(9).unwrap_err()] {
            assert!(error.to_string().contains("there are 2 arguments"), "{error}");
        }
        assert!(args![].get(0).is_err());
    }

    #[test]
    fn arguments_are_used_again() {
        let mut args = args!["first", 2];
        args.clear();
        assert_eq!(args, args![]);
        (0..20).for_each(|number| args.push(number));
        args.push("last");
        assert_eq!((args.len(), args.int(19), args.text(20)), (21, Ok(19), Ok("last")));
        for integers in [&[1, 2, 3][..], &[4, 5, 6], &[], &[7]] {
            args.set_integers(integers);
            assert_eq!(args, integers.iter().copied().map(Value::Int).collect());
        }
        args = args!["text"];
        args.set_integers(&[8]);
        assert_eq!(args, args![8]);
    }

    #[test]
    fn null_is_of_no_kind() {
        let args = args![Value::Null, Option::<&str>::None, 1];
        assert!(args.is_null(0).unwrap() && args.is_null(1).unwrap() && !args.is_null(2).unwrap());
        assert!(args.int(0).unwrap_err().to_string().contains("NULL"));
        assert!(args.text(1).is_err() && args.decimal(1).is_err());
    }

    #[test]
    fn macros_take_every_kind_of_value() {
        let of = TupleType::new(vec![DataType::Int64], vec![]).unwrap();
        let tuple = OrderedTuple::new(&of, &row![1], &row![]).unwrap();
        let (name, owned, zeros) = ("name".to_owned(), Value::from("owned"), vec![0_u8]);
        let row = row![
            true,
            1_i8,
            2_u8,
            3,
            4_i64,
            5_u32,
            0.5,
            "text",
            &name,
            &owned,
            b"bytes",
            &zeros,
            &tuple,
            Some(1),
            None::<i64>,
            Decimal::from(1),
            Date::MIN,
            Timestamp::MIN,
            Uuid::from_bytes([0; 16]),
        ];
        assert_eq!(row.len(), 19);
        assert_eq!(row[8].to_string(), "name");
        assert_eq!(row[9], owned);
        assert_eq!(key![7, "a"], row![7, "a"]);
        assert!(key![].is_empty());
        let from_vec = Args::from(vec![Value::from(1), Value::Null]);
        assert_eq!(from_vec, args![1, Value::Null]);
    }
}
