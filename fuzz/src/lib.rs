//! Fuzz targets: every parser that meets bytes from outside, and what must be true of it.
//!
//! A target is a function of bytes that panics when a property does not hold; `fuzz_targets` makes
//! a program of each (`hack/fuzz`), and a test runs each on its corpus.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a panic is how a target tells what it found"
)]

mod bodies;
mod definitions;
mod delete;
mod headers;
mod ownership;
mod parts;
mod patches;
mod paths;
mod queries;
mod requests;
mod selectors;
mod server;
mod tokens;

pub use bodies::{json_body, yaml_body};
pub use definitions::crd;
pub use delete::delete_options;
pub use headers::headers;
pub use ownership::{apply, managed_fields};
pub use patches::{json_patch, merge_patch};
pub use paths::request_path;
pub use queries::query;
pub use requests::{import, request};
pub use selectors::{field_selector, label_selector};
pub use tokens::continue_token;

/// A target: its name, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, by name.
pub const TARGETS: &[Target] = &[
    ("apply", apply),
    ("continue_token", continue_token),
    ("crd", crd),
    ("delete_options", delete_options),
    ("field_selector", field_selector),
    ("headers", headers),
    ("import", import),
    ("json_body", json_body),
    ("json_patch", json_patch),
    ("label_selector", label_selector),
    ("managed_fields", managed_fields),
    ("merge_patch", merge_patch),
    ("query", query),
    ("request", request),
    ("request_path", request_path),
    ("yaml_body", yaml_body),
];

#[cfg(test)]
mod tests;
