//! The resource manager: how many executors there should be, and where the boundaries between them (DORA, appendix A.2.1).
//!
//! It goes by three things. *Requests*: executors count what they are asked for by *stretches*, equal ranges of places ([`Load`]), and how long
//! they are at it; a stretch weighs by its requests, and more where its executor takes longer over one. *Size*: how many rows there
//! are in each stretch ([`survey`](super::survey)) decides where nothing is asked for, and next to nothing where something is. *Processors*: there are
//! no more executors than these, and more than one only if they are kept busy, or have enough rows each. The manager looks several
//! times a second, and has boundaries moved to where each executor has an equal share, if the busiest one has clearly more
//! than that now. A stretch is never divided: what falls on one single place stays with one executor. docs/decisions, moving boundaries.
//!
//! What it keeps true: counts are a hint. What is lost of them, or counted late, costs time and nothing else.

use std::time::Duration;

use crate::base::atomics::{AtomicU32, Ordering};
use crate::base::random;

/// How many stretches there are.
pub(super) const STRETCHES: usize = 1 << 12;
/// By how much a place is shifted to give its stretch.
const SHIFT: u32 = u64::BITS - STRETCHES.trailing_zeros();
/// One request of so many is counted, on the average, where there are many.
const SAMPLED: u32 = 8;
/// Who knows of fewer requests moves nothing because of them.
const LEAST: f64 = 64.0;
/// Who knows of no more than these goes by rows.
const NEXT_TO_NOTHING: f64 = LEAST / 4.0;
/// Who knows of more requests than this forgets the older ones faster.
const ENOUGH: f64 = 1_024.0;
/// At each look so much of what is known is kept at least, and at most: half of it where there are many requests, and where there are few
/// what is ten seconds old still counts. Where none come, they are forgotten within some seconds.
const KEPT: (f64, f64) = (0.5, 1.0 - 1.0 / 128.0);
const KEPT_IDLE: f64 = 1.0 - 1.0 / 32.0;
/// All rows together weigh as much as so many requests.
const ROWS_WEIGH: f64 = 16.0;
/// An executor is worth having for so many rows, though nobody asks for them.
const ROWS_EACH: u64 = 1_024;
/// There are more executors where each would be busier than this part of the time; and fewer where each would be less busy than that.
const BUSY: (f64, f64) = (0.5, 0.25);
/// So many times its fair share the busiest executor has before boundaries move.
const UNEVEN: f64 = 1.2;
/// And so many times what it has it must have at most afterwards.
const BETTER: f64 = 0.9;
/// That one executor takes so many times as long over a request as others do is nothing: a thread may have lost its processor.
const SLOWER: f64 = 1.5;

/// In which stretch a place lies.
#[inline]
pub(super) fn stretch_of(place: u64) -> usize {
    (place >> SHIFT) as usize
}

/// Chooses the requests that are counted, of those that one thread sees. By chance: of rows that are asked for in turns, every eighth
/// request might always be for the same one, which would seem to have all the load.
#[derive(Default)]
pub(super) struct Sampler {
    /// So many are left out before the next one.
    skip: u32,
}

impl Sampler {
    /// Whether this request of an executor is one to be counted.
    #[inline]
    pub(super) fn takes_next(&mut self, of: &Load) -> bool {
        let takes = self.skip == 0;
        // Relaxed: a hint.
        let every = || of.every.load(Ordering::Relaxed);
        self.skip = if takes { random::below(2 * every() - 1) } else { self.skip - 1 };
        takes
    }
}

/// What one executor was asked for, by stretches.
pub(super) struct Load {
    stretches: Box<[AtomicU32]>,
    /// One request of so many is counted, on the average.
    every: AtomicU32,
}

impl Default for Load {
    fn default() -> Load {
        let stretches = (0..STRETCHES).map(|_| AtomicU32::new(0)).collect();
        Load { stretches, every: AtomicU32::new(SAMPLED) }
    }
}

impl Load {
    /// Counts a request at this place.
    #[inline]
    pub(super) fn note(&self, place: u64) {
        let stretch = &self.stretches[stretch_of(place)];
        // Relaxed, and no addition in one piece: visitors of different rooms may lose one of two counts, and nothing depends
        // on it.
        stretch.store(stretch.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Has every request counted where there were so few at the last look, and some of them where there were many.
    fn adapt(&self, counted: u32) {
        let few = f64::from(counted) < LEAST / 2.0;
        let many = f64::from(counted) > LEAST * 2.0 * f64::from(SAMPLED);
        if few || many {
            // Relaxed: a hint.
            self.every.store(if few { 1 } else { SAMPLED }, Ordering::Relaxed);
        }
    }
}

/// What is known of one executor.
struct Known {
    /// What it had counted at the last look.
    counted: Box<[u32]>,
    /// How long it had been busy then, in all.
    was_busy: Duration,
    /// What was asked of it lately, and how long it was busy with that, in seconds.
    asked: f64,
    busy: f64,
}

/// See the module's description.
pub(super) struct Manager {
    executors: Vec<Known>,
    /// What each stretch weighs, in requests of the usual length.
    weights: Box<[f64]>,
    /// How many requests that is known from.
    known: f64,
    /// How many executors' whole time was spent lately.
    busy: f64,
    /// How many rows each stretch has, and all of them; nothing, before all was seen for the first time.
    rows: Box<[u32]>,
    all_rows: Option<u64>,
    /// Whether it is free to say how many executors there should be.
    chooses_number: bool,
}

impl Manager {
    /// For so many executors at most. `chooses_number`: it may use fewer.
    pub(super) fn new(executors: usize, chooses_number: bool) -> Manager {
        let known =
            || Known { counted: vec![0; STRETCHES].into(), was_busy: Duration::ZERO, asked: 0.0, busy: 0.0 };
        Manager {
            executors: (0..executors).map(|_| known()).collect(),
            weights: vec![0.0; STRETCHES].into(),
            known: 0.0,
            busy: 0.0,
            rows: vec![0; STRETCHES].into(),
            all_rows: None,
            chooses_number,
        }
    }

    /// Takes in what each executor has counted since the last look, `elapsed` ago, and how long it has been busy in all.
    pub(super) fn collect<'l>(
        &mut self,
        elapsed: Duration,
        seen: impl IntoIterator<Item = (&'l Load, Duration)>,
    ) {
        let seen = self.executors.iter_mut().zip(seen).map(|(of, (load, busy))| of.take(load, busy));
        let new: Vec<New> = seen.collect();
        let counted: f64 = new.iter().map(|new| new.asked).sum();
        let kept = match KEPT {
            _ if counted == 0.0 => KEPT_IDLE,
            (least, most) => (ENOUGH / self.known.max(1.0)).clamp(least, most),
        };
        for (of, new) in self.executors.iter_mut().zip(&new) {
            of.asked = of.asked * kept + new.asked;
            of.busy = of.busy * kept + new.busy;
        }
        self.known = self.known * kept + counted;
        let busy: f64 = new.iter().map(|new| new.busy).sum();
        self.busy = (self.busy + busy / elapsed.as_secs_f64().max(1e-3)) / 2.0;
        self.weights.iter_mut().for_each(|weight| *weight *= kept);
        for (executor, new) in new.into_iter().enumerate() {
            let length = self.length(executor);
            new.counts
                .iter()
                .for_each(|(stretch, count)| self.weights[*stretch] += f64::from(*count) * length);
        }
    }

    /// How long an executor takes over a request, compared with all; what may be chance is taken away.
    fn length(&self, executor: usize) -> f64 {
        let all = self.executors.iter().fold((0.0, 0.0), |all, one| (all.0 + one.asked, all.1 + one.busy));
        let Known { asked, busy, .. } = &self.executors[executor];
        let length = (busy / asked) / (all.1 / all.0);
        // Without any time or any request it is no number.
        match length {
            slower if slower > 1.0 => (slower / SLOWER).max(1.0),
            faster if faster > 0.0 => (faster * SLOWER).min(1.0),
            _ => 1.0,
        }
    }

    /// Whether so little is asked for that rows are worth counting.
    pub(super) fn is_idle(&self) -> bool {
        self.known < LEAST
    }

    /// So many rows there are in each stretch.
    pub(super) fn note_rows(&mut self, rows: &[u32]) {
        self.rows.copy_from_slice(rows);
        self.all_rows = Some(rows.iter().map(|rows| u64::from(*rows)).sum());
    }

    /// There are at least so many rows.
    pub(super) fn note_rows_at_least(&mut self, rows: u64) {
        if self.all_rows.is_some_and(|all| all < rows) || rows >= ROWS_EACH * self.executors.len() as u64 {
            self.all_rows = Some(self.all_rows.unwrap_or(0).max(rows));
        }
    }

    /// What was asked for lately in each executor's range: as much of it as its time.
    pub(super) fn shares(&self, starts: &[u64]) -> Vec<f64> {
        shares(&self.weights, starts)
    }

    /// Where the boundaries should be, if they should be elsewhere.
    pub(super) fn plan(&self, starts: &[u64]) -> Option<Vec<u64>> {
        let present = in_use(starts);
        let wanted = self.number(present);
        let (weights, known) = self.conflict_counts();
        let total: f64 = weights.iter().sum();
        if starts.is_empty() || total <= 0.0 {
            return None;
        }
        let even = self.even(&weights, wanted);
        if self.chooses_number && wanted != present {
            return (in_use(&even) != present).then_some(even);
        }
        // Between the two there is too little to go by.
        let is_known = known >= LEAST && (self.known >= LEAST || self.known < NEXT_TO_NOTHING);
        // Chance alone makes counts differ by about their square roots.
        let chance = 3.0 * (known / wanted as f64).sqrt() * (total / known);
        let busiest = |starts: &[u64]| shares(&weights, starts).into_iter().fold(0.0, f64::max);
        let now = busiest(starts);
        if !is_known || now < UNEVEN * total / wanted as f64 + chance {
            return None;
        }
        (busiest(&even) < BETTER * now).then_some(even)
    }

    /// What stretches weigh, and how many observations that is known from: requests, and rows a little; or rows alone, where
    /// next to nothing is asked for.
    fn conflict_counts(&self) -> (Vec<f64>, f64) {
        let rows = self.rows.iter().map(|rows| f64::from(*rows));
        let all: f64 = rows.clone().sum();
        if self.known < LEAST && all > 0.0 {
            return (rows.collect(), all);
        }
        let weights = self.weights.iter().zip(rows);
        (weights.map(|(weight, rows)| weight + ROWS_WEIGH * rows / all.max(1.0)).collect(), self.known)
    }

    /// How many executors there should be, if there are so many now.
    fn number(&self, present: usize) -> usize {
        let all = self.executors.len();
        if !self.chooses_number {
            return all;
        }
        let for_each_busy = |part: f64| ((self.busy / part).ceil() as usize).max(1);
        let by_requests = present.clamp(for_each_busy(BUSY.0), for_each_busy(BUSY.1));
        // As long as it is not known, there is no reason to change it.
        let by_size = self.all_rows.map_or(present, |rows| (rows / ROWS_EACH) as usize);
        by_requests.max(by_size).clamp(1, all)
    }

    /// Boundaries such that each of so many ranges weighs the same, as nearly as stretches allow, and further ones are empty.
    fn even(&self, weights: &[f64], executors: usize) -> Vec<u64> {
        let mut left: f64 = weights.iter().sum();
        let mut starts = Vec::with_capacity(self.executors.len());
        let mut stretch = 0;
        for to_come in (2..=executors).rev() {
            let share = left / to_come as f64;
            let mut weight = 0.0;
            // The stretch that crosses the share goes to whom it brings nearer to it; but nobody stays without any while
            // there is something left.
            while stretch < STRETCHES && (weight == 0.0 || weight + weights[stretch] / 2.0 <= share) {
                weight += weights[stretch];
                stretch += 1;
            }
            left -= weight;
            starts.push(if stretch < STRETCHES { (stretch as u64) << SHIFT } else { u64::MAX });
        }
        starts.resize(self.executors.len() - 1, u64::MAX);
        starts
    }
}

/// What has come to an executor since the last look.
struct New {
    /// What was counted, by stretches.
    counts: Vec<(usize, u32)>,
    asked: f64,
    busy: f64,
}

impl Known {
    /// What has come to it that was busy for so long in all.
    fn take(&mut self, load: &Load, busy: Duration) -> New {
        let (mut counts, mut asked) = (Vec::new(), 0);
        for (stretch, (counted, now)) in self.counted.iter_mut().zip(&load.stretches).enumerate() {
            // Relaxed: see `Load::note`.
            let now = now.load(Ordering::Relaxed);
            if now != *counted {
                let count = now.wrapping_sub(*counted);
                counts.push((stretch, count));
                asked += count;
                *counted = now;
            }
        }
        load.adapt(asked);
        let busy = busy.saturating_sub(std::mem::replace(&mut self.was_busy, busy));
        New { counts, asked: f64::from(asked), busy: busy.as_secs_f64() }
    }
}

/// How many executors have a range.
fn in_use(starts: &[u64]) -> usize {
    let ends = starts.iter().copied().chain([u64::MAX]);
    [0].into_iter().chain(starts.iter().copied()).zip(ends).filter(|(start, end)| start < end).count()
}

/// How much lies in each executor's range.
fn shares(weights: &[f64], starts: &[u64]) -> Vec<f64> {
    let mut shares = vec![0.0; starts.len() + 1];
    for (stretch, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        let first = (stretch as u64) << SHIFT;
        let last = first | ((1 << SHIFT) - 1);
        let mut from = first;
        let owner = starts.partition_point(|start| *start <= first);
        for (executor, share) in shares.iter_mut().enumerate().skip(owner) {
            // A stretch that a boundary divides weighs by its length on either side.
            let end = starts.get(executor).map_or(last, |start| last.min(start.saturating_sub(1)));
            if end >= from {
                *share += weight * ((end - from) as f64 + 1.0) / (1_u64 << SHIFT) as f64;
                from = end.saturating_add(1);
            }
            if end == last {
                break;
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests;
