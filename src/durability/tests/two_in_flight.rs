//! Two groups in flight: the power goes at every boundary between two operations, in whichever order the groups were
//! synced, and whatever of them was lost. What was acknowledged is there, and nothing of what is not whole.

use super::*;
use crate::base::disk::Bug;
use crate::durability::groups_in_flight::{GROUPS_IN_FLIGHT_MAX, Unsynced};
use crate::storage::redo::RedoPart;
use crate::testing::{Fault, Operation};

const SEEDS: u64 = 12;

fn options() -> SegmentSizes {
    pages(4, 2)
}

/// Groups of one page and of several, over several segments.
fn groups() -> Vec<Group> {
    let sizes = [10, 5_000, 0, 4_028, 20_000, 4_029, 300, 8_056];
    (1..=14).map(|epoch| group(epoch * 3, sizes[epoch as usize % sizes.len()])).collect()
}

fn write(opened: &mut Opened, group: &Group) -> Result<Unsynced> {
    while opened.segments.remaining_bytes() < group_bytes_max(group.payload.len() as u64) {
        opened.segments.prepare_next()?;
    }
    opened.writer.write_group(group.epoch, &[RedoPart::Bytes(&group.payload)], &mut |_| false)
}

/// Writes all groups, two at a time, and syncs the two in an order that `random` chooses, until something fails. How many
/// were acknowledged: all through the last epoch that was said to be durable.
fn run(disk: &SimulatedDisk, groups: &[Group], seed: u64) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let Ok(mut opened) = open(disk, &options()) else { return 0 };
    let (mut flying, mut durable) = (Vec::new(), 0);
    for group in groups {
        let Ok(unsynced) = write(&mut opened, group) else { break };
        flying.push(unsynced);
        // Sometimes only one is in flight, sometimes the later one is synced first.
        let mut is_broken = false;
        while flying.len() == GROUPS_IN_FLIGHT_MAX || !flying.is_empty() && random.u8(..4) == 0 {
            match flying.remove(random.usize(..flying.len())).sync() {
                Ok(epoch) => durable = durable.max(epoch.unwrap_or(0)),
                Err(_) => is_broken = true,
            }
        }
        // The later one may have been synced; the earlier one must be, before a third is written.
        while !is_broken && !opened.writer.in_flight().has_room() {
            match flying.remove(0).sync() {
                Ok(epoch) => durable = durable.max(epoch.unwrap_or(0)),
                Err(_) => is_broken = true,
            }
        }
        if is_broken {
            break;
        }
    }
    groups.iter().filter(|group| group.epoch <= durable).count()
}

/// Opens a disk after a crash: all acknowledged groups are there, and at most those that were in flight.
fn check(
    image: &SimulatedDisk,
    groups: &[Group],
    acknowledged: usize,
) -> std::result::Result<Opened, String> {
    let opened = open(image, &options()).map_err(|error| error.to_string())?;
    let found = opened.groups.len();
    if found < acknowledged
        || found > acknowledged + GROUPS_IN_FLIGHT_MAX
        || opened.groups[..] != groups[..found]
    {
        return Err(format!("{found} groups were found, {acknowledged} had been acknowledged"));
    }
    Ok(opened)
}

/// Lets the power go before the operation `limit`, and looks at what is left; then the process is killed instead, another one
/// reads the log, and the power goes after that. Whether anything is wrong.
fn crash(bug: Option<Bug>, limit: u64, seed: u64, losses: u64) -> std::result::Result<u64, String> {
    let groups = groups();
    let disk = SimulatedDisk::new();
    bug.into_iter().for_each(|bug| disk.seed_bug(bug));
    disk.crash_after(limit);
    let acknowledged = run(&disk, &groups, seed);
    for loss in 0..losses {
        let image = disk.crash_image(loss);
        let mut opened = check(&image, &groups, acknowledged)?;
        // Life goes on, and the next crash loses nothing of it.
        let mut written = opened.groups.clone();
        written.push(group(1000, 7_000));
        opened.append(&written[written.len() - 1]).map_err(|error| error.to_string())?;
        drop(opened);
        let found = open(&image.crash_image(0), &options()).map_err(|error| error.to_string())?.groups;
        if found != written {
            return Err(format!("loss {loss}: {} of {} groups after recovery", found.len(), written.len()));
        }
    }
    disk.heal();
    let seen = check(&disk, &groups, acknowledged)?.groups;
    for loss in 0..losses {
        let found = open(&disk.crash_image(loss), &options()).map_err(|error| error.to_string())?.groups;
        if found != seen {
            return Err(format!("loss {loss}: {} of the {} groups that were read", found.len(), seen.len()));
        }
    }
    Ok(disk.operations())
}

/// What the tests of bugs on purpose look at: each boundary of one run.
pub(super) fn look(bug: Option<Bug>, round: u64) -> std::result::Result<(), String> {
    let healthy = SimulatedDisk::new();
    run(&healthy, &groups(), round);
    for limit in 0..=healthy.operations() {
        crash(bug, limit, round, 4).map_err(|what| format!("limit {limit}: {what}"))?;
    }
    Ok(())
}

#[test]
fn at_every_boundary_what_was_acknowledged_survives_and_nothing_is_called_damaged() {
    for seed in 0..3 {
        let healthy = SimulatedDisk::new();
        let all = run(&healthy, &groups(), seed);
        assert!(all + 1 >= groups().len(), "all but what is in flight at the end: {all}");
        for limit in 0..=healthy.operations() {
            if let Err(what) = crash(None, limit, seed, SEEDS) {
                panic!("limit {limit}, seed {seed}: {what}");
            }
        }
    }
}

#[test]
fn a_group_is_acknowledged_only_after_the_one_before_it() {
    let disk = SimulatedDisk::new();
    let mut opened = open(&disk, &options()).expect("a new database");
    let (first, second) = (write(&mut opened, &group(1, 10)), write(&mut opened, &group(2, 5_000)));
    assert!(!opened.writer.in_flight().has_room());
    assert_eq!(opened.segments.last_epoch(), 0);
    assert_eq!(second.expect("written").sync(), Ok(None));
    assert_eq!((opened.segments.last_epoch(), opened.writer.in_flight().has_room()), (0, false));
    assert_eq!(first.expect("written").sync(), Ok(Some(2)));
    assert_eq!((opened.segments.last_epoch(), opened.writer.in_flight().has_room()), (2, true));
    let third = write(&mut opened, &group(5, 10)).expect("written");
    assert_eq!(third.sync(), Ok(Some(5)));
}

#[test]
fn an_epoch_without_a_group_waits_for_the_groups_before_it() {
    let disk = SimulatedDisk::new();
    let mut opened = open(&disk, &options()).expect("a new database");
    let in_flight = opened.writer.in_flight().clone();
    assert_eq!(in_flight.pass(1), Some(1));
    let first = write(&mut opened, &group(2, 10)).expect("written");
    assert_eq!((in_flight.pass(3), in_flight.pass(4)), (None, None));
    assert!(in_flight.has_room(), "they are no groups");
    assert_eq!(first.sync(), Ok(Some(4)));
    assert_eq!(opened.segments.last_epoch(), 2);
    assert_eq!(in_flight.pass(5), Some(5));
}

#[test]
fn a_failed_sync_fails_both_groups_whichever_it_was() {
    for first_fails in [false, true] {
        let disk = SimulatedDisk::new();
        let mut opened = open(&disk, &options()).expect("a new database");
        opened.append(&group(1, 10)).expect("the disk is healthy");
        let first = write(&mut opened, &group(2, 10)).expect("written");
        let second = write(&mut opened, &group(3, 10)).expect("written");
        disk.fail_next(Operation::Sync, Fault::InputOutput);
        let (failing, other) = if first_fails { (first, second) } else { (second, first) };
        let failure = failing.sync().expect_err("it is planned to fail");
        assert!(matches!(failure, Error::LogFailed { .. }), "{failure}");
        assert_eq!(other.sync(), Err(failure.clone()));
        assert_eq!(opened.segments.last_epoch(), 1);
        assert_eq!(write(&mut opened, &group(4, 10)).map(drop), Err(failure));
        // Neither thread that writes nor one that ends waits for what never comes.
        opened.writer.in_flight().wait_for_room();
        opened.writer.in_flight().wait_for_all();
    }
}

/// Six groups of one page each, of which every later one of a pair was written while the other was in flight.
fn pairs() -> (SimulatedDisk, Vec<Group>) {
    let disk = SimulatedDisk::new();
    let mut opened = open(&disk, &pages(20, 1)).expect("a new database");
    let groups: Vec<Group> = (1..=6).map(|epoch| group(epoch, 100)).collect();
    for pair in groups.chunks(2) {
        let flying: Vec<_> = pair.iter().map(|group| write(&mut opened, group).expect("written")).collect();
        for one in flying {
            one.sync().expect("the disk is healthy");
        }
    }
    (disk, groups)
}

#[test]
fn damage_before_what_was_in_flight_last_is_reported() {
    let (disk, groups) = pairs();
    let good = segment_bytes(&disk).remove(0);
    for (index, page) in (1..=6).enumerate() {
        let image = disk.crash_image(0);
        let mut bad = good.clone();
        bad[page * PAGE_BYTES as usize + 20] ^= 1;
        put_segment(&image, 1, bad);
        match read(&image) {
            // The last two were in flight together, so either may look as if it had never been acknowledged.
            Ok((found, end)) => {
                assert!(index >= 4, "damage of group {index} was taken for the log's end");
                assert_eq!(found, groups[..index]);
                assert!(end.cut.is_some());
            }
            Err(Error::Damaged { .. }) => assert!(index < 4, "group {index} may have been torn"),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_torn_group_takes_the_whole_one_behind_it_with_it_and_its_place_is_used_again() {
    let (disk, groups) = pairs();
    let mut bytes = segment_bytes(&disk).remove(0);
    bytes[5 * PAGE_BYTES as usize..6 * PAGE_BYTES as usize].fill(0);
    put_segment(&disk, 1, bytes);
    let mut opened = open(&disk, &pages(20, 1)).expect("a torn tail");
    assert_eq!(opened.groups, groups[..4]);
    assert!(opened.cut.is_some());
    assert_eq!(opened.highest_epoch_seen, 6, "the epoch of the whole group is not given again");
    opened.append(&group(7, 100)).expect("the disk is healthy");
    drop(opened);
    let (found, end) = read(&disk).expect("sound");
    assert_eq!(found, [&groups[..4], &[group(7, 100)]].concat());
    assert!(end.cut.is_none());
}
