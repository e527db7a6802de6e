//! Free memory that is no single record's: spans, from which records of any size are cut again.
//!
//! A record that is freed serves the next record of its size. When a whole table is freed, its records are joined with all
//! free memory around them: a piece that is long enough becomes a span, and its pages are returned to the system.
//!
//! # Invariants
//! A piece of free memory is in one list: it is a record's, or a span. A span lies in one allocation.

use std::ptr::NonNull;

use super::{CHUNK_BYTES, SPAN_BYTES_MIN};

/// The beginning of a piece of memory, and the number of its bytes.
pub(super) type Span = (NonNull<u8>, usize);

/// A piece of free memory.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) start: NonNull<u8>,
    /// A span is shorter than an allocation, and so than 4 GiB.
    pub(super) bytes: u32,
    /// True if it was one record's, so that it serves the next one of its size.
    pub(super) is_record: bool,
}

/// The free spans.
#[derive(Default)]
pub(super) struct Spans {
    /// Every record that is cut from a chunk has room in each of them.
    large: Vec<Span>,
    /// Too short to be of use, until what lies beside them is freed.
    small: Vec<Span>,
}

// SAFETY: it is plain memory, which no thread uses.
unsafe impl Send for Spans {}

impl Spans {
    /// Keeps a span.
    pub(super) fn put(&mut self, span: Span) {
        match span.1 {
            0 => {}
            SPAN_BYTES_MIN.. => self.large.push(span),
            _ => self.small.push(span),
        }
    }

    /// Takes one from which records can be cut: as much as a chunk at most.
    pub(super) fn take(&mut self) -> Option<Span> {
        let (start, bytes) = self.large.pop()?;
        let taken = bytes.min(CHUNK_BYTES);
        // SAFETY: it is at most the end of the span.
        self.put((unsafe { start.add(taken) }, bytes - taken));
        Some((start, taken))
    }

    /// The number of spans.
    pub(super) fn len(&self) -> usize {
        self.large.len() + self.small.len()
    }

    /// Moves all of them to pieces of free memory, which have room for them.
    pub(super) fn move_to(&mut self, pieces: &mut Vec<Piece>) {
        let spans = self.large.drain(..).chain(self.small.drain(..));
        pieces.extend(spans.map(|(start, bytes)| Piece { start, bytes: bytes as u32, is_record: false }));
    }
}

/// Sorts pieces, and calls `visit` for each run of neighbors, with all of its memory. No run goes beyond an allocation:
/// `begins` says whether one begins at this address.
pub(super) fn join(
    pieces: &mut [Piece],
    begins: impl Fn(usize) -> bool,
    mut visit: impl FnMut(&[Piece], Span),
) {
    pieces.sort_unstable_by_key(|piece| piece.start.addr());
    let follows = |one: &Piece, next: &Piece| {
        let start = next.start.addr().get();
        one.start.addr().get() + one.bytes as usize == start && !begins(start)
    };
    for run in pieces.chunk_by(follows) {
        let bytes = run.iter().map(|piece| piece.bytes as usize).sum();
        visit(run, (run[0].start, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(starts_and_lengths: &[(usize, usize)]) -> Vec<Piece> {
        let piece = |&(start, bytes): &(usize, usize)| Piece {
            start: NonNull::new(std::ptr::without_provenance_mut(start)).expect("not null"),
            bytes: bytes as u32,
            is_record: true,
        };
        starts_and_lengths.iter().map(piece).collect()
    }

    fn runs(given: &[(usize, usize)], begins: &[usize]) -> Vec<(usize, usize, usize)> {
        let mut runs = Vec::new();
        join(
            &mut pieces(given),
            |start| begins.contains(&start),
            |run, (start, bytes)| runs.push((start.addr().get(), bytes, run.len())),
        );
        runs
    }

    #[test]
    fn neighbors_are_joined_whatever_their_order() {
        assert_eq!(runs(&[(48, 16), (16, 32), (100, 8)], &[]), [(16, 48, 2), (100, 8, 1)]);
        assert_eq!(runs(&[], &[]), []);
    }

    #[test]
    fn a_run_ends_where_an_allocation_begins() {
        assert_eq!(runs(&[(16, 16), (32, 16), (48, 16)], &[32]), [(16, 16, 1), (32, 32, 2)]);
    }

    #[test]
    fn a_long_span_is_taken_chunk_by_chunk() {
        let mut memory = vec![0_u8; 2 * CHUNK_BYTES + SPAN_BYTES_MIN - 1];
        let start = NonNull::new(memory.as_mut_ptr()).expect("not null");
        let mut spans = Spans::default();
        spans.put((start, memory.len()));
        let taken: Vec<_> = std::iter::from_fn(|| spans.take()).collect();
        let offset = |(at, bytes): &Span| (at.addr().get() - start.addr().get(), *bytes);
        let taken: Vec<_> = taken.iter().map(offset).collect();
        assert_eq!(taken, [(0, CHUNK_BYTES), (CHUNK_BYTES, CHUNK_BYTES)]);
        let mut left = Vec::new();
        spans.move_to(&mut left);
        assert_eq!((left.len(), spans.len()), (1, 0), "what is too short is kept");
        assert_eq!(left[0].bytes as usize, SPAN_BYTES_MIN - 1);
    }
}
