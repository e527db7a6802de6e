//! Logs whose beginning is not needed any more, and databases of the format version before that was so.

use super::*;
use crate::base::disk::Disk;

fn read_from(disk: &SimulatedDisk, start: GroupStart) -> Result<(Vec<Group>, LogEnd)> {
    let directory = DatabaseDirectory::open(shared(disk), Path::new(DATABASE), &pages(3, 1), None)?;
    read_by(disk, &directory, start)
}

/// The same, by a process that has the database open.
fn read_by(
    disk: &SimulatedDisk,
    directory: &DatabaseDirectory,
    start: GroupStart,
) -> Result<(Vec<Group>, LogEnd)> {
    let mut reader = LogReader::open(shared(disk), directory.log_path(), directory.uuid(), start)?;
    let mut groups = Vec::new();
    while let Some(group) = reader.next_group()? {
        groups.push(group);
    }
    Ok((groups, reader.end()?))
}

/// Groups of one page and of several, over segments of three pages each, one of them the header.
fn groups() -> Vec<Group> {
    [100, 5_000, 10, 20_000, 30, 4_028, 9_000, 50]
        .iter()
        .zip(1..)
        .map(|(bytes, epoch)| group(epoch, *bytes))
        .collect()
}

/// The segments that are there.
fn numbers(disk: &SimulatedDisk) -> Vec<u32> {
    (1..100).filter(|number| disk.bytes(&segment_path(*number)).is_ok()).collect()
}

#[test]
fn from_the_start_before_any_epoch_all_groups_from_it_on_are_read() {
    let options = pages(3, 1);
    let disk = SimulatedDisk::new();
    let mut opened = open(&disk, &options).expect("a new database");
    let groups = groups();
    for (written, group) in groups.iter().enumerate() {
        opened.append(group).expect("the disk is healthy");
        for epoch in 0..=written as u64 + 2 {
            let start = opened.segments.start_before(epoch);
            let (found, _) = read_by(&disk, &opened.directory, start).expect("a sound log");
            let from = groups[..=written].len() - found.len();
            assert_eq!(found, groups[from..=written], "epoch {epoch}");
            assert!(from as u64 <= epoch.saturating_sub(1), "epoch {epoch}: group {from} is needed");
        }
    }
    assert_eq!((opened.segments.last_epoch(), opened.segments.log_bytes() % PAGE_BYTES), (8, 0));
}

#[test]
fn what_lies_before_is_removed_and_the_log_goes_on_as_if_it_had_been_there() {
    let options = pages(3, 1);
    let groups = groups();
    for epoch in 1..=9 {
        let disk = database_with(&groups, &options);
        let opened = open(&disk, &options).expect("sound");
        let start = opened.segments.start_before(epoch);
        drop(opened);
        // The removal is interrupted: some are still there, and others not.
        for number in (1..start.segment).filter(|number| number % 2 == 0) {
            disk.remove(&segment_path(number)).expect("there");
        }
        if start.segment > 2 {
            assert!(
                matches!(read(&disk), Err(Error::MissingFile { .. })),
                "without a checkpoint it is a gap"
            );
        }
        let (found, end) = read_from(&disk, start).expect("sound");
        let expected = &groups[groups.len() - found.len()..];
        assert_eq!(found, expected);
        let (mut writer, segments) =
            LogWriter::open(repair(end).expect("repaired"), &options).expect("opened");
        segments.begin_to_hold(log_holds::LogHolds::default(), 0).expect("removed");
        assert_eq!(numbers(&disk)[0], start.segment, "the rest is removed at opening");
        assert_eq!(segments.start_before(epoch), start);
        let next = group(50, 6_000);
        while segments.remaining_bytes() < group_bytes_max(6_000) {
            segments.prepare_next().expect("the disk is healthy");
        }
        writer.append_group(50, &[&next.payload]).expect("written");
        let (found, end) = read_from(&disk, start).expect("sound");
        assert_eq!(found, [expected, &[next]].concat());
        assert!(end.must_reach(50).is_ok());
        assert!(matches!(end.must_reach(51), Err(Error::Damaged { .. })));
        // Everything but the last group's segment goes.
        let last = segments.start_before(50);
        segments.remove_before(last.segment).expect("removed");
        assert_eq!(numbers(&disk)[0], last.segment);
        assert_eq!(segments.remove_before(last.segment), Ok(0));
        assert_eq!(read_from(&disk, last).expect("sound").0.last().map(|group| group.epoch), Some(50));
    }
}

#[test]
fn a_place_where_no_group_begins_is_damage() {
    let disk = database_with(&groups(), &pages(3, 1));
    let opened = open(&disk, &pages(3, 1)).expect("sound");
    let start = opened.segments.start_before(4);
    drop(opened);
    for bad in [
        GroupStart { sequence: start.sequence + 1, ..start },
        GroupStart { segment: start.segment + 1, ..start },
        GroupStart { offset: 1 << 40, ..start },
        GroupStart { offset: 0, ..start },
    ] {
        let read = read_from(&disk, bad).map(|(groups, _)| groups);
        assert!(matches!(read, Err(Error::Damaged { .. })), "{bad:?}: {read:?}");
    }
    let behind = GroupStart { segment: 90, ..start };
    assert!(matches!(read_from(&disk, behind), Err(Error::MissingFile { .. })));
}

/// What version 1 wrote is what this version writes, but for the version, for groups that were in flight, and for headers of
/// blocks without term, time and predecessor.
pub(super) fn of_version_1(disk: &SimulatedDisk) {
    let stamp = |bytes: &mut [u8], end: usize| {
        bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..end]);
        bytes[end..end + 4].copy_from_slice(&checksum.to_le_bytes());
    };
    let manifest = Path::new(DATABASE).join("MANIFEST");
    let mut bytes = disk.bytes(&manifest).expect("there");
    let uuid = Uuid(*bytes[12..].first_chunk().expect("sixteen bytes"));
    stamp(&mut bytes, 28);
    disk.put_bytes(&manifest, bytes).expect("there");
    for (number, mut bytes) in (1..).zip(segment_bytes(disk)) {
        stamp(&mut bytes, 4092);
        bytes[4096..].chunks_mut(4096).for_each(|page| to_older_block(page, uuid));
        put_segment(disk, number, bytes);
    }
}

/// Makes the block of one page, if there is one, a block as it was before log format 3.
fn to_older_block(page: &mut [u8], uuid: Uuid) {
    let Some(header) = BlockHeader::decode(page, uuid) else { return };
    page[..4].copy_from_slice(b"HBLK");
    let sum = checksum(uuid, &page[8..48]);
    page[4..8].copy_from_slice(&sum.to_le_bytes());
    page.copy_within(header.bytes().., 48);
    page[4096 + 48 - header.bytes()..].fill(0);
}

#[test]
fn a_database_of_version_1_is_read_and_made_version_5_before_anything_else_is_written() {
    let options = pages(3, 1);
    let version = |disk: &SimulatedDisk| disk.bytes(&Path::new(DATABASE).join("MANIFEST")).expect("there")[8];
    let old = database_with(&groups(), &options);
    of_version_1(&old);
    assert_eq!(version(&old), 1);
    let directory =
        DatabaseDirectory::open_existing(shared(&old), Path::new(DATABASE), None).expect("readable");
    assert_eq!((read_log(&directory).expect("readable").0, version(&old)), (groups(), 1));
    drop(directory);
    for boundary in 0.. {
        let disk = old.crash_image(1);
        disk.crash_after(boundary);
        let opened = open(&disk, &options).map(|mut opened| opened.append(&group(20, 9_000)));
        let whole = disk.operations() <= boundary;
        for seed in [0, 1, boundary + 2] {
            let image = disk.crash_image(seed);
            let mut again = open(&image, &options).expect("either version");
            assert_eq!(again.groups[..8], groups());
            assert_eq!(version(&image), 5);
            again.append(&group(30, 20)).expect("written");
        }
        if whole {
            opened.expect("opened").expect("written");
            break;
        }
    }
}
