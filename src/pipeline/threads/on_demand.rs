//! Threads that are there only while the protocol or the schedule in force needs them.

use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::{join, spawn};
use crate::error::Result;
use crate::pipeline::engine::Engine;
use crate::pipeline::input::Input;
use crate::pipeline::maintenance::Maintenance;
use crate::pipeline::phase_coordinator;

/// The coordinator of the phases: a thread that is there while the protocol in force has phases.
#[derive(Default)]
pub(crate) struct PhaseThread(Mutex<Vec<JoinHandle<()>>>);

impl PhaseThread {
    /// Starts it; no other one is running.
    ///
    /// # Errors
    /// [`Error::ThreadRefused`](crate::Error::ThreadRefused).
    pub(crate) fn start(&self, engine: &Arc<Engine>, input: &Arc<Input>) -> Result<()> {
        engine.phase_change().resume();
        let (engine, input) = (engine.clone(), input.clone());
        let handle = spawn("phases", move || phase_coordinator::run(&engine, &input))?;
        self.0.lock().push(handle);
        Ok(())
    }

    /// Ends it, and with it the last split phase.
    pub(crate) fn stop(&self, engine: &Engine) {
        engine.phase_change().stop();
        if let Some(phases) = engine.protocol().phases() {
            phases.wake();
        }
        join(&mut self.0.lock());
    }
}

/// The maintenance thread: it is there while there is something to look after.
pub(crate) struct MaintenanceThread {
    maintenance: Arc<Maintenance>,
    automatic_admission: bool,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl MaintenanceThread {
    /// `automatic_admission`: whether it sets the limit of calls in flight.
    pub(crate) fn new(automatic_admission: bool) -> MaintenanceThread {
        MaintenanceThread { maintenance: Arc::default(), automatic_admission, running: Mutex::default() }
    }

    /// Returns true if there is something to look after.
    pub(crate) fn is_needed(&self, input: &Input) -> bool {
        let has_boundaries = input.executors().is_some_and(|executors| executors.len() > 1);
        self.automatic_admission || has_boundaries || input.schedule().kind().learns()
    }

    /// Starts it, unless it is running.
    ///
    /// # Errors
    /// [`Error::ThreadRefused`](crate::Error::ThreadRefused).
    pub(crate) fn start(&self, engine: &Arc<Engine>, input: &Arc<Input>) -> Result<()> {
        let mut running = self.running.lock();
        if running.is_empty() {
            self.maintenance.resume();
            let (engine, input) = (engine.clone(), input.clone());
            let (maintenance, automatic) = (self.maintenance.clone(), self.automatic_admission);
            running.push(spawn("schedule", move || maintenance.run(&engine, &input, automatic))?);
        }
        Ok(())
    }

    /// Ends it if there is nothing to look after any more.
    pub(crate) fn stop_unless_needed(&self, input: &Input) {
        if !self.is_needed(input) {
            self.stop();
        }
    }

    /// Ends it.
    pub(crate) fn stop(&self) {
        self.maintenance.stop();
        join(&mut self.running.lock());
    }
}
