//! Waits of a session: asynchronously, or by blocking its caller's thread. And the count of its stashed transaction.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::pipeline::stash::{Since, Stash};

/// A waker that unparks the thread that is blocked on a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread until the future is ready.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Some(output) = block_on_until(future.as_mut(), None) {
            return output;
        }
    }
}

/// Blocks this thread until the future is ready, or until a moment.
pub(crate) fn block_on_until<F: Future>(future: F, deadline: Option<Instant>) -> Option<F::Output> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
            None => thread::park(),
            Some(Duration::ZERO) => return None,
            Some(left) => thread::park_timeout(left),
        }
    }
}

/// Keeps a stashed transaction counted until it has ended: the next split phase begins only then.
pub(super) struct Stashed<'s> {
    stash: &'s Stash,
    since: Option<Since>,
}

impl<'s> Stashed<'s> {
    pub(super) fn new(stash: &'s Stash) -> Stashed<'s> {
        Stashed { stash, since: None }
    }

    /// An attempt of the transaction has ended. `again`: it must be stashed (again).
    pub(super) fn has_run(&mut self, again: bool) -> Option<Since> {
        if let Some(since) = self.since {
            self.stash.has_ended(since, again);
        }
        let before = self.since.take();
        if again {
            self.since = Some(self.stash.enter(before));
        }
        self.since
    }
}

impl Drop for Stashed<'_> {
    fn drop(&mut self) {
        self.has_run(false);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_parks_until_its_future_is_woken() {
        let (give, wakers) = channel::<Waker>();
        thread::scope(|scope| {
            scope.spawn(move || wakers.into_iter().for_each(Waker::wake));
            let mut polls = 0;
            let output = block_on(poll_fn(|context| {
                polls += 1;
                if polls == 3 {
                    return Poll::Ready(7);
                }
                give.send(context.waker().clone()).expect("it listens");
                Poll::Pending
            }));
            assert_eq!((output, polls), (7, 3));
            drop(give);
        });
    }

    #[test]
    fn a_stashed_transaction_is_counted_until_it_ends_or_is_dropped() {
        let stash = Stash::default();
        stash.open();
        let mut stashed = Stashed::new(&stash);
        assert!(stashed.has_run(true).is_some() && stashed.has_run(true).is_some());
        assert_eq!((stash.outstanding(), stash.stashed()), (1, 2));
        assert!(stashed.has_run(false).is_none());
        assert_eq!(stash.outstanding(), 0);
        stashed.has_run(true);
        drop(stashed);
        assert_eq!(stash.outstanding(), 0);
    }
}
