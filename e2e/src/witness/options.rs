//! Options of a witness.

use testreports::Owner;

/// The server of the reports when the witness begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// CRDs, or our server: no client may notice anything.
    #[default]
    Kubernetes,
    /// The incumbent. Its versions tell nothing, and our server does not know them: each watch has
    /// to list once, counts from then on, and is an informer's. An update may meet one conflict,
    /// and every update changes the version at the incumbent. Objects are compared without their
    /// version.
    Incumbent,
}

/// The writes of a witness.
#[derive(Clone, Debug)]
pub struct WitnessOptions {
    /// The server of the reports when it begins.
    pub origin: Origin,
    /// Namespaces to write in; one writer of each kind runs in each of them.
    pub namespaces: Vec<Owner>,
    /// Writes a second, of all writers together.
    pub rate: f64,
    /// Permanent reports that each writer keeps alive.
    pub reports_per_writer: usize,
}
