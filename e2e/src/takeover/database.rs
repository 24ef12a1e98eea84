//! The database in which the servers of a run store their reports.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::TakeoverError;

/// The archive of PostgreSQL's image, and the file with the image's name beside it.
pub(super) const POSTGRES_ARCHIVE: &str = "image-postgres.tar";
const POSTGRES_NAME: &str = "image-postgres.name";

/// The database in which the servers of a run store their reports.
#[derive(Clone, Debug, Default)]
pub enum Database {
    /// SQLite on a volume of the one server's pod.
    #[default]
    Embedded,
    /// PostgreSQL that the operator runs, two servers on it.
    Managed,
    /// The database of this member `database` of the specification, two servers on it.
    Given {
        /// The name in outcomes.
        name: &'static str,
        /// The member.
        spec: Value,
    },
}

impl Database {
    /// Returns the name in outcomes.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Managed => "managed",
            Self::Given { name, .. } => name,
        }
    }

    /// Returns the number of servers.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        match self {
            Self::Embedded => 1,
            Self::Managed | Self::Given { .. } => 2,
        }
    }

    /// Returns the archives that the node needs besides those of server and operator, in `images`.
    #[must_use]
    pub fn archives(&self, images: &Path) -> Vec<PathBuf> {
        match self {
            Self::Managed => vec![images.join(POSTGRES_ARCHIVE)],
            Self::Embedded | Self::Given { .. } => Vec::new(),
        }
    }

    /// Returns the members of the specification that follow from it. A node of the tests has two
    /// cores: it asks for little, so that a third server finds room in a rolling update.
    ///
    /// # Errors
    /// If the image of a managed database was not built.
    pub fn spec(&self, images: &Path) -> Result<Value, TakeoverError> {
        let server = json!({
            "replicas": self.replicas(),
            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        });
        Ok(match self {
            Self::Embedded => json!({"database": {"mode": "Embedded"}}),
            Self::Managed => json!({
                "database": {"mode": "Managed", "managed": {
                    "storage": {"size": "2Gi"},
                    "resources": {
                        "requests": {"cpu": "100m", "memory": "128Mi"},
                        "limits": {"memory": "512Mi"},
                    },
                }},
                "images": {"postgres": {"tag": postgres_image(images)?.rsplit(':').next()}},
                "server": server,
            }),
            Self::Given { spec, .. } => json!({"database": spec, "server": server}),
        })
    }
}

/// Returns the name of the image that `hack/image postgres` made.
pub(super) fn postgres_image(images: &Path) -> Result<String, TakeoverError> {
    let path = images.join(POSTGRES_NAME);
    let missing = || TakeoverError::Missing {
        path: path.clone(),
        hint: "`hack/image postgres` makes it",
    };
    let name = fs::read_to_string(&path).map_err(|_| missing())?;
    if name.contains(':') {
        return Ok(name.trim().to_owned());
    }
    Err(missing())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_managed_database_takes_the_image_that_was_built() {
        let images = tempfile::tempdir().unwrap();
        assert!(Database::Managed.spec(images.path()).is_err());
        let name = "docker.io/library/postgres:15.1-bookworm\n";
        fs::write(images.path().join(POSTGRES_NAME), name).unwrap();
        let spec = Database::Managed.spec(images.path()).unwrap();
        assert_eq!(spec["images"]["postgres"]["tag"], "15.1-bookworm");
        assert_eq!(spec["server"]["replicas"], 2);
    }

    #[test]
    fn an_embedded_database_says_nothing_of_servers() {
        let spec = Database::Embedded.spec(Path::new("/nowhere")).unwrap();
        assert_eq!(spec, json!({"database": {"mode": "Embedded"}}));
    }
}
