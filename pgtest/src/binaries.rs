//! The place of PostgreSQL's programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// The programs of one version of PostgreSQL.
#[derive(Debug, Clone)]
pub struct Binaries {
    directory: PathBuf,
    version: String,
}

impl Binaries {
    /// Returns the newest version that Debian's packages have installed, or the one that
    /// `PGTEST_BINARIES` (a directory) names.
    pub fn find() -> Result<Self> {
        let directory = match std::env::var_os("PGTEST_BINARIES") {
            Some(directory) => PathBuf::from(directory),
            None => newest(Path::new("/usr/lib/postgresql"))?,
        };
        let postgres = directory.join("postgres");
        let output = Command::new(&postgres)
            .arg("--version")
            .output()
            .with_context(|| format!("cannot run {}", postgres.display()))?;
        // "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)"
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(version) = text.split_whitespace().nth(2) else {
            bail!("{} has no version in {text:?}", postgres.display());
        };
        Ok(Self {
            directory,
            version: version.to_owned(),
        })
    }

    /// Returns the path of `program`.
    pub fn path(&self, program: &str) -> PathBuf {
        self.directory.join(program)
    }

    /// Returns the version as PostgreSQL prints it, for example `15.14`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the first number of the version.
    pub fn major(&self) -> u32 {
        leading_number(&self.version)
    }
}

fn newest(root: &Path) -> Result<PathBuf> {
    let advice = || {
        format!(
            "no PostgreSQL in {}; run hack/deps postgres",
            root.display()
        )
    };
    std::fs::read_dir(root)
        .with_context(advice)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("bin/postgres").exists())
        .max_by_key(|path| {
            path.file_name()
                .map_or(0, |name| leading_number(&name.to_string_lossy()))
        })
        .map(|path| path.join("bin"))
        .with_context(advice)
}

fn leading_number(text: &str) -> u32 {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::leading_number;

    #[test]
    fn versions_begin_with_the_major() {
        assert_eq!(leading_number("15.14"), 15);
        assert_eq!(leading_number("9"), 9);
        assert_eq!(leading_number("19beta1"), 19);
        assert_eq!(leading_number("devel"), 0);
    }
}
