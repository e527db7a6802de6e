//! A comparison of row layouts and of prefetching: three ways from a key to a row, in models that use the
//! standard library only, so that the decision can be checked again on any machine, however the engine has
//! changed since.
//!
//! The measured calls have four keys each, drawn at random. A call reads of each record the record word, the
//! first column, the last column, and the word again. The accesses of the bodies depend on each other, since
//! the instructions of a real body between two accesses fill the processor's window. All variants of one size
//! exist together and take turns, with fresh keys in each round. A turn is timed in parts, each shorter than
//! a time slice; the figures are medians over all parts of all rounds (so neither a cold start nor a busy
//! machine decides), in nanoseconds per key. The decision is in
//! `docs/decisions/2026-11-21-row-layout-and-prefetching.md`.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

const ROUNDS: usize = 9;
const KEYS_PER_CALL: usize = 4;
const CALLS_PER_PART: usize = 256;
const PARTS_PER_ROUND: usize = 64;
const COLUMNS: usize = 10;
/// Of the rows whose copying is measured.
const WIDE_COLUMNS: usize = 16;
const LINE_WORDS: usize = 8;

/// Words in memory that begin on a cache line.
struct Slab {
    lines: Vec<Line>,
}

#[repr(align(64))]
struct Line([AtomicU64; LINE_WORDS]);

impl Slab {
    fn new(words: usize) -> Self {
        let line = || Line([const { AtomicU64::new(0) }; LINE_WORDS]);
        Slab { lines: std::iter::repeat_with(line).take(words.div_ceil(LINE_WORDS)).collect() }
    }

    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU64 {
        &self.lines[at / LINE_WORDS].0[at % LINE_WORDS]
    }

    #[inline(always)]
    fn get(&self, at: usize) -> usize {
        self.word(at).load(Relaxed) as usize
    }

    fn set(&self, at: usize, value: usize) {
        self.word(at).store(value as u64, Relaxed);
    }

    #[inline(always)]
    fn prefetch(&self, at: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch reads nothing that the program sees, and never faults.
            unsafe { _mm_prefetch::<_MM_HINT_T0>((&raw const self.lines[at / LINE_WORDS]).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }

    #[inline(always)]
    fn prefetch_all(&self, at: usize, words: usize) {
        (at / LINE_WORDS..=(at + words - 1) / LINE_WORDS).for_each(|line| self.prefetch(line * LINE_WORDS));
    }
}

fn hash(key: usize) -> usize {
    let product = (key as u128 + 1) * 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;
    let folded = (product ^ (product >> 64)) as u64;
    (folded ^ (folded >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) as usize
}

/// Buckets of one cache line: a version word, six entries of a 16-bit tag and a 48-bit place, one word unused.
struct Buckets {
    slab: Slab,
    mask: usize,
}

const ENTRIES: std::ops::Range<usize> = 1..7;
const PLACE_MASK: usize = (1 << 48) - 1;

impl Buckets {
    fn new(records: usize) -> Self {
        let count = (records / 4).next_power_of_two();
        Buckets { slab: Slab::new(count * LINE_WORDS), mask: count - 1 }
    }

    #[inline(always)]
    fn bucket(&self, hash: usize) -> usize {
        (hash & self.mask) * LINE_WORDS
    }

    fn insert(&self, hash: usize, place: usize) {
        let mut bucket = self.bucket(hash);
        loop {
            if let Some(free) = ENTRIES.map(|entry| bucket + entry).find(|&at| self.slab.get(at) == 0) {
                self.slab.set(free, hash & !PLACE_MASK | place);
                return;
            }
            bucket = (bucket + LINE_WORDS) & (self.mask * LINE_WORDS);
        }
    }

    /// The place of the first entry with this tag that `is_right` accepts.
    #[inline(always)]
    fn find(&self, hash: usize, is_right: impl Fn(usize) -> bool) -> usize {
        let mut bucket = self.bucket(hash);
        loop {
            let version = self.slab.get(bucket);
            for entry in ENTRIES {
                let found = self.slab.get(bucket + entry);
                if (found ^ hash) <= PLACE_MASK && found != 0 && is_right(found & PLACE_MASK) {
                    black_box(self.slab.get(bucket) == version);
                    return found & PLACE_MASK;
                }
            }
            bucket = (bucket + LINE_WORDS) & (self.mask * LINE_WORDS);
        }
    }
}

/// A way from a key to a row, in steps that each read what the step before has prefetched.
trait Layout {
    /// Prefetches the first line.
    fn begin(&self, key: usize);
    /// The steps between the first line and the row.
    const STEPS: usize;
    /// Reads what step `step - 1` prefetched, and prefetches what comes next; `place` is the last step's answer.
    fn advance<const PREFETCH: usize>(&self, step: usize, key: usize, place: usize) -> usize;
    /// The row's word, with the key verified wherever the layout verifies it last.
    fn row(&self, key: usize, place: usize) -> usize;
    fn rows(&self) -> &Slab;
    fn columns(&self) -> usize;
    /// Position of the first column, counted from the row's word.
    const HEAD_WORDS: usize;
}

const FIRST_LINE: usize = 1;
const ALL_LINES: usize = 2;

/// (a) bucket → record: word, lengths, key, columns.
struct Inline {
    buckets: Buckets,
    records: Slab,
    columns: usize,
}

impl Inline {
    fn new(records: usize, columns: usize, alignment_words: usize) -> Self {
        let stride = (Self::HEAD_WORDS + columns).next_multiple_of(alignment_words);
        let layout =
            Inline { buckets: Buckets::new(records), records: Slab::new((records + 1) * stride), columns };
        for key in 0..records {
            let place = (key + 1) * stride;
            layout.records.set(place + 2, key);
            layout.buckets.insert(hash(key), place);
        }
        layout
    }
}

impl Layout for Inline {
    const STEPS: usize = 1;
    const HEAD_WORDS: usize = 3;

    fn begin(&self, key: usize) {
        self.buckets.slab.prefetch(self.buckets.bucket(hash(key)));
    }

    #[inline(always)]
    fn advance<const PREFETCH: usize>(&self, _step: usize, key: usize, _place: usize) -> usize {
        let place = self.buckets.find(hash(key), |_| true);
        prefetch_row::<PREFETCH, Self>(self, place);
        place
    }

    #[inline(always)]
    fn row(&self, key: usize, place: usize) -> usize {
        let is_right = |place| self.records.get(place + 2) == key;
        if is_right(place) { place } else { self.buckets.find(hash(key), is_right) }
    }

    fn rows(&self) -> &Slab {
        &self.records
    }

    fn columns(&self) -> usize {
        self.columns
    }
}

/// (b) bucket → key node (lengths, key, row) → row: word, columns.
struct KeyNode {
    buckets: Buckets,
    nodes: Slab,
    rows: Slab,
}

const NODE_WORDS: usize = 4;

impl KeyNode {
    fn new(records: usize, alignment_words: usize) -> Self {
        let stride = (1 + COLUMNS).next_multiple_of(alignment_words);
        let layout = KeyNode {
            buckets: Buckets::new(records),
            nodes: Slab::new((records + 1) * NODE_WORDS),
            rows: Slab::new(records * stride),
        };
        for key in 0..records {
            let node = (key + 1) * NODE_WORDS;
            layout.nodes.set(node + 1, key);
            layout.nodes.set(node + 2, key * stride);
            layout.buckets.insert(hash(key), node);
        }
        layout
    }
}

impl Layout for KeyNode {
    const STEPS: usize = 2;
    const HEAD_WORDS: usize = 1;

    fn begin(&self, key: usize) {
        self.buckets.slab.prefetch(self.buckets.bucket(hash(key)));
    }

    #[inline(always)]
    fn advance<const PREFETCH: usize>(&self, step: usize, key: usize, place: usize) -> usize {
        if step == 0 {
            let node = self.buckets.find(hash(key), |_| true);
            if PREFETCH > 0 {
                self.nodes.prefetch(node);
            }
            return node;
        }
        let is_right = |node| self.nodes.get(node + 1) == key;
        let node = if is_right(place) { place } else { self.buckets.find(hash(key), is_right) };
        let row = self.nodes.get(node + 2);
        prefetch_row::<PREFETCH, Self>(self, row);
        row
    }

    #[inline(always)]
    fn row(&self, _key: usize, place: usize) -> usize {
        place
    }

    fn rows(&self) -> &Slab {
        &self.rows
    }

    fn columns(&self) -> usize {
        COLUMNS
    }
}

/// (c) flat table of keys and row numbers, at most half full, → row: word, columns.
struct Flat {
    table: Slab,
    mask: usize,
    rows: Slab,
    stride: usize,
}

impl Flat {
    fn new(records: usize, alignment_words: usize) -> Self {
        let stride = (1 + COLUMNS).next_multiple_of(alignment_words);
        let count = (records * 2).next_power_of_two();
        let layout =
            Flat { table: Slab::new(count * 2), mask: count - 1, rows: Slab::new(records * stride), stride };
        for key in 0..records {
            let mut at = hash(key) & layout.mask;
            while layout.table.get(at * 2 + 1) != 0 {
                at = (at + 1) & layout.mask;
            }
            layout.table.set(at * 2, key);
            layout.table.set(at * 2 + 1, key + 1);
        }
        layout
    }
}

impl Layout for Flat {
    const STEPS: usize = 1;
    const HEAD_WORDS: usize = 1;

    fn begin(&self, key: usize) {
        self.table.prefetch((hash(key) & self.mask) * 2);
    }

    #[inline(always)]
    fn advance<const PREFETCH: usize>(&self, _step: usize, key: usize, _place: usize) -> usize {
        let mut at = hash(key) & self.mask;
        while self.table.get(at * 2) != key || self.table.get(at * 2 + 1) == 0 {
            at = (at + 1) & self.mask;
        }
        let row = (self.table.get(at * 2 + 1) - 1) * self.stride;
        prefetch_row::<PREFETCH, Self>(self, row);
        row
    }

    #[inline(always)]
    fn row(&self, _key: usize, place: usize) -> usize {
        place
    }

    fn rows(&self) -> &Slab {
        &self.rows
    }

    fn columns(&self) -> usize {
        COLUMNS
    }
}

#[inline(always)]
fn prefetch_row<const PREFETCH: usize, L: Layout + ?Sized>(layout: &L, row: usize) {
    match PREFETCH {
        FIRST_LINE => layout.rows().prefetch(row),
        ALL_LINES => layout.rows().prefetch_all(row, L::HEAD_WORDS + layout.columns()),
        _ => {}
    }
}

/// The accesses of a body to a row: the word, columns, the word again. Returns something that depends on all
/// of them.
#[inline(always)]
fn read_row<const WHOLE: bool, L: Layout>(layout: &L, row: usize) -> usize {
    let rows = layout.rows();
    let before = rows.get(row);
    let first = row + L::HEAD_WORDS;
    let read = if WHOLE {
        let mut copy = [0; WIDE_COLUMNS];
        for (column, to) in copy.iter_mut().enumerate().take(layout.columns()) {
            *to = rows.get(first + column);
        }
        black_box(&copy)[layout.columns() - 1]
    } else {
        rows.get(first) ^ rows.get(first + layout.columns() - 1)
    };
    read ^ before ^ rows.get(row)
}

/// Runs calls whose keys are looked up in groups of `GROUP` keys (1: each when the body comes to it).
fn run<L: Layout, const GROUP: usize, const PREFETCH: usize, const WHOLE: bool>(
    layout: &L,
    keys: &[usize],
) -> f64 {
    // Every row holds zeros, which the compiler cannot know: so each access depends on the one before.
    let mut carried = 0;
    let start = Instant::now();
    for group in keys.chunks(GROUP) {
        let mut places = [0; GROUP];
        if PREFETCH > 0 {
            group.iter().for_each(|&key| layout.begin(key));
            for step in 0..L::STEPS {
                for (place, &key) in places.iter_mut().zip(group) {
                    *place = layout.advance::<PREFETCH>(step, key, *place);
                }
            }
            for (place, &key) in places.iter().zip(group) {
                let row = layout.row(key ^ carried, *place ^ carried);
                carried ^= read_row::<WHOLE, L>(layout, row);
            }
        } else {
            for &key in group {
                let key = key ^ carried;
                let place = (0..L::STEPS).fold(0, |place, step| layout.advance::<0>(step, key, place));
                carried ^= read_row::<WHOLE, L>(layout, layout.row(key, place));
            }
        }
    }
    assert_eq!(carried, 0);
    start.elapsed().as_nanos() as f64 / keys.len() as f64
}

type Runner<'a> = Box<dyn Fn(&[usize]) -> f64 + 'a>;

const MODES: [&str; 7] =
    ["none", "call", "call, all", "8 calls", "8 calls, all", "32 calls", "32 calls, all"];

fn modes<const WHOLE: bool, L: Layout>(layout: &L) -> [Runner<'_>; MODES.len()] {
    const CALL: usize = KEYS_PER_CALL;
    const CALLS_8: usize = 8 * KEYS_PER_CALL;
    const CALLS_32: usize = 32 * KEYS_PER_CALL;
    [
        Box::new(|keys| run::<L, 1, 0, WHOLE>(layout, keys)),
        Box::new(|keys| run::<L, CALL, FIRST_LINE, WHOLE>(layout, keys)),
        Box::new(|keys| run::<L, CALL, ALL_LINES, WHOLE>(layout, keys)),
        Box::new(|keys| run::<L, CALLS_8, FIRST_LINE, WHOLE>(layout, keys)),
        Box::new(|keys| run::<L, CALLS_8, ALL_LINES, WHOLE>(layout, keys)),
        Box::new(|keys| run::<L, CALLS_32, FIRST_LINE, WHOLE>(layout, keys)),
        Box::new(|keys| run::<L, CALLS_32, ALL_LINES, WHOLE>(layout, keys)),
    ]
}

/// xorshift: the keys of a round.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Lets all runners take turns, and prints a line of medians for each layout.
fn compare(title: &str, records: usize, layouts: &[(&str, [Runner<'_>; MODES.len()])]) {
    let mut random = Random(0x5DEE_CE66_D123_4567);
    let mut times = vec![[const { Vec::new() }; MODES.len()]; layouts.len()];
    for _ in 0..ROUNDS {
        let keys: Vec<usize> = std::iter::repeat_with(|| random.below(records))
            .take(PARTS_PER_ROUND * CALLS_PER_PART * KEYS_PER_CALL)
            .collect();
        for ((_, runners), times) in layouts.iter().zip(&mut times) {
            for (runner, times) in runners.iter().zip(times) {
                times.extend(keys.chunks(CALLS_PER_PART * KEYS_PER_CALL).map(runner));
            }
        }
    }
    println!("\n{title}, {records} records: ns per key, median of {ROUNDS} rounds");
    println!("{:34}{}", "", MODES.map(|mode| format!("{mode:>15}")).concat());
    for ((name, _), times) in layouts.iter().zip(times) {
        println!("{name:34}{}", times.map(|times| format!("{:15.0}", median(times))).concat());
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    for records in [100_000, 4_000_000] {
        let inline = [Inline::new(records, COLUMNS, 2), Inline::new(records, COLUMNS, 8)];
        let node = [KeyNode::new(records, 2), KeyNode::new(records, 8)];
        let flat = [Flat::new(records, 2), Flat::new(records, 8)];
        compare(
            "Row layouts",
            records,
            &[
                ("a key in record, aligned to 16", modes::<false, _>(&inline[0])),
                ("a key in record, aligned to 64", modes::<false, _>(&inline[1])),
                ("b key node, row aligned to 16", modes::<false, _>(&node[0])),
                ("b key node, row aligned to 64", modes::<false, _>(&node[1])),
                ("c flat table, row aligned to 16", modes::<false, _>(&flat[0])),
                ("c flat table, row aligned to 64", modes::<false, _>(&flat[1])),
            ],
        );
        drop((inline, node, flat));
        let wide = [Inline::new(records, WIDE_COLUMNS, 2), Inline::new(records, WIDE_COLUMNS, 8)];
        compare(
            "Rows of 16 words",
            records,
            &[
                ("2 columns, aligned to 16", modes::<false, _>(&wide[0])),
                ("all 16 copied, aligned to 16", modes::<true, _>(&wide[0])),
                ("2 columns, aligned to 64", modes::<false, _>(&wide[1])),
                ("all 16 copied, aligned to 64", modes::<true, _>(&wide[1])),
            ],
        );
    }
}
