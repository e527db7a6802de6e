//! The catalog of a timeline: what of it must be there.

use heddledb::SegmentPosition;

use crate::encoding::{Body, Fields};
use crate::error::{ArchiveError, Result};
use crate::log_object::{read_position, write_position};

/// The last group in a timeline's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastGroup {
    /// Its position.
    pub(crate) start: SegmentPosition,
    /// The checksum of its pages, by which the database's own log is compared with the archive.
    pub(crate) pages: u32,
    pub(crate) term: u64,
    pub(crate) epoch: u64,
    /// Microseconds since 1970; 0: not known.
    pub(crate) time: u64,
}

/// A checkpoint in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchivedCheckpoint {
    /// Its number.
    pub number: u32,
    /// The epoch through which the log must be replayed on it.
    pub log_epoch: u64,
    /// The position from which the log must be replayed.
    pub log_start: SegmentPosition,
    /// Number of its objects.
    pub chunks: u32,
    /// Bytes of its files.
    pub bytes: u64,
    /// Time at which it was archived, in microseconds since 1970.
    pub archived: u64,
    /// The checksum of the checksums of its objects.
    pub(crate) sum: u32,
}

/// List of the objects of a timeline that must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// The number in the sequence of the timeline's catalogs.
    pub(crate) sequence: u64,
    /// The first object of the log that is needed.
    pub(crate) first: u64,
    /// The position at which that one begins.
    pub(crate) start: SegmentPosition,
    /// The number that the next object of the log gets.
    pub(crate) next: u64,
    /// The position at which the next one begins.
    pub(crate) end: SegmentPosition,
    /// The term in the name of the last object, and its checksum; 0: there is none.
    pub(crate) term: u64,
    pub(crate) sum: u32,
    pub(crate) last: Option<LastGroup>,
    /// The checkpoints, the oldest one first.
    pub(crate) checkpoints: Vec<ArchivedCheckpoint>,
}

impl Catalog {
    /// A timeline whose log begins here, and has nothing yet.
    pub(crate) fn begin(start: SegmentPosition) -> Catalog {
        let (sequence, first, next, term, sum) = (0, 1, 1, 0, 0);
        Catalog { sequence, first, start, next, end: start, term, sum, last: None, checkpoints: Vec::new() }
    }

    /// The checkpoints, the oldest one first.
    pub fn checkpoints(&self) -> &[ArchivedCheckpoint] {
        &self.checkpoints
    }

    /// Number of objects of the log.
    pub fn log_objects(&self) -> u64 {
        self.next - self.first
    }

    /// Term, epoch and time of the last group; the time in microseconds since 1970, 0 if the log does not say.
    pub fn last_group(&self) -> Option<(u64, u64, u64)> {
        self.last.map(|last| (last.term, last.epoch, last.time))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Body::default();
        body.u64s(&[self.sequence, self.first, self.next, self.term]).u32(self.sum);
        write_position(&mut body, &self.start);
        write_position(&mut body, &self.end);
        body.u32(self.last.iter().len() as u32);
        for LastGroup { start, pages, term, epoch, time } in self.last.iter() {
            write_position(&mut body, start);
            body.u32(*pages).u64s(&[*term, *epoch, *time]);
        }
        body.u32(self.checkpoints.len() as u32);
        for ArchivedCheckpoint { number, log_epoch, log_start, chunks, bytes, archived, sum } in
            &self.checkpoints
        {
            body.u32(*number).u32(*chunks).u32(*sum).u64s(&[*log_epoch, *bytes, *archived]);
            write_position(&mut body, log_start);
        }
        body.0
    }

    /// # Errors
    /// The body makes no sense: `name` is that of the object, `sequence` the number in it.
    pub(crate) fn decode(name: &str, sequence: u64, body: &[u8]) -> Result<Catalog> {
        let mut fields = Fields(body);
        let catalog = Catalog::read(&mut fields).filter(|catalog| {
            fields.0.is_empty()
                && catalog.sequence == sequence
                && (1..=catalog.next).contains(&catalog.first)
                && (catalog.last.is_some() || catalog.next == 1)
        });
        catalog.ok_or_else(|| ArchiveError::damaged(name, "it is no catalog"))
    }

    fn read(fields: &mut Fields<'_>) -> Option<Catalog> {
        let (sequence, first, next, term) = (fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?);
        let sum = fields.u32()?;
        let (start, end) = (read_position(fields)?, read_position(fields)?);
        let last = fields.list(60, |fields| {
            let (start, pages) = (read_position(fields)?, fields.u32()?);
            Some(LastGroup { start, pages, term: fields.u64()?, epoch: fields.u64()?, time: fields.u64()? })
        })?;
        let checkpoints = fields.list(68, |fields| {
            let (number, chunks, sum) = (fields.u32()?, fields.u32()?, fields.u32()?);
            let (log_epoch, bytes, archived) = (fields.u64()?, fields.u64()?, fields.u64()?);
            let log_start = read_position(fields)?;
            Some(ArchivedCheckpoint { number, log_epoch, log_start, chunks, bytes, archived, sum })
        })?;
        let last = last.first().copied();
        Some(Catalog { sequence, first, start, next, end, term, sum, last, checkpoints })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_no_beginning_of_it() {
        let start = SegmentPosition { epoch: 7, segment: 2, offset: 8192, sequence: 9 };
        let last = LastGroup { start, pages: 5, term: 1, epoch: 9, time: 11 };
        let checkpoint = ArchivedCheckpoint {
            number: 3,
            log_epoch: 8,
            log_start: start,
            chunks: 2,
            bytes: 100,
            archived: 12,
            sum: 13,
        };
        let full = Catalog {
            sequence: 4,
            first: 2,
            next: 6,
            last: Some(last),
            checkpoints: vec![checkpoint; 2],
            ..Catalog::begin(start)
        };
        for catalog in [Catalog { sequence: 4, ..Catalog::begin(start) }, full] {
            let good = catalog.encode();
            assert_eq!(Catalog::decode("x", 4, &good), Ok(catalog.clone()));
            assert!(Catalog::decode("x", 5, &good).is_err(), "another number");
            for length in 0..good.len() {
                assert!(Catalog::decode("x", 4, &good[..length]).is_err(), "{length}");
            }
            let impossible = Catalog { first: catalog.next + 1, ..catalog };
            assert!(Catalog::decode("x", 4, &impossible.encode()).is_err());
        }
    }
}
