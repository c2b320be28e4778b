//! Measures the time of an action, and what the process takes of CPU, memory and disk.

use anyhow::{Context, Result, ensure};
use std::{
    fs,
    future::Future,
    time::{Duration, Instant},
};

/// The time of one run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Elapsed {
    /// In seconds.
    pub(super) wall: f64,
    /// Of all threads of the process, in seconds.
    pub(super) cpu: f64,
}

/// Runs an action and measures its time.
///
/// # Errors
/// Those of the action.
pub(super) async fn timed<T>(run: impl Future<Output = Result<T>>) -> Result<(T, Elapsed)> {
    let (began, cpu) = (Instant::now(), cpu());
    let done = run.await?;
    let elapsed = Elapsed { wall: began.elapsed().as_secs_f64(), cpu: self::cpu() - cpu };
    Ok((done, elapsed))
}

/// CPU seconds of the process's threads, without those that have ended; 0 if the system does not say.
fn cpu() -> f64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = tasks.filter_map(|task| {
        let times = fs::read_to_string(task.path().join("schedstat")).ok()?;
        times.split_whitespace().next()?.parse::<u64>().ok()
    });
    nanos.sum::<u64>() as f64 / 1e9
}

/// The median; the mean of both middle numbers if their count is even, 0 if there are none.
pub(super) fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    let middle = of.len() / 2;
    match of.len() {
        0 => 0.0,
        even if even.is_multiple_of(2) => f64::midpoint(of[middle - 1], of[middle]),
        _ => of[middle],
    }
}

/// A percentile of times, in seconds.
pub(super) fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).map_or(0.0, Duration::as_secs_f64)
}

/// Bytes that the process has written so far; `None` if the system does not say.
pub(super) fn bytes_written() -> Option<u64> {
    let io = fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("wchar: "))?.trim().parse().ok()
}

/// Resets the peak of the process's memory, if the system can.
pub(super) fn reset_peak() {
    // If it cannot, the peak is that of the whole run, which is an upper bound.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The size of some files together, in bytes.
///
/// # Errors
/// If a file cannot be read, or is empty.
pub(super) fn file_bytes<'a>(files: impl IntoIterator<Item = &'a std::path::PathBuf>) -> Result<u64> {
    let size = |file: &std::path::PathBuf| {
        let data = fs::metadata(file).with_context(|| format!("cannot look at {}", file.display()))?;
        ensure!(data.len() > 0, "{} is empty", file.display());
        Ok(data.len())
    };
    files.into_iter().map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_found() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(Vec::new()), 0.0);
        let mut times: Vec<_> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!((percentile(&mut times, 50), percentile(&mut times, 99)), (0.101, 0.199));
        assert_eq!(percentile(&mut [], 99), 0.0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_written_is_counted() {
        let before = bytes_written().unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, &[1; 10_000]).unwrap();
        assert!(bytes_written().unwrap() >= before + 10_000);
        assert_eq!(file_bytes([&file.path().to_owned()]).unwrap(), 10_000);
    }
}
