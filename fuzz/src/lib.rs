//! Functions that the fuzz targets share: a fuzzer's input is put where a decoder reads it, with checksums
//! that are right, and the database is opened. Opening must end in a database or in an error, and a database
//! must be one that can be looked at.
//!
//! The corpus is the engine's own, `tests/corpus/`; inputs that a fuzzer finds are added there, and the
//! engine's tests run them.

#[path = "../../tests/support/forge.rs"]
mod forge;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use forge::{Forge, KINDS};
use heddledb::testing::{Disk, SimulatedDisk};
use heddledb::{Database, Options};

const DIRECTORY: &str = "bank";

/// A database that this version has written, with a checkpoint.
fn base() -> &'static Forge {
    static BASE: OnceLock<Forge> = OnceLock::new();
    BASE.get_or_init(|| {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/format-2-checkpoint");
        let disk = SimulatedDisk::new();
        for folder in ["", "log", "checkpoint"] {
            let to = Path::new(DIRECTORY).join(folder);
            disk.create_dir_all(&to).expect("a directory");
            for entry in std::fs::read_dir(kept.join(folder)).expect("it is in the repository") {
                let path = entry.expect("readable").path();
                if path.is_file() {
                    let bytes = std::fs::read(&path).expect("readable");
                    disk.put_bytes(&to.join(path.file_name().expect("a name")), bytes).expect("there");
                }
            }
        }
        Forge::of(&disk, DIRECTORY)
    })
}

/// Opens the database with this input in the place of this kind.
///
/// # Panics
/// There is no such kind; or the engine panics, which is what is looked for.
pub fn open(kind: &str, input: &[u8]) {
    let forge = base().again();
    let (_, put) = KINDS.iter().find(|(name, _)| *name == kind).expect("a kind");
    put(&forge, input);
    let options = Options::default().read_only(true).workers(1).disk(Arc::new(forge.disk.clone()));
    if let Ok(db) = Database::open(DIRECTORY, options) {
        let _ = db.check();
    }
}
