//! Decides whether a history of list-append transactions is strictly serializable (Kingsbury and Alvaro: "Elle", 2020).
//!
//! Every appended value is unique, and the final lists say in which order the appends took effect. So every read shows
//! which transactions came before it, and which after: of these edges, and those of real time, there must be no cycle.

use std::collections::{BTreeMap, BTreeSet};

/// A transaction's access to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Appended this value.
    Append(u32, u64),
    /// Read this list.
    Read(u32, Vec<u64>),
}

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Acknowledged, as of this moment.
    Committed(u64),
    /// Certainly without effect.
    Aborted,
    /// Its outcome is not known: the connection was lost.
    Unknown,
}

/// A transaction, as its client saw it.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The moment at which it began.
    pub began: u64,
    pub steps: Vec<Step>,
    pub fate: Fate,
}

type Lists = BTreeMap<u32, Vec<u64>>;

/// # Errors
/// What is impossible.
pub fn check(history: &[Transaction], lists: &Lists) -> Result<(), String> {
    let writers = writers(history);
    let mut seen = BTreeSet::new();
    for value in lists.values().flatten() {
        if !seen.insert(*value) {
            return Err(format!("value {value} is there twice"));
        }
        if !writers.contains_key(value) {
            return Err(format!("no transaction has appended {value}"));
        }
    }
    let mut took_effect = Vec::new();
    for (number, transaction) in history.iter().enumerate() {
        if has_effect(number, transaction, &seen)? {
            took_effect.push(number);
        }
    }
    let mut edges = vec![BTreeSet::new(); history.len()];
    for &number in &took_effect {
        add_edges(number, &history[number], lists, &writers, &mut edges)?;
    }
    for list in lists.values() {
        for pair in list.windows(2) {
            edges[writers[&pair[0]]].insert(writers[&pair[1]]);
        }
    }
    add_real_time(history, &took_effect, &mut edges);
    find_cycle(&mut edges).map_or(Ok(()), |cycle| {
        let cycle: Vec<_> = cycle.iter().map(|&number| (number, &history[number])).collect();
        Err(format!("no serial order is possible: {cycle:#?}"))
    })
}

fn writers(history: &[Transaction]) -> BTreeMap<u64, usize> {
    let mut writers = BTreeMap::new();
    for (number, transaction) in history.iter().enumerate() {
        for step in &transaction.steps {
            if let Step::Append(_, value) = step {
                writers.insert(*value, number);
            }
        }
    }
    writers
}

/// Returns true if a transaction has taken effect: all of it or nothing.
fn has_effect(number: usize, transaction: &Transaction, seen: &BTreeSet<u64>) -> Result<bool, String> {
    let appended = transaction.steps.iter().filter_map(|step| match step {
        Step::Append(_, value) => Some(seen.contains(value)),
        Step::Read(..) => None,
    });
    let appended: Vec<bool> = appended.collect();
    let (all, any) = (appended.iter().all(|there| *there), appended.iter().any(|there| *there));
    match transaction.fate {
        _ if any && !all => Err(format!("half of transaction {number} is there: {transaction:?}")),
        Fate::Committed(_) if !all => {
            Err(format!("acknowledged transaction {number} is lost: {transaction:?}"))
        }
        Fate::Aborted if any => Err(format!("aborted transaction {number} is there: {transaction:?}")),
        Fate::Committed(_) => Ok(true),
        Fate::Aborted => Ok(false),
        Fate::Unknown => Ok(any),
    }
}

/// The edges of a transaction's reads: from the writer of the last value that it saw, to that of the next one.
fn add_edges(
    number: usize,
    transaction: &Transaction,
    lists: &Lists,
    writers: &BTreeMap<u64, usize>,
    edges: &mut [BTreeSet<usize>],
) -> Result<(), String> {
    let empty = Vec::new();
    for step in &transaction.steps {
        let Step::Read(key, read) = step else { continue };
        let list = lists.get(key).unwrap_or(&empty);
        if !list.starts_with(read) {
            return Err(format!("transaction {number} read {read:?} of key {key}, which became {list:?}"));
        }
        let last = read.last().map(|value| writers[value]).filter(|writer| *writer != number);
        if let Some(writer) = last {
            edges[writer].insert(number);
        }
        let next = list.get(read.len()).map(|value| writers[value]).filter(|writer| *writer != number);
        edges[number].extend(next);
    }
    Ok(())
}

/// A transaction that was acknowledged before another began comes before it.
fn add_real_time(history: &[Transaction], took_effect: &[usize], edges: &mut [BTreeSet<usize>]) {
    for &before in took_effect {
        let Fate::Committed(ended) = history[before].fate else { continue };
        let later = took_effect.iter().filter(|&&after| history[after].began > ended);
        edges[before].extend(later);
    }
}

/// The transactions on a cycle, or around one: what is left when all that nothing precedes is removed, and all that
/// precedes nothing.
fn find_cycle(edges: &mut [BTreeSet<usize>]) -> Option<Vec<usize>> {
    for (number, targets) in edges.iter_mut().enumerate() {
        targets.remove(&number);
    }
    let mut left: BTreeSet<usize> = (0..edges.len()).collect();
    loop {
        let reached: BTreeSet<usize> = left.iter().flat_map(|number| &edges[*number]).copied().collect();
        let inside =
            |number: &usize| reached.contains(number) && edges[*number].iter().any(|it| left.contains(it));
        let kept: BTreeSet<usize> = left.iter().copied().filter(inside).collect();
        if kept.len() == left.len() {
            return (!left.is_empty()).then(|| left.into_iter().collect());
        }
        left = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::Step::{Append, Read};
    use super::*;

    fn transaction(began: u64, fate: Fate, steps: &[Step]) -> Transaction {
        Transaction { began, steps: steps.to_vec(), fate }
    }

    fn lists(all: &[(u32, &[u64])]) -> Lists {
        all.iter().map(|(key, list)| (*key, list.to_vec())).collect()
    }

    #[test]
    fn a_serial_history_is_possible() {
        let history = [
            transaction(1, Fate::Committed(2), &[Append(1, 10), Read(1, vec![10])]),
            transaction(3, Fate::Aborted, &[Append(1, 11)]),
            transaction(4, Fate::Unknown, &[Append(1, 12), Append(2, 13)]),
            transaction(5, Fate::Committed(6), &[Read(1, vec![10, 12]), Read(2, vec![13])]),
        ];
        assert_eq!(check(&history, &lists(&[(1, &[10, 12]), (2, &[13])])), Ok(()));
    }

    #[test]
    fn impossible_histories_are_found() {
        let acknowledged = transaction(1, Fate::Committed(2), &[Append(1, 10), Append(2, 11)]);
        let found = |history: &[Transaction], all: &[(u32, &[u64])], what: &str| {
            let error = check(history, &lists(all)).expect_err(what);
            assert!(error.contains(what), "{what}: {error}");
        };
        found(std::slice::from_ref(&acknowledged), &[], "is lost");
        found(std::slice::from_ref(&acknowledged), &[(1, &[10])], "half of");
        found(std::slice::from_ref(&acknowledged), &[(1, &[10, 10]), (2, &[11])], "twice");
        found(&[acknowledged], &[(1, &[10]), (2, &[11, 12])], "no transaction has appended");
        found(&[transaction(1, Fate::Aborted, &[Append(1, 10)])], &[(1, &[10])], "aborted transaction");
        let dirty = transaction(1, Fate::Committed(2), &[Read(1, vec![9])]);
        found(&[dirty], &[(1, &[])], "read [9]");
    }

    #[test]
    fn write_skew_lost_updates_and_stale_reads_are_cycles() {
        let skew = [
            transaction(1, Fate::Committed(9), &[Read(2, vec![]), Append(1, 10)]),
            transaction(2, Fate::Committed(8), &[Read(1, vec![]), Append(2, 20)]),
        ];
        assert!(check(&skew, &lists(&[(1, &[10]), (2, &[20])])).is_err());
        let lost = [
            transaction(1, Fate::Committed(9), &[Read(1, vec![]), Append(1, 10)]),
            transaction(2, Fate::Committed(8), &[Read(1, vec![]), Append(1, 20)]),
        ];
        assert!(check(&lost, &lists(&[(1, &[10, 20])])).is_err());
        let stale = [
            transaction(1, Fate::Committed(2), &[Append(1, 10)]),
            transaction(3, Fate::Committed(4), &[Read(1, vec![])]),
        ];
        assert!(check(&stale, &lists(&[(1, &[10])])).is_err());
    }
}
