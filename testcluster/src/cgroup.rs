//! The cgroups of a cluster's pods: all below one of its own, so that clusters run side
//! by side and a crashed one's can be removed.

use std::path::{Path, PathBuf};
use std::{fs, io};

const MOUNT: &str = "/sys/fs/cgroup";
const PARENT: &str = "reports-server-e2e";

/// Returns the cluster's cgroup as the kubelet's `cgroupRoot`.
pub(super) fn root(cluster: &str) -> String {
    format!("/{PARENT}/{cluster}")
}

/// Makes the cluster's cgroup in every hierarchy.
pub(super) fn create(cluster: &str) -> io::Result<()> {
    for hierarchy in hierarchies(Path::new(MOUNT)) {
        let parent = hierarchy.join(PARENT);
        if hierarchy.join("cgroup.controllers").exists() {
            delegate(&hierarchy)?;
            fs::create_dir_all(&parent)?;
            delegate(&parent)?;
        }
        fs::create_dir_all(parent.join(cluster))?;
    }
    Ok(())
}

/// Removes the cluster's cgroup with all below it. Fails while a process is in one.
pub(super) fn remove(cluster: &str) -> io::Result<()> {
    for hierarchy in hierarchies(Path::new(MOUNT)) {
        remove_tree(&hierarchy.join(PARENT).join(cluster))?;
    }
    Ok(())
}

/// Returns the hierarchies. Version 2 has one hierarchy at the mount point; version 1 one for each
/// set of controllers below it, and perhaps a version 2 without controllers among them.
fn hierarchies(mount: &Path) -> Vec<PathBuf> {
    if mount.join("cgroup.controllers").exists() {
        return vec![mount.to_owned()];
    }
    let Ok(entries) = fs::read_dir(mount) else {
        return Vec::new();
    };
    entries
        .flatten()
        // Symbolic links are other names of the same hierarchy.
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .filter(|path| path.join("cgroup.procs").exists())
        .collect()
}

/// Hands all of a cgroup's controllers of version 2 down to its children, one by one because some
/// cannot be.
fn delegate(cgroup: &Path) -> io::Result<()> {
    let controllers = fs::read_to_string(cgroup.join("cgroup.controllers"))?;
    for controller in controllers.split_whitespace() {
        let _ = fs::write(
            cgroup.join("cgroup.subtree_control"),
            format!("+{controller}"),
        );
    }
    Ok(())
}

/// Removes a cgroup with its children. Its files cannot be removed, only its directory, children
/// first.
fn remove_tree(cgroup: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(cgroup) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(cgroup)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_has_many_hierarchies_and_links_are_not_counted() {
        let mount = tempfile::tempdir().unwrap();
        for controller in ["cpu", "memory"] {
            let path = mount.path().join(controller);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("cgroup.procs"), "").unwrap();
        }
        std::os::unix::fs::symlink("cpu", mount.path().join("cpuacct")).unwrap();
        assert_eq!(hierarchies(mount.path()).len(), 2);
    }

    #[test]
    fn version_2_has_one() {
        let mount = tempfile::tempdir().unwrap();
        fs::write(mount.path().join("cgroup.controllers"), "cpu memory").unwrap();
        fs::create_dir(mount.path().join("system.slice")).unwrap();
        assert_eq!(hierarchies(mount.path()), [mount.path()]);
    }
}
