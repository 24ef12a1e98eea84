//! Who asks, and whether they may.

mod user;

pub use user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, UserInfo};
