//! The power goes at every boundary between two operations: what was acknowledged is there.

use super::*;
use crate::testing::Disk;

const SEEDS: u64 = 8;

fn options() -> SegmentSizes {
    pages(4, 2)
}

/// Twenty groups, from nothing at all to more than a segment.
fn groups() -> Vec<Group> {
    let sizes = [10, 5000, 0, 4028, 20_000, 4029, 300, 8056, 8057, 1];
    (1..=20).map(|epoch| group(epoch * 3, sizes[epoch as usize % sizes.len()])).collect()
}

/// Creates the database and appends all groups, until something fails; returns how many were acknowledged.
fn run(disk: &SimulatedDisk, groups: &[Group]) -> usize {
    let Ok(mut opened) = open(disk, &options()) else {
        return 0;
    };
    groups.iter().take_while(|group| opened.append(group).is_ok()).count()
}

/// Opens a disk after a crash: a prefix of the groups is there, all acknowledged ones and at most one more.
fn check(image: &SimulatedDisk, groups: &[Group], acknowledged: usize) -> Result<Opened, String> {
    let opened = open(image, &options()).map_err(|error| error.to_string())?;
    let found = opened.groups.len();
    if found < acknowledged || found > acknowledged + 1 || opened.groups[..] != groups[..found] {
        return Err(format!("{found} groups were found, {acknowledged} had been acknowledged"));
    }
    Ok(opened)
}

#[test]
fn at_every_boundary_what_was_acknowledged_survives() {
    let groups = groups();
    let healthy = SimulatedDisk::new();
    assert_eq!(run(&healthy, &groups), groups.len());
    let all = healthy.operations();
    assert!(all > 100, "the run crosses many boundaries: {all}");
    for limit in 0..=all {
        let disk = SimulatedDisk::new();
        disk.crash_after(limit);
        let acknowledged = run(&disk, &groups);
        for seed in 0..SEEDS {
            let image = disk.crash_image(seed);
            let mut opened = match check(&image, &groups, acknowledged) {
                Ok(opened) => opened,
                Err(what) => panic!("limit {limit}, seed {seed}: {what}"),
            };
            // Life goes on, and the next crash loses nothing of it.
            let mut written = opened.groups.clone();
            written.push(group(1000, 7000));
            opened.append(&written[written.len() - 1]).expect("the disk is healthy");
            drop(opened);
            let found = open(&image.crash_image(0), &options()).expect("a good log").groups;
            assert_eq!(found, written, "limit {limit}, seed {seed}");
        }
    }
}

#[test]
fn crashes_during_recovery_lose_nothing() {
    let groups = groups();
    let healthy = SimulatedDisk::new();
    run(&healthy, &groups);
    for limit in (0..=healthy.operations()).step_by(5) {
        let disk = SimulatedDisk::new();
        disk.crash_after(limit);
        let acknowledged = run(&disk, &groups);
        let first = disk.crash_image(limit + 2);
        let found = check(&first.crash_image(1), &groups, acknowledged).map(|opened| opened.groups.len());
        let found = found.unwrap_or_else(|what| panic!("limit {limit}: {what}"));
        for second_limit in 0.. {
            let again = first.crash_image(1);
            again.crash_after(second_limit);
            let done = open(&again, &options()).is_ok();
            let image = again.crash_image(limit * 100 + second_limit + 2);
            let opened = check(&image, &groups, found.max(acknowledged)).map(|opened| opened.groups.len());
            assert_eq!(opened, Ok(found), "limits {limit} and {second_limit}");
            if done {
                break;
            }
        }
    }
}

#[test]
fn a_creation_that_was_interrupted_is_started_over() {
    let healthy = SimulatedDisk::new();
    drop(open(&healthy, &options()).expect("a new database"));
    for limit in 0..=healthy.operations() {
        for seed in 0..30 {
            let disk = SimulatedDisk::new();
            disk.crash_after(limit);
            let done = open(&disk, &options()).is_ok();
            let image = disk.crash_image(seed);
            let manifest = image.exists(Path::new("bank/MANIFEST")).expect("the image is healthy");
            assert!(manifest || !done);
            let opened = open(&image, &options());
            assert!(opened.is_ok(), "limit {limit}, seed {seed}: {:?}", opened.err());
        }
    }
}

#[test]
fn a_process_that_is_killed_leaves_a_log_that_the_next_one_makes_durable() {
    // No power loss at first: the next process sees all that was written. Then the power goes.
    let groups = groups();
    let healthy = SimulatedDisk::new();
    run(&healthy, &groups);
    for limit in 0..=healthy.operations() {
        let disk = SimulatedDisk::new();
        disk.crash_after(limit);
        let acknowledged = run(&disk, &groups);
        disk.heal();
        let mut opened = match check(&disk, &groups, acknowledged) {
            Ok(opened) => opened,
            Err(what) => panic!("limit {limit}: {what}"),
        };
        let seen = opened.groups.clone();
        for seed in 0..SEEDS {
            let found = open(&disk.crash_image(seed), &options()).expect("a good log").groups;
            assert_eq!(found, seen, "limit {limit}, seed {seed}");
        }
        // The next process relies on names and files that the killed one made, and may not have synced.
        let mut written = seen;
        written.push(group(1000, 17_000));
        opened.append(&written[written.len() - 1]).expect("the disk is healthy");
        for seed in 0..SEEDS {
            let found = open(&disk.crash_image(seed), &options()).expect("a good log").groups;
            assert_eq!(found, written, "limit {limit}, seed {seed}");
        }
    }
}

#[test]
fn directories_that_a_killed_process_made_become_durable() {
    let path = Path::new("data/new/bank");
    let healthy = SimulatedDisk::new();
    drop(DatabaseDirectory::open(shared(&healthy), path, &options(), None).expect("a new database"));
    for limit in 0..=healthy.operations() {
        let disk = SimulatedDisk::new();
        disk.crash_after(limit);
        // Whether it gets to the end does not matter.
        drop(DatabaseDirectory::open(shared(&disk), path, &options(), None));
        disk.heal();
        let made = DatabaseDirectory::open(shared(&disk), path, &options(), None).expect("a database");
        let found = DatabaseDirectory::open(shared(&disk.crash_image(0)), path, &options(), None);
        assert_eq!(found.map(|found| found.uuid()), Ok(made.uuid()), "limit {limit}");
    }
}

/// The canary: on a disk whose syncs do nothing these tests must fail.
#[test]
fn a_disk_that_lies_about_syncs_is_found_out() {
    let groups = groups();
    let disk = SimulatedDisk::new();
    drop(open(&disk, &options()).expect("a new database"));
    disk.lie_about_syncs();
    let acknowledged = run(&disk, &groups);
    assert_eq!(acknowledged, groups.len());
    let caught = (0..SEEDS).filter(|seed| check(&disk.crash_image(*seed), &groups, acknowledged).is_err());
    assert!(caught.count() > SEEDS as usize / 2);
}
