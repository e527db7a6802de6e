//! The simulated disk itself: what it keeps, loses and refuses. Everything else's crash tests stand on this.

use super::*;
use crate::testing::{Disk, File};
use std::ffi::OsString;

const PATH: &str = "d/file";

fn disk_with_file() -> (SimulatedDisk, Box<dyn File>) {
    let disk = SimulatedDisk::new();
    disk.create_dir_all(Path::new("d")).expect("a directory");
    let file = disk.create_new(Path::new(PATH)).expect("a file");
    disk.sync_dir(Path::new("")).expect("a sync");
    disk.sync_dir(Path::new("d")).expect("a sync");
    (disk, file)
}

fn bytes(disk: &SimulatedDisk) -> Vec<u8> {
    disk.bytes(Path::new(PATH)).expect("the file is there")
}

fn names(disk: &SimulatedDisk) -> Vec<OsString> {
    disk.list(Path::new("d")).expect("the directory is there")
}

fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn what_is_synced_survives_and_the_rest_may_not() -> io::Result<()> {
    let (disk, file) = disk_with_file();
    file.write_all_at(b"synced", 0)?;
    file.sync_data()?;
    file.write_all_at(b" unsynced", 6)?;
    assert_eq!(bytes(&disk), b"synced unsynced");
    assert_eq!(bytes(&disk.crash_image(0)), b"synced");
    assert_eq!(bytes(&disk.crash_image(1)), b"synced unsynced");
    for seed in 2..50 {
        assert!(bytes(&disk.crash_image(seed)).starts_with(b"synced"));
        assert_eq!(bytes(&disk.crash_image(seed)), bytes(&disk.crash_image(seed)));
    }
    Ok(())
}

#[test]
fn a_torn_write_is_torn_at_sectors_and_every_kind_of_tear_occurs() -> io::Result<()> {
    let (disk, file) = disk_with_file();
    file.write_all_at(&[1; 2048], 0)?;
    file.sync_all()?;
    file.write_all_at(&[2; 1024], 256)?;
    let mut seen = BTreeSet::new();
    for seed in 0..300 {
        let found = bytes(&disk.crash_image(seed));
        assert_eq!(found.len(), 2048);
        let pieces = [&found[256..512], &found[512..1024], &found[1024..1280]];
        assert!(pieces.iter().all(|piece| piece.iter().all(|byte| *byte == piece[0])));
        assert!(found[..256].iter().chain(&found[1280..]).all(|byte| *byte == 1));
        seen.insert(pieces.map(|piece| piece[0]));
    }
    assert_eq!(seen.len(), 8, "every subset of the three sectors occurs");
    Ok(())
}

#[test]
fn a_file_may_grow_without_its_bytes() -> io::Result<()> {
    let (disk, file) = disk_with_file();
    file.write_all_at(&[7; 512], 0)?;
    let found: BTreeSet<_> = (0..100).map(|seed| bytes(&disk.crash_image(seed))).collect();
    assert_eq!(found, BTreeSet::from([vec![], vec![0; 512], vec![7; 512]]));
    Ok(())
}

#[test]
fn later_writes_may_survive_earlier_ones() -> io::Result<()> {
    let (disk, file) = disk_with_file();
    file.write_all_at(&[0; 1024], 0)?;
    file.sync_data()?;
    file.write_all_at(&[1; 512], 0)?;
    file.write_all_at(&[2; 512], 512)?;
    assert!((0..50).any(|seed| {
        let found = bytes(&disk.crash_image(seed));
        found[0] == 0 && found[512] == 2
    }));
    Ok(())
}

#[test]
fn names_are_durable_only_after_a_directory_sync() -> io::Result<()> {
    let (disk, _) = disk_with_file();
    let other = disk.create_new(Path::new("d/other"))?;
    other.write_all_at(b"x", 0)?;
    other.sync_all()?;
    assert_eq!(names(&disk.crash_image(0)), ["file"]);
    assert_eq!(names(&disk.crash_image(1)), ["file", "other"]);
    disk.sync_dir(Path::new("d"))?;
    assert_eq!(names(&disk.crash_image(0)), ["file", "other"]);
    disk.remove(Path::new("d/other"))?;
    assert_eq!(names(&disk.crash_image(0)), ["file", "other"]);
    assert_eq!(names(&disk.crash_image(1)), ["file"]);
    Ok(())
}

#[test]
fn a_rename_is_atomic() -> io::Result<()> {
    let (disk, file) = disk_with_file();
    file.write_all_at(b"old", 0)?;
    file.sync_all()?;
    let new = disk.create_new(Path::new("d/new"))?;
    new.write_all_at(b"new", 0)?;
    new.sync_all()?;
    disk.rename(Path::new("d/new"), Path::new(PATH))?;
    assert_eq!(bytes(&disk), b"new");
    for seed in 0..50 {
        let image = disk.crash_image(seed);
        let found = bytes(&image);
        assert!(found == b"old" || found == b"new");
        assert!(found == b"old" || names(&image) == ["file"]);
    }
    assert_eq!(
        kind(disk.rename(Path::new(PATH), Path::new("elsewhere"))),
        Some(io::ErrorKind::CrossesDevices)
    );
    Ok(())
}

#[test]
fn an_unsynced_directory_is_lost_with_all_that_it_holds() -> io::Result<()> {
    let disk = SimulatedDisk::new();
    disk.create_dir_all(Path::new("a/b"))?;
    disk.create_new(Path::new("a/b/file"))?.sync_all()?;
    disk.sync_dir(Path::new("a/b"))?;
    disk.sync_dir(Path::new("a"))?;
    assert!(!disk.crash_image(0).exists(Path::new("a"))?);
    disk.sync_dir(Path::new("."))?;
    assert!(disk.crash_image(0).exists(Path::new("/a/b/file"))?);
    Ok(())
}

#[test]
fn planned_faults_strike_once_or_until_healed() -> io::Result<()> {
    let (disk, file) = disk_with_file();
    disk.fail_next(Operation::Write, Fault::ReadOnly);
    assert_eq!(kind(file.write_all_at(b"x", 0)), Some(io::ErrorKind::ReadOnlyFilesystem));
    file.write_all_at(b"x", 0)?;
    disk.fail_from_now(Operation::Create, Fault::StorageFull);
    disk.fail_from_now(Operation::Read, Fault::PermissionDenied);
    for _ in 0..3 {
        assert_eq!(kind(disk.create_new(Path::new("d/y"))), Some(io::ErrorKind::StorageFull));
        assert_eq!(kind(file.read_at(&mut [0], 0)), Some(io::ErrorKind::PermissionDenied));
    }
    disk.heal();
    disk.create_new(Path::new("d/y"))?;
    assert_eq!(file.read_at(&mut [0], 0)?, 1);
    Ok(())
}

#[test]
fn a_failed_sync_strands_bytes_that_a_later_sync_does_not_save() -> io::Result<()> {
    let (disk, file) = disk_with_file();
    file.write_all_at(&[1; 8192], 0)?;
    disk.fail_next(Operation::Sync, Fault::InputOutput);
    assert!(file.sync_data().is_err());
    file.sync_data()?;
    assert_eq!(bytes(&disk), vec![1; 8192]);
    let strands = (0..20).any(|_| {
        file.write_all_at(&[2; 8192], 0).expect("a write");
        disk.fail_next(Operation::Sync, Fault::InputOutput);
        assert!(file.sync_data().is_err());
        file.sync_data().expect("a sync");
        bytes(&disk.crash_image(1)) != [2; 8192]
    });
    assert!(strands);
    file.write_all_at(&[3; 8192], 0)?;
    file.sync_data()?;
    assert_eq!(bytes(&disk.crash_image(0)), vec![3; 8192], "what is written again and synced is durable");
    Ok(())
}

#[test]
fn a_failed_sync_is_reported_once_through_each_opening_of_the_file() -> io::Result<()> {
    let (disk, file) = disk_with_file();
    let other = disk.open_write(Path::new(PATH))?;
    file.write_all_at(&[1; 8192], 0)?;
    disk.fail_next(Operation::Sync, Fault::InputOutput);
    assert!(other.sync_data().is_err());
    let later = disk.open_write(Path::new(PATH))?;
    assert!(file.sync_data().is_err(), "what was written through it may be stranded");
    for opening in [file, other, later] {
        opening.sync_data()?;
    }
    Ok(())
}

#[test]
fn a_full_disk_takes_the_beginning_of_a_write() -> io::Result<()> {
    let (disk, file) = disk_with_file();
    disk.set_capacity(10);
    assert_eq!(kind(file.write_all_at(&[1; 12], 0)), Some(io::ErrorKind::StorageFull));
    assert_eq!(bytes(&disk), vec![1; 10]);
    file.write_all_at(&[2; 10], 0)?;
    disk.remove(Path::new(PATH))?;
    disk.create_new(Path::new(PATH))?.write_all_at(&[3; 10], 0)
}

#[test]
fn short_and_interrupted_transfers_are_completed() -> io::Result<()> {
    let (disk, file) = disk_with_file();
    disk.shorten_transfers();
    let written: Vec<u8> = (0..=255).collect();
    assert!(file.write_at(&written, 0)? < written.len());
    file.write_all_at(&written, 0)?;
    let mut read = vec![0; written.len()];
    file.read_exact_at(&mut read, 0)?;
    assert_eq!(read, written);
    Ok(())
}

#[test]
fn after_the_last_operation_nothing_changes() -> io::Result<()> {
    let (disk, file) = disk_with_file();
    disk.crash_after(1);
    file.write_all_at(b"x", 0)?;
    assert!(file.sync_data().is_err());
    assert!(file.write_all_at(b"y", 0).is_err());
    assert!(disk.create_new(Path::new("d/y")).is_err());
    assert!(file.read_at(&mut [0], 0).is_err());
    assert_eq!(bytes(&disk), b"x");
    assert_eq!(bytes(&disk.crash_image(0)), b"");
    Ok(())
}

#[test]
fn held_syncs_wait_and_nothing_is_durable_meanwhile() -> io::Result<()> {
    let (disk, file) = disk_with_file();
    file.write_all_at(b"x", 0)?;
    disk.hold_syncs();
    let syncing = std::thread::spawn(move || file.sync_data());
    disk.wait_for_held_syncs(1);
    assert_eq!(disk.held_syncs(), 1);
    assert_eq!(bytes(&disk.crash_image(0)), b"");
    disk.release_syncs();
    syncing.join().expect("the thread ends well")?;
    assert_eq!(bytes(&disk.crash_image(0)), b"x");
    Ok(())
}

#[test]
fn a_lying_disk_loses_what_it_acknowledged() -> io::Result<()> {
    let (disk, file) = disk_with_file();
    disk.lie_about_syncs();
    file.write_all_at(b"x", 0)?;
    file.sync_all()?;
    assert_eq!(bytes(&disk.crash_image(0)), b"");
    Ok(())
}

#[test]
fn locks_exclude_and_go_with_their_guard_and_with_the_power() -> io::Result<()> {
    let (disk, _) = disk_with_file();
    let path = Path::new("d/LOCK");
    let guard = disk.try_lock(path)?;
    assert!(guard.is_some());
    assert!(disk.clone().try_lock(path)?.is_none());
    assert!(disk.crash_image(1).try_lock(path)?.is_some());
    assert!(disk.try_lock_shared(path)?.is_none());
    drop(guard);
    let readers = (disk.try_lock_shared(path)?, disk.try_lock_shared(path)?);
    assert!(readers.0.is_some() && readers.1.is_some());
    drop(readers.0);
    assert!(disk.try_lock(path)?.is_none());
    drop(readers.1);
    assert!(disk.try_lock(path)?.is_some());
    assert!(disk.try_lock_shared(Path::new("d/other")).is_err(), "a shared lock creates no file");
    Ok(())
}

#[test]
fn misuse_is_refused_as_by_a_real_disk() -> io::Result<()> {
    let (disk, file) = disk_with_file();
    file.write_all_at(b"x", 0)?;
    assert_eq!(kind(disk.create_new(Path::new(PATH))), Some(io::ErrorKind::AlreadyExists));
    assert_eq!(kind(disk.open_read(Path::new("d/none"))), Some(io::ErrorKind::NotFound));
    assert_eq!(kind(disk.open_read(Path::new("d"))), Some(io::ErrorKind::IsADirectory));
    assert_eq!(kind(disk.list(Path::new(PATH))), Some(io::ErrorKind::NotADirectory));
    assert_eq!(kind(disk.list(Path::new("none"))), Some(io::ErrorKind::NotFound));
    assert_eq!(kind(disk.create_dir_all(Path::new("d/file/x"))), Some(io::ErrorKind::NotADirectory));
    assert!(disk.open_read(Path::new(PATH))?.write_at(b"y", 0).is_err());
    file.set_len(3)?;
    assert_eq!(bytes(&disk), b"x\0\0");
    let mut buffer = [0; 4];
    assert_eq!(kind(file.read_exact_at(&mut buffer, 0)), Some(io::ErrorKind::UnexpectedEof));
    Ok(())
}

/// Before each changing operation, and before no other, the disk can be seen as a loss of power would leave it.
#[test]
fn every_moment_before_a_change_is_shown() -> io::Result<()> {
    let disk = SimulatedDisk::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    disk.watch(move |moment| {
        let length = |seed| moment.image(seed).bytes(Path::new("file")).map_or(0, |bytes| bytes.len());
        noted.lock().push((moment.number(), moment.operation(), length(0), length(1)));
    });
    let file = disk.create_new(Path::new("file"))?;
    disk.sync_dir(Path::new(""))?;
    file.write_all_at(b"abc", 0)?;
    file.read_exact_at(&mut [0; 3], 0)?;
    file.sync_data()?;
    file.set_len(1)?;
    disk.watch_no_more();
    disk.remove(Path::new("file"))?;
    use Operation::{Create, Sync, SyncDirectory, Write};
    let expected =
        [(0, Create, 0, 0), (1, SyncDirectory, 0, 0), (2, Write, 0, 0), (3, Sync, 0, 3), (4, Write, 3, 3)];
    assert_eq!(*seen.lock(), expected);
    Ok(())
}
