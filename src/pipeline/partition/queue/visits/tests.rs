//! Tests of visits: who is where at the same time, who waits for whom, and who is woken.

use super::*;
use crate::pipeline::partition::queue::Found;
use smallvec::smallvec;
use std::thread;

/// Two rooms of the first executor, and one of the second.
const ROOM: usize = 0;
const NEXT_ROOM: usize = 1;
const OTHERS_ROOM: usize = ROOMS;

/// Who is in each of these rooms.
type Inside = [AtomicU32; 3];

fn counter_of(room: usize) -> usize {
    [ROOM, NEXT_ROOM, OTHERS_ROOM].iter().position(|one| *one == room).expect("one of the three")
}

/// The life of an executor, who finds nobody in its rooms.
fn serve(queues: &Queues<u32, u32>, number: usize, at_rest: bool, inside: &Inside, served: &AtomicU32) {
    let mut found = Found::default();
    while queues.take(number, at_rest, &mut found) {
        for room in [ROOM, NEXT_ROOM, OTHERS_ROOM].into_iter().filter(|room| executor_of(*room) == number) {
            assert_eq!(inside[counter_of(room)].fetch_add(1, Ordering::SeqCst), 0, "beside a visitor");
        }
        let many = found.incoming.drain(..).chain(found.notices.drain(..)).count() as u32;
        served.fetch_add(many, Ordering::SeqCst);
        for room in [ROOM, NEXT_ROOM, OTHERS_ROOM].into_iter().filter(|room| executor_of(*room) == number) {
            inside[counter_of(room)].fetch_sub(1, Ordering::SeqCst);
        }
        queues.leave(many as usize);
    }
}

/// Visits when that is possible, keeping what it has got as long as that is allowed.
fn visit_when_free<'q>(queues: &'q Queues<u32, u32>, rooms: &[usize]) -> Visit<'q, u32, u32> {
    loop {
        let mut visit = queues.no_visit();
        loop {
            match queues.visit_more(&mut visit, rooms, 0) {
                Ok(()) => return visit,
                Err(Unfree::Visited) => thread::yield_now(),
                Err(_) => break,
            }
        }
        drop(visit);
        thread::yield_now();
    }
}

#[test]
fn nobody_is_beside_a_visitor_and_what_comes_in_meanwhile_is_served() {
    const ROUNDS: u32 = 3_000;
    let queues: Queues<u32, u32> = Queues::new(2);
    let (inside, served): (Inside, AtomicU32) = Default::default();
    let visitors: [&[usize]; 5] =
        [&[ROOM], &[NEXT_ROOM], &[OTHERS_ROOM], &[ROOM, OTHERS_ROOM], &[ROOM, NEXT_ROOM, OTHERS_ROOM]];
    thread::scope(|scope| {
        for number in 0..2 {
            let (queues, inside, served) = (&queues, &inside, &served);
            scope.spawn(move || serve(queues, number, true, inside, served));
        }
        let visitors: Vec<_> = visitors
            .into_iter()
            .map(|rooms| {
                let (queues, inside) = (&queues, &inside);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let visit = visit_when_free(queues, rooms);
                        for &room in rooms {
                            assert_eq!(inside[counter_of(room)].fetch_add(1, Ordering::SeqCst), 0);
                        }
                        if round % 3 == 0 {
                            // It comes in during the visit; nobody else would wake the executor for it.
                            let entries = smallvec![(executor_of(rooms[0]), round)];
                            assert!(queues.let_in(1, 0, entries).is_ok());
                        }
                        for &room in rooms {
                            inside[counter_of(room)].fetch_sub(1, Ordering::SeqCst);
                        }
                        drop(visit);
                    }
                })
            })
            .collect();
        visitors.into_iter().for_each(|visitor| visitor.join().expect("it ends"));
        queues.note_visits(1, 3, 40, Duration::from_secs(500));
        assert!(queues.busy(1) >= Duration::from_secs(500));
        queues.close();
    });
    assert_eq!(served.load(Ordering::SeqCst), 5 * ROUNDS / 3);
    assert_eq!(queues.batches().1, u64::from(5 * ROUNDS / 3) + 40, "what was taken, and what is told");
}

#[test]
fn nobody_visits_an_executor_that_is_awake_or_holds_something_or_has_something_to_do() {
    for at_rest in [false, true] {
        let queues: Queues<u32, u32> = Queues::new(2);
        let visit = |room| queues.visit(&[room], 0);
        assert_eq!(visit(ROOM).err(), Some(Unfree::Busy), "nobody sleeps yet");
        let (inside, served) = Default::default();
        thread::scope(|scope| {
            scope.spawn(|| serve(&queues, 1, at_rest, &inside, &served));
            while !queues.boxes[1].state.lock().asleep {
                thread::yield_now();
            }
            assert_eq!(queues.visit(&[ROOM, OTHERS_ROOM], 0).err(), Some(Unfree::Busy), "one is not asleep");
            assert!(queues.boxes[1].rooms.are_left(), "all or none");
            if at_rest {
                let (first, second) = (visit(OTHERS_ROOM), visit(OTHERS_ROOM + 1));
                assert!(first.is_ok() && second.is_ok(), "different rooms");
                assert_eq!(visit(OTHERS_ROOM).err(), Some(Unfree::Visited), "one at a time");
                assert!(queues.let_in(1, 0, smallvec![(1, 7)]).is_ok());
                assert_eq!(visit(OTHERS_ROOM + 2).err(), Some(Unfree::Busy), "it has something to do");
                queues.close();
                drop(first);
                assert_eq!(served.load(Ordering::SeqCst), 0, "it sleeps until the last visitor has left");
                drop(second);
            } else {
                assert_eq!(visit(OTHERS_ROOM).err(), Some(Unfree::Busy), "it holds something");
                queues.close();
            }
        });
        assert_eq!(served.load(Ordering::SeqCst), u32::from(at_rest));
        assert_eq!(visit(OTHERS_ROOM).err(), Some(Unfree::Busy), "the queues are closed");
    }
}

/// Two executors that sleep, until they are told to go.
fn with_sleepers(test: impl FnOnce(&Queues<u32, u32>, &AtomicU32)) -> u32 {
    let queues: Queues<u32, u32> = Queues::new(2);
    let (inside, served): (Inside, AtomicU32) = Default::default();
    thread::scope(|scope| {
        for number in 0..2 {
            let (queues, inside, served) = (&queues, &inside, &served);
            scope.spawn(move || serve(queues, number, true, inside, served));
        }
        drop(visit_when_free(&queues, &[ROOM, NEXT_ROOM, OTHERS_ROOM]));
        test(&queues, &served);
        queues.close();
    });
    served.into_inner()
}

#[test]
fn who_needs_several_rooms_keeps_what_it_has_and_is_next() {
    with_sleepers(|queues, _| {
        let other = queues.visit(&[OTHERS_ROOM], 0);
        let mut visit = queues.no_visit();
        let go_on = |visit: &mut Visit<'_, u32, u32>| queues.visit_more(visit, &[ROOM, OTHERS_ROOM], 0);
        assert_eq!(go_on(&mut visit), Err(Unfree::Visited));
        assert_eq!(queues.visit(&[ROOM], 0).err(), Some(Unfree::Visited), "it is kept");
        drop(other);
        assert_eq!(queues.visit(&[OTHERS_ROOM], 0).err(), Some(Unfree::Visited), "somebody waits for it");
        assert_eq!(go_on(&mut visit), Ok(()));
        drop(visit);
        assert!(queues.visit(&[ROOM], 0).is_ok() && queues.visit(&[OTHERS_ROOM], 0).is_ok());
        // Who gives up keeps nobody away.
        let other = queues.visit(&[OTHERS_ROOM], 0);
        let mut visit = queues.no_visit();
        assert_eq!(go_on(&mut visit), Err(Unfree::Visited));
        drop((visit, other));
        assert!(queues.visit(&[ROOM], 0).is_ok() && queues.visit(&[OTHERS_ROOM], 0).is_ok());
    });
}

/// What came in at both executors during the visits is served by the first one only when its room is given up.
#[test]
fn who_waits_for_a_room_gives_up_where_the_executor_has_something_to_do() {
    let served = with_sleepers(|queues, served| {
        let other = queues.visit(&[OTHERS_ROOM], 0);
        let mut visit = queues.no_visit();
        let rooms = [ROOM, OTHERS_ROOM];
        assert_eq!(queues.visit_more(&mut visit, &rooms, 0), Err(Unfree::Visited));
        assert!(queues.let_in(2, 0, smallvec![(0, 7), (1, 7)]).is_ok());
        assert_eq!(queues.visit_more(&mut visit, &rooms, 0), Err(Unfree::Busy));
        assert_eq!(served.load(Ordering::SeqCst), 0);
        drop((visit, other));
    });
    assert_eq!(served, 2);
}

#[test]
fn nobody_visits_by_boundaries_that_have_moved() {
    let served = with_sleepers(|queues, served| {
        let visit = visit_when_free(queues, &[OTHERS_ROOM]);
        // A move does not wait for the visitor; what it has put in does.
        assert!(queues.change(smallvec![(1, 1)], || 1));
        assert_eq!(served.load(Ordering::SeqCst), 0);
        assert_eq!(queues.visit(&[OTHERS_ROOM + 1], 0).err(), Some(Unfree::Moved));
        assert_eq!(queues.visit(&[OTHERS_ROOM + 1], 1).err(), Some(Unfree::Busy));
        drop(visit);
        drop(visit_when_free(queues, &[ROOM]));
        while queues.visit(&[OTHERS_ROOM], 1).is_err() {
            thread::yield_now();
        }
        assert_eq!(queues.visit(&[ROOM, OTHERS_ROOM], 0).err(), Some(Unfree::Moved));
    });
    assert_eq!(served, 1);
}

#[test]
fn rooms_are_their_owners_and_places_are_spread_over_them() {
    let mut seen = [0; ROOMS];
    for int in 0..1_600_u64 {
        let room = room_of(3, int.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        assert!(rooms_of(3).contains(&room) && executor_of(room) == 3);
        seen[room % ROOMS] += 1;
    }
    assert!(seen.iter().all(|many| *many > 50), "{seen:?}");
}
