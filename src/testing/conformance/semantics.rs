//! Semantics on one thread: one transaction after the other, whose answers are known.

use std::time::Duration;

use super::generator::{Shape, script};
use super::oracle::judge;
use super::schedule::{Played, play};
use super::script::{Script, read_folder};
use super::session::Way;
use super::{Subject, seeds};

/// Nobody is in the way: what takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The scripts of `tests/scripts/semantics`: every step answers what is written there.
pub fn golden(subject: &Subject) {
    let scripts = read_folder("semantics");
    assert!(!scripts.is_empty());
    for (name, script) in scripts {
        for way in Way::ALL {
            let played = play(&subject.database(), &script, way, PATIENCE);
            if let Err(what) = compare(&script, &played) {
                panic!("{} {way:?}: {name}: {what}", subject.name);
            }
        }
    }
}

/// Random scripts answer what the model does and what they do under the reference.
pub fn random(subject: &Subject, reference: &Subject) {
    let shape = Shape { transactions: 30, steps: 12, keys: 6, overlapping: false };
    for seed in seeds(6) {
        let script = script(seed, shape);
        for way in Way::ALL {
            let context = format!("HEDDLE_SEED={seed} {} {way:?}", subject.name);
            let played = play(&subject.database(), &script, way, PATIENCE);
            if let Err(what) = judge(&script, &played) {
                panic!("{context}: {what}");
            }
            let reference = play(&reference.database(), &script, way, PATIENCE);
            for (one, other) in played.seen.iter().zip(&reference.seen) {
                assert_eq!(one.outcome, other.outcome, "{context}: {:?}", one.steps);
                assert_eq!(one.attempts, 1, "{context}: alone, and run again: {:?}", one.steps);
            }
            assert_eq!(played.end, reference.end, "{context}");
        }
    }
}

/// Compares with what the script says, and with the model.
fn compare(script: &Script, played: &Played) -> Result<(), String> {
    let mut next = vec![0; script.transactions];
    for one in &script.schedule {
        let outcome = &played.seen[one.transaction].outcome;
        let at = &mut next[one.transaction];
        let found = if one.step.is_end() { Some(&outcome.ending) } else { outcome.answers.get(*at) };
        *at += 1;
        let what = format!("T{} {}", one.transaction + 1, one.step);
        match (&one.expected, found) {
            (None, _) => return Err(format!("{what}: the script must say what it answers")),
            (Some(expected), Some(found)) if expected == found => {}
            (Some(expected), found) => return Err(format!("{what} => {found:?} instead of {expected:?}")),
        }
    }
    judge(script, played)
}

#[cfg(test)]
mod tests {
    use super::*;
    use heddledb::Options;

    #[test]
    fn an_answer_that_is_not_the_scripts_is_told() {
        let subject = Subject { name: "default".to_string(), options: Options::default() };
        for (text, what) in [
            ("T1 get x => 1\nT1 commit => ok", None),
            ("T1 get x => 2\nT1 commit => ok", Some("get x n => Some(\"1\") instead of \"2\"")),
            ("T1 get x => 1\nT1 fail => ok", Some("fail => Some(\"failed\") instead of \"ok\"")),
            ("T1 get x\nT1 commit => ok", Some("must say")),
        ] {
            let script = Script::parse(&format!("title: a\nstart: insert x 1\n{text}")).expect("a script");
            let told = compare(&script, &play(&subject.database(), &script, Way::Closure, PATIENCE));
            match what {
                None => assert_eq!(told, Ok(())),
                Some(what) => assert!(told.expect_err("a difference").contains(what)),
            }
        }
    }
}
