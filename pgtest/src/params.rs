//! The directory from which a client learns the address of the database.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Keys and values as the server and the operator read them: `host`, `port`, `dbname`, `username`,
/// `password`, `sslmode`, `target_session_attrs`, `ca.crt`, `tls.crt`, `tls.key`, or `uri` instead
/// of the first ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params(BTreeMap<String, String>);

impl Params {
    /// Returns no parameters yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the parameters with `key` set to `value`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    /// Returns the parameters without `key`.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.0.remove(key);
        self
    }

    /// Returns the parameters with another port of 127.0.0.1: a proxy's or a pooler's.
    #[must_use]
    pub fn at_port(self, port: u16) -> Self {
        self.with("port", port.to_string())
    }

    /// Returns the value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Returns the data of a Secret: key and bytes.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, Vec<u8>> {
        self.0
            .iter()
            .map(|(key, value)| (key.clone(), value.clone().into_bytes()))
            .collect()
    }

    /// Writes them into `directory`, which is made when absent, and replaces earlier ones there.
    /// All files change at the same moment, as in a volume that the kubelet keeps up to date: they
    /// are links into `..data`, which is a link to a directory of this version.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory)?;
        let version = tempfile::Builder::new()
            .prefix("..")
            .tempdir_in(directory)
            .with_context(|| format!("cannot write to {}", directory.display()))?
            .keep();
        for (key, value) in &self.0 {
            std::fs::write(version.join(key), value)?;
        }
        let current = directory.join("..data");
        let previous = std::fs::read_link(&current).ok();
        let staged = directory.join("..data_tmp");
        symlink(version.file_name().unwrap_or_default(), &staged)?;
        std::fs::rename(&staged, &current)?;
        self.link(directory)?;
        if let Some(previous) = previous {
            std::fs::remove_dir_all(directory.join(previous))?;
        }
        Ok(())
    }

    /// Adds the links of new keys and drops those of keys that are gone.
    fn link(&self, directory: &Path) -> Result<()> {
        for entry in std::fs::read_dir(directory)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with("..")) else {
                continue;
            };
            if !self.0.contains_key(name) {
                std::fs::remove_file(directory.join(name))?;
            }
        }
        for key in self.0.keys() {
            let link = directory.join(key);
            if !link.is_symlink() {
                symlink(PathBuf::from("..data").join(key), link)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::Params;

    #[test]
    fn writing_again_replaces_everything() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let params = Params::new().with("host", "a").with("password", "one");
        params.write(path).unwrap();
        assert_eq!(
            std::fs::read_to_string(path.join("password")).unwrap(),
            "one"
        );
        params
            .without("host")
            .with("password", "two")
            .with("port", "1")
            .write(path)
            .unwrap();
        assert_eq!(
            std::fs::read_to_string(path.join("password")).unwrap(),
            "two"
        );
        assert_eq!(std::fs::read_to_string(path.join("port")).unwrap(), "1");
        assert!(!path.join("host").exists());
        // Three links, and the directory of one version.
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 4);
    }
}
