//! The order in the directory: whether to move, and where to.

use std::path::Path;
use std::{fs, io};

use crds::control::move_file;

use super::MoveError;
use super::source::Order;
use crate::store::PostgresOptions;

/// The parts of an order beside the parameters of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MoveRequest {
    /// Identity of the cluster in the other database.
    pub identity: String,
    /// Name of the cluster for people.
    pub name: String,
    /// Most connections; the default where it is absent.
    pub max_connections: Option<usize>,
    /// Name of the database in the words of the client that asks.
    pub target: String,
    /// A name that tells the order from earlier ones; may be empty.
    pub id: String,
    /// True where it leads to a file of the server.
    pub to_file: bool,
    /// True when the move is to be given up.
    pub give_up: bool,
}

impl MoveRequest {
    /// Reads the directory; `None` where nothing is asked for.
    pub fn read(directory: &Path) -> Option<Self> {
        let file = |name: &str| text(&directory.join(name));
        let optional = |name: &str| file(name).ok().flatten();
        let to_file = optional(move_file::TO_FILE).is_some();
        let identity = optional(move_file::CLUSTER_IDENTITY).filter(|_| !to_file);
        if identity.is_none() && !to_file {
            return None;
        }
        Some(Self {
            identity: identity.unwrap_or_default(),
            name: optional(move_file::CLUSTER_NAME).unwrap_or_default(),
            max_connections: optional(move_file::MAX_CONNECTIONS).and_then(|n| n.parse().ok()),
            target: optional(move_file::TARGET).unwrap_or_default(),
            id: optional(move_file::ORDER).unwrap_or_default(),
            to_file,
            give_up: optional(move_file::GIVE_UP).is_some(),
        })
    }

    /// Returns the order, as far as the database that is moved has to know it.
    pub fn order(&self) -> Order<'_> {
        Order {
            identity: &self.identity,
            name: &self.name,
            id: self.known_as(),
        }
    }

    /// Returns what tells the order from others. It is never empty.
    pub fn known_as(&self) -> &str {
        [&self.id, &self.target]
            .into_iter()
            .find(|name| !name.is_empty())
            .map_or("the only one", String::as_str)
    }

    /// Returns the options of the other database.
    pub fn options(&self, directory: &Path, identity: &str) -> PostgresOptions {
        let mut options = PostgresOptions::new(directory, identity);
        options.cluster_name.clone_from(&self.name);
        if let Some(max) = self.max_connections {
            options.max_connections = max;
        }
        options
    }

    /// Checks that the order can be followed.
    pub fn check(&self) -> Result<(), MoveError> {
        if self.identity.is_empty() && !self.to_file {
            let what = format!("{} is empty", move_file::CLUSTER_IDENTITY);
            return Err(MoveError::Request(what));
        }
        Ok(())
    }
}

fn text(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_asked_for_without_an_identity() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(MoveRequest::read(&directory.path().join("absent")), None);
        fs::write(directory.path().join(move_file::TARGET), "t").unwrap();
        assert_eq!(MoveRequest::read(directory.path()), None);
    }

    #[test]
    fn files_are_read_without_their_last_newline() {
        let directory = tempfile::tempdir().unwrap();
        let files = [
            (move_file::CLUSTER_IDENTITY, "c\n"),
            (move_file::MAX_CONNECTIONS, "7\n"),
            (move_file::TARGET, "Managed"),
            (move_file::ORDER, "7\n"),
            (move_file::GIVE_UP, ""),
        ];
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let request = MoveRequest::read(directory.path()).unwrap();
        let expected = MoveRequest {
            identity: "c".to_owned(),
            name: String::new(),
            max_connections: Some(7),
            target: "Managed".to_owned(),
            id: "7".to_owned(),
            to_file: false,
            give_up: true,
        };
        assert_eq!(request, expected);
        assert_eq!(request.known_as(), "7");
        let id = String::new();
        assert_eq!(MoveRequest { id, ..request }.known_as(), "Managed");
        assert_eq!(MoveRequest::default().known_as(), "the only one");
        assert!(MoveRequest::default().check().is_err());
    }

    #[test]
    fn a_file_of_the_server_needs_no_identity() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(move_file::TO_FILE), "true").unwrap();
        fs::write(directory.path().join(move_file::ORDER), "7").unwrap();
        let request = MoveRequest::read(directory.path()).unwrap();
        assert!(request.to_file);
        request.check().unwrap();
        assert_eq!(request.order().identity, "");
        assert_eq!(request.known_as(), "7");
    }
}
