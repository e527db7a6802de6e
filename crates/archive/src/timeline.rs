//! Timelines: who began one, what it was restored from, and how a database knows its own.
//!
//! A database's directory has the file `ARCHIVE`: the number of the timeline that it continues and the token with which it has
//! begun it, or, after a restore, what it was restored from. A backup of a directory does not have it, so a database that is
//! made of one begins a timeline of its own. A directory that was copied with it is found out when the second one of the two
//! writes what the first one has written.

use std::fs;
use std::io::Write;
use std::path::Path;

use heddledb::Timestamp;

use crate::encoding::{Body, Fields, decode, encode};
use crate::error::{ArchiveError, Result};
use crate::names::{Timeline, of_timeline};
use crate::objects::{Objects, get};

const FILE: &str = "ARCHIVE";
const NEW_FILE: &str = "ARCHIVE.tmp";

/// A position of a timeline from which another one was restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parent {
    /// The timeline's number; 0: there is none.
    pub(crate) number: u32,
    pub(crate) term: u64,
    pub(crate) epoch: u64,
}

/// Content of the first object of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beginning {
    /// Chosen by the database that has begun it.
    pub(crate) token: [u8; 16],
    /// Microseconds since 1970.
    pub(crate) begun: u64,
    pub(crate) parent: Parent,
}

/// Content of the file `ARCHIVE` in a database's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It continues this timeline, begun with this token.
    Continues(u32, [u8; 16]),
    /// It was restored, and has no timeline yet.
    Restored(Parent),
    /// It was never archived.
    Nothing,
}

impl Beginning {
    fn encode(&self) -> Vec<u8> {
        let mut body = Body::default();
        let Parent { number, term, epoch } = self.parent;
        body.bytes(&self.token).u64s(&[self.begun]).u32(number).u64s(&[term, epoch]);
        body.0
    }

    /// Reads the first object of a timeline.
    ///
    /// # Errors
    /// It is missing or damaged; the storage cannot be reached.
    pub(crate) fn read(objects: &dyn Objects, line: Timeline) -> Result<Beginning> {
        let name = line.object();
        let bytes = get(objects, &name, "each timeline begins with it")?;
        let (body, _) = decode(&name, &bytes)?;
        let mut fields = Fields(&body);
        let mut read = || {
            let (token, begun) = (fields.array()?, fields.u64()?);
            let parent = Parent { number: fields.u32()?, term: fields.u64()?, epoch: fields.u64()? };
            Some(Beginning { token, begun, parent })
        };
        read().ok_or_else(|| ArchiveError::damaged(&name, "it is too short"))
    }

    /// Begins the timeline behind all that the database has in the archive.
    ///
    /// # Errors
    /// The storage cannot be reached.
    pub(crate) fn claim(&self, objects: &dyn Objects, database: heddledb::Uuid) -> Result<Timeline> {
        let folders = objects.folders(&database.to_string())?;
        let last = folders.iter().filter_map(|folder| of_timeline(folder)).max().unwrap_or(0);
        let mut line = Timeline { database, number: last };
        loop {
            line.number += 1;
            let name = line.object();
            if objects.create(&name, &encode(&name, &self.encode()).bytes)? {
                return Ok(line);
            }
        }
    }
}

/// Now, in microseconds since 1970.
pub(crate) fn now() -> u64 {
    u64::try_from(Timestamp::now().microseconds()).unwrap_or(0)
}

/// Reads the file `ARCHIVE` in a database's directory. One that cannot be understood counts as missing: then a timeline is begun.
pub(crate) fn known(directory: &Path) -> Known {
    let text = fs::read_to_string(directory.join(FILE)).unwrap_or_default();
    parse(&text).unwrap_or(Known::Nothing)
}

fn parse(text: &str) -> Option<Known> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    match *words.as_slice() {
        ["timeline", number, "token", token] => {
            let token = u128::from_str_radix(token, 16).ok()?.to_be_bytes();
            Some(Known::Continues(number.parse().ok()?, token))
        }
        ["restored", "timeline", number, "term", term, "epoch", epoch] => Some(Known::Restored(Parent {
            number: number.parse().ok()?,
            term: term.parse().ok()?,
            epoch: epoch.parse().ok()?,
        })),
        _ => None,
    }
}

/// Notes in a database's directory what it knows about its archive, durably.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn note(directory: &Path, known: Known) -> Result<()> {
    let text = match known {
        Known::Continues(number, token) => {
            format!("timeline {number} token {:032x}\n", u128::from_be_bytes(token))
        }
        Known::Restored(Parent { number, term, epoch }) => {
            format!("restored timeline {number} term {term} epoch {epoch}\n")
        }
        Known::Nothing => String::new(),
    };
    let write = || {
        let new = directory.join(NEW_FILE);
        let mut file = fs::File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, directory.join(FILE))?;
        fs::File::open(directory)?.sync_all()
    };
    write().map_err(|error: std::io::Error| {
        ArchiveError::Refused(format!("cannot write {}: {error}", directory.join(FILE).display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_known_and_other_content_says_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(known(directory.path()), Known::Nothing);
        let parent = Parent { number: 2, term: 3, epoch: 4 };
        for noted in [Known::Continues(7, [9; 16]), Known::Restored(parent), Known::Nothing] {
            note(directory.path(), noted).expect("written");
            assert_eq!(known(directory.path()), noted);
        }
        for text in [
            "timeline x token 1",
            "timeline 1 token",
            "timeline 1",
            "x",
            "restored timeline 1 term 1 epoch -1",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
