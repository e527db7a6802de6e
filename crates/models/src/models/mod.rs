//! The models, by what they are about. Each is a program of two or three threads that panics where something that
//! must hold does not; a thread that waits forever is found by the checker.

mod epoch;
mod executor_queues;
mod gate;
mod handover;
mod hash;
mod ordered;
mod pipeline;
mod record;
mod repartitioning;
mod snapshots;
mod stand;
mod transactions;
mod work_queues;
mod worker_contexts;

use heddle_model_doors::execution::{Bounds, check};

/// One model.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Its file and function.
    pub name: &'static str,
    bounds: Bounds,
    run: fn(),
}

impl Model {
    const fn new(name: &'static str, bounds: Bounds, run: fn()) -> Model {
        Model { name, bounds, run }
    }

    /// Checks it: panics in a schedule that breaks it.
    pub fn check(&self) {
        check(self.bounds, self.run);
    }
}

/// Bounds of models of some ten accesses: loom explores every schedule.
const SMALL: Bounds = Bounds { interruptions: None, schedules: 2_000 };
/// Bounds of models of a hundred accesses: loom interrupts at most twice.
const MIDDLE: Bounds = Bounds { interruptions: Some(2), schedules: 500 };
/// Bounds of models of whole transactions.
const LARGE: Bounds = Bounds { interruptions: Some(2), schedules: 150 };

/// All models.
pub fn all() -> impl Iterator<Item = Model> {
    let both = [
        epoch::MODELS,
        gate::MODELS,
        handover::MODELS,
        record::MODELS,
        transactions::MODELS,
        snapshots::MODELS,
        worker_contexts::MODELS,
    ];
    // These make words while threads run, which loom cannot follow, or take more steps than it can try.
    let random = [
        epoch::RANDOM,
        transactions::RANDOM,
        snapshots::RANDOM,
        hash::MODELS,
        ordered::MODELS,
        pipeline::MODELS,
        work_queues::MODELS,
        executor_queues::MODELS,
        repartitioning::MODELS,
    ];
    let random = random.into_iter().filter(|_| !cfg!(feature = "loom"));
    both.into_iter().chain(random).flatten().copied()
}
