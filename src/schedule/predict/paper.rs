//! The paper's worked examples, by its definitions. Its printed sums contradict these: see docs/decisions.

use std::time::Duration;

use super::*;
use crate::schedule::StatePrune;
use crate::schedule::history::Outcomes;
use crate::schedule::policy::{ConflictCounts, Naming, Slicing};
use crate::schedule::reference::{Attribute, Collector, Form, Scalar, Term};

const QUANTITY: &str = "s_quantity";

/// A reference of the paper's tables.
fn reference(attribute: &str, value: i64) -> Reference {
    call(&[(attribute, value)]).as_slice()[0]
}

/// A transaction's references.
fn call(conditions: &[(&str, i64)]) -> References {
    let mut references = References::default();
    let mut collector = Collector::new(Form { canonical: false, whole: false }, &mut references);
    for (attribute, value) in conditions {
        collector.condition(Attribute::named(&[attribute]), Term::Equal(Scalar::of_int(*value)));
    }
    references
}

/// A schedule with the History and the State of one of the paper's tables: reference, aborts and commits, queues.
fn table(policy: Policy, history: &[(&str, i64, u32, u32)], state: &[(&str, i64, [u32; 3])]) -> Predict {
    let settings = PredictSettings {
        policy,
        history: Duration::from_secs(5),
        renew: Duration::from_secs(30),
        prune: StatePrune::Stable,
        memory_bytes: 1 << 20,
    };
    let predict = Predict::new(settings, 3);
    for &(attribute, value, aborts, commits) in history {
        let references = [reference(attribute, value)];
        (0..commits)
            .for_each(|number| predict.history.note(&references, if number == 0 { aborts } else { 0 }));
    }
    for &(attribute, value, counts) in state {
        predict.state.put(reference(attribute, value), &counts, &predict.history);
    }
    predict
}

/// Table 1.
fn first_table(policy: Policy) -> Predict {
    let history = [
        (QUANTITY, 6, 20, 60),
        (QUANTITY, 7, 40, 20),
        ("s_i_id", 1, 20, 20),
        ("s_i_id", 2, 0, 20),
        ("s_w_id", 5, 20, 20),
    ];
    let state = [
        ("s_i_id", 1, [2, 0, 0]),
        ("s_w_id", 5, [2, 1, 1]),
        ("s_i_id", 2, [0, 1, 1]),
        (QUANTITY, 7, [2, 1, 1]),
        (QUANTITY, 6, [0, 1, 1]),
    ];
    let predict = table(policy, &history, &state);
    assert_eq!([0, 1, 2].map(|queue| predict.state.total(queue)), [6, 4, 4], "the row of totals");
    predict
}

/// The transaction of examples 1 to 3: quantity 6, item 2, warehouse 5.
fn arriving() -> References {
    call(&[(QUANTITY, 6), ("s_i_id", 2), ("s_w_id", 5)])
}

fn fractions(predict: &Predict, references: &References) -> Vec<f64> {
    let fraction = |one: &Reference| predict.history.get(*one).map_or(0.0, Outcomes::fraction);
    references.as_slice().iter().map(fraction).collect()
}

/// The scores of the queues, and the queue that is chosen, counted from 1 as in the paper.
fn decide(predict: &Predict, references: &References) -> (Vec<f64>, usize) {
    let found = predict.find(references, 1);
    let scores = match predict.policy.deciding {
        Deciding::Sum => predict.sums(&found),
        Deciding::Max => match predict.strongest(references, &found) {
            Some(number) => predict.scores_of(&found[number]),
            None => Scores::from_elem(0.0, predict.state.queues()),
        },
    };
    (scores.to_vec(), predict.decide(references).queue + 1)
}

fn policy(conflict_counts: ConflictCounts, deciding: Deciding) -> Policy {
    Policy { conflict_counts, deciding, naming: Naming::Literal, slicing: Slicing::Single }
}

#[test]
fn example_1_counts_and_sums_to_a_tie_which_the_emptiest_queue_wins() {
    let predict = first_table(policy(ConflictCounts::Count, Deciding::Sum));
    assert_eq!(decide(&predict, &arriving()), (vec![40.0, 40.0, 40.0], 2));
    // "and then increments the state values to reflect this assigned transaction".
    assert_eq!(predict.state.of(reference("s_w_id", 5)), Some(vec![2, 2, 1]));
    assert_eq!([0, 1, 2].map(|queue| predict.state.total(queue)), [6, 7, 4]);
}

#[test]
fn example_1_places_what_is_not_in_the_history_by_the_smallest_total() {
    let predict = first_table(policy(ConflictCounts::Count, Deciding::Sum));
    let unknown = call(&[("s_i_id", 3)]);
    assert_eq!(decide(&predict, &unknown), (vec![0.0; 3], 2));
    assert_eq!(
        predict.state.of(unknown.as_slice()[0]),
        Some(vec![0, 1, 0]),
        "and it is known to the State from now on"
    );
    assert_eq!(decide(&predict, &unknown).1, 3, "queue 2 has 5 references now, and queue 3 has 4");
}

#[test]
fn example_2_sums_fractions() {
    let predict = first_table(policy(ConflictCounts::Fraction, Deciding::Sum));
    assert_eq!(fractions(&predict, &arriving()), [0.25, 0.0, 0.5]);
    assert_eq!(decide(&predict, &arriving()), (vec![1.0, 0.75, 0.75], 1));
}

#[test]
fn example_3_retains_the_reference_with_the_most_aborts() {
    let predict = first_table(policy(ConflictCounts::Count, Deciding::Max));
    // Quantity and warehouse have 20 aborts each: the warehouse's are the greater share of its attempts.
    assert_eq!(decide(&predict, &arriving()), (vec![40.0, 20.0, 20.0], 1));
}

#[test]
fn counts_that_chance_may_have_made_differ_are_ties_which_the_reference_named_most_often_wins() {
    let history = [("w_id", 1, 200, 1_000), ("w_id", 2, 215, 1_000), ("w_id", 3, 500, 1_000)];
    let state = [("w_id", 1, [9, 0, 0]), ("w_id", 2, [0, 9, 0]), ("w_id", 3, [0, 0, 9])];
    let predict = table(policy(ConflictCounts::Count, Deciding::Max), &history, &state);
    assert_eq!(decide(&predict, &call(&[("w_id", 1), ("w_id", 2), ("w_id", 1)])).1, 1);
    assert_eq!(decide(&predict, &call(&[("w_id", 1), ("w_id", 2)])).1, 2, "as often: the one with more");
    assert_eq!(decide(&predict, &call(&[("w_id", 1), ("w_id", 3), ("w_id", 1)])).1, 3, "that is no chance");
}

#[test]
fn example_3_with_fractions_retains_the_warehouse_and_weighs_it_with_its_own_fraction() {
    let predict = first_table(policy(ConflictCounts::Fraction, Deciding::Max));
    assert_eq!(decide(&predict, &arriving()), (vec![1.0, 0.5, 0.5], 1), "the paper multiplies by 0.25");
}

#[test]
fn example_4_ends_in_a_tie_of_three_which_the_emptiest_queue_wins() {
    let policy = Policy { naming: Naming::Canonical, ..policy(ConflictCounts::Fraction, Deciding::Max) };
    let history = [
        ("i_id", 2, 10, 10),
        ("o_id", 10, 10, 10),
        ("c_id", 11, 10, 10),
        ("w_id", 5, 30, 10),
        (QUANTITY, 7, 20, 20),
    ];
    let state = [
        ("i_id", 2, [1, 0, 0]),
        ("w_id", 5, [1, 1, 1]),
        ("c_id", 11, [0, 1, 1]),
        (QUANTITY, 7, [1, 0, 0]),
        ("o_id", 10, [0, 0, 1]),
    ];
    let predict = table(policy, &history, &state);
    assert_eq!([0, 1, 2].map(|queue| predict.state.total(queue)), [3, 2, 3]);
    let arriving = call(&[(QUANTITY, 7), ("i_id", 2), ("w_id", 5)]);
    assert_eq!(fractions(&predict, &arriving), [0.5, 0.5, 0.75], "step 2");
    assert_eq!(decide(&predict, &arriving), (vec![0.75, 0.75, 0.75], 2));
}
