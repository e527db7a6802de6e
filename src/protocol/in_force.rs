//! The protocols of a database: one is in force, and another one can take its place while transactions run.
//!
//! Each protocol is one object, built when it is first needed and kept from then on: a transaction that began under it may
//! still hold its locks after another protocol has taken its place, and releases them where it got them. Which one is in force
//! is a part of the generation ([`crate::storage::epoch::Epochs::generation`]), so that an attempt learns both at one moment.
//!
//! Labels by hand are kept here, and given to each protocol with phases when it is built: so they outlive changes of the protocol.
//!
//! Invariants: the protocol of an attempt is that of the generation in which it began, from its beginning to its end. A commit
//! section whose generation is over touches no record, so commits of two protocols never overlap
//! ([why](../../docs/decisions/2026-11-29-changing-the-protocol.md)).

use std::sync::OnceLock;

use parking_lot::Mutex;

use super::{Protocol, ProtocolKind, Settings};
use crate::storage::reconcile::Wanted;

/// The most protocols of a database: as many as the number in a generation can distinguish.
const PLACES: usize = 16;

/// The protocols of a database, each at the place of its number.
pub(crate) struct Protocols {
    settings: Settings,
    built: [OnceLock<Box<dyn Protocol>>; PLACES],
    /// The kind at each place.
    kinds: [ProtocolKind; PLACES],
    /// The columns that are split by hand under protocols with phases. Locked while one is built, so that none misses a label.
    labels: Mutex<Vec<Wanted>>,
}

impl Protocols {
    /// The protocols, of which this one is built.
    pub(crate) fn new(first: ProtocolKind, settings: Settings) -> Protocols {
        let mut kinds = [first; PLACES];
        kinds.iter_mut().zip(ProtocolKind::ALL).for_each(|(place, kind)| *place = *kind);
        let protocols = Protocols {
            settings,
            built: [const { OnceLock::new() }; PLACES],
            kinds,
            labels: Mutex::default(),
        };
        protocols.build(first);
        protocols
    }

    /// The protocol of this number.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> &dyn Protocol {
        let number = number % PLACES;
        // It was built before it was put in force, so the function is not called.
        &**self.built[number].get_or_init(|| self.kinds[number].build(&self.settings))
    }

    /// The kind of the protocol of this number.
    pub(crate) fn kind(&self, number: usize) -> ProtocolKind {
        self.kinds[number % PLACES]
    }

    /// Builds a protocol, unless it is there. Returns its number.
    pub(crate) fn build(&self, kind: ProtocolKind) -> usize {
        let number = self.kinds.iter().position(|known| *known == kind).unwrap_or(PLACES - 1);
        let labels = self.labels.lock();
        if self.built[number].get().is_none()
            && let Some(phases) = self.get(number).phases()
        {
            labels.iter().for_each(|label| phases.label(label.clone(), true));
        }
        number
    }

    /// Splits a column of a record by hand, or no longer, under every protocol that can: those that are built later, too.
    pub(crate) fn label(&self, wanted: &Wanted, on: bool) {
        let mut labels = self.labels.lock();
        labels.retain(|label| !label.is_of_same_column(wanted));
        if on {
            labels.push(wanted.clone());
        }
        let phases = self.built().filter_map(Protocol::phases);
        phases.for_each(|phases| phases.label(wanted.clone(), on));
    }

    /// Every protocol that was built.
    pub(crate) fn built(&self) -> impl Iterator<Item = &dyn Protocol> {
        self.built.iter().filter_map(|protocol| protocol.get().map(|protocol| &**protocol))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::operation::Operation;
    use crate::protocol::canary::Canary;
    use crate::protocol::{LockConflict, SerialVariant};
    use crate::storage::epoch::FIRST;
    use crate::storage::store::Store;

    fn settings() -> Settings {
        Settings {
            partitions: 1,
            serial_variant: SerialVariant::Sp,
            lock_conflict: LockConflict::Wait,
            phase: Duration::from_millis(20),
            max_worker_contexts: 2,
        }
    }

    #[test]
    fn a_protocol_is_built_once_and_has_one_number() {
        let protocols = Protocols::new(ProtocolKind::Optimistic, settings());
        assert_eq!(protocols.built().count(), 1);
        let serial = protocols.build(ProtocolKind::Serial);
        assert_eq!((protocols.build(ProtocolKind::Serial), protocols.built().count()), (serial, 2));
        assert!(std::ptr::addr_eq(protocols.get(serial), protocols.get(serial)));
        for &kind in ProtocolKind::ALL {
            assert_eq!(protocols.kind(protocols.build(kind)), kind);
        }
    }

    #[test]
    fn a_protocol_that_is_in_no_list_has_a_number_too() {
        let canary = ProtocolKind::Canary(Canary::Honest);
        let protocols = Protocols::new(canary, settings());
        let number = protocols.build(canary);
        assert_eq!(protocols.kind(number), canary);
        assert!(ProtocolKind::ALL.iter().all(|&kind| protocols.build(kind) != number));
    }

    #[test]
    fn a_protocol_that_is_built_later_gets_the_labels_that_there_are() {
        let protocols = Protocols::new(ProtocolKind::Optimistic, settings());
        let wanted = |key: &[u8]| Wanted { table: 16, key: key.into(), column: 1, operation: Operation::Add };
        let [one, other] = [wanted(b"1"), wanted(b"2")];
        [&one, &other].into_iter().for_each(|label| protocols.label(label, true));
        protocols.label(&one, true);
        protocols.label(&other, false);
        assert_eq!(*protocols.labels.lock(), std::slice::from_ref(&one));
        let store = Store::new(FIRST, 2, false);
        let is_label_chosen = |kind| {
            let phases = protocols.get(protocols.build(kind)).phases().expect("it has phases");
            phases.end_joined(&store, Duration::from_millis(20));
            phases.report().choices.iter().filter(|choice| choice.wanted == one).count() == 1
                && phases.report().choices.len() == 1
        };
        assert!(is_label_chosen(ProtocolKind::Phased) && is_label_chosen(ProtocolKind::Auto));
    }
}
