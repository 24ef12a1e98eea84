//! Values that are one of several words.

use std::fmt;

use super::{ParametersError, key};

/// How far the connection is protected, as libpq means it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SslMode {
    /// No TLS.
    Disable,
    /// TLS. Whoever answers is believed, unless a CA is given: then as [`SslMode::VerifyCa`].
    Require,
    /// TLS, and the certificate is signed by one of the CAs.
    VerifyCa,
    /// As [`SslMode::VerifyCa`], and the certificate is for the host that was asked for.
    #[default]
    VerifyFull,
}

impl SslMode {
    /// As it is written.
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
                "is {}, which may end without TLS: choose `verify-full`, or `disable` to go without"
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

/// Which of several hosts will do.
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
