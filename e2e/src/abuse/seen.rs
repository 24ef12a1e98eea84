//! The view of a client.

/// A client's view of one API group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Name of the group.
    pub name: String,
    /// True when all its APIServices lead to the server; nothing where they differ, or cannot be
    /// read.
    pub at_server: Option<bool>,
    /// The reason why reading or watching failed; nothing where neither did.
    pub unread: Option<String>,
    /// The reason why writing failed; nothing where it did not.
    pub unwritten: Option<String>,
}

impl Group {
    /// Returns why the group is not served; nothing where it is.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let why = self.unread.as_ref().or(self.unwritten.as_ref())?;
        Some(format!("{}: {why}", self.name))
    }
}

/// A client's view of all groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The groups.
    pub groups: Vec<Group>,
    /// True when the control API answers through the kube-apiserver.
    pub control_api: bool,
    /// True when the Secret of the serving certificate has certificate and key.
    pub certificate: bool,
}

impl Seen {
    /// Returns why some group is not served; nothing where all are.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.groups.iter().find_map(Group::problem)
    }

    /// Returns the first group that is not where it is wanted.
    #[must_use]
    pub fn misplaced<'a>(&self, wanted: &'a [(String, bool)]) -> Option<&'a str> {
        let of = |name: &str| self.groups.iter().find(|group| group.name == name);
        let misplaced = wanted.iter().find(|(name, at_server)| {
            of(name).is_none_or(|group| group.at_server != Some(*at_server))
        });
        misplaced.map(|(name, _)| name.as_str())
    }

    /// Returns whether a write was stored by the server.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        let stored = |group: &Group| group.at_server == Some(true) && group.unwritten.is_none();
        self.groups.iter().any(stored)
    }
}
