//! Pages of the documents that name the registry or the version, and so are generated.

use crate::names::IMAGE_REGISTRY;

/// Returns `docs/verify.md`.
#[must_use]
pub fn verify_page() -> String {
    include_str!("verify.txt")
        .replace("@REGISTRY@", IMAGE_REGISTRY)
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
}
