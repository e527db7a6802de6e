//! Joining write sets: of a call whose actions have run on several threads.
//!
//! Invariants: the parts have written different records, so that their writes stay as they were, one set behind
//! the other; and marks of the first part hold, while those of the others end with them.

use super::{Kind, NONE, Stored, Touched, Write, WriteSet};

/// The changes of a set's numbers when it is appended to another.
struct Shift {
    touched: u32,
    writes: u32,
    words: u32,
    bytes: u32,
    made: u64,
}

impl Shift {
    fn link(&self, write: u32) -> u32 {
        if write == NONE { NONE } else { write + self.writes }
    }

    fn stored(&self, stored: Stored) -> Stored {
        match stored {
            Stored::Text(start, end) => Stored::Text(start + self.bytes, end + self.bytes),
            Stored::Bytes(start, end) => Stored::Bytes(start + self.bytes, end + self.bytes),
            Stored::Tuple(start, end) => Stored::Tuple(start + self.bytes, end + self.bytes),
            Stored::TopK(start, end) => Stored::TopK(start + self.bytes, end + self.bytes),
            other => other,
        }
    }

    fn write(&self, write: Write) -> Write {
        let kind = match write.kind {
            Kind::Insert { words } => Kind::Insert { words: words + self.words },
            Kind::Delete => Kind::Delete,
            Kind::Set { column, value } => Kind::Set { column, value: self.stored(value) },
            Kind::Operate { column, operation, operand } => {
                Kind::Operate { column, operation, operand: self.stored(operand) }
            }
            bound @ Kind::Bound { .. } => bound,
        };
        Write {
            touched: write.touched + self.touched,
            previous: self.link(write.previous),
            next: self.link(write.next),
            kind,
            presence: write.presence,
            words_end: write.words_end + self.words,
            bytes_end: write.bytes_end + self.bytes,
            number: write.number + self.made,
        }
    }
}

impl WriteSet {
    /// Puts the writes of another set, which are to other records, behind its own.
    pub(crate) fn append(&mut self, other: &WriteSet) {
        debug_assert!(other.touched.iter().all(|touched| self.position(touched.record).is_none()));
        let shift = Shift {
            touched: self.touched.len() as u32,
            writes: self.writes.len() as u32,
            words: self.words.len() as u32,
            bytes: self.bytes.len() as u32,
            made: self.made,
        };
        self.words.extend_from_slice(&other.words);
        self.bytes.extend_from_slice(&other.bytes);
        self.writes.extend(other.writes.iter().map(|&write| shift.write(write)));
        for write in &other.writes {
            let Kind::Insert { words } = write.kind else { continue };
            let layout = other.touched[write.touched as usize].table().layout();
            let start = (words + shift.words) as usize;
            layout.shift_aside(&mut self.words[start..start + layout.words()], shift.bytes as usize);
        }
        for &Touched { record, table, first, last } in &other.touched {
            let (first, last) = (shift.link(first), shift.link(last));
            self.touched.push(Touched { record, table, first, last });
            self.note_place(record);
        }
        self.made += other.made;
    }
}

#[cfg(test)]
mod tests {
    use bumpalo::Bump;

    use super::*;
    use crate::operation::Operation;
    use crate::storage::definition::TableDefinition;
    use crate::storage::record::RecordPointer;
    use crate::storage::rig::Rig;
    use crate::storage::word::PLACEHOLDER;
    use crate::storage::write_set::Effect;
    use crate::types::{DataType, ValueRef};

    fn row(set: &WriteSet, position: usize) -> Vec<String> {
        let layout = set.touched()[position].table().layout();
        let (arena, mut row) = (Bump::new(), vec![0; layout.words()]);
        let effect = set.apply(position, layout, &mut row, false, &arena).expect("it fits");
        assert_eq!(effect, Effect::Row);
        // SAFETY: the row's blocks are in the arena.
        (0..layout.len()).map(|column| unsafe { layout.value(&row, column) }.to_value().to_string()).collect()
    }

    #[test]
    fn sets_one_behind_the_other_say_what_each_of_them_said() {
        let definition = TableDefinition::new("t").column("id", DataType::Int64).column("n", DataType::Int64);
        let rig = Rig::new(definition.column("name", DataType::Text).primary_key(["id"]));
        let table = &*rig.table;
        for count in [1, 3, 9, 40_usize] {
            let records: Vec<_> =
                (0..count * 3).map(|at| RecordPointer::allocate(PLACEHOLDER, &[at as u8], 1)).collect();
            let part = |numbers: std::ops::Range<usize>| {
                let mut set = WriteSet::default();
                for &record in &records[numbers.clone()] {
                    let values = [ValueRef::Int(1), ValueRef::Int(2), ValueRef::Text("first")];
                    set.insert(table, record, values.into_iter());
                }
                for number in numbers {
                    let name = format!("number {number}");
                    set.set(table, records[number], 2, ValueRef::Text(&name));
                    set.operate(table, records[number], 1, Operation::Add, ValueRef::Int(number as i64));
                }
                set
            };
            let mut joined = part(0..count);
            joined.append(&part(count..count * 2));
            let mark = joined.mark();
            joined.append(&part(count * 2..count * 3));
            for (number, &record) in records.iter().enumerate() {
                let position = joined.position(record).expect("it is touched");
                let name = format!("number {number}");
                assert_eq!(row(&joined, position), ["1".to_string(), (number + 2).to_string(), name]);
                assert!(joined.presence(position, false));
            }
            assert!(joined.truncate(mark));
            assert_eq!(joined.touched().len(), count * 2);
            assert_eq!(joined.position(records[count * 2]), None);
            let mut nothing = WriteSet::default();
            nothing.append(&WriteSet::default());
            assert!(nothing.is_empty());
            // SAFETY: made above, and no thread uses them any more.
            records.into_iter().for_each(|record| unsafe { record.free() });
        }
    }
}
