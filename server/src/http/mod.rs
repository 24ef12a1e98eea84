//! HTTP: connections and their bounds, the form in which a request is answered, and the handler it
//! goes to.

pub mod gzip;
pub mod negotiation;
pub mod response;

mod age;
mod audit;
mod body;
mod context;
mod health;
mod limits;
mod pipeline;
mod record;
mod routes;
mod server;
mod span;
mod traffic;
mod waiting;

pub use age::ConnectionAge;
pub use context::{ApiHandler, RequestContext};
pub use health::{Check, Health};
pub use limits::{LimitConfig, Limits};
pub use pipeline::{Pipeline, SERVER_HEADER};
pub use server::{Server, ServerError};
pub use waiting::Probes;
