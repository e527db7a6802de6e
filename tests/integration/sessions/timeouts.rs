//! Timeouts: of a wait, of a transaction, of a pause inside one. What is tested is what happens once they have struck, and
//! nothing depends on when they do.

use std::time::{Duration, Instant};

use heddledb::{Error, SessionState, Timeout, key};

use crate::sessions::rig::under_every_protocol;

const SHORT: Option<Duration> = Some(Duration::from_millis(5));
/// Far longer than a test takes.
const LIMIT: Duration = Duration::from_secs(60);

fn timed_out<T>(what: Timeout) -> heddledb::Result<T> {
    Err(Error::TimedOut { what })
}

#[test]
fn a_wait_that_takes_too_long_rolls_the_waiter_back_and_not_the_holder() {
    under_every_protocol(|rig| {
        let [mut first, mut second] = [rig.begin(), rig.begin()];
        second.set_wait_timeout(SHORT).expect("a timer");
        rig.increase(&mut first, 1).expect("an update");
        rig.write(&mut second, 2, 21).expect("an update");
        assert_eq!(rig.increase(&mut second, 1), timed_out(Timeout::Wait), "{}", rig.protocol);
        assert_eq!(second.state(), SessionState::Aborted);
        assert_eq!(second.commit(), timed_out(Timeout::Wait));
        first.commit().expect("a commit");
        assert_eq!((rig.value(1), rig.value(2)), (Some(11), Some(20)));
        second.begin().expect("a transaction");
        rig.increase(&mut second, 1).expect("it is free");
        second.commit().expect("a commit");
    });
}

#[test]
fn a_transaction_that_takes_too_long_is_rolled_back_whatever_it_does() {
    under_every_protocol(|rig| {
        let mut session = rig.db.session().expect("a session");
        session.set_transaction_timeout(SHORT).expect("a timer");
        session.begin().expect("a transaction");
        let begun = Instant::now();
        let mut reads = 0;
        let ended = loop {
            match rig.read(&mut session, 1) {
                Ok(_) => reads += 1,
                Err(error) => break error,
            }
            assert!(begun.elapsed() < LIMIT, "{}: {reads} reads", rig.protocol);
        };
        assert_eq!(Err::<(), _>(ended), timed_out(Timeout::Transaction));
        assert_eq!(session.commit(), timed_out(Timeout::Transaction));
        session.set_transaction_timeout(None).expect("a timer");
        session.begin().expect("a transaction");
        rig.read(&mut session, 1).expect("this one may take its time");
    });
}

#[test]
fn an_idle_transaction_is_rolled_back_and_lets_others_have_what_it_had_reserved() {
    under_every_protocol(|rig| {
        let [mut idle, mut waiting] = [rig.begin(), rig.begin()];
        idle.set_idle_timeout(SHORT).expect("a timer");
        rig.increase(&mut idle, 1).expect("an update");
        // It never comes back; a thread that waits gets the row when its time is over.
        rig.increase(&mut waiting, 1).expect("the row is free at some time");
        waiting.commit().expect("a commit");
        assert_eq!(rig.value(1), Some(11), "{}", rig.protocol);
        assert_eq!(idle.state(), SessionState::Aborted);
        assert_eq!(rig.read(&mut idle, 2), timed_out(Timeout::Idle));
        assert_eq!(idle.rollback(), Ok(()));
    });
}

#[test]
fn a_session_without_a_transaction_is_never_idle_for_too_long() {
    under_every_protocol(|rig| {
        let mut session = rig.db.session().expect("a session");
        session.set_idle_timeout(Some(Duration::from_nanos(1))).expect("a timer");
        session.set_wait_timeout(Some(Duration::from_nanos(1))).expect("a timer");
        for _ in 0..3 {
            rig.increase(&mut session, 1).expect("an update");
        }
        assert_eq!(rig.value(1), Some(13), "{}", rig.protocol);
    });
}

#[test]
fn a_future_that_waits_is_woken_by_its_timeout() {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};
    use std::task::{Context, Poll, Wake, Waker};

    struct Tell(Sender<()>);
    impl Wake for Tell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }
    under_every_protocol(|rig| {
        let [mut first, mut second] = [rig.begin(), rig.begin()];
        second.set_wait_timeout(SHORT).expect("a timer");
        rig.increase(&mut first, 1).expect("an update");
        let (tell, woken) = channel();
        let waker = Waker::from(Arc::new(Tell(tell)));
        let mut context = Context::from_waker(&waker);
        let mut waiting = pin!(second.run_async(|tx| tx.get_for_update(&rig.items, key![1]).map(drop)));
        loop {
            match waiting.as_mut().poll(&mut context) {
                Poll::Pending => woken.recv_timeout(LIMIT).expect("it is woken"),
                Poll::Ready(ended) => break assert_eq!(ended, timed_out(Timeout::Wait), "{}", rig.protocol),
            }
        }
    });
}
