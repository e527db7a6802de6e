//! Policies: the four choices of which the paper tries all sixteen combinations (section 5).

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::schedule::reference::Form;

/// The measure of the conflicts that a reference causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictCounts {
    /// The number of aborts of transactions with it.
    Count,
    /// The share of all attempts with it that were aborted.
    Fraction,
}

/// The references of a call that decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deciding {
    /// All of them, added up.
    Sum,
    /// The one with the most conflicts.
    Max,
}

/// The naming of attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Each column by its own name.
    Literal,
    /// The domain that the schema declares: a column that references another table's key shares its domain.
    Canonical,
}

/// The slicing of a conjunction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slicing {
    /// A reference for each of its conditions.
    Single,
    /// One reference for the whole.
    All,
}

/// A policy of the schedule `predict`.
///
/// ```
/// use heddledb::Policy;
/// assert_eq!(Policy::default().to_string(), "count-max-canonical-single");
/// assert_eq!("fraction-sum-literal-all".parse::<Policy>()?.to_string(), "fraction-sum-literal-all");
/// assert_eq!(Policy::ALL.len(), 16);
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The measure of conflicts.
    pub conflict_counts: ConflictCounts,
    /// The references that decide.
    pub deciding: Deciding,
    /// The naming of attributes.
    pub naming: Naming,
    /// The slicing of conjunctions.
    pub slicing: Slicing,
}

impl Default for Policy {
    /// The best one of the paper's.
    fn default() -> Policy {
        Policy {
            conflict_counts: ConflictCounts::Count,
            deciding: Deciding::Max,
            naming: Naming::Canonical,
            slicing: Slicing::Single,
        }
    }
}

impl Policy {
    /// All sixteen, in the order of the paper's table 3.
    pub const ALL: [Policy; 16] = Self::all();

    const fn all() -> [Policy; 16] {
        let mut all = [Policy {
            conflict_counts: ConflictCounts::Fraction,
            deciding: Deciding::Sum,
            naming: Naming::Literal,
            slicing: Slicing::Single,
        }; 16];
        let mut number = 0;
        while number < 16 {
            if number & 8 != 0 {
                all[number].conflict_counts = ConflictCounts::Count;
            }
            if number & 4 != 0 {
                all[number].deciding = Deciding::Max;
            }
            if number & 2 != 0 {
                all[number].naming = Naming::Canonical;
            }
            if number & 1 != 0 {
                all[number].slicing = Slicing::All;
            }
            number += 1;
        }
        all
    }

    /// Returns true if the reference with the most aborts decides.
    #[inline]
    pub(crate) fn is_led(self) -> bool {
        self.conflict_counts == ConflictCounts::Count && self.deciding == Deciding::Max
    }

    /// The form in which it needs references.
    pub(crate) fn form(self) -> Form {
        Form { canonical: self.naming == Naming::Canonical, whole: self.slicing == Slicing::All }
    }

    fn words(self) -> [&'static str; 4] {
        [
            if self.conflict_counts == ConflictCounts::Count { "count" } else { "fraction" },
            if self.deciding == Deciding::Max { "max" } else { "sum" },
            if self.naming == Naming::Canonical { "canonical" } else { "literal" },
            if self.slicing == Slicing::All { "all" } else { "single" },
        ]
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.words().join("-"))
    }
}

impl FromStr for Policy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.to_string() == text).ok_or_else(|| {
            Error::InvalidOption {
                option: "policy",
                given: text.to_string(),
                expected: "{count|fraction}-{max|sum}-{canonical|literal}-{single|all}, such as \
                       count-max-canonical-single"
                    .to_string(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_policy_has_a_name_of_its_own_by_which_it_is_found() {
        let names: HashSet<String> = Policy::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), 16);
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert!(names.contains(&Policy::default().to_string()));
    }

    #[test]
    fn other_names_are_refused_with_those_that_there_are() {
        for name in
            ["", "count", "count-max-canonical", "max-count-canonical-single", "Count-max-canonical-single"]
        {
            let error = name.parse::<Policy>().expect_err("no such policy").to_string();
            assert!(error.contains("count-max-canonical-single"), "{error}");
        }
    }

    #[test]
    fn the_order_is_the_papers() {
        let names: Vec<String> = Policy::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(names[0], "fraction-sum-literal-single");
        assert_eq!(names[1], "fraction-sum-literal-all");
        assert_eq!(names[6], "fraction-max-canonical-single");
        assert_eq!(names[14], "count-max-canonical-single");
        assert_eq!(names[15], "count-max-canonical-all");
    }

    #[test]
    fn naming_and_slicing_say_how_references_are_wanted() {
        assert_eq!(Policy::default().form(), Form { canonical: true, whole: false });
        let other = Policy { naming: Naming::Literal, slicing: Slicing::All, ..Policy::default() };
        assert_eq!(other.form(), Form { canonical: false, whole: true });
    }
}
