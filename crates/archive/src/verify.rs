//! Reads all objects of an archive, and names what is damaged or missing.

use std::collections::BTreeSet;

use heddledb::Uuid;

use crate::catalog::Catalog;
use crate::encoding::decode;
use crate::error::{ArchiveError, Result};
use crate::names::Timeline;
use crate::objects::Objects;
use crate::reader::{Walk, has_content, newest_catalog, timelines};
use crate::restore::read_chunks;
use crate::timeline::Beginning;

/// Report of a verification.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Number of timelines that were read.
    pub timelines: u64,
    /// Number of objects that are needed, and are as they were written.
    pub objects: u64,
    /// Bytes of the log and of checkpoints' files in them.
    pub bytes: u64,
    /// Objects that nothing needs: what an interrupted upload or removal has left.
    pub unneeded: Vec<String>,
    /// Objects that are damaged or missing.
    pub problems: Vec<ArchiveError>,
}

/// Reads all timelines of a database, or of all databases.
///
/// # Errors
/// The storage cannot be reached; nothing is archived there. What is damaged or missing is in the report.
pub fn verify(objects: &dyn Objects, database: Option<Uuid>) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    for line in timelines(objects, database)? {
        report.timelines += 1;
        let mut needed = BTreeSet::from([line.object()]);
        let begins = Beginning::read(objects, line).map(drop);
        report.note(begins, 1)?;
        match newest_catalog(objects, line) {
            Ok(Some(catalog)) => {
                report.objects += 1;
                needed.insert(line.catalog(catalog.sequence));
                report.checkpoints(objects, line, &catalog, &mut needed)?;
                report.log(objects, line, &catalog, &mut needed)?;
            }
            Ok(None) if !has_content(objects, line)? => {}
            Ok(None) => report.problems.push(ArchiveError::missing(&line.catalogs(), "there is no catalog")),
            Err(error) => report.note(Err(error), 0)?,
        }
        report.others(objects, line, &needed)?;
    }
    if report.timelines == 0 {
        return Err(ArchiveError::Refused("no database is archived there".to_owned()));
    }
    Ok(report)
}

impl VerifyReport {
    /// Counts objects that are as they were, or notes a problem; what is no fault of the archive's ends the work.
    fn note(&mut self, outcome: Result<()>, objects: u64) -> Result<()> {
        match outcome {
            Ok(()) => self.objects += objects,
            Err(error @ (ArchiveError::Damaged { .. } | ArchiveError::Missing { .. })) => {
                self.problems.push(error)
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn checkpoints(
        &mut self,
        objects: &dyn Objects,
        line: Timeline,
        catalog: &Catalog,
        needed: &mut BTreeSet<String>,
    ) -> Result<()> {
        for checkpoint in catalog.checkpoints() {
            needed.extend((1..=checkpoint.chunks).map(|index| line.chunk(checkpoint.number, index)));
            let mut bytes = 0;
            let read = read_chunks(objects, line, checkpoint, &mut |chunk| {
                bytes += chunk.bytes.len() as u64;
                Ok(())
            });
            self.note(read, checkpoint.chunks.into())?;
            self.bytes += bytes;
        }
        Ok(())
    }

    fn log(
        &mut self,
        objects: &dyn Objects,
        line: Timeline,
        catalog: &Catalog,
        needed: &mut BTreeSet<String>,
    ) -> Result<()> {
        let mut walk = Walk::new(objects, line, catalog)?;
        while let Some(walked) = walk.next() {
            let read = walked.map(|walked| {
                needed.insert(line.log(walked.term, walked.sequence));
                self.bytes += walked.object.piece.bytes.len() as u64;
            });
            self.note(read, 1)?;
        }
        Ok(())
    }

    /// Looks at all other objects of a timeline: nothing needs them, but those that are damaged may have been needed.
    fn others(&mut self, objects: &dyn Objects, line: Timeline, needed: &BTreeSet<String>) -> Result<()> {
        for folder in [line.logs(), line.checkpoints(), line.catalogs()] {
            for object in objects.list(&folder)? {
                if needed.contains(&object.name) || self.names(&object.name) {
                    continue;
                }
                let Some(bytes) = objects.read(&object.name)? else { continue };
                match decode(&object.name, &bytes) {
                    Ok(_) => self.unneeded.push(object.name),
                    Err(error) => self.problems.push(error),
                }
            }
        }
        Ok(())
    }

    /// Returns true if a problem is with this object.
    fn names(&self, name: &str) -> bool {
        self.problems.iter().any(|problem| match problem {
            ArchiveError::Damaged { object, .. } | ArchiveError::Missing { object, .. } => object == name,
            _ => false,
        })
    }
}
