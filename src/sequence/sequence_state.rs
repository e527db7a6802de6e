//! The state of a sequence: what it may give, and what must be reserved next. Plain state, without threads.
//!
//! Invariants: a value is given only once a durable record says that the sequence resumes behind it. `resume` is what
//! that record says; `next` follows the last value given; `ready` values lie between them.

use super::definition::SequenceDefinition;
use crate::error::Error;

/// Number of values that are reserved at first, and at most: twice as many each time when they did not last.
const CHUNK_MIN: u64 = 32;
const CHUNK_MAX: u64 = 1 << 20;

/// A change that is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// More values are reserved.
    Extend,
    /// The sequence continues with this value.
    Set(i64),
}

/// The result of taking values.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// This many values from this one on.
    Values { first: i64, count: u64 },
    /// More must be reserved first.
    Empty,
    /// There are no more.
    Exhausted,
}

/// A reservation that is being written: where the sequence resumes then, and how many values that gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    request: Request,
    pub(super) resume: Option<i64>,
    count: u64,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct State {
    next: Option<i64>,
    ready: u64,
    resume: Option<i64>,
    chunk: u64,
    /// True if the values have not lasted since the last reservation.
    has_run_out: bool,
    pub(super) request: Option<Request>,
    pub(super) is_writing: bool,
    /// The error of the last request, until a caller has received it.
    pub(super) error: Option<Error>,
    /// The reason why no more values are given; `None` if they are.
    pub(super) closed: Option<Error>,
    /// Number of times that it was set: values that threads had taken before that are void.
    pub(super) sets: u64,
    /// The value to which it was set last.
    pub(super) last_set: Option<i64>,
}

/// The value at which a new sequence resumes, which may give its first values at once.
pub(super) fn first_resume(of: &SequenceDefinition) -> Option<i64> {
    of.advance(of.first(), CHUNK_MIN).1
}

impl State {
    /// The state after a durable record was read: nothing may be given yet.
    pub(super) fn resumed(resume: Option<i64>) -> State {
        State {
            next: resume,
            ready: 0,
            resume,
            chunk: CHUNK_MIN,
            has_run_out: false,
            request: None,
            is_writing: false,
            error: None,
            closed: None,
            sets: 0,
            last_set: None,
        }
    }

    /// The state of a new sequence, whose record says that it resumes at [`first_resume`].
    pub(super) fn begun(of: &SequenceDefinition) -> State {
        let (count, resume) = of.advance(of.first(), CHUNK_MIN);
        State { next: Some(of.first()), ready: count, ..State::resumed(resume) }
    }

    /// Takes at most this many values.
    pub(super) fn take(&mut self, of: &SequenceDefinition, wanted: u64) -> Taken {
        match self.next {
            None => Taken::Exhausted,
            Some(_) if self.ready == 0 => Taken::Empty,
            Some(first) => {
                let count = wanted.min(self.ready);
                self.next = of.advance(first, count).1;
                self.ready -= count;
                Taken::Values { first, count }
            }
        }
    }

    /// The value that would be given next, if there is one.
    pub(super) fn peek(&self) -> Option<i64> {
        self.next
    }

    /// Returns true if it continues with this value now, and may give it.
    pub(super) fn is_set_to(&self, value: i64) -> bool {
        self.next == Some(value) && self.ready > 0
    }

    /// Returns true if more values should be reserved now, before the last ones are given.
    pub(super) fn is_low(&self) -> bool {
        self.ready < self.chunk / 2 && self.resume.is_some() && self.request.is_none() && !self.is_writing
    }

    /// The values did not last until more were reserved: more at a time are from here on. Once for each reservation, so that a
    /// body which takes many values, and is retried, has as many soon.
    pub(super) fn grow(&mut self) {
        if !std::mem::replace(&mut self.has_run_out, true) {
            self.chunk = (self.chunk * 2).min(CHUNK_MAX);
        }
    }

    /// The reservation that is to be written now, if any.
    pub(super) fn reservation(&mut self, of: &SequenceDefinition) -> Option<Reservation> {
        let request = self.request.take()?;
        let from = match request {
            Request::Extend => self.resume?,
            Request::Set(value) => value,
        };
        let (count, resume) = of.advance(from, self.chunk);
        Some(Reservation { request, resume, count })
    }

    /// The reservation is durable.
    pub(super) fn reserved(&mut self, made: Reservation) {
        self.resume = made.resume;
        self.has_run_out = false;
        match made.request {
            Request::Extend => self.ready += made.count,
            Request::Set(value) => {
                self.next = Some(value);
                self.ready = made.count;
                self.sets += 1;
                self.last_set = Some(value);
            }
        }
    }

    /// The value at which it would resume if nothing more were given; `None` if its record says that already.
    pub(super) fn given_back(&self) -> Option<Option<i64>> {
        (self.ready > 0).then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(first: i64, count: u64) -> Taken {
        Taken::Values { first, count }
    }

    fn reserve(state: &mut State, of: &SequenceDefinition, request: Request) {
        state.request = Some(request);
        let made = state.reservation(of).expect("a request");
        state.reserved(made);
    }

    #[test]
    fn nothing_is_given_before_it_is_reserved_and_nothing_is_given_twice() {
        let of = SequenceDefinition::new("s");
        let mut state = State::resumed(Some(101));
        assert_eq!(state.take(&of, 1), Taken::Empty);
        assert!(state.is_low());
        reserve(&mut state, &of, Request::Extend);
        assert_eq!(state.resume, Some(101 + CHUNK_MIN as i64));
        assert_eq!((state.take(&of, 1), state.take(&of, 5)), (values(101, 1), values(102, 5)));
        assert_eq!(state.take(&of, 1_000), values(107, CHUNK_MIN - 6));
        assert_eq!(state.take(&of, 1), Taken::Empty);
    }

    #[test]
    fn more_is_reserved_before_the_last_value_is_given_and_twice_as_much_if_that_was_too_late() {
        let of = SequenceDefinition::new("s");
        let mut state = State::begun(&of);
        assert_eq!(first_resume(&of), state.resume);
        assert!(!state.is_low());
        assert_eq!(state.take(&of, CHUNK_MIN / 2 + 1), values(1, CHUNK_MIN / 2 + 1));
        assert!(state.is_low());
        state.grow();
        reserve(&mut state, &of, Request::Extend);
        assert_eq!(state.ready, CHUNK_MIN / 2 - 1 + 2 * CHUNK_MIN);
        (0..100).for_each(|_| state.grow());
        assert_eq!(state.chunk, 4 * CHUNK_MIN, "once for each reservation");
        for _ in 0..100 {
            state.grow();
            reserve(&mut state, &of, Request::Extend);
        }
        assert_eq!(state.chunk, CHUNK_MAX);
    }

    #[test]
    fn it_ends_at_its_bound_and_goes_on_when_it_is_set() {
        let of = SequenceDefinition::new("s").max(3);
        let mut state = State::begun(&of);
        assert_eq!((state.take(&of, 9), state.take(&of, 1)), (values(1, 3), Taken::Exhausted));
        assert!(!state.is_low());
        reserve(&mut state, &of, Request::Set(2));
        assert!(state.is_set_to(2) && state.sets == 1);
        assert_eq!((state.take(&of, 9), state.take(&of, 1)), (values(2, 2), Taken::Exhausted));
    }

    #[test]
    fn what_was_reserved_and_not_given_can_be_given_back() {
        let of = SequenceDefinition::new("s");
        let mut state = State::begun(&of);
        assert_eq!(state.take(&of, 2), values(1, 2));
        assert_eq!(state.given_back(), Some(Some(3)));
        assert_eq!(state.take(&of, 100), values(3, CHUNK_MIN - 2));
        assert_eq!(state.given_back(), None);
    }
}
