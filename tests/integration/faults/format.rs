//! Databases that were written by this version and are kept in `tests/data/`: every later version has to read them, or to
//! refuse them by name. They were made with
//! `cargo test -p heddledb --test integration faults::format::write_the_data -- --ignored`; a version that writes another format adds its own
//! folder, and leaves those that are there as they are.

use std::path::{Path, PathBuf};

use heddledb::testing::{Disk, SimulatedDisk};
use heddledb::{Database, Error, ProtocolKind};

use crate::checkpoint::journal::{DIRECTORY, options};
use crate::faults::seed;
use crate::support::forge::{Forge, PAGE};

/// The kept databases, each with a flag for a checkpoint. Version 3 is of databases whose log is elsewhere, and of no others.
const KEPT: [(&str, bool); 5] = [
    ("format-2-log", false),
    ("format-2-checkpoint", true),
    (LOG_ELSEWHERE, true),
    ("format-4-checkpoint", true),
    ("format-5-checkpoint", true),
];
const LOG_ELSEWHERE: &str = "format-3-log-elsewhere";
/// The directory of that one's log on its disk, as its manifest says.
const LOG_DIRECTORY: &str = "fast/bank-log";

/// The names of folders in the repository, and their paths on the disk.
fn folders() -> [(&'static str, PathBuf); 4] {
    let own = Path::new(DIRECTORY);
    [
        ("", own.to_path_buf()),
        ("log", own.join("log")),
        ("checkpoint", own.join("checkpoint")),
        ("log-elsewhere", PathBuf::from(LOG_DIRECTORY)),
    ]
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Puts what is kept on a simulated disk, where it may be written.
fn load(name: &str) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    for (folder, to) in folders() {
        let from = data(name).join(folder);
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
    // The manifest says for the log what version a program has to know.
    for (path, seal, known) in [
        (Path::new(DIRECTORY).join("MANIFEST"), manifest, 5_u32),
        (newest("checkpoint", ".manifest"), manifest, 2),
        (newest("log", ".log"), segment, 3),
        (newest("checkpoint", ".part"), part, 2),
    ] {
        let forged = forge.again();
        let mut bytes = forged.bytes(&path);
        bytes[8..12].copy_from_slice(&(known + 1).to_le_bytes());
        seal(&forged, &mut bytes);
        forged.put(&path, bytes.clone());
        for read_only in [true, false] {
            let plain = options(&forged.disk, ProtocolKind::default()).read_only(read_only);
            let refused = Database::open(DIRECTORY, plain).expect_err("a newer version");
            assert!(
                matches!(&refused, Error::NewerFormat { path: named, found, supported }
                    if Path::new(named) == path && (*found, *supported) == (known + 1, known)),
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

/// Version 1 had no checkpoints and was otherwise the same: such a database is read, and its manifest made version 5.
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
    assert_eq!(forge.bytes(&manifest)[8], 5);
}

/// A program that does not know of groups that were in flight together would take what a crash leaves of them for damage, or
/// make only one of them durable; one that does not know of blocks with a term would take them for a torn tail. So both must
/// refuse every database to which this one may have written.
#[test]
fn what_may_be_written_by_this_version_is_of_a_version_that_older_programs_refuse() {
    let manifest = Path::new(DIRECTORY).join("MANIFEST");
    for (name, _) in KEPT {
        let disk = load(name);
        let before = disk.bytes(&manifest).expect("a manifest");
        let plain = || options(&disk, ProtocolKind::default());
        Database::open(DIRECTORY, plain()).expect(name).close().expect(name);
        let after = disk.bytes(&manifest).expect("a manifest");
        assert_eq!(after[8..12], 5_u32.to_le_bytes(), "{name}");
        assert_eq!(
            after[12..after.len() - 4],
            before[12..before.len() - 4],
            "{name}: identity and place of the log"
        );
        Database::backup_directory(DIRECTORY, "copy", &plain(), &mut |_, _| ()).expect(name);
        let copy = disk.bytes(&Path::new("copy").join("MANIFEST")).expect("a manifest");
        assert_eq!(copy[8..12], 5_u32.to_le_bytes(), "{name}");
        seed::check(&disk, ProtocolKind::default(), name);
    }
}

/// Those that are there stay as they are. Unused segments are left out, for they are zeros: the log ends in the last one that is used.
#[test]
#[ignore = "writes tests/data; run it once for each new format"]
fn write_the_data() {
    // What is there was written by the version that it is there for.
    for (name, with_checkpoint) in KEPT.into_iter().filter(|(name, _)| !data(name).exists()) {
        let log = (name == LOG_ELSEWHERE).then_some(LOG_DIRECTORY);
        let disk = seed::make(with_checkpoint, log);
        for (folder, from) in folders() {
            let is_kept = |path: &Path, bytes: &[u8]| {
                let is_used = |page: &[u8]| page.iter().any(|byte| *byte != 0);
                let is_segment = path.extension().is_some_and(|ending| ending == "log");
                !path.ends_with("LOCK") && (!is_segment || is_used(&bytes[PAGE..]))
            };
            for file in disk.list(&from).unwrap_or_default() {
                let path = from.join(&file);
                if let Some(bytes) = disk.bytes(&path).ok().filter(|bytes| is_kept(&path, bytes)) {
                    std::fs::create_dir_all(data(name).join(folder)).expect("a directory");
                    std::fs::write(data(name).join(folder).join(file), bytes).expect("a file");
                }
            }
        }
    }
}

/// The manifest says where the log is, in a version that programs refuse which do not look for it there.
#[test]
fn a_kept_database_whose_log_is_elsewhere_finds_it_there() {
    let disk = load(LOG_ELSEWHERE);
    let manifest = disk.bytes(&Path::new(DIRECTORY).join("MANIFEST")).expect("a manifest");
    assert_eq!(manifest[8], 3);
    assert!(manifest.windows(LOG_DIRECTORY.len()).any(|text| text == LOG_DIRECTORY.as_bytes()));
    assert!(!disk.exists(&Path::new(DIRECTORY).join("log")).expect("readable"));
    let log = || disk.list(Path::new(LOG_DIRECTORY)).expect("a log").into_iter();
    let segments = log().filter(|name| name.to_string_lossy().ends_with(".log"));
    segments.for_each(|name| disk.remove(&Path::new(LOG_DIRECTORY).join(name)).expect("it is there"));
    let refused = Database::open(DIRECTORY, options(&disk, ProtocolKind::default())).err();
    assert!(matches!(refused, Some(Error::MissingFile { .. })), "{refused:?}");
}
