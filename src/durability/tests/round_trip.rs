//! Tests that everything appended is read again, over any division into blocks and segments and any number of
//! restarts.

use proptest::prelude::*;

use super::*;
use crate::testing::RealDisk;

#[test]
fn a_new_database_has_an_empty_log_and_little_room() {
    let disk = SimulatedDisk::new();
    let opened = open(&disk, &pages(4, 2)).expect("a new database");
    assert_eq!((opened.groups.len(), opened.cut, opened.highest_epoch_seen), (0, None, 0));
    assert_eq!(opened.segments.remaining_bytes(), 2 * PAGE_BYTES, "three pages, less the one that is kept");
    assert_eq!(opened.segments.prepared(), 0);
}

#[test]
fn groups_are_read_in_order_after_each_restart() {
    let disk = SimulatedDisk::new();
    let mut written = Vec::new();
    for round in 0..5u64 {
        let mut opened = open(&disk, &pages(3, 1)).expect("a database");
        assert_eq!(opened.groups, written);
        assert_eq!(opened.highest_epoch_seen, round * 30);
        for step in 1..=3 {
            let group = group(round * 30 + step * 10, (step * 1700) as usize);
            opened.append(&group).expect("the disk is healthy");
            written.push(group);
        }
    }
    assert_eq!(read(&disk).expect("a good log").0, written);
}

#[test]
fn a_group_of_several_parts_is_their_concatenation() {
    let disk = SimulatedDisk::new();
    let mut opened = open(&disk, &pages(8, 1)).expect("a database");
    let whole = group(1, 10_000).payload;
    let parts = [&whole[..1], &[], &whole[1..4029], &whole[4029..9000], &[], &whole[9000..]];
    opened.writer.append_group(1, &parts).expect("there is room");
    opened.writer.append_group(2, &[]).expect("there is room");
    let (groups, _) = read_log(&opened.directory).expect("a good log");
    assert_eq!(groups, [Group { epoch: 1, payload: whole }, Group { epoch: 2, payload: Vec::new() }]);
}

#[test]
fn sizes_may_change_from_one_opening_to_the_next() {
    let disk = SimulatedDisk::new();
    let mut written = Vec::new();
    for (epoch, options) in (1..).zip([pages(2, 1), pages(9, 4), pages(3, 2), pages(2, 1)]) {
        let mut opened = open(&disk, &options).expect("a database");
        assert_eq!(opened.groups, written);
        let group = group(epoch, 30_000);
        opened.append(&group).expect("the disk is healthy");
        written.push(group);
    }
    assert_eq!(read(&disk).expect("a good log").0, written);
}

#[test]
fn one_group_is_one_write_and_one_sync() {
    let disk = SimulatedDisk::new();
    let mut opened = open(&disk, &pages(20, 10)).expect("a database");
    let before = disk.operations();
    let flushes = opened.writer.append_group(1, &[&group(1, 20_000).payload]).expect("there is room");
    assert_eq!((flushes, disk.operations() - before), (1, 2));
}

#[test]
fn a_group_that_fills_segments_is_flushed_in_each_of_them() {
    let disk = SimulatedDisk::new();
    let mut opened = open(&disk, &pages(3, 2)).expect("a database");
    opened.segments.prepare_next().expect("the disk is healthy");
    opened.segments.prepare_next().expect("the disk is healthy");
    let group = group(1, 4 * PAGE_BYTES as usize);
    let flushes = opened.writer.append_group(1, &[&group.payload]).expect("there is room");
    assert_eq!(flushes, 3);
}

#[test]
fn room_is_counted_to_the_byte_and_a_refused_group_changes_nothing() {
    let disk = SimulatedDisk::new();
    let mut opened = open(&disk, &pages(3, 2)).expect("a database");
    opened.writer.append_group(1, &[&[1; 4028]]).expect("there is room for one page");
    let before = segment_bytes(&disk);
    let refused = opened.writer.append_group(2, &[&[2]]);
    assert_eq!(refused, Err(Error::LogFull { needed: 4096, available: 0 }));
    assert_eq!(segment_bytes(&disk), before);
    assert!(opened.writer.failure().is_none());
    opened.segments.prepare_next().expect("the disk is healthy");
    assert_eq!((opened.segments.remaining_bytes(), opened.segments.prepared()), (2 * PAGE_BYTES, 1));
    opened.writer.append_group(2, &[&[2; 8000]]).expect("there is room now");
    assert_eq!((opened.segments.remaining_bytes(), opened.segments.prepared()), (0, 0));
    assert_eq!(read_log(&opened.directory).expect("a good log").0.len(), 2);
}

#[test]
#[should_panic(expected = "epoch 5 was appended after epoch 5")]
fn an_epoch_that_does_not_rise_is_a_mistake() {
    let disk = database_with(&[group(5, 10)], &pages(9, 1));
    let mut opened = open(&disk, &pages(9, 1)).expect("a database");
    // The result does not matter: the call panics.
    let _ = opened.writer.append_group(5, &[]);
}

#[test]
fn short_and_interrupted_transfers_make_no_difference() {
    let disk = SimulatedDisk::new();
    disk.shorten_transfers();
    let written: Vec<Group> = (1..10).map(|epoch| group(epoch, epoch as usize * 1500)).collect();
    let mut opened = open(&disk, &pages(4, 2)).expect("a database");
    for group in &written {
        opened.append(group).expect("the disk is healthy");
    }
    drop(opened);
    assert_eq!(open(&disk, &pages(4, 2)).expect("a database").groups, written);
}

#[test]
fn it_works_on_the_real_disk() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let path = place.path().join("new/bank");
    let disk: Arc<dyn crate::base::disk::Disk> = Arc::new(RealDisk);
    let written: Vec<Group> = (1..20).map(|epoch| group(epoch, epoch as usize * 900)).collect();
    for done in 0..written.len() {
        let directory = DatabaseDirectory::open(disk.clone(), &path, &pages(4, 2), None).expect("a database");
        let refused = DatabaseDirectory::open(disk.clone(), &path, &pages(4, 2), None);
        assert!(matches!(refused, Err(Error::InUse { .. })));
        let (groups, end) = read_log(&directory).expect("a good log");
        assert_eq!(groups, written[..done]);
        let repaired = repair(end).expect("the disk is healthy");
        let (writer, segments) = LogWriter::open(repaired, &pages(4, 2)).expect("a writer");
        let mut opened =
            Opened { writer, segments, groups, cut: None, highest_epoch_seen: done as u64, directory };
        opened.append(&written[done]).expect("the disk is healthy");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_groups_in_any_cutting_are_read_again(
        sizes in prop::collection::vec(0usize..40_000, 1..8),
        segment_pages in 2u64..12,
        block_pages in 1u64..12,
        restart_every in 1usize..5,
    ) {
        let options = pages(segment_pages, block_pages);
        let disk = SimulatedDisk::new();
        let written: Vec<Group> = (1..).zip(&sizes).map(|(epoch, bytes)| group(epoch, *bytes)).collect();
        for some in written.chunks(restart_every) {
            let mut opened = open(&disk, &options).expect("a database");
            for group in some {
                opened.append(group).expect("the disk is healthy");
            }
        }
        let opened = open(&disk, &options).expect("a database");
        prop_assert_eq!(opened.groups, written);
        prop_assert_eq!(opened.cut, None);
    }
}
