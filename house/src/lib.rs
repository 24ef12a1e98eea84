//! A measurement of the structure of the workspace, and a check of the documents against the code.
//!
//! [`workspace`] finds the crates, [`modules`] reads their source files, [`resolve`] follows the
//! names that one module takes from another, [`circles`] looks for modules and files that need each
//! other, [`documents`] for names in documents that exist nowhere, and [`style`] for files that
//! break a rule, with the help of [`openings`] for doc comments. [`report`] puts it together.

pub mod circles;
pub mod documents;
pub mod files;
pub mod modules;
pub mod openings;
pub mod report;
pub mod resolve;
pub mod style;
pub mod workspace;
