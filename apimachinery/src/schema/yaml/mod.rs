//! What a text of YAML may cost, judged before and while it is read.

mod allowance;
mod scan;
#[cfg(test)]
mod tests;

pub(super) use allowance::Allowance;
pub(super) use scan::check;
