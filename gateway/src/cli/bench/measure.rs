//! How long something takes, and what the process took for it.

use anyhow::{Context, Result, ensure};
use std::{
    fs,
    future::Future,
    time::{Duration, Instant},
};

/// What a run of something took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// In seconds.
    pub(super) wall: f64,
    /// Of all threads of the process, in seconds.
    pub(super) cpu: f64,
}

/// Times a run.
///
/// # Errors
/// Its own.
pub(super) async fn timed<T>(run: impl Future<Output = Result<T>>) -> Result<(T, Taken)> {
    let (began, cpu) = (Instant::now(), cpu());
    let done = run.await?;
    let taken = Taken { wall: began.elapsed().as_secs_f64(), cpu: self::cpu() - cpu };
    Ok((done, taken))
}

/// Seconds that the threads of the process have computed, those that ended left out; 0 where the system does not tell.
fn cpu() -> f64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos = tasks.filter_map(|task| {
        let times = fs::read_to_string(task.path().join("schedstat")).ok()?;
        times.split_whitespace().next()?.parse::<u64>().ok()
    });
    nanos.sum::<u64>() as f64 / 1e9
}

/// The middle of some numbers: of an even number of them the mean of both in the middle. 0 of none.
pub(super) fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    let middle = of.len() / 2;
    match of.len() {
        0 => 0.0,
        even if even.is_multiple_of(2) => f64::midpoint(of[middle - 1], of[middle]),
        _ => of[middle],
    }
}

/// The time, in seconds, below which so many of a hundred are.
pub(super) fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).map_or(0.0, Duration::as_secs_f64)
}

/// Bytes that the process has given the system to write, so far; `None` where it does not tell.
pub(super) fn bytes_written() -> Option<u64> {
    let io = fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("wchar: "))?.trim().parse().ok()
}

/// Lets the peak of the process's memory begin anew, where the system can do that.
pub(super) fn forget_peak() {
    // Where it cannot, the peak is that of the whole run, which is no less.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Bytes of the files in a folder, those that are named.
///
/// # Errors
/// The system's.
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
