//! A serving certificate that somebody else issued: whether it can be used, and how it takes the
//! place of the one in use.

mod check;
mod facts;
mod install;
#[cfg(test)]
pub(crate) mod tests;

pub use check::{Part, check};
pub use facts::{Given, Move, Problem, Values};
pub(super) use install::{Installed, holds, install};
