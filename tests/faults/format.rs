//! Databases that were written by this version and are kept in `tests/data/`: every later version has to read them, or to
//! refuse them by name. They were made with
//! `cargo test -p heddledb --test faults write_the_data -- --ignored`; a version that writes another format adds its own
//! folder, and leaves those that are there as they are.

use std::path::{Path, PathBuf};

use heddledb::testing::{Disk, SimulatedDisk};
use heddledb::{Database, Error, ProtocolKind};

use crate::forge::Forge;
use crate::journal::{DIRECTORY, options};
use crate::seed;

/// What is kept, and whether it has a checkpoint.
const KEPT: [(&str, bool); 2] = [("format-2-log", false), ("format-2-checkpoint", true)];
const FOLDERS: [&str; 3] = ["", "log", "checkpoint"];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Puts what is kept on a simulated disk, where it may be written.
fn load(name: &str) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    for folder in FOLDERS {
        let (from, to) = (data(name).join(folder), Path::new(DIRECTORY).join(folder));
        let Ok(entries) = std::fs::read_dir(&from) else { continue };
        disk.create_dir_all(&to).expect("a directory");
        for path in entries.map(|entry| entry.expect("readable").path()).filter(|path| path.is_file()) {
            let bytes = std::fs::read(&path).expect("readable");
            disk.put_bytes(&to.join(path.file_name().expect("a name")), bytes).expect("there");
        }
    }
    disk
}

#[test]
fn databases_of_this_format_are_read_under_every_protocol() {
    for (name, with_checkpoint) in KEPT {
        for &protocol in ProtocolKind::ALL {
            let disk = load(name);
            let db = Database::open(DIRECTORY, options(&disk, protocol).read_only(true)).expect(name);
            assert_eq!(db.recovery().checkpoint > 0, with_checkpoint, "{name}");
            assert_eq!(db.recovery().cut, None, "{name}");
            db.check().expect(name);
            db.check_files(&mut |_, _| ()).expect(name);
            db.close().expect(name);
            seed::check(&disk, protocol, name);
        }
    }
}

/// Each kind of file says itself of which version it is.
#[test]
fn a_newer_format_is_refused_by_name_and_nothing_is_changed() {
    let forge = Forge::of(&load("format-2-checkpoint"), DIRECTORY);
    let newest = |folder: &str, ending: &str| forge.files(folder, ending).pop().expect("a file");
    let manifest: fn(&Forge, &mut Vec<u8>) = |_, bytes| Forge::seal_manifest(bytes);
    let segment: fn(&Forge, &mut Vec<u8>) = |_, bytes| Forge::seal_segment_header(bytes);
    let part: fn(&Forge, &mut Vec<u8>) = |forge, bytes| forge.seal_part(bytes);
    for (path, seal) in [
        (Path::new(DIRECTORY).join("MANIFEST"), manifest),
        (newest("checkpoint", ".manifest"), manifest),
        (newest("log", ".log"), segment),
        (newest("checkpoint", ".part"), part),
    ] {
        let forged = forge.again();
        let mut bytes = forged.bytes(&path);
        bytes[8..12].copy_from_slice(&3_u32.to_le_bytes());
        seal(&forged, &mut bytes);
        forged.put(&path, bytes.clone());
        for read_only in [true, false] {
            let plain = options(&forged.disk, ProtocolKind::default()).read_only(read_only);
            let refused = Database::open(DIRECTORY, plain).err().expect("a newer version");
            assert!(
                matches!(&refused, Error::NewerFormat { path: named, found: 3, supported: 2 } if Path::new(named) == path),
                "{}: {refused}",
                path.display()
            );
        }
        let copied = Database::backup_directory(
            DIRECTORY,
            "copy",
            &options(&forged.disk, ProtocolKind::default()),
            &mut |_, _| (),
        );
        assert!(matches!(copied, Err(Error::NewerFormat { .. })), "{copied:?}");
        assert_eq!(forged.bytes(&path), bytes, "it was changed");
    }
}

/// Version 1 had no checkpoints and was otherwise the same: such a database is read, and made version 2.
#[test]
fn the_older_format_is_read_and_raised_only_when_it_is_written() {
    let forge = Forge::of(&load("format-2-log"), DIRECTORY);
    let manifest = Path::new(DIRECTORY).join("MANIFEST");
    let to_version_1 = |path: &Path, seal: fn(&mut [u8])| {
        let mut bytes = forge.bytes(path);
        bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
        seal(&mut bytes);
        forge.put(path, bytes);
    };
    to_version_1(&manifest, Forge::seal_manifest);
    forge.files("log", ".log").iter().for_each(|path| to_version_1(path, Forge::seal_segment_header));
    let plain = options(&forge.disk, ProtocolKind::default()).read_only(true);
    Database::open(DIRECTORY, plain).expect("read").close().expect("closed");
    assert_eq!(forge.bytes(&manifest)[8], 1, "who only reads changes nothing");
    seed::check(&forge.disk, ProtocolKind::default(), "version 1");
    assert_eq!(forge.bytes(&manifest)[8], 2);
}

/// Unused segments are left out, for they are zeros: the log ends in the last one that is used.
#[test]
#[ignore = "writes tests/data; run it once for each new format"]
fn write_the_data() {
    for (name, with_checkpoint) in KEPT {
        let disk = seed::make(with_checkpoint);
        let forge = Forge::of(&disk, DIRECTORY);
        let last = forge.log_blocks().last().expect("a block").path.clone();
        for folder in FOLDERS {
            let from = Path::new(DIRECTORY).join(folder);
            std::fs::create_dir_all(data(name).join(folder)).expect("a directory");
            for file in disk.list(&from).unwrap_or_default() {
                let path = from.join(&file);
                let is_unused = path.extension().is_some_and(|ending| ending == "log") && path > last;
                if let (Ok(bytes), false) = (disk.bytes(&path), is_unused || file == "LOCK") {
                    std::fs::write(data(name).join(folder).join(file), bytes).expect("a file");
                }
            }
        }
    }
}
