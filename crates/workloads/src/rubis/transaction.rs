//! The transactions by their places, and the mixes.

use super::RubisMix;
use crate::mix::Mix;

/// Their names.
pub(super) const NAMES: [&str; 17] = [
    "browse-categories",
    "browse-regions",
    "search-category",
    "search-region",
    "view-item",
    "view-user",
    "view-bid-history",
    "bid-form",
    "buy-now-form",
    "comment-form",
    "authenticate",
    "about-me",
    "register-user",
    "store-item",
    "store-bid",
    "store-buy-now",
    "store-comment",
];
pub(super) const BROWSE_CATEGORIES: usize = 0;
pub(super) const BROWSE_REGIONS: usize = 1;
pub(super) const SEARCH_CATEGORY: usize = 2;
pub(super) const SEARCH_REGION: usize = 3;
pub(super) const VIEW_USER: usize = 5;
pub(super) const COMMENT_FORM: usize = 9;
pub(super) const AUTHENTICATE: usize = 10;
pub(super) const ABOUT_ME: usize = 11;
pub(super) const REGISTER_USER: usize = 12;
pub(super) const STORE_ITEM: usize = 13;
pub(super) const STORE_BID: usize = 14;
pub(super) const STORE_BUY_NOW: usize = 15;
pub(super) const STORE_COMMENT: usize = 16;

/// Returns true if the transaction writes.
pub(super) const fn writes(place: usize) -> bool {
    place >= REGISTER_USER
}

impl RubisMix {
    /// Hundredths of each transaction.
    pub(super) const fn shares(self) -> [u8; NAMES.len()] {
        match self {
            RubisMix::Bidding => [8, 3, 23, 7, 23, 4, 3, 6, 2, 1, 2, 3, 1, 2, 8, 2, 2],
            RubisMix::Contended => [4, 2, 13, 4, 12, 2, 2, 3, 1, 1, 1, 1, 1, 1, 50, 1, 1],
        }
    }

    pub(super) fn mix(self) -> Mix {
        Mix::of_shares(&self.shares())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(mix: RubisMix, of: impl Fn(usize) -> bool) -> u32 {
        (0..NAMES.len()).filter(|place| of(*place)).map(|place| u32::from(mix.shares()[place])).sum()
    }

    #[test]
    fn mixes_have_the_sums_that_the_paper_gives() {
        for mix in [RubisMix::Bidding, RubisMix::Contended] {
            assert_eq!(share(mix, |_| true), 100);
            assert!(mix.shares().iter().all(|share| *share > 0), "each transaction is run");
        }
        assert_eq!(share(RubisMix::Bidding, writes), 15);
        assert_eq!(share(RubisMix::Contended, |place| place == STORE_BID), 50);
        assert_eq!(NAMES[STORE_BID], "store-bid");
        assert_eq!((NAMES[ABOUT_ME], NAMES[STORE_COMMENT]), ("about-me", "store-comment"));
    }
}
