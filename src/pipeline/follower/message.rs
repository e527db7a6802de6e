//! Messages between a database and its follower; `docs/formats.md` has the bytes.
//!
//! Both are the same program, and yet no input is trusted: bytes that are no message are an error.

use crate::durability::checkpoint::{Fields, Written};
use crate::durability::{GroupStart, Uuid};
use crate::error::{Error, Result};

/// A peer of another version is refused.
pub(crate) const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"HEDDLFOL";

/// A message of the database.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ToFollower {
    /// Its identity and directory, and the log's start: behind this checkpoint, if there is one.
    Begin { uuid: Uuid, directory: String, checkpoint: u32, start: GroupStart },
    /// A block of the log.
    Block(Vec<u8>),
    /// A checkpoint is to be written, of this number, into these directories. All groups through this epoch have come.
    Write { number: u32, epoch: u64, directories: Vec<String> },
    /// The database is being closed.
    End,
}

/// A message of the follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FromFollower {
    /// The sender is a follower, of this version.
    Hello { version: u32 },
    /// The follower is alive, has replayed the log through this epoch, and has worked for this many nanoseconds in all.
    Alive { epoch: u64, busy: u64 },
    /// The parts of the checkpoint of this number are durable.
    Done { number: u32, written: Written },
    /// The parts could not be written; 0: it leaves, for this reason.
    Failed { number: u32, reason: String },
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn take_text(fields: &mut Fields<'_>) -> Option<String> {
    let length = fields.u32()? as usize;
    String::from_utf8(fields.take(length)?.to_vec()).ok()
}

/// The message that takes up all of these bytes.
fn whole<T>(
    bytes: &[u8],
    decode: impl FnOnce(u8, &mut Fields<'_>) -> Option<T>,
    whose: &'static str,
) -> Result<T> {
    let mut fields = Fields { rest: bytes };
    let message = fields.take(1).and_then(|kind| decode(kind[0], &mut fields));
    message.filter(|_| fields.rest.is_empty()).ok_or_else(|| Error::Malformed {
        what: whose,
        detail: format!("{} bytes that begin with {:?}", bytes.len(), bytes.first()),
    })
}

impl ToFollower {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            ToFollower::Begin { uuid, directory, checkpoint, start } => {
                bytes.push(1);
                bytes.extend(uuid.0);
                put_text(&mut bytes, directory);
                bytes.extend(checkpoint.to_le_bytes());
                bytes.extend(start.segment.to_le_bytes());
                [start.epoch, start.offset, start.sequence]
                    .iter()
                    .for_each(|n| bytes.extend(n.to_le_bytes()));
            }
            ToFollower::Block(block) => {
                bytes.push(2);
                bytes.extend_from_slice(block);
            }
            ToFollower::Write { number, epoch, directories } => {
                bytes.push(3);
                bytes.extend(number.to_le_bytes());
                bytes.extend(epoch.to_le_bytes());
                bytes.extend((directories.len() as u32).to_le_bytes());
                directories.iter().for_each(|directory| put_text(&mut bytes, directory));
            }
            ToFollower::End => bytes.push(4),
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<ToFollower> {
        let decode = |kind, fields: &mut Fields<'_>| match kind {
            1 => {
                let (uuid, directory) = (Uuid(fields.array()?), take_text(fields)?);
                let (checkpoint, segment) = (fields.u32()?, fields.u32()?);
                let start = GroupStart {
                    epoch: fields.u64()?,
                    segment,
                    offset: fields.u64()?,
                    sequence: fields.u64()?,
                };
                Some(ToFollower::Begin { uuid, directory, checkpoint, start })
            }
            2 => Some(ToFollower::Block(fields.take(fields.rest.len())?.to_vec())),
            3 => {
                let (number, epoch) = (fields.u32()?, fields.u64()?);
                let directories = (0..fields.u32()?).map(|_| take_text(fields)).collect::<Option<_>>()?;
                Some(ToFollower::Write { number, epoch, directories })
            }
            4 => Some(ToFollower::End),
            _ => None,
        };
        whole(bytes, decode, "message of a database")
    }
}

impl FromFollower {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            FromFollower::Hello { version } => {
                bytes.push(1);
                bytes.extend_from_slice(MAGIC);
                bytes.extend(version.to_le_bytes());
            }
            FromFollower::Alive { epoch, busy } => {
                bytes.push(2);
                [epoch, busy].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
            }
            FromFollower::Done { number, written } => {
                bytes.push(3);
                bytes.extend(number.to_le_bytes());
                written.encode(&mut bytes);
            }
            FromFollower::Failed { number, reason } => {
                bytes.push(4);
                bytes.extend(number.to_le_bytes());
                put_text(&mut bytes, reason);
            }
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<FromFollower> {
        let decode = |kind, fields: &mut Fields<'_>| match kind {
            1 if fields.take(MAGIC.len())? == MAGIC => Some(FromFollower::Hello { version: fields.u32()? }),
            2 => Some(FromFollower::Alive { epoch: fields.u64()?, busy: fields.u64()? }),
            3 => Some(FromFollower::Done { number: fields.u32()?, written: Written::decode(fields)? }),
            4 => Some(FromFollower::Failed { number: fields.u32()?, reason: take_text(fields)? }),
            _ => None,
        };
        whole(bytes, decode, "message of a follower")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_understood_and_nothing_shorter_or_longer() {
        let start = GroupStart { epoch: 9, segment: 2, offset: 4096, sequence: 77 };
        let directories = vec!["/fast".to_string(), String::new()];
        let said = [
            ToFollower::Begin { uuid: Uuid([5; 16]), directory: "bank".to_string(), checkpoint: 3, start },
            ToFollower::Write { number: 4, epoch: 1 << 40, directories },
            ToFollower::End,
        ];
        for message in said {
            let bytes = message.encode();
            (0..bytes.len()).for_each(|length| assert!(ToFollower::decode(&bytes[..length]).is_err()));
            assert!(ToFollower::decode(&[&bytes[..], &[0]].concat()).is_err());
            assert_eq!(ToFollower::decode(&bytes), Ok(message));
        }
        let block = ToFollower::Block(b"anything".to_vec());
        assert_eq!(ToFollower::decode(&block.encode()), Ok(block));
        assert!(ToFollower::decode(&[9]).is_err());
    }

    #[test]
    fn what_a_follower_says_is_understood_and_nothing_shorter_or_longer() {
        let said = [
            FromFollower::Hello { version: VERSION },
            FromFollower::Alive { epoch: 7, busy: u64::MAX },
            FromFollower::Done { number: 4, written: Written::default() },
            FromFollower::Failed { number: 4, reason: "no room".to_string() },
        ];
        for message in said {
            let bytes = message.encode();
            (0..bytes.len()).for_each(|length| assert!(FromFollower::decode(&bytes[..length]).is_err()));
            assert!(FromFollower::decode(&[&bytes[..], &[0]].concat()).is_err());
            assert_eq!(FromFollower::decode(&bytes), Ok(message));
        }
        assert!(FromFollower::decode(b"\x01GET / HTTP/1").is_err());
    }

    #[test]
    fn counts_of_more_than_there_is_are_refused() {
        let mut bytes = vec![3];
        bytes.extend([0; 12]);
        bytes.extend(u32::MAX.to_le_bytes());
        assert!(ToFollower::decode(&bytes).is_err());
        let mut bytes = vec![3];
        bytes.extend([0; 4]);
        bytes.extend(u32::MAX.to_le_bytes());
        assert!(FromFollower::decode(&bytes).is_err());
    }
}
