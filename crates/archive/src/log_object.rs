//! Objects of the log: a piece of it, and which object is the predecessor.

use heddledb::{ArchivedGroup, LogPiece, PieceExtent, SegmentPosition};

use crate::encoding::{Body, Fields};
use crate::error::{ArchiveError, Result};

/// An object of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogObject {
    /// The checksum of the object before it; 0: it is the first of its timeline.
    pub(crate) predecessor: u32,
    pub(crate) piece: LogPiece,
}

pub(crate) fn write_position(body: &mut Body, position: &SegmentPosition) {
    let SegmentPosition { epoch, segment, offset, sequence } = *position;
    body.u64s(&[epoch, segment.into(), offset, sequence]);
}

pub(crate) fn read_position(fields: &mut Fields<'_>) -> Option<SegmentPosition> {
    let (epoch, segment) = (fields.u64()?, u32::try_from(fields.u64()?).ok()?);
    Some(SegmentPosition { epoch, segment, offset: fields.u64()?, sequence: fields.u64()? })
}

impl LogObject {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Body(Vec::with_capacity(self.piece.bytes.len() + 1024));
        let LogPiece { start, end, extents, groups, bytes } = &self.piece;
        body.u32(self.predecessor);
        write_position(&mut body, start);
        write_position(&mut body, end);
        body.u32(extents.len() as u32);
        for PieceExtent { segment, segment_bytes, offset, bytes } in extents {
            body.u64s(&[(*segment).into(), *segment_bytes, *offset, *bytes]);
        }
        body.u32(groups.len() as u32);
        for ArchivedGroup { term, time, epoch, end, next_sequence } in groups {
            body.u64s(&[*term, *time, *epoch, *end, *next_sequence]);
        }
        body.u64s(&[bytes.len() as u64]).bytes(bytes);
        body.0
    }

    /// # Errors
    /// The body makes no sense: `name` is that of the object.
    pub(crate) fn decode(name: &str, body: &[u8]) -> Result<LogObject> {
        let mut fields = Fields(body);
        let object =
            LogObject::read(&mut fields).filter(|object| fields.0.is_empty() && object.is_consistent());
        object.ok_or_else(|| ArchiveError::damaged(name, "it is no piece of a log"))
    }

    fn read(fields: &mut Fields<'_>) -> Option<LogObject> {
        let predecessor = fields.u32()?;
        let (start, end) = (read_position(fields)?, read_position(fields)?);
        let extents = fields.list(32, |fields| {
            let segment = u32::try_from(fields.u64()?).ok()?;
            let (segment_bytes, offset, bytes) = (fields.u64()?, fields.u64()?, fields.u64()?);
            Some(PieceExtent { segment, segment_bytes, offset, bytes })
        })?;
        let groups = fields.list(40, |fields| {
            let (term, time, epoch) = (fields.u64()?, fields.u64()?, fields.u64()?);
            Some(ArchivedGroup { term, time, epoch, end: fields.u64()?, next_sequence: fields.u64()? })
        })?;
        let length = fields.u64()?;
        let bytes = fields.take(length)?.to_vec();
        Some(LogObject { predecessor, piece: LogPiece { start, end, extents, groups, bytes } })
    }

    /// Returns true if extents, groups and bytes have the same length, and groups are in order.
    fn is_consistent(&self) -> bool {
        let LogPiece { extents, groups, bytes, .. } = &self.piece;
        let length = extents.iter().try_fold(0_u64, |sum, extent| sum.checked_add(extent.bytes));
        length == Some(bytes.len() as u64)
            && groups.last().map(|group| group.end) == length
            && groups.is_sorted_by(|one, next| {
                one.epoch < next.epoch && one.end < next.end && one.term <= next.term && one.time <= next.time
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> LogObject {
        let position =
            |epoch, sequence| SegmentPosition { epoch, segment: 3, offset: 4096 * sequence, sequence };
        let extent = PieceExtent { segment: 3, segment_bytes: 1 << 20, offset: 8192, bytes: 3 };
        let group = |epoch, end| ArchivedGroup { term: 2, time: 9, epoch, end, next_sequence: epoch };
        let piece = LogPiece {
            start: position(5, 2),
            end: position(8, 5),
            extents: vec![extent, PieceExtent { segment: 4, offset: 4096, bytes: 4, ..extent }],
            groups: vec![group(5, 2), group(7, 7)],
            bytes: b"content".to_vec(),
        };
        LogObject { predecessor: 77, piece }
    }

    #[test]
    fn what_was_written_is_read_and_no_beginning_of_it() {
        let good = object().encode();
        assert_eq!(LogObject::decode("x", &good), Ok(object()));
        for length in 0..good.len() {
            assert!(LogObject::decode("x", &good[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn pieces_that_make_no_sense_are_refused() {
        let change = |change: fn(&mut LogPiece)| {
            let mut object = object();
            change(&mut object.piece);
            LogObject::decode("x", &object.encode())
        };
        assert!(change(|_| ()).is_ok());
        for wrong in [
            change(|piece| piece.extents[0].bytes = 2),
            change(|piece| piece.extents[0].bytes = u64::MAX),
            change(|piece| piece.groups.clear()),
            change(|piece| piece.groups[1].end = 6),
            change(|piece| piece.groups[1].epoch = 5),
            change(|piece| piece.groups[1].time = 8),
            change(|piece| piece.groups[1].term = 1),
            change(|piece| piece.bytes.push(0)),
        ] {
            assert!(matches!(wrong, Err(ArchiveError::Damaged { .. })), "{wrong:?}");
        }
    }
}
