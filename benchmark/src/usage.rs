//! The usage of processes: CPU time and memory, from `/proc`.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, bail};

/// Milliseconds in a tick of `/proc`: `USER_HZ` is 100 on every architecture that Rust's Linux
/// targets run on.
const MS_PER_TICK: u64 = 10;

/// A process, with all below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Name in tables.
    pub name: String,
    /// Process id as seen from outside of the cluster.
    pub pid: u32,
}

impl Watched {
    /// Returns the CPU time used so far by it and its children, in milliseconds.
    ///
    /// # Errors
    /// If it has ended.
    pub fn cpu_ms(&self) -> anyhow::Result<u64> {
        Ok(cpu_ms(std::slice::from_ref(self))?.values().sum())
    }
}

/// Returns the CPU time used so far by each process and its children, in milliseconds.
///
/// # Errors
/// If one of them has ended.
pub fn cpu_ms(processes: &[Watched]) -> anyhow::Result<BTreeMap<String, u64>> {
    let all = stats();
    processes
        .iter()
        .map(|process| {
            let ticks = tree_ticks(&all, process.pid)
                .with_context(|| format!("{} (pid {}) has ended", process.name, process.pid))?;
            Ok((process.name.clone(), ticks * MS_PER_TICK))
        })
        .collect()
}

/// Returns the resident memory of a process alone, in bytes.
///
/// # Errors
/// If it has ended.
pub fn resident(pid: u32) -> anyhow::Result<u64> {
    memory(pid, "VmRSS")
}

/// Returns the most resident memory that a process alone has had, in bytes.
///
/// # Errors
/// If it has ended.
pub fn peak(pid: u32) -> anyhow::Result<u64> {
    memory(pid, "VmHWM")
}

fn memory(pid: u32, name: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    field(&status, &format!("{name}:"))
        .and_then(|kib| kib.split(' ').next()?.parse::<u64>().ok())
        .map(|kib| kib * 1024)
        .with_context(|| format!("{path} has no {name}"))
}

/// Returns the id outside of a process that is `inner` in the process namespace of the cluster with
/// this founder.
///
/// # Errors
/// If there is none.
pub fn outer_pid(founder: u32, inner: u32) -> anyhow::Result<u32> {
    let namespace = fs::read_link(format!("/proc/{founder}/ns/pid_for_children"))
        .context("the cluster has ended")?;
    for pid in pids() {
        let there = fs::read_link(format!("/proc/{pid}/ns/pid"));
        if there.is_ok_and(|there| there == namespace)
            && fs::read_to_string(format!("/proc/{pid}/status"))
                .is_ok_and(|status| innermost(&status) == Some(inner))
        {
            return Ok(pid);
        }
    }
    bail!("no process of the cluster has the id {inner}")
}

fn innermost(status: &str) -> Option<u32> {
    let ids = field(status, "NSpid:")?;
    ids.split_whitespace().next_back()?.parse().ok()
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

/// Parent, own ticks, and ticks of ended children of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    own: u64,
    ended_children: u64,
}

fn stats() -> BTreeMap<u32, Stat> {
    pids()
        .filter_map(|pid| {
            let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, parse_stat(&text)?))
        })
        .collect()
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the numbers in a text of `stat`. The name may hold spaces and parentheses; the fields
/// after the last one are numbers.
fn parse_stat(text: &str) -> Option<Stat> {
    let rest = text.rsplit_once(')')?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own: number(11)? + number(12)?,
        ended_children: number(13)? + number(14)?,
    })
}

fn tree_ticks(all: &BTreeMap<u32, Stat>, root: u32) -> Option<u64> {
    let stat = all.get(&root)?;
    let below: u64 = all
        .iter()
        .filter(|(_, child)| child.parent == root)
        .filter_map(|(pid, _)| tree_ticks(all, *pid))
        .sum();
    Some(stat.own + stat.ended_children + below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_stat_line_whose_name_has_parentheses() {
        let text = "7 (a) (b) S 3 7 7 0 -1 4194560 1 0 0 0 100 20 3 4 20 0 1 0 5 1000 10 18446744073709551615";
        let expected = Stat {
            parent: 3,
            own: 120,
            ended_children: 7,
        };
        assert_eq!(parse_stat(text), Some(expected));
    }

    #[test]
    fn a_tree_counts_children_living_and_ended() {
        let stat = |parent, own, ended_children| Stat {
            parent,
            own,
            ended_children,
        };
        let all = BTreeMap::from([
            (1, stat(0, 1, 0)),
            (2, stat(1, 10, 5)),
            (3, stat(2, 100, 0)),
        ]);
        assert_eq!(tree_ticks(&all, 2), Some(115));
        assert_eq!(tree_ticks(&all, 9), None);
    }

    #[test]
    fn this_process_uses_memory() {
        let own = std::process::id();
        assert!(resident(own).unwrap() > 100_000);
        assert!(peak(own).unwrap() > 100_000);
        assert_eq!(innermost("NSpid:\t123\t4\n"), Some(4));
    }
}
