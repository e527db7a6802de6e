//! The names of objects: database, timeline, and what it is of them.

use heddledb::Uuid;

/// One history of one database in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timeline {
    /// The database's identity.
    pub database: Uuid,
    /// The timeline's number, from 1.
    pub number: u32,
}

impl Timeline {
    fn prefix(&self) -> String {
        format!("{}/{:08}", self.database, self.number)
    }

    /// The object that says who began it.
    pub(crate) fn object(&self) -> String {
        format!("{}/timeline", self.prefix())
    }

    pub(crate) fn logs(&self) -> String {
        format!("{}/log", self.prefix())
    }

    pub(crate) fn log(&self, term: u64, sequence: u64) -> String {
        format!("{}/{term:010}-{sequence:010}", self.logs())
    }

    pub(crate) fn checkpoints(&self) -> String {
        format!("{}/checkpoint", self.prefix())
    }

    pub(crate) fn chunk(&self, checkpoint: u32, index: u32) -> String {
        format!("{}/{checkpoint:08}/{index:06}", self.checkpoints())
    }

    pub(crate) fn catalogs(&self) -> String {
        format!("{}/catalog", self.prefix())
    }

    pub(crate) fn catalog(&self, sequence: u64) -> String {
        format!("{}/{sequence:010}", self.catalogs())
    }
}

impl std::fmt::Display for Timeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "timeline {} of {}", self.number, self.database)
    }
}

/// Term and sequence number in the name of an object of the log.
pub(crate) fn of_log(name: &str) -> Option<(u64, u64)> {
    let (term, sequence) = last(name).split_once('-')?;
    Some((number(term)?, number(sequence)?))
}

/// The number in the name of a catalog.
pub(crate) fn of_catalog(name: &str) -> Option<u64> {
    number(last(name))
}

/// The numbers of a checkpoint and of a chunk in the name of one.
pub(crate) fn of_chunk(name: &str) -> Option<(u32, u32)> {
    let (rest, index) = name.rsplit_once('/')?;
    Some((number(last(rest))?.try_into().ok()?, number(index)?.try_into().ok()?))
}

/// The number of a timeline in the name of its folder.
pub(crate) fn of_timeline(folder: &str) -> Option<u32> {
    number(last(folder))?.try_into().ok()
}

/// The identity in the name of a database's folder.
pub(crate) fn of_database(folder: &str) -> Option<Uuid> {
    let digits: String = folder.chars().filter(|&c| c != '-').collect();
    let bytes = u128::from_str_radix(&digits, 16).ok()?.to_be_bytes();
    let uuid = Uuid::from_bytes(bytes);
    (uuid.to_string() == folder).then_some(uuid)
}

fn last(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Digits alone: the numbers' own parser would take a sign.
fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_were_made() {
        let line = Timeline { database: Uuid::from_bytes([0xab; 16]), number: 7 };
        assert_eq!(of_log(&line.log(3, 44)), Some((3, 44)));
        assert_eq!(of_catalog(&line.catalog(9)), Some(9));
        assert_eq!(of_chunk(&line.chunk(5, 6)), Some((5, 6)));
        assert_eq!(of_timeline("x/00000007"), Some(7));
        assert_eq!(of_database(&line.database.to_string()), Some(line.database));
        for other in ["a/log/1", "a/log/+1-2", "a/log/1--2", "", "a/log/1-2x"] {
            assert_eq!(of_log(other), None, "{other}");
        }
        assert_eq!((of_database("x"), of_chunk("a/b"), of_catalog("a/+1")), (None, None, None));
    }
}
