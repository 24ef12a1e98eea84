//! HTTP: what a request is about, in which form it is answered, and how errors read.

pub mod negotiation;
pub mod response;

mod age;
mod body;
mod context;
mod gzip;
mod health;
mod limits;
mod pipeline;
mod record;
mod routes;
mod server;
mod traffic;

pub use crate::{
    encoding,
    error::{ApiError, MAX_BODY_BYTES},
    request_info::{Query, RequestInfo, RequestInfoError},
    status::{self, Status, StatusCause, StatusDetails},
};
pub use age::ConnectionAge;
pub use context::{ApiHandler, RequestContext};
pub use health::{Check, Health};
pub use limits::{LimitConfig, Limits};
pub use pipeline::{Pipeline, SERVER_HEADER};
pub use server::{Server, ServerError};
