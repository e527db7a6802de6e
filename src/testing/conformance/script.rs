//! Scripts: schedules of some transactions' steps, as text.
//!
//! ```text
//! # A comment.
//! title: write skew (G2-item)
//! canary: unvalidated
//! table: ordered indexed
//! start: insert x 50, insert y 50
//! T1 get x
//! T2 get y => 50
//! T1 commit
//! ```
//!
//! The header comes first. `canary` names a broken protocol under which the schedule shows the anomaly; `table` is
//! the kind of the primary index (`hash`, `ordered` or `both`), and whether `tag` and `code` have indexes. Then each
//! line is a transaction and its next step, in the order in which they are to happen; `=>` says what a step answers,
//! and an end how the transaction ends. Every transaction ends with `commit`, `fail` or `panic`. The steps are
//! described in `step.rs`.

use heddledb::PrimaryIndex;

use super::model::Model;
use super::step::Step;

/// A schedule of several transactions.
#[derive(Clone, Debug)]
pub struct Script {
    /// The title, which names what it shows.
    pub title: String,
    /// The broken protocol that it catches.
    pub canary: Option<String>,
    /// The table's primary index.
    pub index: PrimaryIndex,
    /// The table before it.
    pub start: Model,
    /// The steps of all transactions, in order.
    pub schedule: Vec<Move>,
    /// The number of transactions.
    pub transactions: usize,
}

/// A transaction's next step.
#[derive(Clone, Debug)]
pub struct Move {
    /// The transaction, from 0.
    pub transaction: usize,
    pub step: Step,
    /// The expected answer, if the script has one.
    pub expected: Option<String>,
}

impl Script {
    /// A transaction's steps, its end included.
    pub fn steps_of(&self, transaction: usize) -> Vec<Step> {
        let own = self.schedule.iter().filter(|one| one.transaction == transaction);
        own.map(|one| one.step.clone()).collect()
    }

    /// Reads a script.
    ///
    /// # Errors
    /// The line that is wrong, and why.
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut script = Script {
            title: String::new(),
            canary: None,
            index: PrimaryIndex::Ordered,
            start: Model::default(),
            schedule: Vec::new(),
            transactions: 0,
        };
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                script.read_line(line).map_err(|what| format!("line {}: {what}", number + 1))?;
            }
        }
        script.check()?;
        Ok(script)
    }

    fn read_line(&mut self, line: &str) -> Result<(), String> {
        if let Some((name, value)) = line.split_once(": ") {
            return self.read_header(name, value.trim());
        }
        let (who, rest) = line.split_once(' ').ok_or("a transaction without a step")?;
        let number: usize =
            who.strip_prefix('T').and_then(|number| number.parse().ok()).ok_or("no transaction")?;
        let (step, expected) = match rest.split_once("=>") {
            Some((step, expected)) => (step, Some(expected.trim().to_string())),
            None => (rest, None),
        };
        let transaction = number.checked_sub(1).ok_or("transactions count from 1")?;
        self.transactions = self.transactions.max(number);
        self.schedule.push(Move { transaction, step: Step::parse(step)?, expected });
        Ok(())
    }

    fn read_header(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "title" => self.title = value.to_string(),
            "canary" => self.canary = Some(value.to_string()),
            "table" => {
                for word in value.split_whitespace() {
                    match word {
                        "hash" => self.index = PrimaryIndex::Hash,
                        "ordered" => self.index = PrimaryIndex::Ordered,
                        "both" => self.index = PrimaryIndex::Both,
                        "indexed" => self.start.indexed = true,
                        other => return Err(format!("{other:?} is no kind of table")),
                    }
                }
            }
            "start" => {
                let steps = value.split(',').map(Step::parse).collect::<Result<Vec<_>, _>>()?;
                let outcome = self.start.run(&steps);
                if outcome.outcome != "ok" || outcome.answers.iter().any(|answer| answer != "ok") {
                    return Err(format!("the start comes to {outcome:?}"));
                }
            }
            other => return Err(format!("{other:?} is no header")),
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        if self.title.is_empty() {
            return Err("it has no title".to_string());
        }
        for transaction in 0..self.transactions {
            let steps = self.steps_of(transaction);
            let ends = steps.iter().filter(|step| step.is_end()).count();
            if ends != 1 || !steps.last().is_some_and(Step::is_end) {
                return Err(format!("T{} must have one end, as its last step", transaction + 1));
            }
        }
        Ok(())
    }
}

/// Reads every script of a folder in `tests/scripts`, with its file's name.
pub fn read_folder(folder: &str) -> Vec<(String, Script)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("a folder of scripts")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    let scripts = files.into_iter().map(|file| {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).expect("a script");
        let script = Script::parse(&text).unwrap_or_else(|what| panic!("{name}: {what}"));
        (name, script)
    });
    scripts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_read() {
        let text = "# c\ntitle: a b\ncanary: bird\ntable: hash indexed\nstart: insert x 5, set x tag 2\n\n\
                    T2 get x => 5\nT1 fail\nT2 commit => ok\n";
        let script = Script::parse(text).expect("a script");
        assert_eq!((script.title.as_str(), script.canary.as_deref()), ("a b", Some("bird")));
        assert_eq!((script.index, script.start.indexed, script.transactions), (PrimaryIndex::Hash, true, 2));
        assert_eq!(script.start.rows[&24].tag, Some(2));
        assert_eq!(script.steps_of(1), [Step::Get(24, super::super::step::Column::N), Step::Commit]);
        assert_eq!(script.schedule[0].expected.as_deref(), Some("5"));
        assert_eq!(script.schedule[1].expected, None);
    }

    #[test]
    fn what_is_wrong_is_reported_with_its_line() {
        for (text, what) in [
            ("T1 commit", "no title"),
            ("title: a\nT1 get x", "one end"),
            ("title: a\nT1 commit\nT1 commit", "one end"),
            ("title: a\nT1 commit\nT1 get x", "one end"),
            ("title: a\nT0 commit", "line 2: transactions count from 1"),
            ("title: a\nT1 jump", "line 2"),
            ("title: a\nx get y", "no transaction"),
            ("table: heap", "no kind of table"),
            ("colour: red", "no header"),
            ("start: add x 1", "the start comes to"),
        ] {
            let wrong = Script::parse(text).expect_err(text);
            assert!(wrong.contains(what), "{text:?}: {wrong}");
        }
    }
}
