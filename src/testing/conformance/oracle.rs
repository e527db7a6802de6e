//! The oracle: finds a serial order that explains what some transactions have seen, and the table that they have left.
//!
//! It tries the orders, on the model: each transaction in turn must answer as it did, and the table at the end be as it
//! was found. A transaction that ended before another began comes first. One that failed has left nothing, and has
//! seen a possible state. It takes time that grows with how many transactions overlap: it is for a handful of them.

use super::model::{Model, Outcome};
use super::script::Script;
use super::script_run::Played;
use super::script_thread::Seen;

/// Judges the outcome of a script.
///
/// # Errors
/// There is no serial order that explains it, or the database is not consistent.
pub fn judge(script: &Script, played: &Played) -> Result<(), String> {
    played.check.clone()?;
    explain(&script.start, &played.seen, &played.end).map(drop)
}

/// The first order that explains everything.
///
/// # Errors
/// No order explains it: what was seen, as text.
pub fn explain(start: &Model, seen: &[Seen], end: &Model) -> Result<Vec<usize>, String> {
    let mut order = Vec::new();
    if search(start, seen, end, &mut order) {
        return Ok(order);
    }
    let mut reported = String::from("no serial order explains\n");
    for (number, one) in (1..).zip(seen) {
        let answers = one.steps.iter().zip(one.outcome.answers.iter().map(String::as_str).chain([""]));
        let steps: Vec<_> = answers
            .map(
                |(step, answer)| {
                    if step.is_end() { step.to_string() } else { format!("{step} => {answer}") }
                },
            )
            .collect();
        reported += &format!(
            "T{number} [{}, {}] {}; {}\n",
            one.begin,
            one.end,
            one.outcome.outcome,
            steps.join("; ")
        );
    }
    reported += &format!("from {:?}\nto   {:?}", start.rows, end.rows);
    Err(reported)
}

fn search(now: &Model, seen: &[Seen], end: &Model, order: &mut Vec<usize>) -> bool {
    if order.len() == seen.len() {
        return now == end;
    }
    let left: Vec<_> = (0..seen.len()).filter(|number| !order.contains(number)).collect();
    for &next in &left {
        if left.iter().any(|&other| seen[other].end < seen[next].begin) {
            continue;
        }
        let mut after = now.clone();
        let outcome = after.run(&seen[next].steps);
        if is_same(&outcome, &seen[next].outcome) {
            order.push(next);
            if search(&after, seen, end, order) {
                return true;
            }
            order.pop();
        }
    }
    false
}

/// Returns true if the outcome of a transaction is the model's. An overflow ends a transaction where it is noticed, at
/// the statement or at the commit: the answers after it may differ.
fn is_same(model: &Outcome, found: &Outcome) -> bool {
    model.outcome == found.outcome
        && if model.outcome == "overflow" {
            model.answers.iter().zip(&found.answers).all(|(model, found)| model == found)
        } else {
            model.answers == found.answers
        }
}

#[cfg(test)]
mod tests {
    use super::super::script::Script;
    use super::*;

    /// Judges a script's expectations as if they were seen; `ticks`: the times at which each transaction began and
    /// ended.
    fn check(text: &str, ticks: &[(u64, u64)], end: &str) -> Result<Vec<usize>, String> {
        let script = Script::parse(text).expect("a script");
        let seen: Vec<_> = (0..script.transactions)
            .map(|number| {
                let own = script.schedule.iter().filter(|one| one.transaction == number);
                let mut answers: Vec<_> = own.map(|one| one.expected.clone().expect("an answer")).collect();
                let outcome = answers.pop().expect("an end");
                let (begin, end) = ticks[number];
                let outcome = Outcome { answers, outcome };
                Seen { begin, end, steps: script.steps_of(number), outcome, attempts: 1 }
            })
            .collect();
        let end = Script::parse(&format!("title: end\nstart: {end}")).expect("an end").start;
        explain(&script.start, &seen, &end)
    }

    const BESIDE: [(u64, u64); 2] = [(1, 4), (2, 3)];

    #[test]
    fn the_order_is_found_that_explains_what_was_seen() {
        let text =
            "title: a\nstart: insert x 1\nT1 get x => 5\nT2 set x 5 => ok\nT1 commit => ok\nT2 commit => ok";
        assert_eq!(check(text, &BESIDE, "insert x 5"), Ok(vec![1, 0]));
        // The same, but the reader had ended before the writer began.
        let reported = check(text, &[(1, 2), (3, 4)], "insert x 5").expect_err("it read the future");
        assert!(reported.contains("T1 [1, 2] ok; get x n => 5; commit"), "{reported}");
    }

    #[test]
    fn a_lost_update_and_a_write_skew_have_no_order() {
        let lost = "title: a\nstart: insert x 1\nT1 get x => 1\nT1 set x 2 => ok\nT1 commit => ok\n\
                    T2 get x => 1\nT2 set x 3 => ok\nT2 commit => ok";
        check(lost, &BESIDE, "insert x 3").expect_err("a lost update");
        let skew = "title: a\nstart: insert x 1, insert y 1\nT1 get x => 1\nT1 set y 2 => ok\nT1 commit => ok\n\
                    T2 get y => 1\nT2 set x 2 => ok\nT2 commit => ok";
        check(skew, &BESIDE, "insert x 2, insert y 2").expect_err("write skew");
        check(skew, &BESIDE, "insert x 2, insert y 1").expect_err("half of it is missing");
    }

    #[test]
    fn a_failed_transaction_leaves_nothing_and_saw_a_possible_state() {
        let text = |seen: i64| {
            format!(
                "title: a\nstart: insert x 1\nT1 get x => {seen}\nT1 set x 9 => ok\nT1 fail => failed\n\
                 T2 add x 1 => ok\nT2 commit => ok"
            )
        };
        assert_eq!(check(&text(2), &BESIDE, "insert x 2"), Ok(vec![1, 0]));
        check(&text(1), &BESIDE, "insert x 10").expect_err("it has left something");
        check(&text(3), &BESIDE, "insert x 2").expect_err("it has seen what never was");
    }

    #[test]
    fn an_overflow_may_be_noticed_late() {
        let start = format!("title: a\nstart: insert x {}\n", i64::MAX);
        let ticks = [(1, 2)];
        let end = format!("insert x {}", i64::MAX);
        let at_once = format!("{start}T1 add x 1 => ok\nT1 commit => overflow");
        assert_eq!(check(&at_once, &ticks, &end), Ok(vec![0]));
        let late = format!("{start}T1 add x 1 => ok\nT1 get y => none\nT1 commit => overflow");
        assert_eq!(check(&late, &ticks, &end), Ok(vec![0]));
        check(&format!("{start}T1 add x 1 => ok\nT1 commit => ok"), &ticks, &end).expect_err("it wrapped");
    }
}
