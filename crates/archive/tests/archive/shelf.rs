//! Object storage in memory, with faults: it refuses, or does what it was asked to and does not say so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use fastrand::Rng;
use heddledb_archive::{ArchiveError, Listed, Objects, Result};

/// What goes wrong.
#[derive(Clone, Debug, Default)]
pub enum Faults {
    #[default]
    None,
    /// Nothing is reached.
    Unreachable,
    /// One in so many operations fails, half of them after they were done.
    Random(Rng, u32),
}

#[derive(Default)]
pub struct Shelf {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    faults: Faults,
    refused: u64,
}

impl Shelf {
    pub fn set_faults(&self, faults: Faults) {
        self.state.lock().unwrap().faults = faults;
    }

    /// How many operations have failed.
    pub fn refused(&self) -> u64 {
        self.state.lock().unwrap().refused
    }

    pub fn names(&self) -> Vec<String> {
        self.state.lock().unwrap().objects.keys().cloned().collect()
    }

    pub fn get(&self, name: &str) -> Vec<u8> {
        self.state.lock().unwrap().objects[name].clone()
    }

    pub fn set(&self, name: &str, bytes: Option<Vec<u8>>) {
        let objects = &mut self.state.lock().unwrap().objects;
        match bytes {
            Some(bytes) => _ = objects.insert(name.to_owned(), bytes),
            None => _ = objects.remove(name),
        }
    }

    fn run<T>(&self, object: &str, work: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> Result<T> {
        let state = &mut *self.state.lock().unwrap();
        let error = ArchiveError::Unreachable {
            action: "reach",
            object: object.to_owned(),
            reason: "a fault".to_owned(),
        };
        let (fails, is_done) = match &mut state.faults {
            Faults::None => (false, true),
            Faults::Unreachable => (true, false),
            Faults::Random(random, one_in) => (random.u32(..*one_in) == 0, random.bool()),
        };
        state.refused += u64::from(fails);
        if fails && !is_done {
            return Err(error);
        }
        let done = work(&mut state.objects);
        if fails { Err(error) } else { Ok(done) }
    }
}

impl Objects for Shelf {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        self.run(name, |objects| {
            let is_new = !objects.contains_key(name);
            objects.entry(name.to_owned()).or_insert_with(|| bytes.to_vec());
            is_new
        })
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.run(name, |objects| objects.get(name).cloned())
    }

    fn list(&self, folder: &str) -> Result<Vec<Listed>> {
        self.run(folder, |objects| {
            let inside = objects.iter().filter(|(name, _)| name.starts_with(&format!("{folder}/")));
            inside.map(|(name, bytes)| Listed { name: name.clone(), bytes: bytes.len() as u64 }).collect()
        })
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        self.run(folder, |objects| {
            let inside = objects.keys().filter_map(|name| name.strip_prefix(&prefix)?.split_once('/'));
            let names: BTreeSet<_> = inside.map(|(name, _)| format!("{prefix}{name}")).collect();
            names.into_iter().collect()
        })
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.run(name, |objects| _ = objects.remove(name))
    }
}
