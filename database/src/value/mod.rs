//! Single values of parameters: their names, their allowed forms and their errors.

pub mod key;

mod error;
mod mode;
mod secret;

pub use error::ParametersError;
pub use mode::{SslMode, TargetSessionAttrs};
pub use secret::Password;
