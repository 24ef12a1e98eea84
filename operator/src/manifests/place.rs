//! The place of an installation, and its images.

use crds::v1alpha1::spec::ImageSpec;

use crate::database::managed;
use crate::images::resolve;
use crate::names::{OPERATOR, OPERATOR_NAMESPACE, operator_image, server_image};

/// The parts of an installation that a way of installing lets its user choose.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The operator's namespace.
    pub namespace: String,
    /// Name of the operator's `ServiceAccount`.
    pub account: String,
    /// The operator's image.
    pub operator_image: String,
    /// The server's image, if a `ReportsServer` names none.
    pub server_image: String,
    /// The image of PostgreSQL, if a `ReportsServer` names none.
    pub postgres_image: String,
}

impl Default for Place {
    /// Returns the place of `manifests/install.yaml`.
    fn default() -> Self {
        Self {
            namespace: OPERATOR_NAMESPACE.to_owned(),
            account: OPERATOR.to_owned(),
            operator_image: operator_image(),
            server_image: server_image(),
            postgres_image: managed::DEFAULT_IMAGE.to_owned(),
        }
    }
}

impl Place {
    /// Returns the same place with all images from a registry, such as a mirror.
    pub fn with_registry(self, registry: &str) -> Self {
        let from = |image: &str| resolve(image, Some(registry), &ImageSpec::default());
        Self {
            operator_image: from(&self.operator_image),
            server_image: from(&self.server_image),
            postgres_image: from(&self.postgres_image),
            ..self
        }
    }
}
