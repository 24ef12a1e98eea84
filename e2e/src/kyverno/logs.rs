//! The logs of Kyverno's controllers, and of the operators, the servers and their database.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Child;

use super::{CONTROLLERS, KyvernoError, NAMESPACE};
use crate::takeover::{OPERATOR_NAMESPACE, TARGET_NAMESPACE};
use testcluster::Cluster;

/// A task that follows the logs into files as long as it lives.
pub struct Logs {
    files: Vec<PathBuf>,
    _followers: Vec<Child>,
}

impl Logs {
    /// Follows the log of every controller, from its begin on.
    pub fn follow(cluster: &Cluster, folder: &Path) -> Result<Self, KyvernoError> {
        let mut files = Vec::new();
        let mut followers = Vec::new();
        for controller in CONTROLLERS {
            let path = folder.join(format!("{controller}.log"));
            let file = File::create(&path).map_err(KyvernoError::file(&path))?;
            let deployment = format!("deployment/{controller}");
            let mut command = cluster.command("kubectl");
            command
                .args(["-n", NAMESPACE, "logs", "--follow", &deployment])
                .stdin(Stdio::null())
                .stdout(file)
                .stderr(Stdio::null());
            followers.push(command.spawn().map_err(KyvernoError::file(&path))?);
            files.push(path);
        }
        Ok(Self {
            files,
            _followers: followers,
        })
    }

    /// Returns the lines that hold this text, without times and other numbers, and the number of
    /// each.
    pub fn lines_with(&self, text: &str) -> Result<BTreeMap<String, u64>, KyvernoError> {
        let mut lines = BTreeMap::new();
        for path in &self.files {
            let file = File::open(path).map_err(KyvernoError::file(path))?;
            for line in BufReader::new(file).split(b'\n') {
                let line = line.map_err(KyvernoError::file(path))?;
                let line = String::from_utf8_lossy(&line);
                if line.contains(text) {
                    *lines.entry(kind(&line)).or_default() += 1;
                }
            }
        }
        Ok(lines)
    }
}

/// Copies the logs of the pods that serve the reports into `folder`, as `POD_CONTAINER.N.log`.
///
/// # Errors
/// If a log cannot be copied.
pub fn copy_ours(cluster: &Cluster, folder: &Path) -> Result<(), KyvernoError> {
    for pod in names(&cluster.pod_logs())? {
        // NAMESPACE_NAME_UID, of which no part has an underscore.
        let [namespace, name, _] = pod.split('_').collect::<Vec<_>>()[..] else {
            continue;
        };
        if ![OPERATOR_NAMESPACE, TARGET_NAMESPACE].contains(&namespace) {
            continue;
        }
        let containers = cluster.pod_logs().join(&pod);
        for container in names(&containers)? {
            for log in names(&containers.join(&container))? {
                let from = containers.join(&container).join(&log);
                let to = folder.join(format!("{name}_{container}.{log}"));
                std::fs::copy(&from, &to).map_err(KyvernoError::file(&from))?;
            }
        }
    }
    Ok(())
}

/// Returns the names in a folder.
fn names(folder: &Path) -> Result<Vec<String>, KyvernoError> {
    let failed = KyvernoError::file(folder);
    let entries = std::fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(failed)?;
    let names = entries.iter().map(std::fs::DirEntry::file_name);
    Ok(names
        .map(|name| name.to_string_lossy().into_owned())
        .collect())
}

/// Longest text of a line.
const LENGTH: usize = 300;

/// Returns the common part of lines that differ by times, other numbers and colours.
fn kind(line: &str) -> String {
    let mut kind = String::new();
    let mut coloured = false;
    for char in line.chars() {
        match char {
            '\u{1b}' => coloured = true,
            'm' if coloured => coloured = false,
            _ if coloured => {}
            '0'..='9' if kind.ends_with('#') => {}
            '0'..='9' => kind.push('#'),
            char => kind.push(char),
        }
    }
    kind.chars().take(LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_by_numbers_are_of_one_kind() {
        assert_eq!(kind("10:22 v1alpha2 x"), "#:# v#alpha# x");
        assert_eq!(kind("\u{1b}[90m2026\u{1b}[0m model"), "# model");
    }
}
