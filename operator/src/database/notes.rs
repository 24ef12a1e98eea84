//! The note on a volume about the backup that its database starts with.

/// Note on a volume whose backup is not restored yet.
pub(super) const PENDING: &str = "pending";
/// Beginning of the note on a volume that started with a backup; its name follows.
pub(super) const DONE: &str = "done:";

/// Returns the note about the backup of this name; `pending` says that it still has to be restored.
pub(super) fn of_recovery(backup: &str, pending: bool) -> String {
    if pending {
        PENDING.to_owned()
    } else {
        format!("{DONE}{backup}")
    }
}
