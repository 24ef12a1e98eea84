//! The options of a connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::version::MINIMUM_MAJOR;

/// The options of a connection and its limits.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The name that the database shows in `pg_stat_activity`; PostgreSQL cuts it after 63 bytes.
    pub application_name: String,
    /// Time for one address, from its lookup to the answer that the session can be used: 5 s.
    pub attempt_timeout: Duration,
    /// Time for all hosts together: 15 s.
    pub total_timeout: Duration,
    /// The longest time that data which was sent may wait for its acknowledgement by the other
    /// side's kernel before the connection counts as lost: 10 s.
    pub tcp_user_timeout: Duration,
    /// Silence after which the other side's kernel is asked whether it is still there: 10 s, then
    /// three times every 3 s.
    pub keepalive_idle: Duration,
    /// Settings of the session, such as `statement_timeout`, in force from its first statement.
    /// They are part of the greeting, so that no round trip is spent on them.
    pub settings: Vec<(String, String)>,
    /// The oldest major version that will do: [`MINIMUM_MAJOR`].
    pub minimum_major: u32,
    /// The addresses of hosts, instead of those that their names resolve to; the certificate is
    /// still for the name. For a process outside of the network in which the names mean something.
    pub resolve: BTreeMap<String, SocketAddr>,
}

impl ConnectOptions {
    /// Returns the usual options, with this name.
    pub fn new(application_name: impl Into<String>) -> Self {
        Self {
            application_name: application_name.into(),
            attempt_timeout: Duration::from_secs(5),
            total_timeout: Duration::from_secs(15),
            tcp_user_timeout: Duration::from_secs(10),
            keepalive_idle: Duration::from_secs(10),
            settings: Vec::new(),
            minimum_major: MINIMUM_MAJOR,
            resolve: BTreeMap::new(),
        }
    }

    /// Adds a setting of the session.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Has the server end every statement after this time.
    #[must_use]
    pub fn statement_timeout(self, after: Duration) -> Self {
        self.setting("statement_timeout", after.as_millis().to_string())
    }

    /// Has the server end every wait for a lock after this time.
    #[must_use]
    pub fn lock_timeout(self, after: Duration) -> Self {
        self.setting("lock_timeout", after.as_millis().to_string())
    }

    /// Has the server end a transaction whose client says nothing for this time.
    #[must_use]
    pub fn idle_in_transaction_timeout(self, after: Duration) -> Self {
        let name = "idle_in_transaction_session_timeout";
        self.setting(name, after.as_millis().to_string())
    }

    /// Returns the settings as the greeting carries them: `-c NAME=VALUE`, spaces and backslashes
    /// escaped.
    pub(super) fn startup_options(&self) -> Option<String> {
        let mut text = String::new();
        for (name, value) in &self.settings {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str("-c ");
            for character in name.chars().chain(['=']).chain(value.chars()) {
                if character.is_whitespace() || character == '\\' {
                    text.push('\\');
                }
                text.push(character);
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_escaped_for_the_greeting() {
        let options = ConnectOptions::new("test")
            .statement_timeout(Duration::from_millis(1500))
            .setting("search_path", r"a, b\c");
        assert_eq!(
            options.startup_options().as_deref(),
            Some(r"-c statement_timeout=1500 -c search_path=a,\ b\\c")
        );
        assert_eq!(ConnectOptions::new("test").startup_options(), None);
    }
}
