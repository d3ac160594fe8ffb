use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use crate::LimitKind;
use crate::folder::{Folder, Usage};
use crate::options::KernelLimits;

/// What the processes of a kernel use together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Use {
    /// Memory that does not come from files, in bytes.
    pub memory: u64,
    /// The time that processors worked.
    pub processor_time: Duration,
}

/// How often a kernel is looked at.
pub(crate) const OFTEN: Duration = Duration::from_millis(100);

/// Ticks of a second, as Linux has them on the machines that have a filter.
const TICKS: u64 = 100;

/// Returns a process and all that descend from it. In a sandbox, orphans descend from its first process.
fn tree(root: u32) -> BTreeSet<u32> {
    let mut seen = BTreeSet::new();
    let mut open = vec![root];
    while let Some(process) = open.pop() {
        if seen.insert(process) {
            for task in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
                let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
                open.extend(children.split_ascii_whitespace().filter_map(|child| child.parse::<u32>().ok()));
            }
        }
    }
    seen
}

/// Returns what a process and all that descend from it use. Memory that processes share is counted for each of them.
pub(crate) fn of_tree(root: u32) -> Use {
    let mut sum = Use::default();
    let mut ticks = 0;
    for process in tree(root) {
        sum.memory += memory_of(process);
        // The name, in parentheses, may have anything in it. After it, utime is the 12th field; the times of children
        // that have ended follow.
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        ticks +=
            after.split_ascii_whitespace().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
    }
    sum.processor_time = Duration::from_millis(ticks * 1000 / TICKS);
    sum
}

/// Returns the memory of a process that does not come from files, with its page tables. A process whose first thread has
/// ended has it in its others.
fn memory_of(process: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let paths = std::iter::once(format!("/proc/{process}/status").into())
        .chain(threads.map(|thread| thread.path().join("status")));
    for path in paths {
        let status = fs::read_to_string(path).unwrap_or_default();
        if !status.contains("VmRSS:") {
            continue;
        }
        let counts =
            |line: &&str| ["RssAnon:", "RssShmem:", "VmPTE:", "VmSwap:"].iter().any(|name| line.starts_with(name));
        let sizes =
            status.lines().filter(counts).filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
        return sizes.sum::<u64>() * 1024;
    }
    0
}

/// Returns the memory that processes use, each of several that share a page with its part of it. It takes longer.
fn exact_memory(root: u32) -> u64 {
    let of_process = |process: u32| {
        let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
        if !rollup.contains("Pss_Anon:") {
            return memory_of(process);
        }
        let counts = |line: &&str| ["Pss_Anon:", "Pss_Shmem:", "SwapPss:"].iter().any(|name| line.starts_with(name));
        let sizes =
            rollup.lines().filter(counts).filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let tables = status
            .lines()
            .find_map(|line| line.strip_prefix("VmPTE:")?.split_ascii_whitespace().next()?.parse::<u64>().ok());
        (sizes.sum::<u64>() + tables.unwrap_or(0)) * 1024
    };
    tree(root).into_iter().map(of_process).sum()
}

/// Returns the space of files that have no name any more, and that a process has open.
fn deleted(root: u32) -> u64 {
    let mut seen = BTreeSet::new();
    let mut sum = 0;
    for process in tree(root) {
        for file in fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten() {
            if let Ok(data) = fs::metadata(file.path())
                && data.is_file()
                && data.nlink() == 0
                && seen.insert((data.dev(), data.ino()))
            {
                sum += data.blocks() * 512;
            }
        }
    }
    sum
}

/// What a kernel may use until its next call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// The processor time since it was started.
    pub processor_time: Duration,
    /// The space of its files.
    pub files: Usage,
}

/// How many times the limit a folder may have, and a call may still begin on it to delete something. A call grows beyond
/// the limit before it is seen, and calls that all do so must not fill the disk.
const MOST_BYTES_OVER: u64 = 4;
const MOST_FILES_OVER: u64 = 16;

/// Returns the space that a call may have that begins now: the limit, or what is there already.
pub(crate) fn room(root: u32, folder: &Folder, limits: &KernelLimits) -> Usage {
    let limit = Usage::limit(limits);
    let bytes = limit.bytes.saturating_mul(MOST_BYTES_OVER);
    let most = Usage { bytes, files: limit.files.saturating_mul(MOST_FILES_OVER) };
    let usage = usage(root, folder, most);
    match usage.is_beyond(most) {
        true => limit,
        false => Usage { bytes: usage.bytes.max(limit.bytes), files: usage.files.max(limit.files) },
    }
}

/// Returns the space of the files of a kernel, as far as `most`.
fn usage(root: u32, folder: &Folder, most: Usage) -> Usage {
    let mut usage = folder.usage(most);
    usage.bytes += deleted(root);
    usage
}

/// Returns the limit that a kernel is beyond, if any.
pub(crate) fn beyond(root: u32, folder: &Folder, limits: &KernelLimits, most: Allowance) -> Option<(LimitKind, u64)> {
    let used = of_tree(root);
    if used.memory > limits.memory && exact_memory(root) > limits.memory {
        return Some((LimitKind::Memory, limits.memory));
    }
    if used.processor_time > most.processor_time {
        return Some((LimitKind::ProcessorTime, limits.processor_time.as_secs()));
    }
    let usage = usage(root, folder, most.files);
    if usage.bytes > most.files.bytes {
        return Some((LimitKind::Disk, limits.disk));
    }
    (usage.files > most.files.files).then_some((LimitKind::Files, limits.files))
}
