//! The calls that a generator makes together, in memory that is used again.
//!
//! Invariants:
//! - Making a call copies its arguments into place and nothing else: no allocation, no counted handle, no large value
//!   that is moved. A driver that asks for millions of calls a second would measure itself otherwise.
//! - Places are in the order in which the calls were made, from 0.

use std::time::Duration;

use heddledb::Args;

/// The calls of one round.
#[derive(Debug, Default)]
pub struct Calls {
    /// Places of procedures, and arguments. Those beyond `made` are old, and kept for their memory.
    calls: Vec<(usize, Args)>,
    /// Marks that each call leaves; as long as `calls`.
    marks: Vec<u32>,
    made: usize,
    refused: Vec<Refused>,
    elapsed: Duration,
}

/// A call that a generator could not make: it counts as a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// A place in the generator's list of procedures.
    pub procedure: usize,
    /// The reason, by which refusals are counted.
    pub reason: &'static str,
}

/// One of the calls.
#[derive(Clone, Copy, Debug)]
pub struct Call<'c> {
    /// A place in the generator's list of procedures.
    pub procedure: usize,
    /// Marks that it leaves if it is committed.
    pub marks: u32,
    /// Its arguments.
    pub args: &'c Args,
}

impl Call<'_> {
    /// Returns true if the call writes nothing.
    pub fn is_read_only(&self) -> bool {
        self.marks == 0
    }
}

impl Calls {
    /// Takes the old calls away. The next ones are made this long after the beginning of what is measured.
    pub fn begin(&mut self, elapsed: Duration) {
        self.made = 0;
        self.refused.clear();
        self.elapsed = elapsed;
    }

    /// The length of the measured interval so far: zero before it.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Adds a call of a procedure, which leaves this many marks if it is committed; a call without marks writes
    /// nothing. Gives its arguments, which are empty.
    #[inline]
    pub fn add(&mut self, procedure: usize, marks: u32) -> &mut Args {
        let args = self.next(procedure, marks);
        args.clear();
        args
    }

    /// Adds a call whose arguments are integers: the cheapest way.
    #[inline]
    pub fn add_integers(&mut self, procedure: usize, marks: u32, integers: &[i64]) {
        self.next(procedure, marks).set_integers(integers);
    }

    /// Adds a call that has the arguments of an old one.
    #[inline]
    fn next(&mut self, procedure: usize, marks: u32) -> &mut Args {
        if self.made >= self.calls.len().min(self.marks.len()) {
            self.grow();
        }
        let place = self.made;
        self.made += 1;
        self.marks[place] = marks;
        let call = &mut self.calls[place];
        call.0 = procedure;
        &mut call.1
    }

    #[cold]
    fn grow(&mut self) {
        self.calls.push((0, Args::default()));
        self.marks.push(0);
    }

    /// Adds a call whose arguments have been made elsewhere.
    pub fn add_made(&mut self, procedure: usize, marks: u32, args: Args) {
        *self.add(procedure, marks) = args;
    }

    /// Counts what is no call.
    pub fn refuse(&mut self, procedure: usize, reason: &'static str) {
        self.refused.push(Refused { procedure, reason });
    }

    /// Calls and refusals so far: what counts towards the number that was asked for.
    #[inline]
    pub fn len(&self) -> usize {
        self.made + self.refused.len()
    }

    /// Returns true if there is neither a call nor a refusal.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The calls, in the form in which a worker takes them.
    pub fn made(&self) -> &[(usize, Args)] {
        &self.calls[..self.made]
    }

    /// The marks that each of the calls leaves.
    pub fn marks(&self) -> &[u32] {
        &self.marks[..self.made]
    }

    /// The refused calls.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// One of the calls.
    pub fn get(&self, place: usize) -> Option<Call<'_>> {
        let (procedure, args) = self.made().get(place)?;
        Some(Call { procedure: *procedure, marks: *self.marks.get(place)?, args })
    }

    /// The arguments of one of the calls, which keeps none.
    pub fn take_args(&mut self, place: usize) -> Args {
        self.calls[..self.made].get_mut(place).map(|call| std::mem::take(&mut call.1)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use heddledb::args;

    use super::*;

    #[test]
    fn calls_stand_in_their_order_and_are_used_again() {
        let mut calls = Calls::default();
        for round in 0..3_i64 {
            calls.begin(Duration::from_secs(round as u64));
            assert!(calls.is_empty() && calls.get(0).is_none());
            calls.add(1, 1).push(round);
            calls.add_made(0, 0, args!["two", round]);
            if round != 1 {
                calls.add_integers(0, 1, &[round, 3]);
            }
            assert_eq!(calls.made()[..2], [(1, args![round]), (0, args!["two", round])]);
            assert!(calls.made()[2..].iter().all(|call| *call == (0, args![round, 3])));
            let made = if round == 1 { 2 } else { 3 };
            assert_eq!((calls.len(), calls.marks()), (made, &[1, 0, 1][..made]));
            assert_eq!(calls.elapsed(), Duration::from_secs(round as u64));
            let (first, second) = (calls.get(0).unwrap(), calls.get(1).unwrap());
            assert_eq!((first.procedure, first.is_read_only()), (1, false));
            assert_eq!((second.args, second.is_read_only()), (&args!["two", round], true));
        }
    }

    #[test]
    fn rejected_input_counts_toward_the_size_of_a_group() {
        let mut calls = Calls::default();
        calls.refuse(0, "unreadable");
        calls.add(0, 1);
        assert_eq!((calls.len(), calls.made().len()), (2, 1));
        assert_eq!(calls.refused(), [Refused { procedure: 0, reason: "unreadable" }]);
        calls.begin(Duration::ZERO);
        assert!(calls.is_empty() && calls.refused().is_empty());
    }

    #[test]
    fn arguments_can_be_taken_once() {
        let mut calls = Calls::default();
        calls.add(0, 1).push(7);
        assert_eq!(calls.take_args(0), args![7]);
        assert_eq!(calls.take_args(0), args![]);
        assert_eq!(calls.take_args(1), args![], "there is no such call");
    }
}
