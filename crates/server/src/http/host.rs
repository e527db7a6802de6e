//! Figures of the process on its machine: its start time, memory, and the disk that the log is on.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Room on a disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Disk {
    pub(super) size: u64,
    /// Bytes that this process may still write.
    pub(super) free: u64,
}

/// Room on the disk of a directory; `None` if the system does not report it.
pub(super) fn disk(directory: &Path) -> Option<Disk> {
    let disk = rustix::fs::statvfs(directory).ok()?;
    Some(Disk { size: disk.f_blocks * disk.f_frsize, free: disk.f_bavail * disk.f_frsize })
}

/// Bytes of memory that the process has resident, as Linux tells; none elsewhere.
pub(super) fn resident_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = status.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// A moment in seconds since 1970.
pub(super) fn seconds(moment: SystemTime) -> f64 {
    moment.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_memory_and_room() {
        let disk = disk(Path::new("/")).expect("there is one");
        assert!(disk.size > 0 && disk.free <= disk.size, "{disk:?}");
        assert!(seconds(SystemTime::now()) > 1.6e9);
        if cfg!(target_os = "linux") {
            let before = resident_memory().expect("Linux tells it");
            let kept = vec![1_u8; 64 << 20];
            let grown = resident_memory().expect("Linux tells it").saturating_sub(before);
            assert!(grown > 32 << 20, "{grown} for {}", kept.len());
        }
    }
}
