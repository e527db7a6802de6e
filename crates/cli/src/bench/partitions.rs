//! The executors' partitions under `partitioned`: repartitioning, and the ranges at the end.

use clap::{Args, ValueEnum};
use heddledb::{Partition, PartitionedOptions, Plan, Statistics};
use serde_json::{Value, json};

/// Options of the protocol with executors.
#[derive(Args, Clone, Copy)]
pub struct PartitionArguments {
    /// Executors that own the data (the partitioned protocol) [default: as many as --threads, at most one for each processor]
    #[arg(long, value_name = "N", help_heading = "For experiments: engine")]
    pub executors: Option<usize>,
    /// Boundaries between executors (the partitioned protocol): moving until the load is even, or fixed [default: moving]
    #[arg(long, value_enum, value_name = "HOW", help_heading = "For experiments: engine")]
    pub boundaries: Option<Boundaries>,
    /// Order of a transaction's actions over several executors (the partitioned protocol): auto, parallel,
    /// serial [default: auto]
    #[arg(long, value_name = "HOW", help_heading = "For experiments: engine")]
    pub plan: Option<Plan>,
}

/// The boundaries between executors' ranges, which the resource manager may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Boundaries {
    Moving,
    Fixed,
}

impl PartitionArguments {
    /// The engine's options of the protocol.
    pub fn engine(self) -> PartitionedOptions {
        let moving = self.boundaries != Some(Boundaries::Fixed);
        let options =
            PartitionedOptions::default().repartitioning(moving).plan(self.plan.unwrap_or_default());
        match self.executors {
            Some(executors) => options.executors(executors),
            None => options,
        }
    }

    /// The options that differ from their defaults.
    pub fn parameters(self) -> Vec<(&'static str, Value)> {
        let fixed = (self.boundaries == Some(Boundaries::Fixed)).then_some(("boundaries", "fixed".into()));
        let plan = self.plan.map(|plan| ("plan", plan.to_string().into()));
        let executors = self.executors.map(|executors| ("executors", executors.into()));
        fixed.into_iter().chain(plan).chain(executors).collect()
    }
}

/// Each executor's range of partition hashes, its share of the recent requests, and how often its range has changed.
pub fn partitions(all: &[Partition]) -> Value {
    let one = |partition: &Partition| {
        json!({
            "from": partition.from,
            "to": partition.to,
            "share": partition.share,
            "moves": partition.moves,
        })
    };
    all.iter().map(one).collect::<Vec<_>>().into()
}

/// Number of transactions over several executors with each plan.
pub fn plans(statistics: &Statistics) -> Value {
    json!({ "parallel": statistics.went_parallel, "serial": statistics.went_serial })
}

/// The division of a workload's rows among executors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rows {
    /// Related rows share an executor: most transactions need one.
    Together,
    /// Rows of one owner lie at several executors: calls have parts that can run beside each other.
    Apart,
}

#[cfg(test)]
mod tests {
    use super::*;
    use heddledb::{Database, Durability, Options};

    #[test]
    fn executors_are_reported_in_order_with_their_ranges() {
        let options = Options::default().protocol(PartitionedOptions::default().executors(2));
        let db = Database::in_memory_with(options.durability(Durability::None)).expect("a database");
        db.repartition(&[0.25]).expect("they move");
        let reported = partitions(&db.partitions());
        assert_eq!(reported[0], json!({ "from": 0.0, "to": 0.25, "share": 0.0, "moves": 1 }));
        assert_eq!((reported[1]["from"].as_f64(), reported[1]["to"].as_f64()), (Some(0.25), Some(1.0)));
        assert_eq!(partitions(&[]), json!([]));
    }
}
