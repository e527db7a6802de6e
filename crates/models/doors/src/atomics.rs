//! The engine's `base::atomics`: words whose every access the checker schedules.
//!
//! Each word lies in memory as the standard library's does: of one size with its value (flags and small numbers: one
//! word), zero bytes are zero, and it can be made in a constant. Every access asks [`faults`] whether it is to go wrong.

use std::cell::UnsafeCell;
use std::fmt;
use std::panic::Location;

pub use std::sync::atomic::{Ordering, compiler_fence};

use crate::checker::{self, Change};
use crate::faults::{self, Fault};

/// A word in memory: its value or, under loom, the number of the checker's object that stands for it.
#[derive(Default)]
#[repr(transparent)]
pub(crate) struct Word(UnsafeCell<u64>);

// SAFETY: all threads of an execution are coroutines of one thread of the system's, and none is interrupted within an
// access.
unsafe impl Sync for Word {}

impl Word {
    const fn new(value: u64) -> Word {
        Word(UnsafeCell::new(value))
    }

    pub(crate) fn bits(&self) -> *mut u64 {
        self.0.get()
    }

    #[track_caller]
    fn load(&self, ordering: Ordering) -> u64 {
        match faults::at(Location::caller()) {
            Some(Fault::Weaken) => checker::load(self, Ordering::Relaxed),
            Some(Fault::Stale) => faults::last_seen(self).unwrap_or_else(|| checker::load(self, ordering)),
            _ => faults::see(self, checker::load(self, ordering)),
        }
    }

    #[track_caller]
    fn store(&self, value: u64, ordering: Ordering) {
        match faults::at(Location::caller()) {
            Some(Fault::Skip) => {}
            Some(Fault::Weaken) => checker::store(self, value, Ordering::Relaxed),
            _ => checker::store(self, value, ordering),
        }
    }

    /// The value before; an error if it was another than the one to be exchanged.
    #[track_caller]
    fn change(&self, change: Change, success: Ordering, failure: Ordering) -> Result<u64, u64> {
        match faults::at(Location::caller()) {
            Some(Fault::Weaken) => checker::change(self, change, Ordering::Relaxed, Ordering::Relaxed),
            Some(Fault::Skip) => Ok(checker::load(self, failure)),
            Some(Fault::Tear) => {
                let before = checker::load(self, failure);
                let after = change.apply(before).ok_or(before)?;
                checker::store(self, after, success_of_store(success));
                Ok(before)
            }
            Some(Fault::Blind) => {
                let before = checker::load(self, failure);
                checker::store(self, change.blindly(before), success_of_store(success));
                Ok(change.expected().unwrap_or(before))
            }
            _ => checker::change(self, change, success, failure),
        }
    }
}

/// The part of a read-modify-write's ordering that applies to its store alone.
fn success_of_store(ordering: Ordering) -> Ordering {
    match ordering {
        Ordering::AcqRel | Ordering::Release => Ordering::Release,
        Ordering::SeqCst => Ordering::SeqCst,
        _ => Ordering::Relaxed,
    }
}

/// An atomic fence.
#[track_caller]
pub fn fence(ordering: Ordering) {
    if !matches!(faults::at(Location::caller()), Some(Fault::Weaken | Fault::Skip)) {
        checker::fence(ordering);
    }
}

/// A value that fits into a word.
trait Value: Copy {
    fn to_bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

macro_rules! values {
    ($($value:ty),*) => {$(
        impl Value for $value {
            fn to_bits(self) -> u64 {
                self as u64
            }

            fn from_bits(bits: u64) -> Self {
                bits as $value
            }
        }
    )*};
}
values!(u32, u64, usize);

impl Value for bool {
    fn to_bits(self) -> u64 {
        u64::from(self)
    }

    fn from_bits(bits: u64) -> bool {
        bits != 0
    }
}

impl<T> Value for *mut T {
    fn to_bits(self) -> u64 {
        self.expose_provenance() as u64
    }

    fn from_bits(bits: u64) -> *mut T {
        std::ptr::with_exposed_provenance_mut(bits as usize)
    }
}

macro_rules! atomic {
    ($(#[$doc:meta])* $name:ident $(<$parameter:ident>)?, $value:ty) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $name $(<$parameter>)? {
            word: Word,
            $(value: std::marker::PhantomData<*mut $parameter>,)?
        }

        impl $(<$parameter>)? $name $(<$parameter>)? {
            #[track_caller]
            pub fn load(&self, ordering: Ordering) -> $value {
                Value::from_bits(self.word.load(ordering))
            }

            #[track_caller]
            pub fn store(&self, value: $value, ordering: Ordering) {
                self.word.store(Value::to_bits(value), ordering);
            }

            #[track_caller]
            pub fn swap(&self, value: $value, ordering: Ordering) -> $value {
                self.changed(Change::Swap(Value::to_bits(value)), ordering)
            }

            #[track_caller]
            pub fn compare_exchange(
                &self,
                expected: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let change = Change::Exchange(Value::to_bits(expected), Value::to_bits(new));
                let before = self.word.change(change, success, failure);
                before.map(Value::from_bits).map_err(Value::from_bits)
            }

            /// It never fails for no reason.
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                expected: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(expected, new, success, failure)
            }

            #[track_caller]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut next: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut before = self.load(failure);
                while let Some(new) = next(before) {
                    match self.compare_exchange(before, new, success, failure) {
                        Ok(before) => return Ok(before),
                        Err(other) => before = other,
                    }
                }
                Err(before)
            }

            pub fn get_mut(&mut self) -> &mut $value {
                checker::make_plain(&self.word);
                // SAFETY: the word is borrowed exclusively, holds its value, and that is not larger than the word.
                unsafe { &mut *self.word.bits().cast() }
            }

            #[track_caller]
            fn changed(&self, change: Change, ordering: Ordering) -> $value {
                let failure = match ordering {
                    Ordering::SeqCst => Ordering::SeqCst,
                    Ordering::Acquire | Ordering::AcqRel => Ordering::Acquire,
                    _ => Ordering::Relaxed,
                };
                match self.word.change(change, ordering, failure) {
                    Ok(before) | Err(before) => Value::from_bits(before),
                }
            }
        }

        impl $(<$parameter>)? fmt::Debug for $name $(<$parameter>)? {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(stringify!($name))
            }
        }
    };
}

macro_rules! atomic_number {
    ($(#[$doc:meta])* $name:ident, $value:ty) => {
        atomic!($(#[$doc])* #[derive(Default)] $name, $value);

        impl $name {
            pub const fn new(value: $value) -> Self {
                $name { word: Word::new(value as u64) }
            }

            #[track_caller]
            pub fn fetch_or(&self, value: $value, ordering: Ordering) -> $value {
                self.changed(Change::Or(Value::to_bits(value)), ordering)
            }

            #[track_caller]
            pub fn fetch_and(&self, value: $value, ordering: Ordering) -> $value {
                self.changed(Change::And(Value::to_bits(value)), ordering)
            }

            #[track_caller]
            pub fn fetch_max(&self, value: $value, ordering: Ordering) -> $value {
                self.changed(Change::Max(Value::to_bits(value)), ordering)
            }

            #[track_caller]
            pub fn fetch_min(&self, value: $value, ordering: Ordering) -> $value {
                self.changed(Change::Min(Value::to_bits(value)), ordering)
            }
        }
    };
}

macro_rules! atomic_sum {
    ($name:ident, $value:ty) => {
        impl $name {
            #[track_caller]
            pub fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                self.changed(Change::Add(Value::to_bits(value)), ordering)
            }

            /// Not below zero: the narrow types are whole words here.
            #[track_caller]
            pub fn fetch_sub(&self, value: $value, ordering: Ordering) -> $value {
                self.changed(Change::Add(Value::to_bits(value).wrapping_neg()), ordering)
            }
        }
    };
}

atomic_number!(
    /// A flag.
    AtomicBool, bool
);
atomic_number!(
    /// A number of 32 bits; it does not wrap.
    AtomicU32, u32
);
atomic_number!(
    /// A number of 64 bits.
    AtomicU64, u64
);
atomic_number!(
    /// A number of a word.
    AtomicUsize, usize
);
atomic_sum!(AtomicU32, u32);
atomic_sum!(AtomicU64, u64);
atomic_sum!(AtomicUsize, usize);
atomic!(
    /// A pointer.
    AtomicPtr<T>, *mut T
);

// SAFETY: it is an address; what is behind it is its user's business.
unsafe impl<T> Send for AtomicPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for AtomicPtr<T> {}

impl<T> AtomicPtr<T> {
    pub const fn new(value: *mut T) -> Self {
        // A pointer cannot be made a number in a constant, but be stored as it is: both are one word.
        AtomicPtr { word: Word(UnsafeCell::new(bits_of(value))), value: std::marker::PhantomData }
    }
}

/// The bytes of a pointer.
const fn bits_of<T>(pointer: *mut T) -> u64 {
    union Either<T> {
        pointer: *mut T,
        bits: u64,
    }
    let either = Either { pointer };
    // SAFETY: both are of one size, and every pattern is a number; in a constant, only null comes here.
    unsafe { either.bits }
}
