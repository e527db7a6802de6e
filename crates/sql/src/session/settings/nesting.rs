//! The values of settings to restore when a transaction or subtransaction ends that has changed them by SET.
//!
//! A transaction is at level 1; each savepoint, each block with exception handlers, and each call
//! of a routine whose definition sets settings is one level deeper. Each
//! setting has a stack of the levels that changed it. A level that commits merges its entry into the one beneath; a level
//! that rolls back restores what it found.
//!
//! # Invariants
//! - The levels of a setting's stack increase strictly, and none exceeds the present level.
//! - SET LOCAL that follows SET on the same level keeps SET's value aside: the value that the transaction's commit restores.

use std::collections::BTreeMap;

/// The level of a transaction without savepoints.
pub(super) const TOP_LEVEL: u32 = 1;

/// A value of a setting; `None` if the setting does not exist.
type Stored = Option<String>;

/// The way in which a level has changed a setting.
#[derive(Clone, Debug, PartialEq)]
enum Change {
    /// By SET: the value outlives the level.
    Set,
    /// By SET LOCAL.
    Local,
    /// By the definition of the routine whose call is the level.
    Saved,
    /// By SET, whose value this is, and then by SET LOCAL.
    SetThenLocal(Stored),
}

/// The change of a setting by one level.
#[derive(Clone, Debug)]
struct Saved {
    level: u32,
    change: Change,
    /// The value before the level's first change.
    before: Stored,
}

/// The stacks of all settings that the open transaction has changed.
#[derive(Clone, Debug)]
pub(super) struct Nesting {
    level: u32,
    stacks: BTreeMap<String, Vec<Saved>>,
}

impl Nesting {
    pub fn new() -> Nesting {
        Nesting { level: TOP_LEVEL, stacks: BTreeMap::new() }
    }

    pub fn level(&self) -> u32 {
        self.level
    }

    pub fn has_changes(&self) -> bool {
        !self.stacks.is_empty()
    }

    /// Begins a level, and returns its number.
    pub fn begin(&mut self) -> u32 {
        self.level += 1;
        self.level
    }

    /// Notes that a setting, whose value is this one, is about to be changed.
    pub fn note(&mut self, name: &str, value: Stored, local: bool) {
        let level = self.level;
        let change = if local { Change::Local } else { Change::Set };
        let stack = self.stacks.entry(name.to_string()).or_default();
        match stack.last_mut().filter(|saved| saved.level == level) {
            None => stack.push(Saved { level, change, before: value }),
            Some(saved) if !local => saved.change = Change::Set,
            Some(saved) if saved.change == Change::Set => saved.change = Change::SetThenLocal(value),
            Some(_) => {}
        }
    }

    /// Notes that the level changes a setting, whose value is this one, until it ends.
    pub fn save(&mut self, name: &str, value: Stored) {
        let stack = self.stacks.entry(name.to_string()).or_default();
        if stack.last().is_none_or(|saved| saved.level < self.level) {
            stack.push(Saved { level: self.level, change: Change::Saved, before: value });
        }
    }

    /// Ends this level and all deeper ones, and returns the values to restore, in this order.
    pub fn end(&mut self, from: u32, committed: bool) -> Vec<(String, Stored)> {
        let mut restored = Vec::new();
        if from > self.level {
            return restored;
        }
        for level in (from..=self.level).rev() {
            for (name, stack) in &mut self.stacks {
                let Some(saved) = stack.pop_if(|saved| saved.level >= level) else { continue };
                let Saved { change, before, .. } = saved;
                match change {
                    Change::Saved => restored.push((name.clone(), before)),
                    _ if !committed => restored.push((name.clone(), before)),
                    change if level > TOP_LEVEL => merge(stack, Saved { level: level - 1, change, before }),
                    Change::Set => {}
                    Change::Local => restored.push((name.clone(), before)),
                    Change::SetThenLocal(value) => restored.push((name.clone(), value)),
                }
            }
        }
        self.stacks.retain(|_, stack| !stack.is_empty());
        self.level = from.saturating_sub(1).max(TOP_LEVEL);
        restored
    }
}

/// Merges the changes of a committed level into the level around it.
fn merge(stack: &mut Vec<Saved>, saved: Saved) {
    match stack.last_mut().filter(|around| around.level == saved.level) {
        None => stack.push(saved),
        Some(around) => match saved.change {
            Change::Set => around.change = Change::Set,
            Change::Local if around.change == Change::Set => {
                around.change = Change::SetThenLocal(saved.before)
            }
            Change::Local | Change::Saved => {}
            Change::SetThenLocal(value) => around.change = Change::SetThenLocal(value),
        },
    }
}
