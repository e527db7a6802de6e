//! A pause between the accesses of a transaction, so that transactions overlap where cores are few.

use std::time::Duration;

/// The pause of a body after an access. The default is no pause, which costs one comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause(Duration);

impl Pause {
    /// No pause.
    pub const NONE: Pause = Pause(Duration::ZERO);

    /// A pause of this many microseconds; 0 is none.
    pub fn microseconds(microseconds: u64) -> Self {
        Self(Duration::from_micros(microseconds))
    }

    /// Sleeps, and so gives the core to another transaction, which a busy wait would not.
    pub fn take(self) {
        if !self.0.is_zero() {
            std::thread::sleep(self.0);
        }
    }

    /// The pause in microseconds.
    pub fn as_microseconds(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_pause_lasts_as_long_as_it_says() {
        let start = Instant::now();
        Pause::microseconds(2_000).take();
        assert!(start.elapsed() >= Duration::from_micros(2_000));
        assert_eq!(Pause::microseconds(2_000).as_microseconds(), 2_000);
    }

    #[test]
    fn the_usual_pause_is_none() {
        assert_eq!(Pause::default(), Pause::microseconds(0));
        Pause::default().take();
    }
}
