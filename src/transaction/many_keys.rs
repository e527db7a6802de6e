//! Look-ups of many keys at a time, whose cache misses overlap.

use smallvec::SmallVec;

use super::Tx;
use super::accesses::get;
use crate::error::Result;
use crate::protocol::attempt::Target;
use crate::storage::record::Record;
use crate::typed::TableHandle;
use crate::types::IntoKey;
use crate::types::key::EncodedKey;

/// Number of keys, of many, that are looked up at a time.
const AT_ONCE: usize = 16;

/// A key of many, and its record if it was found ahead.
struct Wanted<'a> {
    key: EncodedKey,
    hash: u64,
    found: Option<Record<'a>>,
}

impl<'t, 'a> Tx<'t, 'a> {
    /// The rows of many keys, one after the other: `each` is called for every key in its order, with `None`
    /// if there is no row. Several keys are looked up at a time, so that the processor fetches their rows
    /// concurrently.
    ///
    /// ```
    /// # use heddledb::{DataType, Database, Durability, Options, TableDefinition, key, row};
    /// # let db = Database::in_memory()?;
    /// # let stock = db.create_table(
    /// #     TableDefinition::new("stock").column("item", DataType::Int64).column("n", DataType::Int64).primary_key(["item"]),
    /// # )?;
    /// # db.run(|tx| (1..=9).try_for_each(|item| tx.insert(&stock, row![item, item * 10])))?;
    /// let low = db.run(|tx| {
    ///     let mut low = 0;
    ///     tx.get_each(&stock, [3, 7, 8].map(|item| key![item]), |row| {
    ///         low += i64::from(row.is_some_and(|row| row.int("n").is_ok_and(|n| n < 75)));
    ///         Ok(())
    ///     })?;
    ///     Ok(low)
    /// })?;
    /// assert_eq!(low, 2);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same errors as [`get`](Self::get); those of `each`.
    pub fn get_each<'k, T: TableHandle, K: IntoKey<'k>>(
        &self,
        table: &T,
        keys: impl IntoIterator<Item = K>,
        mut each: impl FnMut(Option<T::Row<'a>>) -> Result<()>,
    ) -> Result<()> {
        let core = self.attempt.hold(table.as_table().core())?;
        let mut keys = keys.into_iter();
        let mut wanted = SmallVec::<[Wanted<'a>; AT_ONCE]>::new();
        loop {
            for key in keys.by_ref().take(AT_ONCE) {
                let key = core.encode_key(key.into_key().as_ref(), true)?;
                let hash = core.hash(&key);
                core.prefetch(hash, self.attempt.guard());
                wanted.push(Wanted { key, hash, found: None });
            }
            for one in &mut wanted {
                one.found = core.find_ahead(one.hash, &one.key, self.attempt.guard());
                one.found.into_iter().for_each(|record| core.prefetch_record(record));
            }
            let is_last = wanted.len() < AT_ONCE;
            for Wanted { key, hash, found } in wanted.drain(..) {
                let target = Target { table: core, key: &key, hash, found, declared: false };
                each(get(self.attempt, &target)?.map(T::row).transpose()?)?;
            }
            if is_last {
                return Ok(());
            }
        }
    }
}
