//! References: what a call says about the data it is going to touch, each as a number that can be counted by.
//!
//! A reference is an attribute, an operator and a value, taken from a predicate, an assignment or an inserted row. Its
//! source does not matter here: a procedure's footprint today, a statement's conditions with their parameters as
//! well. The collector names the attribute, literally or by the domain that the schema declares; this file makes the
//! number, and slices conjunctions or leaves them whole.
//!
//! Invariants: equal attribute, operator and value give equal numbers, in every process; different ones give
//! different numbers, but for one chance in 2^63. A call's references are a set: each counts once; how often it was named
//! is remembered beside.

use smallvec::SmallVec;

/// A reference: a number that represents attribute, operator and value. Never 0, and at most [`LARGEST`].
pub(crate) type Reference = u64;

/// References have 63 bits: a thread that keeps them in a word has one bit for its own use.
pub(crate) const LARGEST: Reference = u64::MAX >> 1;

/// An attribute of the data, or a domain that several attributes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attribute(u64);

impl Attribute {
    /// The attribute of this name, whose parts are kept apart.
    pub(crate) fn named(parts: &[&str]) -> Attribute {
        let hash = |hash, part: &&str| mix(Scalar::of_bytes(part.as_bytes()).0, hash);
        Attribute(parts.iter().fold(parts.len() as u64, hash))
    }
}

/// A value, as a number: equal values have equal numbers, an integer is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scalar(pub(crate) u64);

impl Scalar {
    /// The value NULL.
    pub(crate) const NULL: Scalar = Scalar(0x6E75_6C6C);

    /// An integer.
    #[inline]
    pub(crate) fn of_int(value: i64) -> Scalar {
        Scalar(value as u64)
    }

    /// A value of any type, by its encoding.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Scalar {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let hash = words.iter().fold(bytes.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
        Scalar(mix(hash, u64::from_le_bytes(last)))
    }
}

/// A condition on an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    /// The attribute has this value: compared with it, assigned it, inserted with it.
    Equal(Scalar),
    /// The attribute is within these bounds, both included; an open end is the type's own.
    Within(i64, i64),
}

/// The form in which a policy needs a call's references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// True if attributes are named by their domains.
    pub(crate) canonical: bool,
    /// True if a conjunction is one reference, rather than one for each of its conditions.
    pub(crate) whole: bool,
}

/// Both multipliers are odd, with bits all over: each half of the product depends on all of both factors.
const LEFT: u64 = 0x9E37_79B9_7F4A_7C15;
const RIGHT: u64 = 0xD1B5_4A32_D192_ED03;
/// Distinguishes intervals from values.
const INTERVAL: u64 = 0x1F83_D9AB_FB41_BD6B;
/// Distinguishes conjunctions from single conditions.
const CONJUNCTION: u64 = 0x5BE0_CD19_137E_2179;
/// An interval of at most this many integers is its values as well.
const NARROW: u64 = 16;

#[inline]
fn mix(left: u64, right: u64) -> u64 {
    let product = u128::from(left ^ LEFT) * u128::from(right ^ RIGHT);
    product as u64 ^ (product >> 64) as u64
}

/// The references of one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct References {
    all: SmallVec<[Reference; 64]>,
    /// Number of times that the call names each.
    times: SmallVec<[u16; 64]>,
    /// A bit for each that is there, by its highest bits: most that are new are seen to be so by one look.
    present: u64,
}

impl References {
    /// None.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.times.clear();
        self.present = 0;
    }

    /// Each of them once.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[Reference] {
        &self.all
    }

    /// Number of times that the call names each of them.
    #[inline]
    pub(crate) fn times(&self) -> &[u16] {
        &self.times
    }

    #[inline]
    fn insert(&mut self, reference: Reference) {
        let reference = (reference & LARGEST).max(1);
        let bit = 1 << (reference >> 57);
        if self.present & bit != 0
            && let Some(place) = self.all.iter().position(|other| *other == reference)
        {
            self.times[place] = self.times[place].saturating_add(1);
            return;
        }
        self.present |= bit;
        self.all.push(reference);
        self.times.push(1);
    }
}

/// Collects the references of a call, conjunction after conjunction.
pub(crate) struct Collector<'r> {
    whole: bool,
    into: &'r mut References,
    conditions: u32,
    /// The sum of the conditions' numbers: their order does not matter.
    sum: u64,
}

impl<'r> Collector<'r> {
    /// Begins with no conjunction.
    #[inline]
    pub(crate) fn new(form: Form, into: &'r mut References) -> Collector<'r> {
        Collector { whole: form.whole, into, conditions: 0, sum: 0 }
    }

    /// A condition of the present conjunction.
    #[inline]
    pub(crate) fn condition(&mut self, attribute: Attribute, term: Term) {
        match term {
            Term::Equal(value) => self.add(mix(attribute.0, value.0)),
            Term::Within(low, high) => self.within(attribute, low, high),
        }
    }

    /// A condition whose value is several values: what they name together.
    #[inline]
    pub(crate) fn composite(&mut self, attribute: Attribute, values: impl Iterator<Item = Scalar>) {
        self.add(values.fold(attribute.0, |hash, value| mix(hash, value.0)));
    }

    /// An interval is the smallest block of a power of two that it is in, so that intervals of one block meet; a narrow
    /// one is its values besides, so that it meets those that name one of them.
    fn within(&mut self, attribute: Attribute, low: i64, high: i64) {
        if low > high {
            return;
        }
        if low == high {
            return self.add(mix(attribute.0, low as u64));
        }
        // Offset by the sign bit, so that neighbors on both sides of 0 can share a block.
        let (from, to) = (low as u64 ^ 1 << 63, high as u64 ^ 1 << 63);
        let level = u64::BITS - (from ^ to).leading_zeros();
        let block = from.checked_shr(level).unwrap_or(0);
        self.add(mix(mix(attribute.0, INTERVAL ^ u64::from(level)), block));
        if !self.whole && to - from < NARROW {
            for value in low..=high {
                self.into.insert(mix(attribute.0, value as u64));
            }
        }
    }

    #[inline]
    fn add(&mut self, reference: u64) {
        if !self.whole {
            return self.into.insert(reference);
        }
        self.conditions += 1;
        self.sum = self.sum.wrapping_add(reference);
    }

    /// The conjunction is complete: what follows belongs to the next one.
    #[inline]
    pub(crate) fn end_conjunction(&mut self) {
        match std::mem::take(&mut self.conditions) {
            0 => {}
            1 => self.into.insert(self.sum),
            // Their sum alone would be another conjunction's, were two differences equal.
            _ => self.into.insert(mix(self.sum, CONJUNCTION)),
        }
        self.sum = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINGLE: Form = Form { canonical: false, whole: false };
    const ALL: Form = Form { canonical: false, whole: true };

    fn collect(form: Form, conjunctions: &[&[(&str, Term)]]) -> Vec<Reference> {
        let mut references = References::default();
        let mut collector = Collector::new(form, &mut references);
        for conjunction in conjunctions {
            for (name, term) in *conjunction {
                collector.condition(Attribute::named(&["stock", name]), *term);
            }
            collector.end_conjunction();
        }
        references.as_slice().to_vec()
    }

    fn is(value: i64) -> Term {
        Term::Equal(Scalar::of_int(value))
    }

    #[test]
    fn single_slices_conjunctions_and_all_leaves_them_whole() {
        let update: &[&[(&str, Term)]] = &[&[("s_quantity", is(7))], &[("s_i_id", is(1)), ("s_w_id", is(5))]];
        assert_eq!(collect(SINGLE, update).len(), 3);
        let whole = collect(ALL, update);
        assert_eq!(whole.len(), 2);
        assert_eq!(whole[0], collect(SINGLE, update)[0], "what stands alone is the same in both");
        let turned = collect(ALL, &[&[("s_w_id", is(5)), ("s_i_id", is(1))]]);
        assert_eq!(whole[1], turned[0], "the order of conditions does not matter");
        let other = collect(ALL, &[&[("s_w_id", is(1)), ("s_i_id", is(5))]]);
        assert_ne!(whole[1], other[0], "which attribute has which value does");
    }

    #[test]
    fn a_call_has_each_reference_once() {
        let twice: &[&[(&str, Term)]] =
            &[&[("w", is(5)), ("i", is(1))], &[("w", is(5)), ("i", is(2))], &[("w", is(5))]];
        assert_eq!(collect(SINGLE, twice).len(), 3);
        assert_eq!(collect(ALL, &[twice[0], twice[0], twice[1]]).len(), 2);
        let many: Vec<(&str, Term)> = (0..200).map(|value| ("i", is(value % 100))).collect();
        assert_eq!(collect(SINGLE, &[&many]).len(), 100);
    }

    #[test]
    fn attributes_operators_and_values_are_distinguished() {
        let mut all = Vec::new();
        for name in ["a", "b", "ab"] {
            for term in [is(0), is(1), is(-1), Term::Equal(Scalar::NULL), Term::Within(0, 100)] {
                all.extend(collect(SINGLE, &[&[(name, term)]]));
            }
        }
        let number = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!((number, all.len()), (15, 15));
        assert_ne!(Attribute::named(&["ab", "c"]), Attribute::named(&["a", "bc"]));
        assert_ne!(Attribute::named(&["a"]), Attribute::named(&["a", ""]));
    }

    #[test]
    fn bytes_differ_by_content_and_length() {
        let texts: [&[u8]; 8] =
            [b"", b"\0", b"\0\0", b"1234567", b"12345678", b"12345678\0", b"abcdefgh12345678", b"b"];
        for (place, text) in texts.iter().enumerate() {
            assert_eq!(Scalar::of_bytes(text), Scalar::of_bytes(text));
            assert!(texts[..place].iter().all(|other| Scalar::of_bytes(other) != Scalar::of_bytes(text)));
        }
    }

    #[test]
    fn narrow_intervals_meet_their_values_and_wide_ones_their_block() {
        let meets = |left: Term, right: Term| {
            let (left, right) = (collect(SINGLE, &[&[("a", left)]]), collect(SINGLE, &[&[("a", right)]]));
            left.iter().any(|reference| right.contains(reference))
        };
        assert!(meets(Term::Within(3, 5), is(4)) && meets(Term::Within(7, 7), is(7)));
        assert!(meets(Term::Within(-2, 1), is(-1)) && !meets(Term::Within(3, 5), is(6)));
        assert!(meets(Term::Within(0, 1_000), Term::Within(10, 900)));
        assert!(!meets(Term::Within(0, 1_000), Term::Within(5_000, 5_900)));
        assert!(meets(Term::Within(i64::MIN, i64::MAX), Term::Within(-1_000_000, 1_000_000)));
        assert!(collect(SINGLE, &[&[("a", Term::Within(5, 3))]]).is_empty(), "nothing is in it");
        assert_eq!(collect(ALL, &[&[("a", Term::Within(3, 5)), ("b", is(1))]]).len(), 1);
    }

    #[test]
    fn composite_values_are_one_condition_in_their_order() {
        let of = |values: &[i64]| {
            let mut references = References::default();
            let mut collector = Collector::new(SINGLE, &mut references);
            collector
                .composite(Attribute::named(&["district"]), values.iter().map(|&one| Scalar::of_int(one)));
            references.as_slice().to_vec()
        };
        assert_eq!((of(&[7, 3]).len(), of(&[7, 3])), (1, of(&[7, 3])));
        assert_ne!(of(&[7, 3]), of(&[3, 7]));
        let plain = collect(SINGLE, &[&[("a", is(7))]]);
        let mut references = References::default();
        let attribute = Attribute::named(&["stock", "a"]);
        Collector::new(SINGLE, &mut references).composite(attribute, [Scalar::of_int(7)].into_iter());
        assert_eq!(references.as_slice(), plain, "one value is a value");
    }
}
