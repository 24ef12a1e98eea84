//! What kind of server.

use std::path::PathBuf;

/// What a server is like.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Settings of postgresql.conf, which win over the defaults of this crate.
    pub settings: Vec<(String, String)>,
    /// Whether and how TCP connections are encrypted.
    pub tls: Tls,
    /// Whether a commit is on disk before it is answered. Tests of anything but durability start
    /// and run faster without.
    pub durable: bool,
    /// What the data lies on.
    pub disk: Disk,
    /// Whether its clock can be set: see [`super::Postgres::step_clock`].
    pub own_clock: bool,
    /// A library that its processes load first.
    pub preload: Option<Preload>,
}

/// A library that stands before the system's.
#[derive(Debug, Clone)]
pub struct Preload {
    /// The library; the server's account has to be able to read it.
    pub library: PathBuf,
    /// Name and value of environment variables.
    pub environment: Vec<(String, String)>,
}

impl Default for PostgresOptions {
    /// Durable, without TLS, on the ordinary disk.
    fn default() -> Self {
        Self {
            settings: Vec::new(),
            tls: Tls::Off,
            durable: true,
            disk: Disk::Ordinary,
            own_clock: false,
            preload: None,
        }
    }
}

impl PostgresOptions {
    /// Returns a server that forgets everything in a power cut, and is quick.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            durable: false,
            ..Self::default()
        }
    }

    /// With a setting of postgresql.conf.
    #[must_use]
    pub fn with(mut self, setting: &str, value: impl std::fmt::Display) -> Self {
        self.settings.push((setting.to_owned(), value.to_string()));
        self
    }

    /// With TLS.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// With a clock of its own.
    #[must_use]
    pub fn with_own_clock(mut self) -> Self {
        self.own_clock = true;
        self
    }

    /// With a library before the system's.
    #[must_use]
    pub fn with_preload(mut self, preload: Preload) -> Self {
        self.preload = Some(preload);
        self
    }

    /// On a disk.
    #[must_use]
    pub fn on(mut self, disk: Disk) -> Self {
        self.disk = disk;
        self
    }
}

/// TLS of TCP connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// None.
    Off,
    /// For those who ask.
    Offered,
    /// For everybody (`hostssl` only), with passwords.
    Required,
    /// For everybody, with a client certificate in the role's name instead of a password.
    ClientCertificate,
}

/// What the data directory lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// The disk of the temporary directory.
    Ordinary,
    /// A file system of its own that can be filled up. It is in memory, and needs root. A server
    /// needs 40 MB for itself and 16 MB for each file of its write-ahead log.
    Limited {
        /// Its size.
        megabytes: u32,
    },
}
