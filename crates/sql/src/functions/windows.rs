//! Window functions: the value of each row of a partition from its place, its peers and its frame.

use std::ops::Range;

use super::definition::{Definition, WindowPartition, window};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;

/// The table.
pub(super) const WINDOWS: &[Definition] = &[
    window("row_number() int8", |_, row| Ok(Value::Int8(row as i64 + 1))),
    window("rank() int8", |partition, row| Ok(Value::Int8(partition.peers(row).start as i64 + 1))),
    window("dense_rank() int8", |partition, row| Ok(Value::Int8(partition.peer_group(row) as i64 + 1))),
    window("percent_rank() float8", percent_rank),
    window("cume_dist() float8", |partition, row| {
        Ok(Value::Float8(partition.peers(row).end as f64 / partition.rows() as f64))
    }),
    window("ntile(int4) int4", ntile),
    window("lag(anyelement) anyelement", |partition, row| neighbor(partition, row, -1)),
    window("lag(anyelement, int4) anyelement", |partition, row| neighbor(partition, row, -1)),
    window("lag(anycompatible, int4, anycompatible) anycompatible", |partition, row| {
        neighbor(partition, row, -1)
    }),
    window("lead(anyelement) anyelement", |partition, row| neighbor(partition, row, 1)),
    window("lead(anyelement, int4) anyelement", |partition, row| neighbor(partition, row, 1)),
    window("lead(anycompatible, int4, anycompatible) anycompatible", |partition, row| {
        neighbor(partition, row, 1)
    }),
    window("first_value(anyelement) anyelement", |partition, row| {
        let first = partition.frame(row).iter().find_map(|range| range.clone().next());
        first.map_or(Ok(Value::Null), |row| partition.argument(row, 0))
    }),
    window("last_value(anyelement) anyelement", |partition, row| {
        let last = partition.frame(row).iter().rev().find_map(|range| range.clone().next_back());
        last.map_or(Ok(Value::Null), |row| partition.argument(row, 0))
    }),
    window("nth_value(anyelement, int4) anyelement", nth_value),
];

fn percent_rank(partition: &mut dyn WindowPartition, row: usize) -> Result<Value> {
    let others = partition.rows().saturating_sub(1);
    let rank = partition.peers(row).start;
    Ok(Value::Float8(if others == 0 { 0.0 } else { rank as f64 / others as f64 }))
}

/// The number of the row's bucket; the argument is that of the partition's first row.
fn ntile(partition: &mut dyn WindowPartition, row: usize) -> Result<Value> {
    let buckets = partition.argument(0, 0)?;
    if buckets.is_null() {
        return Ok(Value::Null);
    }
    let buckets = i64::from(buckets.int4());
    if buckets <= 0 {
        let message = "argument of ntile must be greater than zero";
        return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTILE, message));
    }
    let (rows, row) = (partition.rows() as i64, row as i64);
    // The first `larger` buckets have one row more than the others.
    let (size, larger) = (rows / buckets, rows % buckets);
    let boundary = larger * (size + 1);
    let bucket = if row < boundary { row / (size + 1) } else { larger + (row - boundary) / size };
    Ok(Value::Int4(bucket as i32 + 1))
}

fn neighbor(partition: &mut dyn WindowPartition, row: usize, direction: i64) -> Result<Value> {
    let distance = match partition.arguments() {
        1 => 1,
        _ => match partition.argument(row, 1)? {
            Value::Null => return Ok(Value::Null),
            distance => i64::from(distance.int4()),
        },
    };
    let target = row as i64 + direction * distance;
    if (0..partition.rows() as i64).contains(&target) {
        return partition.argument(target as usize, 0);
    }
    if partition.arguments() > 2 { partition.argument(row, 2) } else { Ok(Value::Null) }
}

fn nth_value(partition: &mut dyn WindowPartition, row: usize) -> Result<Value> {
    let nth = partition.argument(row, 1)?;
    if nth.is_null() {
        return Ok(Value::Null);
    }
    if nth.int4() <= 0 {
        let message = "argument of nth_value must be greater than zero";
        return Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE, message));
    }
    let mut left = nth.int4() as usize - 1;
    for range in partition.frame(row) {
        let Range { start, end } = range;
        if left < end - start {
            return partition.argument(start + left, 0);
        }
        left -= end - start;
    }
    Ok(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::definition::{Frame, FunctionKind};
    use crate::functions::registry::functions_named;

    /// A partition of one column that is ordered by it; the frame ends with the row's peers.
    struct Sorted {
        values: Vec<i32>,
        others: Vec<Value>,
    }

    impl WindowPartition for Sorted {
        fn rows(&self) -> usize {
            self.values.len()
        }
        fn argument(&mut self, row: usize, argument: usize) -> Result<Value> {
            Ok(if argument == 0 { Value::Int4(self.values[row]) } else { self.others[argument - 1].clone() })
        }
        fn peers(&self, row: usize) -> Range<usize> {
            let start = self.values.iter().position(|it| *it == self.values[row]).unwrap();
            let end = self.values.iter().rposition(|it| *it == self.values[row]).unwrap() + 1;
            start..end
        }
        fn peer_group(&self, row: usize) -> usize {
            let mut before: Vec<i32> = self.values[..self.peers(row).start].to_vec();
            before.dedup();
            before.len()
        }
        fn frame(&self, row: usize) -> Frame {
            let end = self.peers(row).end;
            Frame::from_buf([Range { start: 0, end }])
        }
        fn arguments(&self) -> usize {
            1 + self.others.len()
        }
    }

    fn run(name: &str, values: &[i32], others: &[Value]) -> Vec<Value> {
        let function = functions_named(name).next().unwrap();
        let FunctionKind::Window(run) = function.kind else { panic!("not a window function") };
        let mut partition = Sorted { values: values.to_vec(), others: others.to_vec() };
        (0..values.len()).map(|row| run(&mut partition, row).unwrap()).collect()
    }

    fn int4s(values: &[i32]) -> Vec<Value> {
        values.iter().map(|it| Value::Int4(*it)).collect()
    }

    fn int8s(values: &[i64]) -> Vec<Value> {
        values.iter().map(|it| Value::Int8(*it)).collect()
    }

    #[test]
    fn ranks_follow_peers() {
        let values = [10, 10, 20, 30, 30];
        assert_eq!(run("row_number", &values, &[]), int8s(&[1, 2, 3, 4, 5]));
        assert_eq!(run("rank", &values, &[]), int8s(&[1, 1, 3, 4, 4]));
        assert_eq!(run("dense_rank", &values, &[]), int8s(&[1, 1, 2, 3, 3]));
        assert_eq!(run("cume_dist", &values, &[])[2], Value::Float8(0.6));
        assert_eq!(run("percent_rank", &values, &[])[2], Value::Float8(0.5));
        assert_eq!(run("percent_rank", &[1], &[]), [Value::Float8(0.0)]);
    }

    #[test]
    fn values_come_from_neighbors_and_frames() {
        let values = [1, 2, 3];
        assert_eq!(run("lag", &values, &[]), [Value::Null, Value::Int4(1), Value::Int4(2)]);
        assert_eq!(run("lead", &values, &[Value::Int4(2), Value::Int4(9)]), int4s(&[3, 9, 9]));
        assert_eq!(run("first_value", &values, &[]), int4s(&[1, 1, 1]));
        assert_eq!(run("last_value", &values, &[]), int4s(&[1, 2, 3]));
        assert_eq!(
            run("nth_value", &values, &[Value::Int4(2)]),
            [Value::Null, Value::Int4(2), Value::Int4(2)]
        );
    }

    #[test]
    fn ntile_distributes_the_rest_over_the_first_buckets() {
        let buckets = |values: &[i32]| {
            let FunctionKind::Window(run) = functions_named("ntile").next().unwrap().kind else { panic!() };
            let mut partition = Sorted { values: values.to_vec(), others: Vec::new() };
            (0..values.len())
                .map(|row| run(&mut partition, row).map(|it| it.int4()))
                .collect::<Result<Vec<_>>>()
        };
        assert_eq!(buckets(&[3, 3, 3, 3, 3, 3, 3]).unwrap(), [1, 1, 1, 2, 2, 3, 3]);
        assert_eq!(buckets(&[5, 5]).unwrap(), [1, 2]);
        assert_eq!(buckets(&[0]).unwrap_err().state().as_str(), "22014");
    }
}
