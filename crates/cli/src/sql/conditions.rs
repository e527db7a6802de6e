//! `\if`, `\elif`, `\else`, `\endif`: which parts of a script run.

use crate::sql::variables::truth;

/// One `\if` that is open.
#[derive(Clone, Copy, Debug)]
struct Branch {
    /// True if the present part is executed.
    runs: bool,
    /// True if a part was executed, or none may be because the surrounding part is skipped.
    is_done: bool,
    has_else: bool,
}

/// The conditions that are open, the innermost one last.
#[derive(Clone, Debug, Default)]
pub struct Conditions(Vec<Branch>);

impl Conditions {
    /// Returns true if the lines that follow are executed.
    pub fn runs(&self) -> bool {
        self.0.last().is_none_or(|branch| branch.runs)
    }

    /// Returns true if every condition has ended.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Executes one of the four commands, and returns its error, if there is one. `None` if it is none of
    /// them.
    pub fn take(&mut self, name: &str, argument: Option<&String>) -> Option<Result<(), String>> {
        let outer =
            |conditions: &Conditions| conditions.0.iter().rev().nth(1).is_none_or(|branch| branch.runs);
        match name {
            "if" => {
                let around = self.runs();
                let value = if around { value(name, argument) } else { Ok(false) };
                let runs = around && *value.as_ref().unwrap_or(&false);
                self.0.push(Branch { runs, is_done: runs || !around, has_else: false });
                Some(value.map(drop))
            }
            "elif" | "else" => {
                let around = outer(self);
                let Some(branch) = self.0.last_mut() else {
                    return Some(Err(format!("\\{name}: no matching \\if")));
                };
                if branch.has_else {
                    return Some(Err(format!("\\{name}: cannot occur after \\else")));
                }
                branch.has_else = name == "else";
                let may = around && !branch.is_done;
                let value = if name == "elif" && may { value(name, argument) } else { Ok(may) };
                branch.runs = may && *value.as_ref().unwrap_or(&false);
                branch.is_done |= branch.runs;
                Some(value.map(drop))
            }
            "endif" => Some(self.0.pop().map(drop).ok_or_else(|| "\\endif: no matching \\if".to_owned())),
            _ => None,
        }
    }
}

fn value(name: &str, argument: Option<&String>) -> Result<bool, String> {
    let word = argument.map(String::as_str).unwrap_or_default();
    truth(word)
        .ok_or_else(|| format!("unrecognized value \"{word}\" for \"\\{name} expression\": Boolean expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers between the commands that are executed.
    fn run(script: &[&str]) -> Vec<String> {
        let (mut conditions, mut ran) = (Conditions::default(), Vec::new());
        for line in script {
            let (name, argument) = line.split_once(' ').unwrap_or((line, ""));
            let argument = argument.to_owned();
            match conditions.take(name, Some(&argument)) {
                Some(outcome) => outcome.expect("it is right"),
                None if conditions.runs() => ran.push((*line).to_owned()),
                None => {}
            }
        }
        assert!(conditions.is_empty());
        ran
    }

    #[test]
    fn one_part_of_each_condition_runs() {
        assert_eq!(run(&["if true", "1", "elif true", "2", "else", "3", "endif", "4"]), ["1", "4"]);
        assert_eq!(run(&["if false", "1", "elif on", "2", "else", "3", "endif"]), ["2"]);
        assert_eq!(run(&["if 0", "1", "elif no", "2", "else", "3", "endif"]), ["3"]);
        let nested =
            ["if false", "if true", "1", "else", "2", "endif", "else", "if true", "3", "endif", "endif"];
        assert_eq!(run(&nested), ["3"]);
    }

    #[test]
    fn what_does_not_match_is_an_error() {
        let mut conditions = Conditions::default();
        assert!(conditions.take("else", None).is_some_and(|outcome| outcome.is_err()));
        assert!(conditions.take("endif", None).is_some_and(|outcome| outcome.is_err()));
        assert!(conditions.take("if", Some(&"perhaps".to_owned())).is_some_and(|outcome| outcome.is_err()));
        assert!(!conditions.runs(), "what cannot be read is no");
    }
}
