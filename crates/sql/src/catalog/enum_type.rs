//! Enums: their labels, and the numbers of these in stored rows.
//!
//! A value of an enum is stored as its label's number, and numbers ascend with labels, so that indexes order values as the type does. The
//! numbers of a new enum lie far apart: ADD VALUE BEFORE and AFTER give a label a number between those of its neighbors, and no
//! stored row changes.
//!
//! # Invariants
//! - A label keeps its number as long as a column is of the enum.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::rights::Rights;
use crate::types::environment::EnumLabels;

/// The distance between the numbers of two labels that were declared one after another.
const STRIDE: i32 = 1 << 20;

/// An enum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EnumType {
    /// Its oid.
    pub oid: u32,
    /// The schema that it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its labels, in their order.
    pub labels: Vec<Arc<str>>,
    /// The number that stored values have for each label, ascending; if empty, it is the label's position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<i32>,
    /// COMMENT ON TYPE.
    pub comment: Option<String>,
    /// Its owner, and what was granted on it.
    #[serde(default)]
    pub rights: Rights,
}

impl EnumType {
    /// An enum with an oid, a schema and a name.
    pub fn new((oid, schema, name): (u32, &str, &str), labels: &[String], rights: Rights) -> EnumType {
        EnumType {
            oid,
            schema: schema.to_string(),
            name: name.to_string(),
            labels: labels.iter().map(|label| Arc::from(label.as_str())).collect(),
            numbers: spread(labels.len()),
            comment: None,
            rights,
        }
    }

    /// Its labels with their numbers.
    pub fn numbered_labels(&self) -> EnumLabels {
        let number = |at: usize| self.numbers.get(at).copied().unwrap_or(at as i32);
        self.labels.iter().enumerate().map(|(at, label)| (number(at), label.clone())).collect()
    }

    /// Adds a label at a position. Returns false if there is no number left between its neighbors', and stored values keep the
    /// neighbors from getting others.
    pub fn insert_label(&mut self, position: usize, label: &str, is_used: bool) -> bool {
        let mut numbers: Vec<i32> = self.numbered_labels().iter().map(|(number, _)| *number).collect();
        let before = position.checked_sub(1).and_then(|at| numbers.get(at)).copied();
        match number_between(before, numbers.get(position).copied()) {
            Some(number) => numbers.insert(position, number),
            None if is_used => return false,
            None => numbers = spread(numbers.len() + 1),
        }
        self.labels.insert(position, Arc::from(label));
        self.numbers = numbers;
        true
    }
}

/// The numbers of this many new labels.
fn spread(count: usize) -> Vec<i32> {
    let stride = (i32::MAX / (count.max(1) as i32)).clamp(1, STRIDE);
    (0..count as i32).map(|at| at * stride).collect()
}

/// A number above one and below another.
fn number_between(before: Option<i32>, after: Option<i32>) -> Option<i32> {
    let low = before.unwrap_or_else(|| after.map_or(-1, |it| it.saturating_sub(2 * STRIDE)));
    let high = after.unwrap_or_else(|| low.saturating_add(2 * STRIDE));
    let middle = low + ((i64::from(high) - i64::from(low)) / 2) as i32;
    (middle > low && middle < high).then_some(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(labels: &[&str]) -> EnumType {
        let labels: Vec<String> = labels.iter().map(|it| (*it).to_string()).collect();
        EnumType::new((20_000, "public", "mood"), &labels, Rights::default())
    }

    /// Labels in their order, after a look that their numbers ascend.
    fn labels(ty: &EnumType) -> Vec<String> {
        let numbered = ty.numbered_labels();
        assert!(numbered.is_sorted_by(|left, right| left.0 < right.0), "{numbered:?}");
        numbered.iter().map(|(_, label)| label.to_string()).collect()
    }

    #[test]
    fn labels_between_others_leave_the_others_numbers() {
        let mut ty = of(&["a", "c"]);
        let before = ty.numbered_labels();
        for (position, label) in [(1, "b"), (0, "0"), (4, "d"), (0, "00")] {
            assert!(ty.insert_label(position, label, true));
        }
        assert_eq!(labels(&ty), ["00", "0", "a", "b", "c", "d"]);
        let after = ty.numbered_labels();
        assert!(before.iter().all(|known| after.contains(known)));
    }

    #[test]
    fn a_gap_holds_about_twenty_labels_and_an_unused_enum_any_number() {
        let mut ty = of(&["a", "c"]);
        let count = (0..).take_while(|at| ty.insert_label(1, &format!("b{at}"), true)).count();
        assert!((18..=24).contains(&count), "{count}");
        assert_eq!(labels(&ty).len(), count + 2);
        for at in 0..100 {
            assert!(ty.insert_label(1, &format!("c{at}"), false));
        }
        assert_eq!(labels(&ty).len(), count + 102);
    }

    #[test]
    fn enums_of_earlier_versions_keep_positions_as_numbers() {
        let mut ty = of(&["a", "b"]);
        ty.numbers.clear();
        assert_eq!(ty.numbered_labels().iter().map(|it| it.0).collect::<Vec<i32>>(), [0, 1]);
        assert!(!ty.insert_label(1, "between", true));
        assert!(ty.insert_label(2, "c", true) && ty.insert_label(0, "0", true));
        assert_eq!(labels(&ty), ["0", "a", "b", "c"]);
    }

    #[test]
    fn thousands_of_labels_have_numbers() {
        let names: Vec<String> = (0..50_000).map(|at| at.to_string()).collect();
        let ty = EnumType::new((20_000, "public", "many"), &names, Rights::default());
        assert_eq!(labels(&ty).len(), 50_000);
        assert_eq!(number_between(Some(i32::MAX), None), None);
        assert_eq!(number_between(None, Some(i32::MIN)), None);
    }
}
