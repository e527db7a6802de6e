//! Forged bytes: what stands behind the checksums meets bytes that no engine has written, with checksums that are
//! right. Whatever they are, opening ends in a database or in an error that names a file: never in a panic, an
//! allocation without bounds, or a hang.
//!
//! The forgeries are mutations of what the engine has written, so that they get far, and what is in `tests/corpus/`.
//! `HEDDLE_FORGERIES` is a factor of how many are made; `HEDDLE_SEED` repeats those of an earlier run. The crate in
//! `fuzz/` makes them with a fuzzer instead.

use std::path::Path;

use heddledb::{Database, Error, ProtocolKind};

use crate::checkpoint::journal::{DIRECTORY, options};
use crate::faults::seed;
use crate::support::forge::{Forge, PAGE};
use crate::support::split::in_time;

/// Forgeries of each kind.
const ROUNDS: u64 = 250;

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

/// Opens a forgery, and looks around in it, if it opens.
fn open(forge: &Forge, what: &str) -> bool {
    let plain = options(&forge.disk, ProtocolKind::default()).read_only(true);
    match Database::open(DIRECTORY, plain) {
        Ok(db) => {
            // Values that make no sense together are possible; they are reported.
            match db.check() {
                Ok(_) | Err(Error::Inconsistent { .. }) => {}
                Err(error) => panic!("{what}: {error}"),
            }
            true
        }
        Err(
            Error::Damaged { path, .. }
            | Error::MissingFile { path, .. }
            | Error::ForeignFile { path }
            | Error::NewerFormat { path, .. }
            | Error::NotADatabase { path, .. },
        ) => {
            // A forged manifest may name a directory for the log, behind what every manifest has.
            let manifest = forge.disk.bytes(&Path::new(DIRECTORY).join("MANIFEST"));
            let has_log_elsewhere = manifest.is_ok_and(|bytes| bytes.len() > 32);
            assert!(path.starts_with(DIRECTORY) || has_log_elsewhere, "{what}: {path}");
            false
        }
        // Rows that are each sound, and not together: no one file is to blame.
        Err(Error::Inconsistent { .. }) => false,
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Changes some bytes: single ones, numbers to their bounds, pieces moved, doubled, removed.
fn mutate(random: &mut fastrand::Rng, bytes: &mut Vec<u8>) {
    for _ in 0..random.usize(1..4) {
        if bytes.is_empty() {
            return bytes.push(random.u8(..));
        }
        let at = random.usize(..bytes.len());
        let piece = at..(at + random.usize(1..24)).min(bytes.len());
        match random.u8(0..8) {
            0 => bytes[at] ^= 1 << random.u8(0..8),
            1 => bytes[at] = random.choice([0, 1, 2, 3, 4, 5, 0x7f, 0x80, 0xff]).unwrap_or(0),
            2 => bytes[piece].fill(0xff),
            3 => bytes[piece].fill(0),
            4 => drop(bytes.drain(piece)),
            5 => {
                let copy = bytes[piece].to_vec();
                let to = random.usize(..=bytes.len());
                bytes.splice(to..to, copy);
            }
            6 => bytes.truncate(at),
            // A length or a count of ten bytes, as large as can be.
            _ => drop(bytes.splice(at..=at, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01])),
        }
    }
}

/// Mutates without changing the length.
fn mutate_in_place(random: &mut fastrand::Rng, bytes: &mut [u8]) {
    let mut copy = bytes.to_vec();
    mutate(random, &mut copy);
    copy.resize(bytes.len(), 0);
    bytes.copy_from_slice(&copy);
}

/// Makes forgeries of a kind; how many of them open.
fn forgeries(kind: &str, with_checkpoint: bool, forge: impl Fn(&Forge, &mut fastrand::Rng)) -> u64 {
    let seed = setting("HEDDLE_SEED", fastrand::u64(..));
    let base = Forge::of(&seed::make(with_checkpoint, None), DIRECTORY);
    let mut opened = 0;
    for round in 0..ROUNDS * setting("HEDDLE_FORGERIES", 1) {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(round));
        let forged = base.again();
        forge(&forged, &mut random);
        opened += u64::from(open(&forged, &format!("{kind}, HEDDLE_SEED={}", seed.wrapping_add(round))));
    }
    println!("{kind}: {opened} of {} open", ROUNDS * setting("HEDDLE_FORGERIES", 1));
    opened
}

#[test]
fn redo_that_nobody_wrote() {
    in_time(|| {
        let opened = forgeries("redo", false, |forged, random| {
            let mut blocks = forged.log_blocks();
            let place = random.usize(..blocks.len());
            let block = &mut blocks[place];
            let pages = block.payload.len().div_ceil(PAGE);
            mutate(random, &mut block.payload);
            // In its place, if it still fits there; the blocks behind it are as they were.
            block.payload.truncate(pages * PAGE - crate::support::forge::LOG_HEADER);
            forged.put_log_block(block);
        });
        assert!(opened > 0, "no forgery is good enough to be read to its end");
    });
}

#[test]
fn a_last_group_that_nobody_wrote() {
    in_time(|| {
        forgeries("last group", true, |forged, random| {
            let blocks = forged.log_blocks();
            let mut payload = blocks[random.usize(..blocks.len())].payload.clone();
            mutate(random, &mut payload);
            forged.append_to_log(&payload);
        });
    });
}

#[test]
fn a_checkpoints_parts_that_nobody_wrote() {
    in_time(|| {
        forgeries("part", true, |forged, random| {
            let parts = forged.files("checkpoint", ".part");
            let path = &parts[random.usize(..parts.len())];
            let mut bytes = forged.bytes(path);
            let from =
                random.choice([0, crate::support::forge::PART_HEADER, 72]).unwrap_or(0).min(bytes.len());
            mutate_in_place(random, &mut bytes[from..]);
            forged.seal_part(&mut bytes);
            forged.put(path, bytes);
        });
    });
}

#[test]
fn a_checkpoints_manifest_that_nobody_wrote() {
    in_time(|| {
        forgeries("checkpoint's manifest", true, |forged, random| {
            let path = forged.files("checkpoint", ".manifest").remove(0);
            let mut bytes = forged.bytes(&path);
            let end = bytes.len() - 4;
            let mut content = bytes[28..end].to_vec();
            mutate(random, &mut content);
            bytes.splice(28..end, content);
            Forge::seal_manifest(&mut bytes);
            forged.put(&path, bytes);
        });
    });
}

#[test]
fn headers_that_nobody_wrote() {
    in_time(|| {
        forgeries("segment's header", false, |forged, random| {
            let segments = forged.files("log", ".log");
            let path = &segments[random.usize(..segments.len())];
            let mut bytes = forged.bytes(path);
            mutate_in_place(random, &mut bytes[..40]);
            Forge::seal_segment_header(&mut bytes);
            forged.put(path, bytes);
        });
        forgeries("database's manifest", false, |forged, random| {
            let path = Path::new(DIRECTORY).join("MANIFEST");
            let mut bytes = forged.bytes(&path);
            mutate(random, &mut bytes);
            Forge::seal_manifest(&mut bytes);
            forged.put(&path, bytes);
        });
    });
}

/// Inputs that once were trouble, and those that a fuzzer begins with.
#[test]
fn the_corpus_does_no_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let bases = [false, true].map(|with_checkpoint| Forge::of(&seed::make(with_checkpoint, None), DIRECTORY));
    let mut inputs = 0;
    for (kind, forge) in crate::support::forge::KINDS {
        for entry in std::fs::read_dir(corpus.join(kind)).expect("a folder for each kind") {
            let path = entry.expect("readable").path();
            let bytes = std::fs::read(&path).expect("readable");
            for base in &bases {
                let forged = base.again();
                forge(&forged, &bytes);
                open(&forged, &path.display().to_string());
            }
            inputs += 1;
        }
    }
    assert!(inputs >= 9, "{inputs} inputs");
}

/// Writes the corpus's beginning: what the engine itself has written, of each kind.
#[test]
#[ignore = "writes tests/corpus; run it when a format has changed"]
fn write_the_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let base = Forge::of(&seed::make(true, None), DIRECTORY);
    let write = |kind: &str, name: &str, bytes: &[u8]| {
        let folder = corpus.join(kind);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(name), bytes).expect("a file");
    };
    // One of each kind of group: the first ones make tables, later ones are of calls, some with merged operations.
    let blocks = base.log_blocks();
    for number in [0, blocks.len() / 3, blocks.len() / 2, blocks.len() - 1] {
        write("redo", &format!("group-{number}"), &blocks[number].payload);
    }
    for (number, path) in base.files("checkpoint", ".part").iter().enumerate() {
        write("part", &format!("part-{number}"), &base.bytes(path)[crate::support::forge::PART_HEADER..]);
    }
    let path = base.files("checkpoint", ".manifest").remove(0);
    write("checkpoint-manifest", "manifest", &base.bytes(&path));
    let path = base.files("log", ".log").remove(0);
    write("segment-header", "header", &base.bytes(&path)[..40]);
    write("manifest", "manifest", &base.bytes(&Path::new(DIRECTORY).join("MANIFEST")));
}
