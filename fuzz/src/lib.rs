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

use std::sync::LazyLock;

mod bodies;
mod definitions;
mod delete;
mod gzip;
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
pub use gzip::gzip_pieces;
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
    ("gzip_pieces", gzip_pieces),
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

/// The variable that names the target of [`chosen`].
pub const CHOICE: &str = "FUZZ_TARGET";

/// The target that the environment names: one program for all of them is linked once.
pub fn chosen(data: &[u8]) {
    static CHOSEN: LazyLock<fn(&[u8])> = LazyLock::new(|| {
        let name = std::env::var(CHOICE).unwrap_or_default();
        let target = TARGETS.iter().find(|(target, _)| *target == name);
        target
            .unwrap_or_else(|| panic!("{CHOICE} names no target: '{name}'"))
            .1
    });
    (*CHOSEN)(data);
}

#[cfg(test)]
mod tests;
