//! Texts as Go prints them.
//!
//! Texts of the kube-apiserver that clients see, and keys of stored managed fields, are made with
//! Go's `fmt`, `encoding/json` and `json-iterator`. They have to be the same here.

mod json;
mod number;
mod print;
mod syntax;
mod text;

pub use json::{Flavour, json};
pub use number::{float, yaml_key};
pub use print::{go_syntax, plain};
pub use syntax::syntax_error;
pub use text::{is_print, quote, quote_time};

pub(crate) use number::Numeric;

#[cfg(test)]
mod tests;
