//! Rules about volumes. They stand at the object's root, because a rule at a field is not asked when
//! the field, or what it is in, is taken away: a size could then shrink in two steps.

use kube::core::Rule;

use super::defaults::STORAGE_SIZE;
use super::{conditions, reasons};

/// A volume that a `ReportsServer` asks for.
#[derive(Clone, Copy, Debug)]
pub enum Volume {
    /// That of an embedded database.
    Embedded,
    /// That of a PostgreSQL that the operator runs.
    Managed,
    /// That of the backups.
    Backups,
    /// Those of a `Cluster` of `CloudNativePG` that the operator makes.
    CloudNativePg,
}

impl Volume {
    /// Returns the path of its [`StorageSpec`](super::spec::StorageSpec) from the specification.
    const fn path(self) -> &'static str {
        match self {
            Self::Embedded => "database.embedded.storage",
            Self::Managed => "database.managed.storage",
            Self::Backups => "database.backup.destination.pvc.storage",
            Self::CloudNativePg => "database.cloudNativePG.create.storage",
        }
    }

    /// Returns the expression that tells whether the object called `root` asks for such a volume.
    fn is_wanted(self, root: &str) -> String {
        let mode = |mode: &str| {
            let given = has(root, "database.mode");
            format!("({given} && {root}.spec.database.mode == '{mode}')")
        };
        match self {
            Self::Embedded => {
                let default = format!("!({})", has(root, "database.mode"));
                let ephemeral = has(root, "database.embedded.ephemeral");
                format!("(({default} || {}) && !({ephemeral}))", mode("Embedded"))
            }
            Self::Managed => mode("Managed"),
            Self::Backups => {
                let backups = has(root, "database.backup");
                let bucket = has(root, "database.backup.destination.s3");
                format!("({backups} && !({bucket}))")
            }
            Self::CloudNativePg => format!("({})", has(root, "database.cloudNativePG.create")),
        }
    }

    /// Returns the expression that tells whether the old and the new object are about one volume.
    fn stays(self) -> String {
        format!(
            "{} && {}",
            self.is_wanted("oldSelf"),
            self.is_wanted("self")
        )
    }
}

/// Returns the rule that a volume is not made smaller. One that its storage class does not let grow
/// is told in a condition; its size may be set back then.
pub fn grows(volume: Volume) -> Rule {
    let path = format!("{}.size", volume.path());
    let (old, new) = (
        value("oldSelf", &path, STORAGE_SIZE),
        value("self", &path, STORAGE_SIZE),
    );
    let rule = format!(
        "!({}) || quantity({new}).compareTo(quantity({old})) >= 0 || {}",
        volume.stays(),
        cannot_grow()
    );
    let message = format!(
        "{path} can only grow ({STORAGE_SIZE} where it is not set): a volume cannot be made smaller"
    );
    Rule::new(rule)
        .message(message.as_str())
        .field_path(format!(".spec.{path}"))
}

/// Returns the rule that a volume keeps its storage class.
pub fn keeps_class(volume: Volume) -> Rule {
    let path = format!("{}.storageClassName", volume.path());
    let (old, new) = (value("oldSelf", &path, ""), value("self", &path, ""));
    let message = format!("{path} is immutable: a volume cannot change its class");
    Rule::new(format!("!({}) || {new} == {old}", volume.stays()))
        .message(message.as_str())
        .field_path(format!(".spec.{path}"))
}

/// Returns the expression that tells whether the status of the old object says that a volume cannot
/// grow.
fn cannot_grow() -> String {
    format!(
        "(has(oldSelf.status) && has(oldSelf.status.conditions) && \
         oldSelf.status.conditions.exists(c, c.type == '{}' && c.reason == '{}'))",
        conditions::DATABASE_READY,
        reasons::VOLUME_CANNOT_GROW
    )
}

/// Returns the expression that tells whether the specification of `root` has a field, and everything
/// that it is in.
fn has(root: &str, path: &str) -> String {
    let mut whole = format!("{root}.spec");
    let steps = path.split('.').map(|step| {
        whole = format!("{whole}.{step}");
        format!("has({whole})")
    });
    steps.collect::<Vec<_>>().join(" && ")
}

/// Returns the expression for a text of the specification of `root`, or for `default` without it.
fn value(root: &str, path: &str, default: &str) -> String {
    format!("({} ? {root}.spec.{path} : '{default}')", has(root, path))
}
