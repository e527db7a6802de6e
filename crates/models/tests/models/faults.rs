//! The faults: each names a place in the engine, what goes wrong there, and the model that must notice.

/// One fault.
pub struct Seeded {
    /// The place in the form that `heddle_model_doors::faults` reads.
    pub place: &'static str,
    pub model: &'static str,
}

const fn fault(place: &'static str, model: &'static str) -> Seeded {
    Seeded { place, model }
}

/// Those that any schedule shows.
#[cfg(not(feature = "loom"))]
pub const ALL: &[Seeded] = &[
    fault(
        "stale|src/storage/record.rs|read_at_once|self.word().load(Ordering::Relaxed)",
        "transactions::a_reader_sees_whole_rows",
    ),
    fault(
        "blind|src/storage/commit/one_word.rs|lock_record|compare_exchange",
        "transactions::additions_are_all_there",
    ),
    fault(
        "tear|src/storage/commit/one_word.rs|lock_record|compare_exchange",
        "transactions::additions_are_all_there",
    ),
    fault("stale|src/storage/read_set.rs|look|record.word().load", "transactions::no_write_skew"),
    fault("stale|src/storage/read_set.rs|look|record.word().load", "transactions::no_read_skew"),
    // Not a stale look: a thread that has lost the race for the record looks at it again before it locks it.
    fault(
        "tear|src/storage/commit/lock_writes.rs|try_to_lock|compare_exchange",
        "transactions::no_lost_update",
    ),
    fault(
        "blind|src/storage/reclaim.rs|take_out|compare_exchange",
        "transactions::a_placeholder_is_filled_or_collected",
    ),
    fault(
        "tear|src/storage/reclaim.rs|take_out|compare_exchange",
        "transactions::a_placeholder_is_filled_or_collected",
    ),
    fault(
        "stale|src/storage/versions/version_read.rs|read|let now",
        "snapshots::a_reader_beside_an_operation",
    ),
    fault(
        "skip|src/storage/versions.rs|renew_bound|self.bound.store",
        "snapshots::no_commit_misses_a_registration",
    ),
    fault("skip|src/storage/epoch.rs|enter|published.0.store", "epoch::nothing_is_added_to_a_sealed_epoch"),
    fault("stale|src/storage/epoch.rs|enter|let now", "epoch::nothing_is_added_to_a_sealed_epoch"),
    fault("skip|src/storage/epoch.rs|enter|published.0.store", "epoch::redo_of_two_epochs_never_mixes"),
    fault(
        "skip|src/storage/worker_context.rs|guard|self.used.fetch_max",
        "epoch::a_slot_that_comes_into_use_is_not_missed",
    ),
    fault(
        "skip|src/storage/epoch.rs|close_gate|fetch_or",
        "gate::no_thread_is_inside_while_the_gate_is_closed",
    ),
    fault(
        "skip|src/storage/epoch.rs|enter|published.0.store",
        "gate::no_thread_is_inside_while_the_gate_is_closed",
    ),
    fault(
        "skip|src/storage/epoch.rs|open_gate|fetch_and",
        "gate::a_thread_that_enters_sees_what_was_done_behind_the_gate",
    ),
    fault("skip|src/pipeline/event_count.rs|sleep|self.asleep.store(true", "handover::no_ring_is_lost"),
    fault(
        "skip|src/durability/progress.rs|wake|count.fetch_add",
        "handover::a_waiter_goes_when_its_epoch_is_durable",
    ),
    fault(
        "skip|src/durability/progress.rs|wait_for_release|waiting.fetch_add",
        "handover::from_append_to_waiter",
    ),
    fault(
        "blind|src/storage/index/hash/bucket.rs|take|compare_exchange_weak",
        "hash::one_record_for_each_key",
    ),
    fault(
        "tear|src/storage/index/hash/bucket.rs|take|compare_exchange_weak",
        "hash::one_record_for_each_key",
    ),
    fault(
        "skip|src/storage/index/hash/bucket.rs|set_moved|version.store",
        "hash::a_validated_miss_was_a_miss",
    ),
    fault(
        "skip|src/storage/index/hash/bucket.rs|put_in_overflow|last.store",
        "hash::one_record_for_each_key",
    ),
    fault(
        "skip|src/storage/index/hash/bucket.rs|remove|slot.store",
        "hash::a_removed_record_is_not_freed_under_a_reader",
    ),
    fault(
        "blind|src/storage/index/ordered/latch.rs|lock|compare_exchange",
        "ordered::two_insert_side_by_side",
    ),
    fault(
        "stale|src/storage/index/ordered/latch.rs|validate|word.load",
        "ordered::a_scan_meets_what_stays_once_and_in_order",
    ),
    fault(
        "blind|src/storage/index/ordered/latch.rs|lock|compare_exchange",
        "ordered::what_stays_is_found_while_nodes_are_replaced",
    ),
    fault(
        "tear|src/pipeline/partition/executor_queues.rs|lock|state.lock()",
        "executor_queues::two_phases_enter_in_one_order",
    ),
    fault(
        "skip|src/pipeline/partition/executor_queues.rs|put|notify_one",
        "executor_queues::no_wake_up_is_lost",
    ),
    fault(
        "skip|src/pipeline/partition/executor_queues.rs|notify_all|notify_one",
        "executor_queues::no_wake_up_is_lost",
    ),
    fault(
        "skip|src/pipeline/partition/executor_queues.rs|admit_batch|notify_one",
        "executor_queues::no_wake_up_is_lost",
    ),
    fault(
        "tear|src/pipeline/partition/executor_queues.rs|admit_group|state.lock()",
        "executor_queues::two_phases_enter_in_one_order",
    ),
    fault(
        "skip|src/pipeline/partition/executor_queues.rs|admit_group|notify_one",
        "executor_queues::a_group_wakes_its_executors",
    ),
    fault(
        "skip|src/pipeline/partition/executor_queues.rs|admit|active.fetch_add",
        "executor_queues::closing_waits_for_active_transactions",
    ),
    fault(
        "tear|src/pipeline/partition/executor_queues.rs|lock|state.lock()",
        "executor_queues::an_outdated_map_is_refused_at_every_queue_that_changes",
    ),
    fault(
        "tear|src/pipeline/partition/executor_queues.rs|lock|state.lock()",
        "repartitioning::no_transaction_runs_at_another_executor",
    ),
    fault(
        "skip|src/protocol/local/partition_map.rs|change|start.store",
        "repartitioning::no_transaction_runs_at_another_executor",
    ),
    fault(
        "tear|src/pipeline/partition/executor_queues.rs|lock|state.lock()",
        "repartitioning::work_before_a_repartitioning_ends_first",
    ),
    fault(
        "skip|src/pipeline/partition/executor_queues.rs|repartition|active.fetch_add",
        "repartitioning::work_before_a_repartitioning_ends_first",
    ),
    fault(
        "tear|src/pipeline/partition/executor_queues.rs|lock|state.lock()",
        "repartitioning::equal_flow_graphs_never_deadlock",
    ),
    fault(
        "blind|src/storage/worker_context.rs|change_state|compare_exchange",
        "worker_contexts::one_slot_serves_all_threads",
    ),
    fault(
        "tear|src/storage/worker_context.rs|change_state|compare_exchange",
        "worker_contexts::one_slot_serves_all_threads",
    ),
    fault(
        "skip|src/storage/worker_context.rs|notify_waiting|notify_one",
        "worker_contexts::one_slot_serves_all_threads",
    ),
    fault(
        "skip|src/storage/worker_context.rs|keep|notify_all",
        "worker_contexts::a_caller_never_waits_for_a_slot_that_is_kept",
    ),
];

/// Those that only the memory model shows, and the worst of the others.
#[cfg(feature = "loom")]
pub const ALL: &[Seeded] = &[
    fault("weaken|src/storage/record.rs|read_at_once|fence(", "transactions::a_reader_sees_whole_rows"),
    fault(
        "weaken|src/storage/record.rs|read_at_once|self.word().load(Ordering::Acquire)",
        "transactions::a_reader_sees_whole_rows",
    ),
    fault(
        "stale|src/storage/record.rs|read_at_once|self.word().load(Ordering::Relaxed)",
        "transactions::a_reader_sees_whole_rows",
    ),
    fault("weaken|src/storage/commit/install.rs|make_busy|fence(", "transactions::a_reader_sees_whole_rows"),
    fault(
        "weaken|src/storage/commit/install.rs|install|present, Ordering::Release@1",
        "transactions::a_reader_sees_whole_rows",
    ),
    fault(
        "weaken|src/storage/commit/lock_writes.rs|try_to_lock|compare_exchange",
        "transactions::no_write_skew",
    ),
    fault(
        "blind|src/storage/commit/lock_writes.rs|try_to_lock|compare_exchange",
        "transactions::additions_are_all_there",
    ),
    fault(
        "weaken|src/storage/read_set.rs|nodes_still_hold|fence(",
        "record::no_two_insert_what_the_other_missed",
    ),
    fault("weaken|src/base/barrier.rs|light| fence(", "epoch::nothing_is_added_to_a_sealed_epoch"),
    fault("weaken|src/base/barrier.rs|heavy| fence(", "epoch::nothing_is_added_to_a_sealed_epoch"),
    fault("weaken|src/storage/epoch.rs|enter|published.0.store", "epoch::nothing_is_added_to_a_sealed_epoch"),
    fault("weaken|src/storage/epoch.rs|leave|self.0.store", "epoch::nothing_is_added_to_a_sealed_epoch"),
    fault(
        "weaken|src/storage/epoch.rs|shows_at_most|self.0.load",
        "epoch::nothing_is_added_to_a_sealed_epoch",
    ),
    fault("weaken|src/base/barrier.rs|light| fence(", "gate::no_thread_is_inside_while_the_gate_is_closed"),
    fault(
        "weaken|src/storage/epoch.rs|leave|self.0.store",
        "gate::no_thread_is_inside_while_the_gate_is_closed",
    ),
    fault(
        "weaken|src/storage/epoch.rs|open_gate|fetch_and",
        "gate::a_thread_that_enters_sees_what_was_done_behind_the_gate",
    ),
    fault("weaken|src/pipeline/event_count.rs|ring|fence(", "handover::no_ring_is_lost"),
    fault("weaken|src/pipeline/event_count.rs|sleep|fence(", "handover::no_ring_is_lost"),
    fault(
        "weaken|src/durability/progress.rs|publish|released.store",
        "handover::a_waiter_goes_when_its_epoch_is_durable",
    ),
    fault(
        "weaken|src/durability/progress.rs|wait_for_release|waiting.fetch_add",
        "handover::from_append_to_waiter",
    ),
    fault(
        "weaken|src/storage/worker_context.rs|drop|state.swap",
        "worker_contexts::one_slot_serves_all_threads",
    ),
    fault(
        "weaken|src/storage/worker_context.rs|drop|waiting.load",
        "worker_contexts::one_slot_serves_all_threads",
    ),
    fault(
        "weaken|src/storage/worker_context.rs|look_until|waiting.fetch_add",
        "worker_contexts::one_slot_serves_all_threads",
    ),
    fault(
        "weaken|src/storage/worker_context.rs|change_state|compare_exchange",
        "worker_contexts::one_slot_serves_all_threads",
    ),
];
