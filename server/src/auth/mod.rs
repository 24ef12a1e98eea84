//! The sender of a request, and whether it may do what it asks for.

mod attributes;
mod authentication;
mod authority;
mod authorization;
mod front_proxy;
mod review;
mod token;
mod user;

pub use attributes::{Attributes, ResourceTarget, Target};
pub use authentication::{
    Authentication, AuthenticationError, Authenticator, PeerCertificates, Proof,
};
pub use authority::Authority;
pub use authorization::{Authorizer, Decision, SubjectAccess, authorize_forwarded};
pub use front_proxy::{FrontProxyConfig, FrontProxyConfigError, PeerError};
pub use review::ReviewError;
pub use token::TokenAuthenticator;
pub use user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, UserInfo};
