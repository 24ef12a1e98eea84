//! Values that are one of several words.

use std::fmt;

use super::{ParametersError, key};

/// The protection of the connection, as libpq means it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SslMode {
    /// No TLS.
    Disable,
    /// TLS. Any server that answers is believed, unless a CA is given: then as
    /// [`SslMode::VerifyCa`].
    Require,
    /// TLS, and the certificate is signed by one of the CAs.
    VerifyCa,
    /// As [`SslMode::VerifyCa`], and the certificate is for the host that was asked for.
    #[default]
    VerifyFull,
}

impl SslMode {
    /// Returns the mode as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, ParametersError> {
        let why = match text {
            "disable" => return Ok(Self::Disable),
            "require" => return Ok(Self::Require),
            "verify-ca" => return Ok(Self::VerifyCa),
            "verify-full" => return Ok(Self::VerifyFull),
            "allow" | "prefer" => {
                "is {}, which may connect without TLS: choose `verify-full` or `disable`"
            }
            _ => "is {}: choose one of `verify-full`, `verify-ca`, `require`, `disable`",
        };
        let why = why.replace("{}", &format!("{text:?}"));
        Err(ParametersError::invalid(key::SSLMODE, why))
    }
}

impl fmt::Display for SslMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The kind of host, of several, that will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetSessionAttrs {
    /// The first that answers.
    Any,
    /// The first whose sessions can write.
    #[default]
    ReadWrite,
    /// The first that is not a standby.
    Primary,
}

impl TargetSessionAttrs {
    pub(crate) fn parse(text: &str) -> Result<Self, ParametersError> {
        let why = match text {
            "any" => return Ok(Self::Any),
            "read-write" => return Ok(Self::ReadWrite),
            "primary" => return Ok(Self::Primary),
            "read-only" | "standby" | "prefer-standby" => {
                "asks for a server that cannot be written to, but reports are written"
            }
            _ => "is not one of `read-write`, `primary`, `any`",
        };
        Err(ParametersError::invalid(key::TARGET_SESSION_ATTRS, why))
    }
}
