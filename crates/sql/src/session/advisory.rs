//! Advisory locks: keys that applications lock by agreement.
//!
//! Invariants: an exclusive holder of a key is its only holder; a holder may lock again, and unlocks as often. Locks of
//! a session end with it, those of a transaction with the transaction.
//!
//! Concurrency: one mutex guards all keys; waiters block on one event and look again when any key is released, or after
//! [`LOOK_AGAIN`], so that cancellation and timeouts end their wait. Deadlocks among advisory locks end by these only.

use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex};

use crate::error::Result;
use crate::types::environment::AdvisoryLock;

/// The interval at which a blocked waiter checks if its statement was canceled.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The sessions that hold a key.
#[derive(Clone, Copy, Debug)]
struct Holder {
    connection: i32,
    lock: AdvisoryLock,
    count: u32,
}

/// All advisory locks of a database.
#[derive(Default)]
pub(crate) struct AdvisoryLocks {
    keys: Mutex<Keys>,
    released: Condvar,
}

#[derive(Default)]
struct Keys {
    holders: HashMap<(bool, i64), Vec<Holder>>,
    /// The connections that wait, each once for each of its waiting calls.
    waiters: Vec<(i32, AdvisoryLock)>,
}

impl Keys {
    /// Returns true if no other connection holds the key in a mode that conflicts with this lock.
    fn is_free(&self, connection: i32, lock: AdvisoryLock) -> bool {
        self.blockers(connection, lock).next().is_none()
    }

    fn blockers(&self, connection: i32, lock: AdvisoryLock) -> impl Iterator<Item = i32> {
        let of_key = self.holders.get(&lock.key).into_iter().flatten();
        let excludes = move |holder: &&Holder| {
            holder.connection != connection && (holder.lock.exclusive || lock.exclusive)
        };
        of_key.filter(excludes).map(|holder| holder.connection)
    }

    fn hold(&mut self, connection: i32, lock: AdvisoryLock) {
        let of_key = self.holders.entry(lock.key).or_default();
        match of_key.iter_mut().find(|holder| holder.connection == connection && holder.lock == lock) {
            Some(holder) => holder.count += 1,
            None => of_key.push(Holder { connection, lock, count: 1 }),
        }
    }
}

impl AdvisoryLocks {
    /// Locks a key. `wait`: until it is free; else whether it was free.
    ///
    /// # Errors
    /// Those of `check`, which is asked while waiting.
    pub fn acquire(
        &self,
        connection: i32,
        lock: AdvisoryLock,
        wait: bool,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<bool> {
        let mut keys = self.keys.lock();
        if !keys.is_free(connection, lock) {
            if !wait {
                return Ok(false);
            }
            keys.waiters.push((connection, lock));
            let mut ended = Ok(());
            while ended.is_ok() && !keys.is_free(connection, lock) {
                self.released.wait_for(&mut keys, LOOK_AGAIN);
                ended = check();
            }
            let place = keys.waiters.iter().position(|waiter| *waiter == (connection, lock));
            place.map(|place| keys.waiters.remove(place));
            ended?;
        }
        keys.hold(connection, lock);
        Ok(true)
    }

    /// The locks held: connections, keys, and true for an exclusive lock.
    pub fn held(&self) -> Vec<(i32, (bool, i64), bool)> {
        let keys = self.keys.lock();
        let of_key = |(key, held): (&(bool, i64), &Vec<Holder>)| -> Vec<_> {
            held.iter().map(|it| (it.connection, *key, it.lock.exclusive)).collect()
        };
        keys.holders.iter().flat_map(of_key).collect()
    }

    /// The connections that wait, each with what it waits for and the connections that hold it.
    pub fn waiting(&self) -> Vec<(i32, AdvisoryLock, Vec<i32>)> {
        let keys = self.keys.lock();
        let waiters = keys.waiters.iter();
        waiters
            .map(|(connection, lock)| (*connection, *lock, keys.blockers(*connection, *lock).collect()))
            .collect()
    }

    /// Unlocks a key once; returns true if the connection held it in this mode.
    pub fn release(&self, connection: i32, lock: AdvisoryLock) -> bool {
        let holders = &mut self.keys.lock().holders;
        let Some(of_key) = holders.get_mut(&lock.key) else { return false };
        let Some(place) = of_key.iter().position(|it| it.connection == connection && it.lock == lock) else {
            return false;
        };
        of_key[place].count -= 1;
        if of_key[place].count == 0 {
            of_key.remove(place);
        }
        if of_key.is_empty() {
            holders.remove(&lock.key);
        }
        self.released.notify_all();
        true
    }

    /// Unlocks what a connection's transaction holds, or what its session holds.
    pub fn release_all(&self, connection: i32, of_transaction: bool) {
        let holders = &mut self.keys.lock().holders;
        for of_key in holders.values_mut() {
            of_key.retain(|it| it.connection != connection || it.lock.of_transaction != of_transaction);
        }
        holders.retain(|_, of_key| !of_key.is_empty());
        self.released.notify_all();
    }
}
