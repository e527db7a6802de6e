//! Copies a whole checkpoint to another directory, and looks at every checksum on the way.

use std::path::{Path, PathBuf};

use super::files::{Checkpoints, number_of};
use super::manifest::{Manifest, Part};
use super::part::{PartName, PartReader};
use crate::Result;
use crate::durability::failure::writing;

/// Bytes written between two syncs.
const SYNC_BYTES: u64 = 4 << 20;

/// A part that is being copied, read from its beginning to its end.
pub(crate) struct PartCopy {
    file_name: String,
    header: Vec<u8>,
    from: PartReader,
    /// Bytes of the file that were read.
    offset: u64,
}

impl PartCopy {
    /// The name of the part's file in the checkpoints' own directory.
    pub(crate) fn file_name(&self) -> &str {
        &self.file_name
    }

    /// The next bytes and their offset: whole blocks of at least `bytes_min` bytes, unless the part ends before.
    ///
    /// # Errors
    /// A block is not as it was written.
    pub(crate) fn read(&mut self, bytes_min: usize) -> Result<Option<(u64, Vec<u8>)>> {
        let (offset, mut bytes) = (self.offset, std::mem::take(&mut self.header));
        while bytes.len() < bytes_min.max(1)
            && let Some(block) = self.from.read_block()?
        {
            bytes.extend_from_slice(&block.header);
            bytes.extend_from_slice(block.payload);
        }
        self.offset += bytes.len() as u64;
        Ok(Some((offset, bytes)).filter(|(_, bytes)| !bytes.is_empty()))
    }
}

/// The manifest of a copy that has all parts in the checkpoints' own directory.
fn copied(manifest: &Manifest) -> Manifest {
    let parts = manifest.parts.iter().map(|part| Part { directory: 0, ..*part }).collect();
    Manifest { directories: Vec::new(), parts, ..manifest.clone() }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Checkpoints {
    /// The files that the making of a copy of this checkpoint may leave: the manifest, under both its names, is the first.
    pub(crate) fn paths_of_copy(&self, manifest: &Manifest) -> Vec<PathBuf> {
        let parts = manifest.parts.iter().map(|part| self.part_path(None, self.name(manifest, *part)));
        let number = manifest.number;
        [self.manifest_path(number), self.new_manifest_path(number)].into_iter().chain(parts).collect()
    }

    /// Makes a copy of a checkpoint: its parts, then, when they and their names are durable, its manifest. `advance` receives
    /// how many bytes more are written.
    ///
    /// # Errors
    /// A part is damaged: with file and offset; or the copy cannot be written.
    pub(crate) fn copy_of(
        &self,
        source: &Checkpoints,
        manifest: &Manifest,
        advance: &mut dyn FnMut(u64),
    ) -> Result<()> {
        self.make_home()?;
        for part in &manifest.parts {
            self.copy_part(source.open_part(manifest, *part)?, self.name(manifest, *part), advance)?;
        }
        self.write_manifest(&copied(manifest))
    }

    /// The name and the content of the manifest's file of a copy.
    pub(crate) fn manifest_of_copy(&self, manifest: &Manifest) -> (String, Vec<u8>) {
        (file_name(&self.manifest_path(manifest.number)), copied(manifest).encode(self.uuid))
    }

    /// Opens every part for being copied, the first one first.
    ///
    /// # Errors
    /// A part is not there, damaged, or cannot be read.
    pub(crate) fn part_copies(&self, manifest: &Manifest) -> Result<Vec<PartCopy>> {
        let open = |part: &Part| {
            let name = self.name(manifest, *part);
            let file_name = file_name(&self.part_path(None, name));
            Ok(PartCopy {
                file_name,
                header: name.header(),
                from: self.open_part(manifest, *part)?,
                offset: 0,
            })
        };
        manifest.parts.iter().map(open).collect()
    }

    /// Path of a file of a checkpoint in the checkpoints' own directory; `None` if no checkpoint has a file of this name.
    pub(crate) fn path_of_file(&self, name: &str) -> Option<PathBuf> {
        number_of(name).map(|_| self.home.join(name))
    }

    fn name(&self, manifest: &Manifest, part: Part) -> PartName {
        PartName { uuid: self.uuid, checkpoint: manifest.number, part: part.number }
    }

    fn copy_part(&self, mut from: PartReader, name: PartName, advance: &mut dyn FnMut(u64)) -> Result<()> {
        let path = self.part_path(None, name);
        let to = self.disk.create_new(&path).map_err(writing(&path))?;
        to.write_all_at(&name.header(), 0).map_err(writing(&path))?;
        advance(name.header().len() as u64);
        let mut unsynced = 0;
        while let Some(block) = from.read_block()? {
            let bytes = [&block.header, block.payload].concat();
            to.write_all_at(&bytes, block.offset).map_err(writing(&path))?;
            advance(block.bytes());
            unsynced += block.bytes();
            if unsynced >= SYNC_BYTES {
                to.sync_data().map_err(writing(&path))?;
                unsynced = 0;
            }
        }
        to.sync_all().map_err(writing(&path))
    }
}
