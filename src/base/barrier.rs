//! A barrier with two unequal sides: the frequent side pays next to nothing, the rare side pays for both.
//!
//! One thread stores its flag, passes the [`light`](Barrier::light) side, and reads another's; the other stores its own,
//! passes the [`heavy`](Barrier::heavy) side, and reads the first one's. Invariant: at least one of the two
//! sees the other's store, as if each had passed a sequentially consistent fence. Where the system can interrupt all
//! processors that run the process (Linux: `membarrier`), the light side is a promise of the compiler's only and costs
//! no instruction; elsewhere both sides are such fences.

use crate::base::atomics::{Ordering, compiler_fence, fence};

/// The form of the barrier on this system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    asymmetric: bool,
}

impl Barrier {
    /// Finds out what the system can do, and announces the process to it.
    pub(crate) fn new() -> Barrier {
        Barrier { asymmetric: system::register() }
    }

    /// The frequent side.
    #[inline]
    pub(crate) fn light(self) {
        if self.asymmetric {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The rare side: some microseconds.
    pub(crate) fn heavy(self) {
        // The caller's own stores are first: the interruption of the others follows them.
        fence(Ordering::SeqCst);
        if self.asymmetric {
            system::interrupt_all();
        }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

    pub(super) fn register() -> bool {
        let wanted = MembarrierQuery::PRIVATE_EXPEDITED | MembarrierQuery::REGISTER_PRIVATE_EXPEDITED;
        membarrier_query().contains(wanted) && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    }

    pub(super) fn interrupt_all() {
        // A process that has registered is refused by no kernel; were it, nothing that was promised would hold.
        if let Err(error) = membarrier(MembarrierCommand::PrivateExpedited) {
            unreachable!("the kernel refuses a barrier that it has accepted before: {error}");
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn interrupt_all() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::atomics::AtomicU64;
    use std::sync::Barrier as Start;

    /// Both store, then both look: it must not happen that neither sees the other.
    fn somebody_sees(barrier: Barrier) {
        const ROUNDS: u64 = 20_000;
        let (light, heavy, start) = (AtomicU64::new(0), AtomicU64::new(0), Start::new(2));
        let missed: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let frequent = scope.spawn(|| {
                start.wait();
                (1..=ROUNDS)
                    .filter(|&round| {
                        light.store(round, Ordering::Relaxed);
                        barrier.light();
                        heavy.load(Ordering::Relaxed) < round
                    })
                    .collect()
            });
            let rare = scope.spawn(|| {
                start.wait();
                (1..=ROUNDS)
                    .filter(|&round| {
                        heavy.store(round, Ordering::Relaxed);
                        barrier.heavy();
                        light.load(Ordering::Relaxed) < round
                    })
                    .collect()
            });
            [frequent, rare].map(|side| side.join().expect("no panic")).into()
        });
        let both = missed[0].iter().find(|round| missed[1].contains(round));
        assert_eq!(both, None, "neither saw the other's store");
    }

    #[test]
    fn one_of_the_two_sees_the_other_with_the_system_s_help() {
        somebody_sees(Barrier::new());
    }

    #[test]
    fn one_of_the_two_sees_the_other_without_it() {
        somebody_sees(Barrier { asymmetric: false });
    }
}
