//! Random histories of sessions that read and write columns of shared rows: some order of the committed transactions explains every
//! value that was read, and the final rows.

use heddledb::{ProtocolKind, Result, Session, Value, key, row};

use super::columns::Sheet;

const COLUMNS: [&str; 3] = ["a", "b", "c"];
const ROWS: i64 = 2;
const HISTORIES: u64 = 300;

/// The numbers of the rows' columns, by row and column.
type State = [[i64; 3]; ROWS as usize];

/// An access, with the row and what it has read or written.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// Columns, by their places, and their values.
    Read(usize, Vec<(usize, i64)>),
    Set(usize, usize, i64),
    Add(usize, usize, i64),
    /// The row is deleted and inserted.
    Replace(usize, [i64; 3]),
}

/// Returns true if a transaction that begins in this state reads what it has read; the state becomes the one that it leaves.
fn explains(steps: &[Step], state: &mut State) -> bool {
    steps.iter().all(|step| {
        match step {
            Step::Read(row, values) => {
                return values.iter().all(|&(column, value)| state[*row][column] == value);
            }
            Step::Set(row, column, value) => state[*row][*column] = *value,
            Step::Add(row, column, value) => state[*row][*column] += value,
            Step::Replace(row, values) => state[*row] = *values,
        }
        true
    })
}

/// Returns true if some order of these transactions leads from the first state to the last one.
fn has_order(transactions: &[Vec<Step>], used: &mut Vec<usize>, state: State, last: &State) -> bool {
    if used.len() == transactions.len() {
        return state == *last;
    }
    (0..transactions.len()).any(|next| {
        let mut after = state;
        if used.contains(&next) || !explains(&transactions[next], &mut after) {
            return false;
        }
        used.push(next);
        let found = has_order(transactions, used, after, last);
        used.pop();
        found
    })
}

/// A generator of random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound) as usize
    }
}

fn id(row: usize) -> i64 {
    row as i64 + 1
}

/// A random access of a session.
fn access(sheet: &Sheet, session: &mut Session, random: &mut Random, unique: i64) -> Result<Step> {
    let (row, column) = (random.below(ROWS as u64), random.below(3));
    match random.below(8) {
        0..=2 => {
            let used: Vec<usize> = (0..3).filter(|_| random.below(2) == 0).collect();
            let names: Vec<&str> = used.iter().map(|&column| COLUMNS[column]).collect();
            let values = sheet.read(session, id(row), &names)?.expect("every row is there");
            Ok(Step::Read(row, used.into_iter().zip(values.iter().map(int)).collect()))
        }
        3 => {
            let whole = session.run(|tx| {
                Ok(tx.get(&sheet.table, key![id(row)])?.map(|row| row.to_values()[1..4].to_vec()))
            })?;
            let values = whole.expect("every row is there");
            Ok(Step::Read(row, values.iter().map(int).enumerate().collect()))
        }
        4 | 5 => {
            sheet.set(session, id(row), COLUMNS[column], unique)?;
            Ok(Step::Set(row, column, unique))
        }
        _ => {
            session.run(|tx| tx.add(&sheet.table, key![id(row)], COLUMNS[column], unique))?;
            Ok(Step::Add(row, column, unique))
        }
    }
}

fn int(value: &Value) -> i64 {
    match value {
        Value::Int(value) => *value,
        other => panic!("{other:?} is no number"),
    }
}

/// A transaction of a closure beside the sessions.
fn closure(sheet: &Sheet, random: &mut Random, unique: i64) -> Step {
    let (row, column) = (random.below(ROWS as u64), random.below(3));
    let is_replaced = random.below(4) == 0;
    let done = sheet.db.run(|tx| {
        if !is_replaced {
            return tx.add(&sheet.table, key![id(row)], COLUMNS[column], unique);
        }
        tx.delete(&sheet.table, key![id(row)])?;
        tx.insert(&sheet.table, row![id(row), 0, 0, unique, "sheet", 0.0])
    });
    done.expect("it is retried until it commits");
    if is_replaced { Step::Replace(row, [0, 0, unique]) } else { Step::Add(row, column, unique) }
}

fn state(sheet: &Sheet) -> State {
    let mut state = State::default();
    for (row, columns) in state.iter_mut().enumerate() {
        let values = sheet.row(id(row)).expect("every row is there");
        columns.iter_mut().zip(&values[1..4]).for_each(|(column, value)| *column = int(value));
    }
    state
}

/// Runs one history of three sessions and two closures. Returns the committed transactions, and the number of sessions that failed.
fn history(sheet: &Sheet, random: &mut Random, unique: &mut i64) -> (Vec<Vec<Step>>, usize) {
    let (mut committed, mut failed) = (Vec::new(), 0);
    let mut open: Vec<(Session, Vec<Step>)> = (0..3).map(|_| (sheet.begin(), Vec::new())).collect();
    for (session, _) in &mut open {
        session.set_wait_timeout(Some(std::time::Duration::from_millis(1))).expect("a timer");
    }
    let mut closures = 2;
    while !open.is_empty() {
        *unique += 1;
        let at = random.below(open.len() as u64 + 1);
        if at == open.len() {
            if closures > 0 {
                closures -= 1;
                committed.push(vec![closure(sheet, random, *unique)]);
            }
            continue;
        }
        let (session, steps) = &mut open[at];
        if steps.len() < 4 && random.below(5) > 0 {
            match access(sheet, session, random, *unique) {
                Ok(step) => steps.push(step),
                Err(error) => {
                    assert!(
                        error.is_retryable() || matches!(error, heddledb::Error::TimedOut { .. }),
                        "{error}"
                    );
                    open.swap_remove(at);
                    failed += 1;
                }
            }
            continue;
        }
        let (mut session, steps) = open.swap_remove(at);
        match session.commit() {
            Ok(()) => committed.push(steps),
            Err(_) => failed += 1,
        }
    }
    (committed, failed)
}

#[test]
fn some_order_explains_what_sessions_have_read_of_columns() {
    let seed = std::env::var("HEDDLE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x05EE_DC01);
    for &protocol in ProtocolKind::ALL {
        let sheet = Sheet::new(protocol);
        let (mut random, mut unique) = (Random(seed), 0);
        let (mut commits, mut failures) = (0, 0);
        for number in 0..HISTORIES {
            let first = state(&sheet);
            let (committed, failed) = history(&sheet, &mut random, &mut unique);
            let last = state(&sheet);
            assert!(
                has_order(&committed, &mut Vec::new(), first, &last),
                "{protocol}, seed {seed}, history {number}: no order explains {committed:?} from {first:?} to {last:?}"
            );
            (commits, failures) = (commits + committed.len(), failures + failed);
        }
        // Both happen, or the histories say nothing.
        assert!(commits > 300 && failures > 30, "{protocol}: {commits} committed, {failures} failed");
    }
}

#[test]
fn the_search_for_an_order_can_fail() {
    let skew = [
        vec![Step::Read(0, vec![(0, 0)]), Step::Set(0, 1, 1)],
        vec![Step::Read(0, vec![(1, 0)]), Step::Set(0, 0, 1)],
    ];
    let last = [[1, 1, 0], [0; 3]];
    assert!(!has_order(&skew, &mut Vec::new(), State::default(), &last), "each has read before the other");
    assert!(!has_order(&skew[..1], &mut Vec::new(), State::default(), &State::default()), "a write is lost");
    let lost = [vec![Step::Read(0, vec![(0, 0)]), Step::Set(0, 0, 1)], vec![Step::Add(0, 0, 5)]];
    let last = [[1, 0, 0], [0; 3]];
    assert!(!has_order(&lost, &mut Vec::new(), State::default(), &last), "an addition is lost");
    let fine = [vec![Step::Add(0, 0, 5)], vec![Step::Read(0, vec![(0, 0)]), Step::Set(0, 1, 1)]];
    let last = [[5, 1, 0], [0; 3]];
    assert!(has_order(&fine, &mut Vec::new(), State::default(), &last));
}
