//! The writes to a record as they were at an earlier moment of the transaction.
//!
//! Writes are kept in the order in which they were made, so what a transaction had written at a moment is a prefix of them. A
//! session's earlier writes enter an attempt's set when their keys are accessed: they are the first ones to their records, and
//! count at every moment.

use bumpalo::Bump;

use super::{Effect, Kind, Mark, WriteSet};
use crate::error::Result;
use crate::storage::row::RowLayout;

/// The limit up to which the writes to a record count: those before a mark, and the first ones that a session has made
/// earlier, whose places among the others say nothing of when they were made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    pub(crate) mark: Mark,
    pub(crate) carried: u32,
}

impl WriteSet {
    /// Same as [`apply`](Self::apply), but without the writes since a moment.
    ///
    /// # Errors
    /// Same errors as [`apply`](Self::apply).
    pub(crate) fn apply_until(
        &self,
        (position, until): (usize, Until),
        layout: &RowLayout,
        row: &mut [u64],
        present: bool,
        arena: &Bump,
    ) -> Result<Effect> {
        self.apply_kinds(self.chain_until(position, until), layout, row, present, arena)
    }

    /// Same as [`presence`](Self::presence), but without the writes since a moment.
    pub(crate) fn presence_until(&self, (position, until): (usize, Until), present: bool) -> bool {
        self.chain_until(position, until).fold(present, |present, kind| match kind {
            Kind::Insert { .. } => true,
            Kind::Delete => false,
            Kind::Set { .. } | Kind::Operate { .. } | Kind::Bound { .. } => present,
        })
    }

    /// Returns true if there are writes to the record at `position` since a moment.
    pub(crate) fn is_written_since(&self, position: usize, until: Until) -> bool {
        self.chain(position).count() > self.chain_until(position, until).count()
    }

    /// The writes to the record at `position` before a moment, in order.
    fn chain_until(&self, position: usize, until: Until) -> impl Iterator<Item = &Kind> {
        let (mut next, mut left) = (self.touched[position].first, until.carried);
        std::iter::from_fn(move || {
            let write = self.writes.get(next as usize)?;
            if left == 0 && next as usize >= until.mark.writes {
                return None;
            }
            (next, left) = (write.next, left.saturating_sub(1));
            Some(&write.kind)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation;
    use crate::storage::definition::TableDefinition;
    use crate::storage::record::RecordPointer;
    use crate::storage::rig::Rig;
    use crate::storage::word::PLACEHOLDER;
    use crate::types::{DataType, Value, ValueRef};

    #[test]
    fn writes_since_a_mark_do_not_count_and_carried_ones_always_do() {
        let definition = TableDefinition::new("t").column("id", DataType::Int64).column("n", DataType::Int64);
        let rig = Rig::new(definition.primary_key(["id"]));
        let (table, layout) = (&*rig.table, rig.table.layout());
        let record = RecordPointer::allocate(PLACEHOLDER, &[1], 2);
        let mut set = WriteSet::default();
        let early = Until { mark: set.mark(), carried: 0 };
        set.insert(table, record, [ValueRef::Int(1), ValueRef::Int(2)].into_iter());
        let middle = Until { mark: set.mark(), carried: 0 };
        set.operate(table, record, 1, Operation::Add, ValueRef::Int(40));
        set.delete(table, record);
        let row = |until| {
            let (arena, mut row) = (Bump::new(), vec![0; layout.words()]);
            let effect = set.apply_until((0, until), layout, &mut row, false, &arena).expect("it fits");
            assert_eq!(set.presence_until((0, until), false), effect != Effect::Gone);
            // SAFETY: the row's blocks are in the arena.
            (effect, unsafe { layout.values(&row) })
        };
        assert_eq!(row(early).0, Effect::Gone);
        assert_eq!(row(middle), (Effect::Row, vec![Value::Int(1), Value::Int(2)]));
        assert_eq!(row(Until { carried: 2, ..early }), (Effect::Row, vec![Value::Int(1), Value::Int(42)]));
        let late = Until { mark: set.mark(), carried: 0 };
        assert_eq!(row(late).0, Effect::Gone);
        assert!(set.is_written_since(0, middle) && !set.is_written_since(0, late));
        // SAFETY: made above, and not used any more.
        unsafe { record.free() };
    }
}
