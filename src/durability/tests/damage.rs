//! Bytes that the engine did not write: reading yields a prefix of the groups, or an error with file and offset, and
//! never anything else.

use super::*;

/// Four groups, one of three blocks across two segments.
fn small_log() -> (SimulatedDisk, Vec<Group>) {
    let groups = vec![group(1, 100), group(2, 9000), group(3, 4028), group(5, 10)];
    (database_with(&groups, &pages(4, 1)), groups)
}

/// Reads a log that was tampered with; true if all groups are there.
fn check(disk: &SimulatedDisk, groups: &[Group], what: &str) -> bool {
    match read(disk) {
        Ok((found, end)) => {
            assert!(found.len() <= groups.len(), "{what}");
            assert_eq!(found, groups[..found.len()], "{what}");
            let all = found.len() == groups.len();
            // Only the last group may go: the others are followed by a later one.
            assert!(found.len() + 1 >= groups.len(), "{what}: groups are lost without an error");
            assert_eq!(end.cut.is_some(), has_data_behind(disk, &end), "{what}");
            all
        }
        Err(Error::Damaged { path, offset, .. }) => {
            assert!(path.contains(".log") && offset < 4 * PAGE_BYTES, "{what}");
            false
        }
        Err(other) => panic!("{what}: {other}"),
    }
}

/// Whether anything but zeros lies behind the last whole group.
fn has_data_behind(disk: &SimulatedDisk, end: &LogEnd) -> bool {
    let behind = |(index, bytes): (usize, Vec<u8>)| {
        let start = if index == end.position.index { end.position.offset } else { PAGE_BYTES };
        index >= end.position.index && bytes[start as usize..].iter().any(|byte| *byte != 0)
    };
    segment_bytes(disk).into_iter().enumerate().any(behind)
}

#[test]
fn every_flipped_byte_is_noticed_or_harmless() {
    let (disk, groups) = small_log();
    let mut noticed = 0;
    for (number, good) in (1..).zip(segment_bytes(&disk)) {
        let mut bytes = good.clone();
        for index in 0..good.len() {
            let page = index / PAGE_BYTES as usize;
            if number == 3 && page > 0 && index % 97 != 0 {
                continue; // Nothing is written there yet: a sample does.
            }
            // A different bit from byte to byte.
            bytes[index] ^= 1 << (index % 8);
            put_segment(&disk, number, bytes.clone());
            noticed += u64::from(!check(&disk, &groups, &format!("segment {number}, byte {index}")));
            bytes[index] = good[index];
        }
        put_segment(&disk, number, good);
    }
    let content = 100 + 9000 + 4028 + 10 + 6 * 68;
    // Every byte of a block or of a segment header counts; padding and unused pages do not.
    assert_eq!(noticed, content + 3 * PAGE_BYTES);
}

#[test]
fn every_truncation_is_damage() {
    let (disk, groups) = small_log();
    for (number, good) in (1..).zip(segment_bytes(&disk)) {
        for length in (0..good.len()).step_by(13).chain([good.len() - 1]) {
            put_segment(&disk, number, good[..length].to_vec());
            assert!(!check(&disk, &groups, &format!("segment {number}, length {length}")));
            assert!(matches!(read(&disk), Err(Error::Damaged { .. })));
        }
        put_segment(&disk, number, [&good[..], &[0]].concat());
        assert!(matches!(read(&disk), Err(Error::Damaged { .. })), "a longer file is not ours either");
        put_segment(&disk, number, good);
    }
    assert!(check(&disk, &groups, "all is well again"));
}

#[test]
fn every_zeroed_or_scrambled_page_is_noticed() {
    let (disk, groups) = small_log();
    let page = PAGE_BYTES as usize;
    for (number, good) in (1..).zip(segment_bytes(&disk)) {
        for start in (0..good.len()).step_by(page) {
            for filler in [0u8, 0xff, 0x48] {
                let mut bytes = good.clone();
                bytes[start..start + page].fill(filler);
                put_segment(&disk, number, bytes);
                let all = check(&disk, &groups, &format!("segment {number}, page at {start}, {filler}"));
                assert_eq!(all, good[start..start + page].iter().all(|byte| *byte == 0));
            }
        }
        put_segment(&disk, number, good);
    }
}

#[test]
fn damage_names_the_first_bad_byte_and_the_witness() {
    let (disk, _) = small_log();
    let mut bytes = segment_bytes(&disk).remove(0);
    bytes[PAGE_BYTES as usize + 60] ^= 1;
    put_segment(&disk, 1, bytes);
    let error = read(&disk).err().expect("damage");
    let Error::Damaged { path, offset, detail } = &error else { panic!("{error}") };
    assert_eq!((path.as_str(), *offset), ("bank/log/00000001.log", PAGE_BYTES));
    assert!(detail.contains("byte 8192 of bank/log/00000001.log"), "{detail}");
}

#[test]
fn blocks_in_the_wrong_place_are_damage() {
    let (disk, groups) = small_log();
    let good = segment_bytes(&disk).remove(0);
    let page = PAGE_BYTES as usize;
    let mut swapped = good.clone();
    swapped.copy_within(2 * page..3 * page, page);
    swapped[2 * page..3 * page].copy_from_slice(&good[page..2 * page]);
    put_segment(&disk, 1, swapped);
    assert!(!check(&disk, &groups, "two pages swapped"));
    let mut repeated = good;
    repeated.copy_within(page..2 * page, 2 * page);
    put_segment(&disk, 1, repeated);
    assert!(!check(&disk, &groups, "a page repeated"));
}

#[test]
fn missing_segments_are_named() {
    let groups: Vec<Group> = (1..12).map(|epoch| group(epoch, 3000)).collect();
    for missing in 1..=6 {
        let disk = database_with(&groups, &pages(3, 1));
        assert_eq!(segment_bytes(&disk).len(), 6);
        disk_remove(&disk, missing);
        let error = read(&disk).err().expect("a missing file");
        assert!(matches!(&error, Error::MissingFile { path, .. } if path.contains(&format!("{missing:08}"))));
    }
    let disk = database_with(&groups, &pages(3, 1));
    for missing in 3..=6 {
        disk_remove(&disk, missing);
    }
    let error = read(&disk).err().expect("all segments behind the second are missing");
    assert!(matches!(&error, Error::MissingFile { path, .. } if path.ends_with("00000003.log")));
}

fn disk_remove(disk: &SimulatedDisk, number: u32) {
    use crate::testing::Disk;
    disk.remove(&segment_path(number)).expect("the segment is there");
}

#[test]
fn segments_of_others_and_under_other_names_are_refused() {
    let groups: Vec<Group> = (1..8).map(|epoch| group(epoch, 3000)).collect();
    let disk = database_with(&groups, &pages(3, 1));
    let own = segment_bytes(&disk);
    let foreign = segment_bytes(&database_with(&groups, &pages(3, 1)));
    put_segment(&disk, 2, foreign[1].clone());
    let error = read(&disk).err().expect("a foreign segment");
    assert!(matches!(&error, Error::ForeignFile { path } if path.ends_with("00000002.log")));
    put_segment(&disk, 2, own[2].clone());
    let error = read(&disk).err().expect("a renamed segment");
    assert!(matches!(error, Error::Damaged { offset: 12, .. }), "{error}");
    // A foreign body under this database's header: none of its blocks is one of ours.
    put_segment(&disk, 2, [&own[1][..4096], &foreign[1][4096..]].concat());
    assert!(matches!(read(&disk), Err(Error::Damaged { offset: PAGE_BYTES, .. })));
}

#[test]
fn a_newer_segment_is_refused_by_its_version() {
    let (disk, _) = small_log();
    let mut bytes = segment_bytes(&disk).remove(0);
    bytes[8] = 4;
    let checksum = crc32c::crc32c(&bytes[..4092]);
    bytes[4092..4096].copy_from_slice(&checksum.to_le_bytes());
    put_segment(&disk, 1, bytes);
    assert!(matches!(read(&disk), Err(Error::NewerFormat { found: 4, supported: LOG_VERSION, .. })));
}
