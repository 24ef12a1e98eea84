//! The cost of a text of YAML, judged before and while it is read.

mod allowance;
mod scan;
#[cfg(test)]
mod tests;

pub(super) use allowance::Allowance;
pub(super) use scan::check;
