//! Runs the whole process on one processor.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::failure::{Failure, Result};

/// The processors that this process may use.
fn usable() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None)
        .map_err(|error| Failure::Failed(format!("the system does not tell its processors: {error}")))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect())
}

/// The first processor that this process may use.
pub fn first() -> Result<usize> {
    let first = usable()?.first().copied();
    first.ok_or_else(|| Failure::Failed("the system tells of no processor".to_owned()))
}

/// Keeps this thread, and all that it starts from here on, on a processor.
pub fn run_on(processor: usize) -> Result {
    let usable = usable()?;
    if !usable.contains(&processor) {
        let known = usable.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(Failure::Usage(format!(
            "--processor {processor} is none that can be used; those are: {known}"
        )));
    }
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set)
        .map_err(|error| Failure::Failed(format!("processor {processor} cannot be had alone: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_what_it_starts_stay_on_the_processor() {
        std::thread::spawn(|| {
            let only = first().unwrap();
            run_on(only).unwrap();
            assert_eq!(std::thread::spawn(usable).join().unwrap().unwrap(), [only]);
            assert!(matches!(run_on(CpuSet::MAX_CPU), Err(Failure::Usage(_))));
        })
        .join()
        .unwrap();
    }
}
