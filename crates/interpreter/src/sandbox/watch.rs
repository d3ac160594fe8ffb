use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use crate::LimitKind;
use crate::folder::Folder;
use crate::options::Limits;

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

/// Bytes of a page, and ticks of a second, as Linux has them on the machines that have a filter.
const PAGE: u64 = 4096;
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
        let read = |name: &str| fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
        let pages: Vec<u64> = read("statm").split(' ').filter_map(|field| field.trim().parse().ok()).collect();
        if let [_, resident, shared, ..] = pages[..] {
            sum.memory += resident.saturating_sub(shared) * PAGE;
        }
        // The name, in parentheses, may have anything in it. After it, utime is the 12th field; the times of children
        // that have ended follow.
        let stat = read("stat");
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        ticks +=
            after.split_ascii_whitespace().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>();
    }
    sum.processor_time = Duration::from_millis(ticks * 1000 / TICKS);
    sum
}

/// Returns the memory that processes use, each of several that share a page with its part of it. It takes longer.
fn exact_memory(root: u32) -> u64 {
    let of_process = |process: u32| {
        let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
        let fields = rollup.lines().filter(|line| line.starts_with("Pss_Anon:") || line.starts_with("SwapPss:"));
        Some(fields.filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()).sum::<u64>() * 1024)
    };
    tree(root).into_iter().filter_map(of_process).sum()
}

/// Returns the limit that a kernel is beyond, if any.
pub(crate) fn beyond(root: u32, folder: &Folder, limits: &Limits, until: Duration) -> Option<(LimitKind, u64)> {
    let used = of_tree(root);
    if used.memory > limits.memory && exact_memory(root) > limits.memory {
        return Some((LimitKind::Memory, limits.memory));
    }
    if used.processor_time > until {
        return Some((LimitKind::ProcessorTime, limits.processor_time.as_secs()));
    }
    let usage = folder.usage();
    if usage.bytes > limits.disk {
        return Some((LimitKind::Disk, limits.disk));
    }
    (usage.files > limits.files).then_some((LimitKind::Files, limits.files))
}
