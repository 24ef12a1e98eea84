//! The commands of docs/uninstall.md, as they stand there.

use std::fs::create_dir_all;
use std::os::unix::fs::symlink;
use std::path::Path;

use testcluster::Cluster;

use super::error::MatrixError;
use super::tool;

const PAGE: &str = include_str!("../../../docs/uninstall.md");
/// The file of a release that holds what stands beside a bundle of OLM, and the same among the
/// manifests.
const BESIDE: [&str; 2] = ["olm-beside.yaml", "olm/beside.yaml"];

/// Returns the commands of the block that follows a line such as `By OLM:`, one or more lines each.
fn commands(line: &str) -> Option<String> {
    let (_, rest) = PAGE.split_once(&format!("\n{line}\n\n```console\n"))?;
    let (block, _) = rest.split_once("\n```")?;
    let lines = block
        .lines()
        .map(|line| line.strip_prefix("$ ").unwrap_or(line));
    Some(lines.collect::<Vec<_>>().join("\n"))
}

/// Removes the operator by the commands after a line of the page, in a folder that has the
/// `manifests` and the files of a release.
///
/// # Errors
/// If a command fails, or is not over in ten minutes.
pub async fn uninstall(
    cluster: &Cluster,
    manifests: &Path,
    line: &'static str,
) -> Result<(), MatrixError> {
    let missing = || MatrixError::Example(format!("docs/uninstall.md has no commands: {line}"));
    let commands = commands(line).ok_or_else(missing)?;
    let folder = cluster.directory().join("uninstall");
    let prepare = || {
        create_dir_all(&folder)?;
        let [release, generated] = BESIDE;
        for (name, target) in [
            ("manifests", manifests.to_owned()),
            (release, manifests.join(generated)),
        ] {
            let link = folder.join(name);
            if !link.is_symlink() {
                symlink(target, link)?;
            }
        }
        Ok(())
    };
    prepare().map_err(|source| MatrixError::File {
        path: folder.clone(),
        source,
    })?;
    let script = format!("set -euo pipefail\n{commands}");
    let mut bash = cluster.command("timeout");
    bash.args(["10m", "bash", "-c", &script])
        .current_dir(&folder);
    tool::run(line, bash).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{argocd, flux, olm};

    #[test]
    fn the_page_has_commands_for_each_way_that_is_removed_by_them() {
        let lines = [
            (olm::PAGE_LINE, 3),
            (argocd::PAGE_LINE, 2),
            (flux::PAGE_LINE, 2),
        ];
        for (line, count) in lines {
            let commands = commands(line).unwrap();
            let found = commands.lines().filter(|line| line.starts_with("kubectl "));
            assert_eq!(found.count(), count, "{commands}");
        }
        assert_eq!(commands("By nothing:"), None);
    }
}
