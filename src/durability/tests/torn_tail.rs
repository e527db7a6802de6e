//! Tests that the remains of the last group after a power loss are cut, reported, and never read again.

use super::*;

/// The pages, as (segment number, offset), of a group of six blocks in segments of four pages.
const TORN: [(u32, usize); 6] =
    [(1, 0x2000), (1, 0x3000), (2, 0x1000), (2, 0x2000), (2, 0x3000), (3, 0x1000)];

fn log_with_large_last_group() -> (SimulatedDisk, Vec<Group>) {
    let groups = vec![group(1, 100), group(7, 6 * 4028)];
    (database_with(&groups, &pages(4, 1)), groups)
}

/// Changes the pages of the large group whose bit is set in `subset`.
fn tear(disk: &SimulatedDisk, subset: usize, change: impl Fn(&mut [u8])) {
    for (bit, (number, offset)) in TORN.iter().enumerate() {
        if subset & (1 << bit) != 0 {
            let mut bytes = disk.bytes(&segment_path(*number)).expect("the segment is there");
            change(&mut bytes[*offset..*offset + PAGE_BYTES as usize]);
            put_segment(disk, *number, bytes);
        }
    }
}

#[test]
fn a_group_of_many_blocks_is_cut_whichever_of_them_are_torn() {
    let tears: [fn(&mut [u8]); 3] =
        [|page| page.fill(0), |page| page[512..].fill(0), |page| page[..512].fill(0)];
    for change in tears {
        for subset in 1..1 << TORN.len() {
            let (disk, groups) = log_with_large_last_group();
            tear(&disk, subset, change);
            let left: usize = segment_bytes(&disk)
                .iter()
                .map(|bytes| bytes[4096..].iter().filter(|byte| **byte != 0).count())
                .sum();
            let first_group =
                disk.bytes(&segment_path(1)).expect("the segment is there")[4096..8192].to_vec();
            let kept = first_group.iter().filter(|byte| **byte != 0).count();
            let opened = open(&disk, &pages(4, 1)).expect("a torn tail is no damage");
            assert_eq!(opened.groups, groups[..1]);
            let cut = (left > kept).then(|| Cut {
                path: segment_path(1),
                offset: 0x2000,
                dropped_bytes: (left - kept) as u64,
            });
            assert_eq!(opened.cut, cut, "subset {subset:b}");
        }
    }
}

#[test]
fn the_epoch_of_a_torn_group_is_seen() {
    let (disk, _) = log_with_large_last_group();
    tear(&disk, 0b011111, |page| page.fill(0));
    let (_, end) = read(&disk).expect("a torn tail is no damage");
    assert_eq!((end.last_epoch, end.highest_epoch_seen), (1, 7));
    let mut opened = open(&disk, &pages(4, 1)).expect("a torn tail is no damage");
    opened.append(&group(8, 10)).expect("the disk is healthy");
}

#[test]
fn the_same_tears_before_a_later_group_are_damage() {
    for subset in 1..1 << TORN.len() {
        let (disk, mut groups) = log_with_large_last_group();
        let mut opened = open(&disk, &pages(4, 1)).expect("a good log");
        groups.push(group(8, 20));
        opened.append(&groups[2]).expect("the disk is healthy");
        drop(opened);
        tear(&disk, subset, |page| page[512..].fill(0));
        let error = read(&disk).err().expect("a later group follows");
        let (number, offset) = TORN[subset.trailing_zeros() as usize];
        let expected = (segment_path(number).display().to_string(), offset as u64);
        let Error::Damaged { path, offset, .. } = error else { panic!("{error}") };
        assert_eq!((path, offset), expected, "subset {subset:b}");
    }
}

#[test]
fn blocks_of_a_cut_group_are_never_met_again() {
    for subset in 1..1 << TORN.len() {
        let (disk, mut groups) = log_with_large_last_group();
        groups.pop();
        tear(&disk, subset, |page| page[..512].fill(0));
        // Groups of one page go where the torn blocks were, one opening at a time.
        for epoch in 8..16 {
            let mut opened = open(&disk, &pages(4, 1)).expect("nothing stale is met");
            assert_eq!(opened.groups, groups);
            assert!(epoch == 8 || opened.cut.is_none(), "what is cut once does not come back");
            groups.push(group(epoch, 4000));
            opened.append(&groups[groups.len() - 1]).expect("the disk is healthy");
        }
        assert_eq!(read(&disk).expect("a good log").0, groups);
    }
}

#[test]
fn an_interrupted_repair_is_taken_up_again() {
    for limit in 0.. {
        let (disk, groups) = log_with_large_last_group();
        tear(&disk, 0b001001, |page| page[..512].fill(0));
        // Opening makes a lock file and syncs directories first; all boundaries are tried.
        disk.crash_after(limit);
        let done = open(&disk, &pages(4, 1)).is_ok();
        for seed in 0..8 {
            let image = disk.crash_image(seed);
            let mut opened = open(&image, &pages(4, 1)).expect("a torn tail is no damage");
            assert_eq!(opened.groups, groups[..1], "limit {limit}, seed {seed}");
            assert!(!done || opened.cut.is_none());
            opened.append(&group(9, 9000)).expect("the disk is healthy");
            drop(opened);
            assert_eq!(read(&image).expect("a good log").0[1], group(9, 9000));
        }
        if done {
            break;
        }
    }
}

#[test]
fn a_users_payload_that_looks_like_blocks_proves_nothing() {
    // The database's own log, with a later group at its end, stored as a value of a group that is then torn.
    let groups = vec![group(1, 100)];
    let disk = database_with(&groups, &pages(40, 20));
    let copy = disk.crash_image(1);
    let mut opened = open(&copy, &pages(40, 20)).expect("a good log");
    for epoch in 2..9 {
        opened.append(&group(epoch, 100)).expect("the disk is healthy");
    }
    let log = copy.bytes(&segment_path(1)).expect("the segment is there");
    // Aligned so that its pages are pages of the log again: the header of the block is 68 bytes.
    let value = [&[1; 4028], &log[4096..0xa000]].concat();
    let mut opened = open(&disk, &pages(40, 20)).expect("a good log");
    opened.append(&Group { epoch: 2, payload: value }).expect("the disk is healthy");
    drop(opened);
    let mut bytes = disk.bytes(&segment_path(1)).expect("the segment is there");
    bytes[0x2000 + 600] ^= 1;
    put_segment(&disk, 1, bytes);
    let (found, end) = read(&disk).expect("a torn tail is no damage");
    assert_eq!(found, groups);
    let cut = end.cut.expect("the value is cut").to_string();
    assert!(cut.ends_with("at byte 8192 of bank/log/00000001.log"), "{cut}");
}
