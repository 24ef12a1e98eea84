//! Versions of PostgreSQL.

use std::fmt;

/// The oldest major version that will do: the first that compresses columns with lz4.
pub const MINIMUM_MAJOR: u32 = 14;

/// The version that a server reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerVersion {
    /// Major version.
    pub major: u32,
    /// The version as the server writes it, without what a distribution adds.
    pub text: String,
}

impl ServerVersion {
    /// Reads the parameter `server_version`: `17.2 (Debian 17.2-1)`, `18beta1`, `13.0.0`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.split_whitespace().next()?;
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let major = text[..digits].parse().ok()?;
        let text = text.to_owned();
        Some(Self { major, text })
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("17.2 (Debian 17.2-1.pgdg120+1)", Some((17, "17.2")))]
    #[case("18beta1", Some((18, "18beta1")))]
    #[case("9.6.24", Some((9, "9.6.24")))]
    #[case("13.0.0", Some((13, "13.0.0")))]
    #[case("", None)]
    #[case("devel", None)]
    fn versions_are_read(#[case] text: &str, #[case] expected: Option<(u32, &str)>) {
        let version = ServerVersion::parse(text);
        let read = version.as_ref().map(|v| (v.major, v.text.as_str()));
        assert_eq!(read, expected);
    }
}
