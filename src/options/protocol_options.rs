//! The protocol and its options: each protocol's options are a type, so that another protocol cannot be given them.

use std::time::Duration;

use super::ranges::{within, within_real};
use crate::error::Result;
use crate::pipeline::partition::plan::Plan;
use crate::protocol::{LockConflict, ProtocolKind, SerialVariant, Settings};

/// A protocol with its options, for [`Options::protocol`](crate::Options::protocol): made from a [`ProtocolKind`], or
/// from the options of one protocol.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProtocolOptions {
    pub(crate) kind: ProtocolKind,
    serial: SerialOptions,
    locking: LockingOptions,
    phased: PhasedOptions,
    pub(crate) partitioned: PartitionedOptions,
}

/// Options of [`ProtocolKind::Serial`].
#[derive(Clone, Copy, Debug)]
pub struct SerialOptions {
    partitions: usize,
    variant: SerialVariant,
}

impl Default for SerialOptions {
    fn default() -> Self {
        SerialOptions { partitions: 1, variant: SerialVariant::default() }
    }
}

impl SerialOptions {
    /// The number of serial partitions into which the data is divided, by the first column of the primary key. Default:
    /// 1.
    #[must_use]
    pub fn partitions(mut self, partitions: usize) -> Self {
        self.partitions = partitions;
        self
    }

    /// The paper's variant of serial execution. Default: `Sp`.
    #[must_use]
    pub fn variant(mut self, variant: SerialVariant) -> Self {
        self.variant = variant;
        self
    }
}

/// Options of [`ProtocolKind::Locking`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LockingOptions {
    conflict: LockConflict,
}

impl LockingOptions {
    /// The reaction of a transaction to another transaction's lock. Default: `Wait`.
    #[must_use]
    pub fn conflict(mut self, conflict: LockConflict) -> Self {
        self.conflict = conflict;
        self
    }
}

/// Options of [`ProtocolKind::Phased`].
#[derive(Clone, Copy, Debug)]
pub struct PhasedOptions {
    phase_milliseconds: f64,
}

impl Default for PhasedOptions {
    fn default() -> Self {
        PhasedOptions { phase_milliseconds: 20.0 }
    }
}

impl PhasedOptions {
    /// The longest split phase, in milliseconds: about this long a reader of a split record waits. Default: 20.
    #[must_use]
    pub fn phase_milliseconds(mut self, milliseconds: f64) -> Self {
        self.phase_milliseconds = milliseconds;
        self
    }
}

/// Options of [`ProtocolKind::Partitioned`].
#[derive(Clone, Copy, Debug)]
pub struct PartitionedOptions {
    pub(crate) executors: Option<usize>,
    pub(crate) repartitioning: bool,
    pub(crate) plan: Plan,
}

impl Default for PartitionedOptions {
    fn default() -> Self {
        PartitionedOptions { executors: None, repartitioning: true, plan: Plan::default() }
    }
}

impl PartitionedOptions {
    /// The number of executors that own the data. Default: as many as `workers`, but no more than processors, since
    /// callers' workers, of which there may be many, run no actions themselves; with
    /// [`repartitioning`](Self::repartitioning), only as many of them have a range as rows and load call for.
    #[must_use]
    pub fn executors(mut self, executors: usize) -> Self {
        self.executors = Some(executors);
        self
    }

    /// Moves ranges between executors until the load is even (without load, the rows). Default: yes.
    #[must_use]
    pub fn repartitioning(mut self, automatic: bool) -> Self {
        self.repartitioning = automatic;
        self
    }

    /// The order in which actions of transactions over several executors run. Default: `Auto`.
    #[must_use]
    pub fn plan(mut self, plan: Plan) -> Self {
        self.plan = plan;
        self
    }
}

impl From<ProtocolKind> for ProtocolOptions {
    fn from(kind: ProtocolKind) -> Self {
        ProtocolOptions { kind, ..ProtocolOptions::default() }
    }
}

impl From<SerialOptions> for ProtocolOptions {
    fn from(serial: SerialOptions) -> Self {
        ProtocolOptions { serial, ..ProtocolKind::Serial.into() }
    }
}

impl From<LockingOptions> for ProtocolOptions {
    fn from(locking: LockingOptions) -> Self {
        ProtocolOptions { locking, ..ProtocolKind::Locking.into() }
    }
}

impl From<PhasedOptions> for ProtocolOptions {
    fn from(phased: PhasedOptions) -> Self {
        ProtocolOptions { phased, ..ProtocolKind::Phased.into() }
    }
}

impl From<PartitionedOptions> for ProtocolOptions {
    fn from(partitioned: PartitionedOptions) -> Self {
        ProtocolOptions { partitioned, ..ProtocolKind::Partitioned.into() }
    }
}

impl ProtocolOptions {
    /// The options for the case that the protocol is [`ProtocolKind::Serial`]: for programs that read the protocol from
    /// their configuration.
    #[must_use]
    pub fn serial(mut self, serial: SerialOptions) -> Self {
        self.serial = serial;
        self
    }

    /// The options for the case that the protocol is [`ProtocolKind::Locking`].
    #[must_use]
    pub fn locking(mut self, locking: LockingOptions) -> Self {
        self.locking = locking;
        self
    }

    /// The options for the case that the protocol is [`ProtocolKind::Phased`].
    #[must_use]
    pub fn phased(mut self, phased: PhasedOptions) -> Self {
        self.phased = phased;
        self
    }

    /// The options for the case that the protocol is [`ProtocolKind::Partitioned`].
    #[must_use]
    pub fn partitioned(mut self, partitioned: PartitionedOptions) -> Self {
        self.partitioned = partitioned;
        self
    }

    /// The protocol's configuration. The options have been validated.
    pub(crate) fn settings(&self, max_worker_contexts: usize) -> Settings {
        Settings {
            partitions: self.serial.partitions,
            serial_variant: self.serial.variant,
            lock_conflict: self.locking.conflict,
            phase: Duration::from_secs_f64(self.phased.phase_milliseconds / 1_000.0),
            max_worker_contexts,
        }
    }

    /// # Errors
    /// The first option that is out of range.
    pub(super) fn validate(&self) -> Result<()> {
        within("serial.partitions", self.serial.partitions as u64, 1, 64)?;
        within_real("phased.phase_milliseconds", self.phased.phase_milliseconds, 0.1, 60_000.0)?;
        within("partitioned.executors", self.partitioned.executors.unwrap_or(1) as u64, 1, 1_024)
    }
}
