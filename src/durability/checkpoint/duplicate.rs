//! Copies a whole checkpoint to another directory, and looks at every checksum on the way.

use std::path::PathBuf;

use super::files::Checkpoints;
use super::manifest::{Manifest, Part};
use super::part::{PartName, PartReader};
use crate::Result;
use crate::durability::failure::writing;

/// Bytes written between two syncs.
const SYNC_BYTES: u64 = 4 << 20;

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
        let parts = manifest.parts.iter().map(|part| Part { directory: 0, ..*part }).collect();
        let copy = Manifest { directories: Vec::new(), parts, ..manifest.clone() };
        self.write_manifest(&copy)
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
