//! HTTP: what a request is about, in which form it is answered, and how errors read.

pub mod encoding;
pub mod negotiation;
pub mod response;
pub mod status;

mod age;
mod body;
mod context;
mod error;
mod gzip;
mod health;
mod limits;
mod pipeline;
mod record;
mod request_info;
mod routes;
mod server;
mod traffic;

pub use age::ConnectionAge;
pub use context::{ApiHandler, RequestContext};
pub use error::{ApiError, MAX_BODY_BYTES};
pub use health::{Check, Health};
pub use limits::{LimitConfig, Limits};
pub use pipeline::{Pipeline, SERVER_HEADER};
pub use request_info::{Query, RequestInfo, RequestInfoError};
pub use server::{Server, ServerError};
pub use status::{Status, StatusCause, StatusDetails};
