//! What the operating system reports: the machine's memory, this process's memory, and the limit of open files.

use rustix::process::{Resource, getrlimit, setrlimit};
use std::fs;

/// The machine's memory in bytes, or the container's limit; `None` where the system does not tell.
pub fn machine_bytes() -> Option<u64> {
    let machine = kib_of(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")?;
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    // "max", which does not parse, means no limit.
    let limits = limits.iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok());
    Some(limits.fold(machine, u64::min))
}

/// Resident bytes of this process, current and peak; `None` where the system does not tell.
pub fn process_bytes() -> Option<(u64, u64)> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some((kib_of(&status, "VmRSS:")?, kib_of(&status, "VmHWM:")?))
}

/// Raises the soft limit of open files to the hard limit, and returns it; `None` without a limit. The usual soft limit
/// is about a thousand, and connections, segments and temporary files all count.
pub fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    // If the system refuses, the limit stays as it was.
    let _ = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current
}

/// The bytes in a line such as `MemTotal:       24684040 kB`.
fn kib_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_system_are_read() {
        let text = "Name:\tkeyspan\nVmHWM:\t  2048 kB\nVmRSS:\t    12 kB\nThreads:\t4\n";
        assert_eq!((kib_of(text, "VmRSS:"), kib_of(text, "VmHWM:")), (Some(12 << 10), Some(2 << 20)));
        assert_eq!((kib_of(text, "Threads:"), kib_of(text, "VmData:")), (None, None));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_is_smaller_than_its_machine() {
        let (now, peak) = process_bytes().unwrap();
        assert!(now > 0 && now <= peak && peak < machine_bytes().unwrap());
    }
}
