//! Decoders: they choose the columns that are read of a table's rows, and convert their values to SQL values.
//!
//! A decoder resolves columns and types once for a plan. A value of one machine word is converted from the word itself.

use heddledb::{Column, Row};

use crate::catalog::Table;
use crate::error::Result;
use crate::plan::scan::HIDDEN_KEY;
use crate::storage;
use crate::storage::words::Words;
use crate::types::{Modifier, Type, Value};

/// Reads some columns of a table's rows.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    columns: Vec<Column>,
    types: Vec<ColumnType>,
}

/// Decoding of one column's values.
#[derive(Clone, Copy, Debug)]
struct ColumnType {
    ty: Type,
    modifier: Modifier,
    /// Meaning of its words, if a value is one word.
    words: Option<Words>,
}

impl ColumnType {
    #[inline]
    fn decode(&self, row: &Row<'_>, column: &Column) -> Result<Value> {
        match self.words {
            Some(words) => Ok(row.word(column)?.map_or(Value::Null, |word| words.value(word))),
            None => storage::decode(self.ty, self.modifier, row.get(column)?),
        }
    }
}

impl Decoder {
    /// Reads these columns.
    ///
    /// # Errors
    /// The engine's table has no such column: the catalog is another one's.
    pub(crate) fn new(table: &Table, columns: &[usize]) -> Result<Decoder> {
        let column = |&column: &usize| {
            let (position, ty, modifier) = match column {
                HIDDEN_KEY => (0, Type::Int8, Modifier::NONE),
                column => {
                    let column = &table.columns[column];
                    (column.engine, column.ty, column.modifier)
                }
            };
            let words = Words::of(ty, modifier, &table.engine.definition().columns()[position].data_type);
            Ok((handle(table, position)?, ColumnType { ty, modifier, words }))
        };
        let (columns, types) = columns.iter().map(column).collect::<Result<(Vec<_>, Vec<_>)>>()?;
        Ok(Decoder { columns, types })
    }

    /// The columns that it reads.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the number of columns it reads.
    pub(crate) fn len(&self) -> usize {
        self.columns.len()
    }

    /// A decoder of the columns in these places of this one.
    pub(crate) fn picked(&self, places: &[usize]) -> Decoder {
        Decoder {
            columns: places.iter().map(|&place| self.columns[place]).collect(),
            types: places.iter().map(|&place| self.types[place]).collect(),
        }
    }

    /// Gives a row's columns to `each`, in order.
    #[inline]
    pub(crate) fn each(&self, row: &Row<'_>, mut each: impl FnMut(Value)) -> Result<()> {
        for (column, ty) in self.columns.iter().zip(&self.types) {
            each(ty.decode(row, column)?);
        }
        Ok(())
    }

    /// Puts a row's columns into the slots of these numbers.
    pub(crate) fn decode_into(&self, row: &Row<'_>, numbers: &[usize], slots: &mut [Value]) -> Result<()> {
        let mut numbers = numbers.iter();
        self.each(row, |value| {
            if let Some(&number) = numbers.next() {
                slots[number] = value;
            }
        })
    }

    /// Puts a row's columns into slots.
    pub(crate) fn decode(&self, row: &Row<'_>, slots: &mut [Value]) -> Result<()> {
        self.columns.iter().zip(&self.types).zip(slots).try_for_each(|((column, ty), slot)| {
            *slot = ty.decode(row, column)?;
            Ok(())
        })
    }

    /// Puts some of a row's columns, those in these places, into their slots.
    pub(crate) fn decode_some(&self, row: &Row<'_>, places: &[usize], slots: &mut [Value]) -> Result<()> {
        for &place in places {
            slots[place] = self.types[place].decode(row, &self.columns[place])?;
        }
        Ok(())
    }
}

/// The handle of a column by its position in the engine's table.
pub(crate) fn handle(table: &Table, position: usize) -> Result<Column> {
    Ok(table.engine.column(&table.engine.definition().columns()[position].name)?)
}
