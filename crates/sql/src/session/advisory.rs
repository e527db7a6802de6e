//! Advisory locks: keys that applications lock by agreement.
//!
//! Invariants: an exclusive holder of a key is its only holder; a holder may lock again, and unlocks as often. What a session
//! holds ends with the session, what a transaction holds with the transaction.
//!
//! Concurrency: one mutex guards all keys; waiters block on one event and look again when any key is released, or after
//! [`LOOK_AGAIN`], so that cancellation and timeouts end their wait. Deadlocks among advisory locks end by these only.

use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex};

use crate::error::Result;
use crate::types::environment::AdvisoryLock;

/// How long a waiter blocks before it looks whether its statement was canceled.
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
    holders: Mutex<HashMap<(bool, i64), Vec<Holder>>>,
    released: Condvar,
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
        let mut holders = self.holders.lock();
        loop {
            let of_key = holders.entry(lock.key).or_default();
            let free = of_key
                .iter()
                .all(|holder| holder.connection == connection || !(holder.lock.exclusive || lock.exclusive));
            if free {
                match of_key.iter_mut().find(|holder| holder.connection == connection && holder.lock == lock)
                {
                    Some(holder) => holder.count += 1,
                    None => of_key.push(Holder { connection, lock, count: 1 }),
                }
                return Ok(true);
            }
            if !wait {
                return Ok(false);
            }
            self.released.wait_for(&mut holders, LOOK_AGAIN);
            check()?;
        }
    }

    /// What is held: connections, keys, and whether exclusively.
    pub fn held(&self) -> Vec<(i32, (bool, i64), bool)> {
        let holders = self.holders.lock();
        let of_key = |(key, held): (&(bool, i64), &Vec<Holder>)| -> Vec<_> {
            held.iter().map(|it| (it.connection, *key, it.lock.exclusive)).collect()
        };
        holders.iter().flat_map(of_key).collect()
    }

    /// Unlocks a key once. Whether the connection held it so.
    pub fn release(&self, connection: i32, lock: AdvisoryLock) -> bool {
        let mut holders = self.holders.lock();
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
        let mut holders = self.holders.lock();
        for of_key in holders.values_mut() {
            of_key.retain(|it| it.connection != connection || it.lock.of_transaction != of_transaction);
        }
        holders.retain(|_, of_key| !of_key.is_empty());
        self.released.notify_all();
    }
}
