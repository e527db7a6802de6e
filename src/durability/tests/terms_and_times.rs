//! Log format 3: what groups say of their term, their time and the block before them, and how older logs go on with that.

use super::middle::of_version_1;
use super::*;
use crate::durability::position::LogPosition;
use crate::types::Timestamp;

/// Positions and times of all groups.
fn marks(disk: &SimulatedDisk) -> Result<Vec<(LogPosition, u64)>> {
    let directory = DatabaseDirectory::open(shared(disk), Path::new(DATABASE), &pages(3, 1), None)?;
    let mut reader =
        LogReader::open(shared(disk), directory.log_path(), directory.uuid(), GroupStart::FIRST)?;
    let mut marks = Vec::new();
    while reader.next_group()?.is_some() {
        marks.push((reader.last_whole().position(), reader.last_whole().time()));
    }
    Ok(marks)
}

fn now() -> u64 {
    Timestamp::now().microseconds() as u64
}

/// Gives the block on the second page of the first segment another time or term.
fn change_header(disk: &SimulatedDisk, change: fn(&mut BlockHeader)) {
    let manifest = disk.bytes(&Path::new(DATABASE).join("MANIFEST")).expect("there");
    let uuid = Uuid(*manifest[12..].first_chunk().expect("sixteen bytes"));
    let mut bytes = segment_bytes(disk).remove(0);
    let mut header = BlockHeader::decode(&bytes[4096..], uuid).expect("a block");
    change(&mut header);
    bytes[4096..4096 + header.bytes()].copy_from_slice(&header.encode(uuid));
    put_segment(disk, 1, bytes);
}

#[test]
fn each_opening_has_a_later_term_and_each_group_says_when_it_was_written() {
    let disk = SimulatedDisk::new();
    let before = now();
    for term in 1..4 {
        let mut opened = open(&disk, &pages(3, 1)).expect("a database");
        for epoch in [2 * term, 2 * term + 1] {
            opened.append(&group(epoch, 9_000)).expect("the disk is healthy");
        }
    }
    let (marks, after) = (marks(&disk).expect("a good log"), now());
    let positions: Vec<_> = marks.iter().map(|(position, _)| *position).collect();
    let expected: Vec<_> = (2..8).map(|epoch| LogPosition::new(epoch / 2, epoch)).collect();
    assert_eq!(positions, expected);
    assert!(marks.is_sorted_by_key(|(_, time)| *time), "{marks:?}");
    assert!(marks.iter().all(|(_, time)| (before..=after).contains(time)), "{before} {marks:?} {after}");
}

#[test]
fn a_clock_that_was_set_back_does_not_set_the_log_back() {
    const LATER: u64 = 60_000_000_000_000_000;
    let disk = database_with(&[group(1, 100)], &pages(9, 2));
    change_header(&disk, |header| header.time = LATER);
    let mut opened = open(&disk, &pages(9, 2)).expect("a good log");
    (2..5).for_each(|epoch| opened.append(&group(epoch, 5_000)).expect("the disk is healthy"));
    drop(opened);
    let marks = marks(&disk).expect("a good log");
    assert_eq!(marks.iter().map(|(_, time)| *time).collect::<Vec<_>>(), [LATER; 4]);
    // A reader that meets an earlier time behind a later one does not believe it.
    change_header(&disk, |header| header.time = LATER + 1);
    let refused = read(&disk).err().expect("a log whose time goes back");
    assert!(
        matches!(&refused, Error::Damaged { detail, .. } if detail.contains("out of place")),
        "{refused}"
    );
}

#[test]
fn terms_of_torn_groups_are_not_given_again() {
    let disk = database_with(&[group(1, 100)], &pages(9, 2));
    let mut opened = open(&disk, &pages(9, 2)).expect("a good log");
    opened.append(&group(2, 5_000)).expect("the disk is healthy");
    drop(opened);
    let mut bytes = segment_bytes(&disk).remove(0);
    bytes[0x2000 + 600] ^= 1;
    put_segment(&disk, 1, bytes);
    let mut opened = open(&disk, &pages(9, 2)).expect("a torn tail is no damage");
    assert_eq!((opened.groups.len(), opened.highest_epoch_seen), (1, 2));
    opened.append(&group(3, 10)).expect("the disk is healthy");
    drop(opened);
    let positions: Vec<_> = marks(&disk).expect("good").into_iter().map(|(position, _)| position).collect();
    assert_eq!(positions, [LogPosition::new(1, 1), LogPosition::new(3, 3)]);
}

/// Two histories of one database that begin with the same group: blocks of one are not taken for the other's, although each is
/// whole and has the right number, epoch and term.
#[test]
fn a_block_of_another_history_is_out_of_place() {
    let ours = database_with(&[group(1, 100)], &pages(9, 2));
    let theirs = ours.crash_image(1);
    for (disk, bytes) in [(&ours, 200), (&theirs, 300)] {
        let mut opened = open(disk, &pages(9, 2)).expect("a good log");
        opened.append(&group(2, bytes)).expect("the disk is healthy");
        opened.append(&group(3, 400)).expect("the disk is healthy");
    }
    assert_eq!(read(&ours).expect("a good log").0.len(), 3);
    let mut mixed = segment_bytes(&ours).remove(0);
    mixed[0x3000..0x4000].copy_from_slice(&segment_bytes(&theirs)[0][0x3000..0x4000]);
    put_segment(&ours, 1, mixed);
    let refused = read(&ours).err().expect("a mixed log");
    assert!(matches!(&refused, Error::Damaged { offset: 0x3000, .. }), "{refused}");
}

#[test]
fn an_older_log_goes_on_in_its_segment_and_has_terms_and_times_from_there() {
    let groups: Vec<Group> = (1..4).map(|epoch| group(epoch, 700)).collect();
    let disk = database_with(&groups, &pages(9, 1));
    of_version_1(&disk);
    assert_eq!(read(&disk).expect("an older log").0, groups);
    let end = read(&disk).expect("an older log").1;
    assert_eq!((end.last_position(), end.last_time()), (Some(LogPosition::new(0, 3)), None));
    let mut opened = open(&disk, &pages(9, 1)).expect("an older log");
    opened.append(&group(4, 5_000)).expect("the disk is healthy");
    drop(opened);
    assert_eq!(segment_bytes(&disk)[0][8], 1, "it is the same segment");
    let (found, end) = read(&disk).expect("a good log");
    assert_eq!(found, [groups, vec![group(4, 5_000)]].concat());
    assert_eq!(end.last_position(), Some(LogPosition::new(1, 4)));
    assert!(end.last_time().is_some_and(|time| time <= Timestamp::now()));
    let terms: Vec<_> =
        marks(&disk).expect("good").iter().map(|(position, time)| (position.term(), *time > 0)).collect();
    assert_eq!(terms, [(0, false), (0, false), (0, false), (1, true)]);
    // A block without a term does not come behind one that has one.
    let mut bytes = segment_bytes(&disk).remove(0);
    bytes.copy_within(0x1000..0x2000, 0x6000);
    put_segment(&disk, 1, bytes);
    assert!(matches!(read(&disk), Err(Error::Damaged { offset: 0x6000, .. })));
}
