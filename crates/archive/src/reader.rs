//! Reading an archive: which databases and timelines it has, their catalogs, and the log from a place on.

use std::collections::BTreeMap;

use heddledb::{SegmentPosition, Uuid};

use crate::catalog::Catalog;
use crate::encoding::decode;
use crate::error::{ArchiveError, Result};
use crate::log_object::LogObject;
use crate::names::{Timeline, of_catalog, of_database, of_log, of_timeline};
use crate::objects::{Objects, get};
use crate::timeline::Beginning;

/// Number of attempts to read a catalog, each of which fails because a newer one has replaced it.
const ATTEMPTS: u32 = 10;

/// A timeline, as [`list`] finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The timeline.
    pub timeline: Timeline,
    /// Time at which it was begun, in microseconds since 1970.
    pub begun: u64,
    /// The timeline that it was restored from, and the term and the epoch of the last group of that.
    pub parent: Option<(u32, u64, u64)>,
    /// List of the objects that must be there; `None` if it was begun, and nothing was archived.
    pub catalog: Option<Catalog>,
    /// Bytes of its objects.
    pub bytes: u64,
    /// Number of its objects.
    pub objects: u64,
}

/// All timelines of all databases in an archive.
///
/// # Errors
/// A timeline or a catalog is damaged; the storage cannot be reached.
pub fn list(objects: &dyn Objects) -> Result<Vec<Listing>> {
    let mut found = Vec::new();
    for timeline in timelines(objects, None)? {
        let Beginning { begun, parent, .. } = Beginning::read(objects, timeline)?;
        let parent = (parent.number > 0).then_some((parent.number, parent.term, parent.epoch));
        let all = objects.list(&format!("{}/{:08}", timeline.database, timeline.number))?;
        let catalog = newest_catalog(objects, timeline)?;
        let (bytes, objects) = (all.iter().map(|object| object.bytes).sum(), all.len() as u64);
        found.push(Listing { timeline, begun, parent, catalog, bytes, objects });
    }
    Ok(found)
}

/// The timelines of a database, or of all.
pub(crate) fn timelines(objects: &dyn Objects, database: Option<Uuid>) -> Result<Vec<Timeline>> {
    let databases = match database {
        Some(database) => vec![database],
        None => objects.folders("")?.iter().filter_map(|folder| of_database(folder)).collect(),
    };
    let mut found = Vec::new();
    for database in databases {
        let folders = objects.folders(&database.to_string())?;
        let numbers = folders.iter().filter_map(|folder| of_timeline(folder));
        found.extend(numbers.map(|number| Timeline { database, number }));
    }
    found.sort();
    Ok(found)
}

/// The timeline that is meant: of the one database in the archive unless one is named, and the last one in which something is
/// archived unless a number is given.
///
/// # Errors
/// There is none, or several databases are there; the storage cannot be reached.
pub(crate) fn find(
    objects: &dyn Objects,
    database: Option<Uuid>,
    number: Option<u32>,
) -> Result<(Timeline, Catalog)> {
    let all = timelines(objects, database)?;
    let Some(last) = all.last() else {
        return Err(ArchiveError::Refused("no database is archived there".to_owned()));
    };
    if let Some(other) = all.iter().find(|line| line.database != last.database) {
        let (one, other) = (other.database, last.database);
        return Err(ArchiveError::Refused(format!(
            "several databases are archived there, {one} and {other} among them; name one with --database"
        )));
    }
    for line in all.iter().rev().filter(|line| number.is_none_or(|number| line.number == number)) {
        match newest_catalog(objects, *line)? {
            Some(catalog) => return Ok((*line, catalog)),
            // It was begun, and the database ended before anything was archived.
            None if number.is_none() && !has_content(objects, *line)? => {}
            None => return Err(ArchiveError::missing(&line.catalogs(), "the timeline has no catalog")),
        }
    }
    Err(ArchiveError::Refused(match number {
        Some(number) => format!("there is no timeline {number}; heddle archive list shows which there are"),
        None => "nothing is archived there yet".to_owned(),
    }))
}

/// Returns true if a timeline has more than its beginning.
pub(crate) fn has_content(objects: &dyn Objects, line: Timeline) -> Result<bool> {
    Ok(!objects.list(&line.logs())?.is_empty() || !objects.list(&line.catalogs())?.is_empty())
}

/// The newest catalog of a timeline; `None` if it has none.
///
/// # Errors
/// It is damaged; the storage cannot be reached.
pub(crate) fn newest_catalog(objects: &dyn Objects, line: Timeline) -> Result<Option<Catalog>> {
    for _ in 0..ATTEMPTS {
        let listed = objects.list(&line.catalogs())?;
        let Some(sequence) = listed.iter().filter_map(|object| of_catalog(&object.name)).max() else {
            return Ok(None);
        };
        if let Some(catalog) = read_catalog(objects, line, sequence)? {
            return Ok(Some(catalog));
        }
    }
    Err(ArchiveError::missing(&line.catalogs(), "catalogs vanish while they are read"))
}

/// The catalog of this number; `None` if it is not there.
pub(crate) fn read_catalog(objects: &dyn Objects, line: Timeline, sequence: u64) -> Result<Option<Catalog>> {
    let name = line.catalog(sequence);
    let Some(bytes) = objects.read(&name)? else { return Ok(None) };
    let (body, _) = decode(&name, &bytes)?;
    Catalog::decode(&name, sequence, &body).map(Some)
}

/// Reads the log of a timeline, object by object.
pub(crate) struct Walk<'a> {
    objects: &'a dyn Objects,
    line: Timeline,
    catalog: &'a Catalog,
    /// The terms in the names of the objects of each number.
    terms: BTreeMap<u64, Vec<u64>>,
    sequence: u64,
    /// The checksum of the object before, and where it ends; `None`: not known.
    sum: Option<u32>,
    end: Option<SegmentPosition>,
    term: u64,
}

/// An object of the log, and how others know it.
pub(crate) struct Walked {
    pub(crate) sequence: u64,
    pub(crate) term: u64,
    pub(crate) sum: u32,
    pub(crate) object: LogObject,
}

impl<'a> Walk<'a> {
    /// Begins with the first object that the catalog needs.
    pub(crate) fn new(objects: &'a dyn Objects, line: Timeline, catalog: &'a Catalog) -> Result<Walk<'a>> {
        let mut terms = BTreeMap::<u64, Vec<u64>>::new();
        for object in objects.list(&line.logs())? {
            if let Some((term, sequence)) = of_log(&object.name) {
                terms.entry(sequence).or_default().push(term);
            }
        }
        let sum = (catalog.first == 1).then_some(0);
        let (sequence, end, term) = (catalog.first, Some(catalog.start), 0);
        Ok(Walk { objects, line, catalog, terms, sequence, sum, end, term })
    }

    /// Goes on with the object of this number, whatever is before it.
    pub(crate) fn seek(&mut self, sequence: u64) {
        if sequence != self.sequence {
            (self.sequence, self.sum, self.end) = (sequence, None, None);
        }
    }

    /// Begins right behind the objects that the catalog lists.
    pub(crate) fn seek_behind_the_catalog(&mut self) {
        let Catalog { next, sum, end, term, .. } = *self.catalog;
        (self.sequence, self.sum, self.end, self.term) = (next, Some(sum), Some(end), term);
    }

    /// The last object that begins at or before what `is_behind` says to be behind the place that is looked for; `None` if the
    /// first one does not.
    pub(crate) fn search(&mut self, is_behind: impl Fn(&LogObject) -> bool) -> Result<Option<u64>> {
        let last = self.last_sequence();
        let (mut low, mut high) = (self.catalog.first, last + 1);
        // All objects before `low` begin early enough; those from `high` on do not.
        while low < high {
            let middle = low + (high - low) / 2;
            self.seek(middle);
            match self.next().transpose()? {
                Some(walked) if !is_behind(&walked.object) => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok((low > self.catalog.first).then(|| low - 1))
    }

    /// The number of the last object that there may be.
    fn last_sequence(&self) -> u64 {
        let found = self.terms.last_key_value().map_or(0, |(sequence, _)| *sequence);
        found.max(self.catalog.next - 1)
    }

    /// The next object; `None` behind the last one. After an error it goes on with the one behind.
    pub(crate) fn next(&mut self) -> Option<Result<Walked>> {
        let sequence = self.sequence;
        let is_listed = sequence < self.catalog.next;
        let mut terms = self.terms.get(&sequence).cloned().unwrap_or_default();
        if sequence + 1 == self.catalog.next {
            // The catalog says which one it is.
            terms.retain(|term| *term == self.catalog.term);
        }
        if terms.is_empty() && !is_listed {
            return None;
        }
        // A writer of a later term has fenced one of an earlier term.
        terms.sort_unstable_by(|one, other| other.cmp(one));
        let walked = self.read(sequence, &terms);
        match &walked {
            Ok(walked) => {
                (self.sum, self.end) = (Some(walked.sum), Some(walked.object.piece.end));
                self.term = walked.term;
            }
            // Another writer has left it, which has lost the timeline; no catalog lists it.
            Err(ArchiveError::Damaged { .. }) if !is_listed => return None,
            Err(_) => (self.sum, self.end) = (None, None),
        }
        self.sequence += 1;
        Some(walked)
    }

    fn read(&self, sequence: u64, terms: &[u64]) -> Result<Walked> {
        // One that is not there has the term of its neighbors, unless the database was opened in between.
        let behind = self.terms.range(sequence + 1..).next().and_then(|(_, terms)| terms.first().copied());
        let expected = match self.term {
            _ if sequence + 1 == self.catalog.next => self.catalog.term,
            0 => behind.unwrap_or(self.catalog.term),
            before => before,
        };
        let name = self.line.log(expected, sequence);
        let mut failure = ArchiveError::missing(&name, "the log has a hole there");
        for &term in terms {
            match self.read_one(sequence, term) {
                Ok(walked) => return Ok(walked),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn read_one(&self, sequence: u64, term: u64) -> Result<Walked> {
        let name = self.line.log(term, sequence);
        let (body, sum) = decode(&name, &get(self.objects, &name, "it was listed")?)?;
        let object = LogObject::decode(&name, &body)?;
        let follows = self.sum.is_none_or(|before| before == object.predecessor)
            && self.end.is_none_or(|end| end == object.piece.start);
        if !follows {
            return Err(ArchiveError::damaged(&name, "it does not continue the object before it"));
        }
        if sequence + 1 == self.catalog.next && sum != self.catalog.sum {
            return Err(ArchiveError::damaged(&name, "it is not the object that the catalog lists"));
        }
        Ok(Walked { sequence, term, sum, object })
    }
}
