//! Single values of parameters: what they are called, what they may be, and what is wrong with one.

pub mod key;

mod error;
mod mode;
mod secret;

pub use error::ParametersError;
pub use mode::{SslMode, TargetSessionAttrs};
pub use secret::Password;
