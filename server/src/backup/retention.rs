//! The backups that have been kept long enough.

use std::time::Duration;

use jiff::Timestamp;

use super::Stored;

/// Returns the names of the backups that are older than `retention`. `newest` stays, however short
/// that is, and so does one whose age is not known.
pub(super) fn expired<'a>(
    stored: &'a [Stored],
    newest: &str,
    now: Timestamp,
    retention: Duration,
) -> Vec<&'a str> {
    let too_old = |modified: Timestamp| {
        Duration::try_from(now.duration_since(modified)).is_ok_and(|age| age > retention)
    };
    stored
        .iter()
        .filter(|backup| backup.name != newest && backup.modified.is_some_and(too_old))
        .map(|backup| backup.name.as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_go_and_the_newest_stays() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let backup = |name: &str, modified: Option<&str>| Stored {
            name: name.to_owned(),
            modified: modified.map(at),
        };
        let stored = [
            backup("old", Some("2026-01-01T00:00:00Z")),
            backup("young", Some("2026-01-09T23:00:01Z")),
            backup("newest", Some("2026-01-01T00:00:00Z")),
            backup("of-the-future", Some("2026-02-01T00:00:00Z")),
            backup("unknown", None),
        ];
        let now = at("2026-01-10T00:00:00Z");
        let hour = Duration::from_hours(1);
        assert_eq!(expired(&stored, "newest", now, hour), ["old"]);
    }
}
