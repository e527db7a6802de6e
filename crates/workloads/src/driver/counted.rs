//! Readings at the beginning and at the end of the measured interval: the engine's counters, and the
//! process's use of processors.

use std::ops::Sub;
use std::time::Duration;

use heddledb::Statistics;

/// Counters at one moment, or their growth over an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub statistics: Statistics,
    /// Processor time of all threads of the process; `None` where the system does not tell it.
    pub processor_time: Option<Duration>,
}

impl Counted {
    /// Reads the processor time until now, besides these statistics.
    pub fn now(statistics: Statistics) -> Counted {
        Counted { statistics, processor_time: processor_time() }
    }
}

impl Sub for Counted {
    type Output = Counted;

    fn sub(self, before: Counted) -> Counted {
        let both = self.processor_time.zip(before.processor_time);
        Counted {
            statistics: self.statistics - before.statistics,
            processor_time: both.map(|(now, before)| now.saturating_sub(before)),
        }
    }
}

/// Processor time of all threads of this process, ended ones included.
#[cfg(unix)]
fn processor_time() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(not(unix))]
fn processor_time() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn processor_time_grows_with_work_and_not_with_sleep() {
        let used = |work: &dyn Fn()| {
            let before = Counted::now(Statistics::default());
            work();
            (Counted::now(Statistics::default()) - before).processor_time.expect("Unix tells it")
        };
        let spun = used(&|| {
            let (start, mut sum) = (Instant::now(), 0_u64);
            while start.elapsed() < Duration::from_millis(200) {
                sum = std::hint::black_box(sum.wrapping_add(1));
            }
        });
        assert!(spun >= Duration::from_millis(2), "{spun:?}");
    }
}
