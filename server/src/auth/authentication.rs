//! The sender of a request: by front proxy, then by bearer token, then nobody.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls_pki_types::CertificateDer;

use super::front_proxy::{FrontProxyConfig, PeerError};
use super::review::ReviewError;
use super::token::{TokenAuthenticator, bearer};
use super::user::{AUTHENTICATED, UserInfo};

/// Time for which the outcome of checking a connection's certificate is reused: checking signatures
/// for each of hundreds of requests a second would cost more than the rest of their authentication.
const VERDICT_TTL: Duration = Duration::from_secs(10);

/// Certificates that a client showed in the handshake, leaf first; empty for most clients.
#[derive(Clone, Debug, Default)]
pub struct PeerCertificates {
    chain: Arc<[CertificateDer<'static>]>,
    verdict: Arc<ArcSwapOption<Verdict>>,
}

/// The outcome of checking a connection's certificate.
#[derive(Debug)]
struct Verdict {
    /// The configuration of the check.
    config: Arc<FrontProxyConfig>,
    /// The time of the check, since 1970.
    at: Duration,
    outcome: Result<(), PeerError>,
}

impl PeerCertificates {
    /// Returns the certificates of one connection.
    #[must_use]
    pub fn new(chain: Vec<CertificateDer<'static>>) -> Self {
        Self {
            chain: chain.into(),
            verdict: Arc::default(),
        }
    }

    fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }

    /// Checks that the certificates are a front proxy's, under `config` at the time `now`.
    fn verify(&self, config: &Arc<FrontProxyConfig>, now: Duration) -> Result<(), PeerError> {
        if let Some(verdict) = self.verdict.load().as_deref()
            && Arc::ptr_eq(&verdict.config, config)
            && now
                .checked_sub(verdict.at)
                .is_some_and(|age| age < VERDICT_TTL)
        {
            return verdict.outcome.clone();
        }
        let outcome = config.verify(&self.chain, now);
        let verdict = Verdict {
            config: config.clone(),
            at: now,
            outcome: outcome.clone(),
        };
        self.verdict.store(Some(Arc::new(verdict)));
        outcome
    }
}

/// The proof of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
    /// The kube-apiserver says so, and has authorized the request itself.
    FrontProxy,
    /// A bearer token.
    Token,
    /// Nothing.
    Anonymous,
}

/// A user and the proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// The user who asks.
    pub user: Arc<UserInfo>,
    /// The proof of the identity.
    pub proof: Proof,
}

/// A request whose origin cannot be established.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthenticationError {
    /// Credentials that are not valid: 401.
    #[error("unauthorized: {0}")]
    Invalid(String),
    /// A certificate that cannot be judged yet: 503.
    #[error("the server has not read the front proxy's CA yet")]
    NotReady,
    /// Credentials that could not be checked: 500.
    #[error(transparent)]
    Unavailable(#[from] ReviewError),
}

/// Establishes the senders of requests.
pub struct Authenticator {
    front_proxy: Arc<ArcSwap<FrontProxyConfig>>,
    tokens: TokenAuthenticator,
}

impl Authenticator {
    /// Returns an authenticator. `front_proxy` may be exchanged at any time.
    #[must_use]
    pub fn new(front_proxy: Arc<ArcSwap<FrontProxyConfig>>, tokens: TokenAuthenticator) -> Self {
        Self {
            front_proxy,
            tokens,
        }
    }

    /// Returns whether the peer has proven to be a front proxy.
    #[must_use]
    pub fn is_front_proxy(&self, peer: &PeerCertificates) -> bool {
        let config = self.front_proxy.load_full();
        !peer.is_empty() && config.is_enabled() && peer.verify(&config, now()).is_ok()
    }

    /// Establishes the sender of a request, and takes the credentials out of its headers.
    ///
    /// # Errors
    /// If credentials are given that are not valid, or that cannot be checked.
    pub async fn authenticate(
        &self,
        peer: &PeerCertificates,
        headers: &mut HeaderMap,
    ) -> Result<Authentication, AuthenticationError> {
        let config = self.front_proxy.load_full();
        if !peer.is_empty() && !config.is_loaded() {
            return Err(AuthenticationError::NotReady);
        }
        let proxied = from_front_proxy(&config, peer, headers, now());
        let token = bearer(headers).map(str::to_owned);
        config.strip(headers);
        headers.remove(AUTHORIZATION);
        if let Ok(Some(user)) = proxied {
            return Ok(authenticated(user, Proof::FrontProxy));
        }
        if let Some(token) = token {
            return match self.tokens.authenticate(&token).await? {
                Some(user) => Ok(authenticated(user.as_ref().clone(), Proof::Token)),
                None => Err(AuthenticationError::Invalid(
                    "invalid bearer token".to_owned(),
                )),
            };
        }
        // A certificate that is not trusted is a bad credential, not the lack of one.
        proxied.map_err(AuthenticationError::Invalid)?;
        Ok(Authentication {
            user: Arc::new(UserInfo::anonymous()),
            proof: Proof::Anonymous,
        })
    }
}

/// Returns the user named by a front proxy; `None` when the client shows no certificate or names
/// nobody.
fn from_front_proxy(
    config: &Arc<FrontProxyConfig>,
    peer: &PeerCertificates,
    headers: &HeaderMap,
    now: Duration,
) -> Result<Option<UserInfo>, String> {
    if peer.is_empty() || !config.is_enabled() {
        return Ok(None);
    }
    peer.verify(config, now)
        .and_then(|()| config.user(headers))
        .map_err(|error| error.to_string())
}

/// Returns the authentication of a user. Everyone with a proven identity belongs to
/// `system:authenticated`.
fn authenticated(mut user: UserInfo, proof: Proof) -> Authentication {
    let unmarked = user.username != super::user::ANONYMOUS
        && !user.in_group(AUTHENTICATED)
        && !user.in_group(super::user::UNAUTHENTICATED);
    if unmarked {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    Authentication {
        user: Arc::new(user),
        proof,
    }
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
