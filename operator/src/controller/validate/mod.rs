//! Step 2 of a reconciliation: is what the user asks for possible? No client here.
//!
//! Whatever gets past this step is whole: [`Validated`] is the only input of the build step, with
//! every default resolved.

mod allowed;
mod between;
mod certificates;
mod checks;
mod collector;
mod decide;
mod moving;
mod network;
mod postgres;
mod refusal;
mod scale;
mod specification;
mod standard;
mod template;
#[cfg(test)]
mod tests;
mod validated;

pub use between::{Between, Home, Stage};
pub use decide::{Refused, validate};
pub use network::Network;
pub use postgres::{Reached, Route, cluster};
pub use refusal::Refusal;
pub use scale::Replicas;
#[cfg(test)]
pub use scale::{Autoscaling, Scale};
pub use specification::specification;
pub use validated::{Backend, MoveProgress, PodSettings, Validated};
