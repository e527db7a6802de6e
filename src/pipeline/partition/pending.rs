//! The calls of a group that have not run: which of them may run before others.
//!
//! What it keeps true: the calls of a group take effect in its order wherever that counts. One may pass another only if they have
//! no room in common, and no table of which one reads without a lock, or keeps unique, what the other writes at
//! another executor: only one of them declares it as its executor's, and what one gives up in a unique index the other may want.
//! Rooms and tables are told apart by 64 bits: where two are taken for one, a call waits in vain.

use super::is_locked;
use super::queue::Route;
use crate::protocol::footprint::{Footprint, Mode};

/// What a call does to tables beyond what its rooms tell apart: one bit for several tables.
#[derive(Clone, Copy, Debug, Default)]
struct Tables {
    written: u64,
    /// Read beside what its executors own, or written in a unique index that is nobody's.
    read_apart: u64,
}

/// What calls do, and where: enough to know whether their order counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signs {
    rooms: u64,
    tables: Tables,
}

impl Signs {
    fn of(rooms: &Route, footprint: &Footprint) -> Signs {
        let mut signs = Signs::default();
        for room in rooms {
            signs.rooms |= 1 << (*room as u32 % u64::BITS);
        }
        for reference in &footprint.references {
            let table = 1 << (reference.table % u64::BITS);
            let writes = reference.mode != Mode::Read;
            // Who writes what is unique looks for it in an index, where he may find anybody's row.
            let reads_apart = if writes { reference.unique_beyond } else { !is_locked(reference) };
            signs.tables.written |= if writes { table } else { 0 };
            signs.tables.read_apart |= if reads_apart { table } else { 0 };
        }
        signs
    }

    /// Whether a call keeps its place behind others.
    #[inline]
    pub(super) fn hold_back(self, others: Signs) -> bool {
        let (own, others_tables) = (self.tables, others.tables);
        let tables = own.written & others_tables.read_apart | own.read_apart & others_tables.written;
        self.rooms & others.rooms | tables != 0
    }

    /// Another one that has been passed.
    #[inline]
    pub(super) fn add(&mut self, other: Signs) {
        self.rooms |= other.rooms;
        self.tables.written |= other.tables.written;
        self.tables.read_apart |= other.tables.read_apart;
    }
}

/// A call that has not run.
pub(super) struct Pending {
    /// Its place in the group.
    pub(super) place: usize,
    /// What it needs to itself.
    pub(super) rooms: Route,
    pub(super) signs: Signs,
    /// Where in what was looked up for the group its keys begin.
    pub(super) found_at: usize,
}

impl Pending {
    pub(super) fn new(place: usize, rooms: Route, footprint: &Footprint, found_at: usize) -> Pending {
        Pending { place, signs: Signs::of(&rooms, footprint), rooms, found_at }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::protocol::footprint::{Reference, Routed};

    fn key_of(table: u32, mode: Mode) -> Reference {
        Reference { table, mode, routing: Routed::At(7), ..Reference::default() }
    }

    fn signs(rooms: &[usize], references: &[Reference]) -> Signs {
        let writes = references.iter().any(|one| one.mode != Mode::Read);
        let footprint = Footprint { references: references.to_vec(), writes, ..Footprint::default() };
        Pending::new(3, Route::from_slice(rooms), &footprint, 0).signs
    }

    #[test]
    fn calls_pass_each_other_in_different_rooms_and_in_no_other() {
        let of = |rooms: &[usize]| signs(rooms, &[key_of(1, Mode::Write)]);
        assert!(!of(&[4]).hold_back(of(&[5])) && !of(&[4, 6]).hold_back(of(&[5, 20])));
        assert!(of(&[4]).hold_back(of(&[4])) && of(&[4, 5]).hold_back(of(&[5])));
        assert!(of(&[1]).hold_back(of(&[65])), "64 bits for all rooms");
        let mut passed = of(&[7]);
        passed.add(of(&[9, 30]));
        assert!([7, 9, 30].iter().all(|room| of(&[*room]).hold_back(passed)));
        assert!(!of(&[8]).hold_back(passed) && !of(&[7]).hold_back(Signs::default()));
    }

    #[test]
    fn who_reads_without_a_lock_what_is_written_elsewhere_passes_nobody() {
        let writes = signs(&[1], &[key_of(2, Mode::Write)]);
        let adds = signs(&[1], &[key_of(2, Mode::Commute)]);
        let reads = signs(&[2], &[key_of(2, Mode::Read)]);
        let by_index = Reference { table: 2, unrouted: true, ..Reference::default() };
        let elsewhere = Reference { elsewhere: true, ..key_of(2, Mode::Read) };
        for apart in [by_index, elsewhere] {
            let apart = signs(&[3], &[apart, key_of(9, Mode::Write)]);
            for written in [writes, adds] {
                assert!(apart.hold_back(written) && written.hold_back(apart));
            }
            assert!(!apart.hold_back(reads) && !reads.hold_back(apart) && !writes.hold_back(reads));
            let mut passed = reads;
            passed.add(apart);
            assert!(writes.hold_back(passed));
            assert!(!signs(&[1], &[key_of(3, Mode::Write)]).hold_back(passed), "another table");
        }
    }

    #[test]
    fn what_is_unique_beyond_what_routes_it_is_taken_in_order() {
        let unique = |room| signs(&[room], &[Reference { unique_beyond: true, ..key_of(5, Mode::Write) }]);
        assert!(unique(1).hold_back(unique(2)));
        let rooms: Route = smallvec![1];
        let read = Reference { unique_beyond: true, ..key_of(5, Mode::Read) };
        let footprint = Footprint { references: vec![read], ..Footprint::default() };
        assert!(!Signs::of(&rooms, &footprint).hold_back(signs(&[2], &[key_of(5, Mode::Read)])));
    }
}
