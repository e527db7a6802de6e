//! Followers that fail, lie, say nothing, or are none.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use heddledb::testing::{Disk, File, LockGuard, SimulatedDisk};
use heddledb::{Error, Options, ProtocolKind};

use crate::checkpoint::journal::*;
use crate::follower::companion::*;
use crate::support::split::{in_time, wait_until};

fn plain(disk: &SimulatedDisk) -> Options {
    options(disk, ProtocolKind::default())
}

/// The fault in a follower's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// There is no room for it.
    NoRoom,
    /// It is not synced, although that is said.
    NotSynced,
    /// One bit in each block is another one.
    Flipped,
    /// The last byte is missing of whatever is written.
    Short,
}

/// The database's disk, as a follower with a fault sees it.
#[derive(Clone)]
struct Faulty(SimulatedDisk, Fault);

struct FaultyFile(Box<dyn File>, Fault);

impl Disk for Faulty {
    fn create_dir_all(&self, directory: &Path) -> io::Result<()> {
        self.0.create_dir_all(directory)
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.0.list(directory)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }
    fn open_read(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.0.open_read(path)
    }
    fn open_write(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.0.open_write(path)
    }
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn File>> {
        if self.1 == Fault::NoRoom {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(Box::new(FaultyFile(self.0.create_new(path)?, self.1)))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }
    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        if self.1 == Fault::NotSynced { Ok(()) } else { self.0.sync_dir(directory) }
    }
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        self.0.try_lock(path)
    }
    fn try_lock_shared(&self, path: &Path) -> io::Result<Option<Box<dyn LockGuard>>> {
        self.0.try_lock_shared(path)
    }
}

impl File for FaultyFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut written = bytes.to_vec();
        let is_block = offset > 0;
        match self.1 {
            Fault::Flipped if is_block => *written.last_mut().expect("bytes") ^= 1,
            Fault::Short if is_block => _ = written.pop(),
            _ => {}
        }
        self.0.write_all_at(&written, offset)?;
        Ok(bytes.len())
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }
    fn sync_data(&self) -> io::Result<()> {
        if self.1 == Fault::NotSynced { Ok(()) } else { self.0.sync_data() }
    }
    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Checkpoints by hand, with such a follower; whether it has written any that was named.
fn checkpoints_with(fault: Fault) -> bool {
    let (disk, place) = (SimulatedDisk::new(), Place::new());
    let journal = Journal::create(place.with(plain(&disk)));
    let companion = place.follow(Faulty(disk.clone(), fault));
    let (mut by_follower, mut number) = (0, 0);
    for _ in 0..3 {
        (0..20).for_each(|_| {
            journal.call(0, number).expect("committed");
            number += 1;
        });
        wait_for_follower(&journal.db);
        let report = journal.db.checkpoint().expect("by the database, if the follower cannot");
        by_follower += u64::from(report.by_follower);
        let made = Made { calls: vec![number], tables: 0 };
        for seed in [0, 1, 2] {
            let image = plain(&disk.crash_image(seed));
            drop(Journal::survives(image, &made, &format!("{fault:?}, seed {seed}")));
        }
        let own = format!("{:08}", report.number);
        let others = names(&disk, "checkpoint").into_iter().filter(|name| !name.starts_with(&own));
        assert_eq!(others.collect::<Vec<_>>(), [""; 0], "{fault:?}: what was replaced has gone");
    }
    if by_follower == 0 {
        let failure = journal.db.checkpoints().follower.expect("one is waited for").failure;
        assert!(matches!(failure, Some(Error::FollowerFailed { .. })), "{failure:?}");
    }
    journal.db.close().expect("durable");
    companion.end();
    by_follower > 0
}

#[test]
fn a_follower_that_cannot_write_costs_no_checkpoint() {
    assert!(!in_time(|| checkpoints_with(Fault::NoRoom)));
}

#[test]
fn what_a_follower_says_is_durable_the_database_makes_durable_itself() {
    assert!(in_time(|| checkpoints_with(Fault::NotSynced)));
}

#[test]
fn damaged_parts_are_found_before_anything_relies_on_them() {
    assert!(!in_time(|| checkpoints_with(Fault::Flipped)));
    assert!(!in_time(|| checkpoints_with(Fault::Short)));
}

/// A peer that sends this, and then nothing more.
fn stranger(place: &Place, frame: &[u8]) -> UnixStream {
    let mut line = UnixStream::connect(place.socket()).expect("the primary listens");
    line.write_all(&(frame.len() as u32).to_le_bytes()).expect("sent");
    line.write_all(frame).expect("sent");
    line
}

const HELLO: &[u8] = b"\x01HEDDLFOL\x01\0\0\0";

/// The first messages of a follower that is never heard of again.
fn silent(place: &Place) -> UnixStream {
    stranger(place, HELLO)
}

#[test]
fn a_follower_that_does_nothing_lets_the_log_grow_by_a_bound_only() {
    in_time(|| {
        const LIMIT: u64 = 128 << 10;
        let (disk, place) = (SimulatedDisk::new(), Place::new());
        let journal =
            Journal::create(place.with(plain(&disk).checkpoints(|checkpoints| checkpoints.log_bytes(LIMIT))));
        let (mut most, mut number, mut lines) = (0, 0, Vec::new());
        while journal.db.checkpoints().made < 6 {
            if !journal.db.checkpoints().follower.is_some_and(|follower| follower.attached) {
                // It comes again as soon as it is released, and is always behind.
                lines.push(silent(&place));
                wait_for_follower(&journal.db);
            }
            (0..4).for_each(|_| {
                journal.call(0, number).expect("committed");
                number += 1;
            });
            most = most.max(bytes_on_disk(&disk));
        }
        assert!(lines.len() > 1, "it was never disconnected");
        assert_eq!(journal.db.checkpoints().by_follower, 0);
        // Twice the usual bound of the log, for it is waited for this long.
        let one = journal.db.checkpoints().last.expect("several").bytes;
        let bound = 2 * one + 16 * LIMIT;
        assert!(most < bound, "{most} bytes on disk, {bound} allowed");
        journal.db.close().expect("durable");
        drop(Journal::survives(plain(&disk), &Made { calls: vec![number], tables: 0 }, "alone"));
    });
}

#[test]
fn closing_waits_for_no_silent_follower_whatever_waits_for_that() {
    in_time(|| {
        let (disk, place) = (SimulatedDisk::new(), Place::new());
        let journal = Journal::create(place.with(plain(&disk)));
        // More than the line takes, and no thread reads it.
        (0..400).for_each(|number| journal.call(0, number).expect("committed"));
        let _line = silent(&place);
        wait_for_follower(&journal.db);
        let db = journal.db.clone();
        let asked = std::thread::spawn(move || db.checkpoint());
        wait_until("it is asked", || journal.db.checkpoints().running);
        let start = Instant::now();
        journal.db.close().expect("durable");
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
        assert!(matches!(asked.join().expect("no panic"), Err(Error::Closed)));
        assert!(!place.socket().exists());
    });
}

#[test]
fn a_connection_that_is_no_follower_is_refused() {
    in_time(|| {
        let (disk, place) = (SimulatedDisk::new(), Place::new());
        let journal = Journal::create(place.with(plain(&disk)));
        let twice = [HELLO, &13_u32.to_le_bytes(), HELLO].concat();
        let version = b"\x01HEDDLFOL\x09\0\0\0";
        for said in [&b"GET / HTTP/1.1\r\n"[..], b"", b"\x01HEDDLFOL", b"\x03\x01\0\0\0", version] {
            let mut line = stranger(&place, said);
            let mut heard = Vec::new();
            line.read_to_end(&mut heard).unwrap_or_default();
            assert_eq!(heard, b"", "{said:?}");
        }
        let mut line = UnixStream::connect(place.socket()).expect("the primary listens");
        line.write_all(&(HELLO.len() as u32).to_le_bytes()).expect("sent");
        line.write_all(&twice).expect("sent");
        // It may have received where to begin before it was sent away.
        line.read_to_end(&mut Vec::new()).unwrap_or_default();
        let mut line = UnixStream::connect(place.socket()).expect("the primary listens");
        line.write_all(&u32::MAX.to_le_bytes()).expect("sent");
        assert_eq!(line.read(&mut [0]).unwrap_or(0), 0, "a frame of four gigabytes");
        // Half a message, and gone.
        drop(stranger(&place, &HELLO[..5]));
        journal.call(0, 0).expect("committed");
        let companion = place.follow(disk.clone());
        wait_for_follower(&journal.db);
        assert!(journal.db.checkpoint().expect("whole").by_follower);
        journal.db.close().expect("durable");
        companion.end();
    });
}

#[test]
fn what_was_not_asked_for_is_not_believed() {
    in_time(|| {
        let (disk, place) = (SimulatedDisk::new(), Place::new());
        let journal = Journal::create(place.with(plain(&disk)));
        let mut line = silent(&place);
        wait_for_follower(&journal.db);
        // Done with checkpoint 1, of no parts and no tables: before it was asked, and when another one is asked.
        let done = |number: u32| [&[3][..], &number.to_le_bytes(), &[0; 8]].concat();
        let mut say = |frame: Vec<u8>| {
            line.write_all(&(frame.len() as u32).to_le_bytes()).expect("sent");
            line.write_all(&frame).expect("sent");
        };
        say(done(1));
        // That was heard before it is asked, however long the database's thread has to wait for a processor.
        say([&[2][..], &77_u64.to_le_bytes(), &[0; 8]].concat());
        let heard = || journal.db.checkpoints().follower.is_some_and(|follower| follower.epoch == 77);
        wait_until("it is heard", heard);
        journal.call(0, 0).expect("committed");
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| journal.db.checkpoint().expect("by the database itself"));
            wait_until("it is asked", || journal.db.checkpoints().running);
            std::thread::sleep(Duration::from_millis(100));
            say(done(7));
            std::thread::sleep(Duration::from_millis(100));
            assert!(journal.db.checkpoints().running, "it waits for the one that it has asked for");
            // That one it gets, and nothing is in it.
            say(done(1));
            assert!(!asked.join().expect("no panic").by_follower);
        });
        wait_for_its_end(&journal.db);
        journal.db.close().expect("durable");
        drop(Journal::survives(plain(&disk), &Made { calls: vec![1], tables: 0 }, "alone"));
    });
}
