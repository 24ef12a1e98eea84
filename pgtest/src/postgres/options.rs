//! Options of a server.

use std::path::PathBuf;

/// Options of a server.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Settings of postgresql.conf, which win over the defaults of this crate.
    pub settings: Vec<(String, String)>,
    /// The encryption of TCP connections.
    pub tls: Tls,
    /// True when a commit is on disk before it is answered. Tests of anything but durability start
    /// and run faster without.
    pub durable: bool,
    /// The disk of the data.
    pub disk: Disk,
    /// True when its clock can be set: see [`super::Postgres::step_clock`].
    pub own_clock: bool,
    /// A library that its processes load first.
    pub preload: Option<Preload>,
}

/// A library that is loaded before the system's.
#[derive(Debug, Clone)]
pub struct Preload {
    /// The library; the server's account has to be able to read it.
    pub library: PathBuf,
    /// Name and value of environment variables.
    pub environment: Vec<(String, String)>,
}

impl Default for PostgresOptions {
    /// Returns options that are durable, without TLS, on the ordinary disk.
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
    /// Returns options of a server that forgets everything in a power cut, and is quick.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            durable: false,
            ..Self::default()
        }
    }

    /// Returns the options with a setting of postgresql.conf.
    #[must_use]
    pub fn with(mut self, setting: &str, value: impl std::fmt::Display) -> Self {
        self.settings.push((setting.to_owned(), value.to_string()));
        self
    }

    /// Returns the options with TLS.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// Returns the options with a clock of its own.
    #[must_use]
    pub fn with_own_clock(mut self) -> Self {
        self.own_clock = true;
        self
    }

    /// Returns the options with a library before the system's.
    #[must_use]
    pub fn with_preload(mut self, preload: Preload) -> Self {
        self.preload = Some(preload);
        self
    }

    /// Returns the options on a disk.
    #[must_use]
    pub fn on(mut self, disk: Disk) -> Self {
        self.disk = disk;
        self
    }
}

/// TLS of TCP connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// No TLS.
    Off,
    /// TLS for clients that ask for it.
    Offered,
    /// TLS for everybody (`hostssl` only), with passwords.
    Required,
    /// TLS for everybody, with a client certificate in the role's name instead of a password.
    ClientCertificate,
}

/// The disk of the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// The disk of the temporary directory.
    Ordinary,
    /// A file system of its own that can be filled up. It is in memory, and needs root. A server
    /// needs 40 MB for itself and 16 MB for each file of its write-ahead log.
    Limited {
        /// The size of the file system.
        megabytes: u32,
    },
}
