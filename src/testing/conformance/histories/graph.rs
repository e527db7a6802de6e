//! A checker of histories: whether what some concurrent transactions have seen can be seen one after another, in an
//! order that keeps real time.
//!
//! Every value that is written is unique, and a transaction that writes a row has read it before, so versions of a key
//! follow each other in chains: an insert, updates, a delete. Counters are only added to, each time another power of
//! two, so a counter's value tells exactly which adds came before. The precedence graph (which transaction wrote what was
//! read, who overwrote it, who ended before another began) must have no circle.

use std::collections::HashMap;

/// The course of one transaction, as its last attempt saw it.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// The ticks of one clock at which it was called and its result was returned.
    pub begin: u64,
    pub end: u64,
    /// True if it committed; if not, it failed with an error of its own, and only its reads count.
    pub committed: bool,
    /// True if what it saw cannot be of one moment: two reads of one thing differ, or its own write was not there.
    pub torn: bool,
    /// Rows as they were before the transaction's own writes: key, and value if there was a row.
    pub reads: HashMap<i64, Option<i64>>,
    /// Rows as the transaction left them.
    pub writes: HashMap<i64, Option<i64>>,
    /// Counters as they were before its own adds.
    pub counted: HashMap<i64, i64>,
    /// Its additions, by counter.
    pub added: HashMap<i64, i64>,
}

impl Event {
    /// The rows that it changed.
    fn changes(&self) -> impl Iterator<Item = (i64, Option<i64>, Option<i64>)> + '_ {
        let committed = self.committed;
        self.writes
            .iter()
            .map(|(&key, &after)| (key, self.reads.get(&key).copied().flatten(), after))
            .filter(move |&(_, before, after)| committed && before != after)
    }
}

/// A row's life: who inserted it and who deleted it.
struct Life {
    inserted: usize,
    deleted: Option<usize>,
}

/// Says what is impossible in a history, if anything is. The first event sets everything up.
pub fn check(events: &[Event]) -> Result<(), String> {
    if let Some(number) = events.iter().position(|event| event.torn) {
        return Err(format!("torn read: {number} saw two states: {:?}", events[number]));
    }
    let mut graph = Graph { after: vec![Vec::new(); events.len()] };
    let mut writer = HashMap::new();
    let mut overwriter = HashMap::new();
    for (number, event) in events.iter().enumerate() {
        for (key, before, after) in event.changes() {
            if let Some(after) = after {
                writer.insert((key, after), number);
            }
            if let Some(before) = before
                && let Some(other) = overwriter.insert((key, before), number)
            {
                return Err(format!(
                    "lost update: {other} and {number} overwrote value {before} of key {key}"
                ));
            }
        }
    }
    let lives = lives(events, &writer, &overwriter);
    for (number, event) in events.iter().enumerate() {
        for (&key, &seen) in &event.reads {
            match seen {
                Some(value) => {
                    let Some(&wrote) = writer.get(&(key, value)) else {
                        return Err(format!(
                            "dirty read: {number} saw {value} of key {key}, which was never committed"
                        ));
                    };
                    graph.edge(wrote, number);
                    if let Some(&next) = overwriter.get(&(key, value)) {
                        graph.edge(number, next);
                    }
                }
                None => absence(events, &mut graph, number, lives.get(&key).map_or(&[][..], Vec::as_slice))
                    .map_err(|what| format!("{what} of key {key}"))?,
            }
        }
        for (&key, &seen) in &event.counted {
            for (other, adder) in events.iter().enumerate().filter(|(_, adder)| adder.committed) {
                match adder.added.get(&key) {
                    Some(&bit) if other != number && seen & bit != 0 => graph.edge(other, number),
                    Some(_) if other != number => graph.edge(number, other),
                    _ => {}
                }
            }
        }
    }
    for (first, earlier) in events.iter().enumerate() {
        for (second, later) in events.iter().enumerate() {
            if earlier.end < later.begin {
                graph.edge(first, second);
            }
        }
    }
    graph.circle().map_or(Ok(()), |circle| {
        let shown: Vec<_> = circle.iter().map(|&number| format!("{number}: {:?}", events[number])).collect();
        Err(format!("not serializable:\n{}", shown.join("\n")))
    })
}

fn lives(
    events: &[Event],
    writer: &HashMap<(i64, i64), usize>,
    overwriter: &HashMap<(i64, i64), usize>,
) -> HashMap<i64, Vec<Life>> {
    let mut lives: HashMap<i64, Vec<Life>> = HashMap::new();
    for (&(key, value), &inserted) in writer {
        if events[inserted].reads.get(&key).copied().flatten().is_some() {
            continue;
        }
        let (mut value, mut deleted) = (value, None);
        while let Some(&next) = overwriter.get(&(key, value)) {
            match events[next].writes.get(&key).copied().flatten() {
                Some(after) => value = after,
                None => {
                    deleted = Some(next);
                    break;
                }
            }
        }
        lives.entry(key).or_default().push(Life { inserted, deleted });
    }
    lives
}

/// A transaction that saw no row came before each life of the row or after it; which of the two, time tells, if it does.
fn absence(events: &[Event], graph: &mut Graph, reader: usize, lives: &[Life]) -> Result<(), String> {
    for life in lives.iter().filter(|life| life.inserted != reader && life.deleted != Some(reader)) {
        let Life { inserted, deleted } = *life;
        match deleted {
            None if events[inserted].end < events[reader].begin => {
                return Err(format!("missed row: {reader} did not see what {inserted} had inserted"));
            }
            None => graph.edge(reader, inserted),
            Some(deleted) if events[reader].end < events[deleted].begin => graph.edge(reader, inserted),
            Some(deleted) if events[inserted].end < events[reader].begin => graph.edge(deleted, reader),
            Some(_) => {}
        }
    }
    Ok(())
}

/// The precedence graph.
struct Graph {
    after: Vec<Vec<usize>>,
}

impl Graph {
    fn edge(&mut self, before: usize, after: usize) {
        if before != after {
            self.after[before].push(after);
        }
    }

    /// A circle, if there is one.
    fn circle(&self) -> Option<Vec<usize>> {
        let mut done = vec![false; self.after.len()];
        for start in 0..self.after.len() {
            let (mut path, mut next) = (vec![start], vec![0]);
            while let (Some(&at), Some(edge)) = (path.last(), next.last_mut()) {
                if done[at] || *edge == self.after[at].len() {
                    done[at] = true;
                    path.pop();
                    next.pop();
                    continue;
                }
                let to = self.after[at][*edge];
                *edge += 1;
                if let Some(position) = path.iter().position(|&earlier| earlier == to) {
                    return Some(path.split_off(position));
                }
                if !done[to] {
                    path.push(to);
                    next.push(0);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(begin: u64, end: u64, reads: &[(i64, Option<i64>)], writes: &[(i64, Option<i64>)]) -> Event {
        let (reads, writes) = (reads.iter().copied().collect(), writes.iter().copied().collect());
        Event { begin, end, committed: true, reads, writes, ..Event::default() }
    }

    fn start() -> Event {
        event(0, 1, &[], &[(1, Some(10)), (2, Some(20))])
    }

    #[test]
    fn a_serial_history_passes() {
        let events = [
            start(),
            event(2, 3, &[(1, Some(10))], &[(1, Some(11))]),
            event(4, 5, &[(1, Some(11)), (3, None)], &[(1, None), (3, Some(30))]),
            event(6, 7, &[(1, None), (3, Some(30))], &[]),
        ];
        assert_eq!(check(&events), Ok(()));
    }

    #[test]
    fn every_anomaly_is_caught() {
        let anomalies = [
            (
                "lost update",
                vec![
                    event(2, 9, &[(1, Some(10))], &[(1, Some(11))]),
                    event(2, 9, &[(1, Some(10))], &[(1, Some(12))]),
                ],
            ),
            ("torn read", vec![Event { torn: true, ..event(2, 9, &[(1, Some(10))], &[]) }]),
            ("dirty read", vec![event(2, 9, &[(1, Some(77))], &[])]),
            (
                "not serializable",
                vec![
                    // Write skew.
                    event(2, 9, &[(1, Some(10)), (2, Some(20))], &[(1, Some(11))]),
                    event(2, 9, &[(1, Some(10)), (2, Some(20))], &[(2, Some(21))]),
                ],
            ),
            (
                "not serializable",
                vec![
                    // Read skew.
                    event(2, 9, &[(1, Some(10)), (2, Some(20))], &[(1, Some(11)), (2, Some(21))]),
                    event(2, 9, &[(1, Some(10)), (2, Some(21))], &[]),
                ],
            ),
            (
                "not serializable",
                vec![
                    // Phantoms: each inserts what the other has not seen.
                    event(2, 9, &[(3, None), (4, None)], &[(3, Some(30))]),
                    event(2, 9, &[(3, None), (4, None)], &[(4, Some(40))]),
                ],
            ),
            (
                "not serializable",
                vec![
                    // A stale read.
                    event(2, 3, &[(1, Some(10))], &[(1, Some(11))]),
                    event(4, 5, &[(1, Some(10))], &[]),
                ],
            ),
            ("missed row", vec![event(2, 3, &[(3, None)], &[(3, Some(30))]), event(4, 5, &[(3, None)], &[])]),
            (
                "not serializable",
                vec![
                    // A row that is seen after it was deleted.
                    event(2, 3, &[(1, Some(10))], &[(1, None)]),
                    event(4, 5, &[(1, Some(10))], &[]),
                ],
            ),
            (
                "not serializable",
                vec![
                    // An add that was acknowledged, and that a later reader does not see.
                    Event { added: [(0, 4)].into(), ..event(2, 3, &[], &[]) },
                    Event { counted: [(0, 0)].into(), ..event(4, 5, &[], &[]) },
                ],
            ),
        ];
        for (number, (what, after)) in anomalies.into_iter().enumerate() {
            let events: Vec<_> = [start()].into_iter().chain(after).collect();
            let found = check(&events).expect_err("an anomaly");
            assert!(found.starts_with(what), "anomaly {number}: {found}");
        }
    }
}
