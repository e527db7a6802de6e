//! The visitors of the site: which transaction, of which item, by which user.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use heddledb::{Database, Procedure};

use super::tables::{CATEGORIES, FIRST_MADE, REGIONS, Tables};
use super::transaction::{
    ABOUT_ME, AUTHENTICATE, REGISTER_USER, SEARCH_CATEGORY, SEARCH_REGION, STORE_BID, STORE_BUY_NOW,
    STORE_COMMENT, STORE_ITEM, VIEW_USER, writes,
};
use super::{Rubis, check, procedure};
use crate::Result;
use crate::calls::{Call, Calls};
use crate::mix::Mix;
use crate::workload::{Bound, Generator, random_of};
use crate::zipf::PopularKeys;

/// The largest amount of a bid.
const LARGEST_BID: i64 = 1_000_000;

/// The benchmark on an open database.
pub(super) struct Site {
    settings: Rubis,
    /// One list for each caller: clients' calls count handles, and would hand a shared one's count to and fro.
    procedures: Vec<Vec<Procedure>>,
    items: Arc<PopularKeys>,
    /// Above the callers of every earlier run: a row's number is its caller's, and how many the caller has made.
    next_caller: AtomicI64,
}

impl Site {
    pub fn bind(settings: Rubis, db: &Database, callers: usize) -> Result<Self> {
        let tables = Tables::open(db)?;
        let procedures = (0..callers.max(1)).map(|_| procedure::register_all(db, &tables, settings.pause));
        Ok(Self {
            settings,
            procedures: procedures.collect::<Result<_, _>>()?,
            items: Arc::new(PopularKeys::new(u64::from(settings.items), settings.alpha)),
            next_caller: AtomicI64::new(check::highest_number(db, &tables)? / FIRST_MADE + 1),
        })
    }
}

impl Bound for Site {
    fn generator(&self, seed: u64, caller: usize) -> Result<Box<dyn Generator>> {
        // Relaxed: only the number itself has to be unique; no other data is published with it.
        let number = self.next_caller.fetch_add(1, Ordering::Relaxed) * FIRST_MADE;
        Ok(Box::new(Visitor {
            procedures: self.procedures[caller % self.procedures.len()].clone(),
            users: i64::from(self.settings.users),
            items: Arc::clone(&self.items),
            mix: self.settings.mix.mix(),
            random: random_of(seed, caller),
            number,
            date: i64::from(self.settings.items),
        }))
    }

    fn acknowledgement(&self, call: Call<'_>) -> Option<String> {
        let number = |place| call.args.int(place).ok();
        matches!(call.procedure, STORE_BID | STORE_BUY_NOW | STORE_COMMENT).then_some(())?;
        Some(format!("{} {} {}", call.procedure, number(0)?, number(1)?))
    }

    fn reason(&self, error: &heddledb::Error) -> Cow<'static, str> {
        super::reason(error)
    }
}

/// The calls of one caller.
struct Visitor {
    procedures: Vec<Procedure>,
    users: i64,
    items: Arc<PopularKeys>,
    mix: Mix,
    random: fastrand::Rng,
    /// The number of the row that was made last.
    number: i64,
    /// The present: the items that were loaded came in before.
    date: i64,
}

impl Visitor {
    fn user(&mut self) -> i64 {
        self.random.i64(1..=self.users)
    }

    fn item(&mut self) -> i64 {
        self.items.choose(&mut self.random)
    }

    fn next_number(&mut self) -> i64 {
        self.number += 1;
        self.number
    }

    fn add(&mut self, calls: &mut Calls) {
        let place = self.mix.choose(&mut self.random);
        self.date += 1;
        let date = self.date;
        let marks = u32::from(writes(place));
        match place {
            REGISTER_USER => {
                let (id, region) = (self.next_number(), self.random.i64(1..=REGIONS));
                calls.add_integers(place, marks, &[id, region, date]);
            }
            STORE_ITEM => {
                let (id, seller) = (self.next_number(), self.user());
                let (category, region) = (self.random.i64(1..=CATEGORIES), self.random.i64(1..=REGIONS));
                calls.add_integers(place, marks, &[id, seller, category, region, date]);
            }
            STORE_BID | STORE_BUY_NOW => {
                let (bidder, id, item) = (self.user(), self.next_number(), self.item());
                let amount = self.random.i64(1..=LARGEST_BID);
                calls.add_integers(place, marks, &[bidder, id, item, amount, date]);
            }
            STORE_COMMENT => {
                let (receiver, id, author, item) =
                    (self.user(), self.next_number(), self.user(), self.item());
                let rating = self.random.i64(-5..=5);
                calls.add_integers(place, marks, &[receiver, id, author, item, rating, date]);
            }
            _ => {
                let id = match place {
                    SEARCH_CATEGORY => self.random.i64(1..=CATEGORIES),
                    SEARCH_REGION => self.random.i64(1..=REGIONS),
                    VIEW_USER | AUTHENTICATE | ABOUT_ME => self.user(),
                    _ => self.item(),
                };
                let user = self.user();
                calls.add_integers(place, marks, &[id, user]);
            }
        }
    }
}

impl Generator for Visitor {
    fn procedures(&self) -> &[Procedure] {
        &self.procedures
    }

    fn fill(&mut self, calls: &mut Calls, at_most: usize) -> Result<bool> {
        while calls.len() < at_most {
            self.add(calls);
        }
        Ok(true)
    }
}
