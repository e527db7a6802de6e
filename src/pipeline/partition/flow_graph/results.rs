//! Results of a phase's actions at its rendezvous point: fragments, rows, values and failures.

use super::Phase;
use crate::base::atomics::Ordering;
use crate::error::{Error, Result};
use crate::pipeline::call::Gathered;
use crate::pipeline::partition::fragment::Fragment;
use crate::types::Value;

/// Results of a phase's actions at its rendezvous point.
#[derive(Default)]
pub(super) struct PhaseResults {
    /// The fragment of each executor; a joined one has no executor.
    fragments: Vec<(Option<usize>, Fragment)>,
    /// Rows and values of each action.
    pub(super) gathered: Vec<(usize, Gathered)>,
    /// Rows of earlier phases.
    pub(super) rows: Vec<Vec<Value>>,
    /// The first action that has failed.
    pub(super) failure: Option<(usize, Failure)>,
    /// The reason why the transaction was not executed, if so.
    refused: Option<Box<Error>>,
}

/// The error of an action.
pub(in super::super) struct Failure {
    pub(in super::super) error: Box<Error>,
    /// True if it needs something that only another transaction can bring about.
    pub(in super::super) needs_another: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error: Box::new(error), needs_another: false }
    }
}

impl Phase {
    /// The fragment that earlier phases have left at this executor; for `None`, the joined one.
    pub(in super::super) fn take_fragment(&self, executor: Option<usize>) -> Fragment {
        let mut results = self.results.lock();
        if executor.is_none() {
            let (fragment, fits) = Fragment::join(results.fragments.drain(..).map(|(_, one)| one));
            if let Err(error) = fits {
                results.fail(self.range.start, error.into());
                self.failed_at.fetch_min(self.range.start, Ordering::Relaxed);
            }
            return fragment;
        }
        let at = results.fragments.iter().position(|(owner, _)| *owner == executor);
        at.map_or_else(Fragment::default, |at| results.fragments.swap_remove(at).1)
    }

    /// Returns true if an action before this one has failed. Relaxed: an executor that sees it late has worked
    /// unnecessarily.
    pub(in super::super) fn is_aborted_before(&self, action: usize) -> bool {
        self.failed_at.load(Ordering::Relaxed) < action
    }

    /// Records what actions have left and gathered, and which of them has failed.
    pub(in super::super) fn record(
        &self,
        executor: Option<usize>,
        fragment: Fragment,
        mut gathered: Vec<(usize, Gathered)>,
        failure: Option<(usize, Failure)>,
    ) {
        let mut results = self.results.lock();
        results.fragments.push((executor, fragment));
        results.gathered.append(&mut gathered);
        if let Some((action, failure)) = failure {
            self.failed_at.fetch_min(action, Ordering::Relaxed);
            results.fail(action, failure);
        }
    }

    /// Records that the transaction may not be executed now.
    pub(in super::super) fn refuse(&self, error: Error) {
        self.results.lock().refused = Some(Box::new(error));
        self.failed_at.store(0, Ordering::Relaxed);
    }

    /// Joins all fragments of the attempt.
    pub(in super::super) fn join_fragments(&self) -> (Fragment, Result<()>) {
        Fragment::join(self.results.lock().fragments.drain(..).map(|(_, fragment)| fragment))
    }

    /// The reason why the transaction was refused, if so.
    pub(in super::super) fn take_refusal(&self) -> Option<Box<Error>> {
        self.results.lock().refused.take()
    }
}

impl PhaseResults {
    /// Records why an action has failed; the first action's failure is kept.
    fn fail(&mut self, action: usize, failure: Failure) {
        if self.failure.as_ref().is_none_or(|(first, _)| action < *first) {
            self.failure = Some((action, failure));
        }
    }
}
