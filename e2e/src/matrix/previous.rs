//! The release before the one that is tried.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::MatrixError;

/// The release before, as `hack/previous` builds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Previous {
    /// The manifests.
    pub manifests: PathBuf,
    /// The archives of the images.
    pub archives: Vec<PathBuf>,
    /// The version.
    pub version: String,
}

impl Previous {
    /// Returns the release in a folder that `hack/previous` prints.
    ///
    /// # Errors
    /// If the folder has none.
    pub fn read(folder: &Path) -> Result<Self, MatrixError> {
        let path = folder.join("version");
        let version = fs::read_to_string(&path);
        let version = version.map_err(|source| MatrixError::File { path, source })?;
        let images = folder.join("images");
        Ok(Self {
            manifests: folder.join("manifests"),
            archives: ["image-server.tar", "image-operator.tar"]
                .map(|name| images.join(name))
                .to_vec(),
            version: version.trim().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_manifests_images_and_a_version() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Previous::read(folder.path()).is_err());
        fs::write(folder.path().join("version"), "0.0.1\n").unwrap();
        let previous = Previous::read(folder.path()).unwrap();
        assert_eq!(previous.version, "0.0.1");
        assert_eq!(previous.manifests, folder.path().join("manifests"));
        let server = folder.path().join("images/image-server.tar");
        assert_eq!(previous.archives.first(), Some(&server));
    }
}
