//! HTTP: what a request is about, in which form it is answered, and how errors read.

pub mod encoding;
pub mod negotiation;
pub mod response;
pub mod status;

mod context;
mod error;
mod request_info;

pub use context::{ApiHandler, RequestContext};
pub(crate) use error::quoted;
pub use error::{ApiError, MAX_BODY_BYTES};
pub use request_info::{Query, RequestInfo, RequestInfoError};
pub use status::{Status, StatusCause, StatusDetails};
