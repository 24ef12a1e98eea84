//! The place of a bucket, and the credentials for it.

use std::env;
use std::path::PathBuf;

use clap::Args;
use rusty_s3::{Credentials, UrlStyle};
use url::Url;

use crate::backup::Error;

/// Region when none is given; services that know no regions accept it.
const REGION: &str = "us-east-1";

/// The place of a bucket.
#[derive(Args, Clone, Debug, Default)]
pub struct Place {
    /// Name of the bucket.
    #[arg(long)]
    pub bucket: String,
    /// Beginning of every key in the bucket.
    #[arg(long, default_value = "")]
    pub prefix: String,
    /// URL of the service; AWS where it is absent.
    #[arg(long)]
    pub endpoint: Option<Url>,
    /// Region of the bucket.
    #[arg(long, default_value = REGION)]
    pub region: String,
    /// File with the CAs of the service's certificate, PEM; Mozilla's where it is absent.
    #[arg(long)]
    pub ca_file: Option<PathBuf>,
}

pub(super) fn credentials() -> Result<Credentials, Error> {
    let variable = |what: &'static str| {
        env::var(what).map_err(|_| Error::Invalid {
            what,
            why: "is not set: it comes from the Secret of credentialsSecretRef".to_owned(),
        })
    };
    let key = variable("AWS_ACCESS_KEY_ID")?;
    let secret = variable("AWS_SECRET_ACCESS_KEY")?;
    Ok(match env::var("AWS_SESSION_TOKEN") {
        Ok(token) if !token.is_empty() => Credentials::new_with_token(key, secret, token),
        _ => Credentials::new(key, secret),
    })
}

/// Returns the bucket. AWS has a host for each bucket; other services often have no name but the
/// one of the endpoint.
pub(super) fn bucket(place: &Place) -> Result<rusty_s3::Bucket, Error> {
    let invalid = |why: String| Error::Invalid {
        what: "--endpoint",
        why,
    };
    let (endpoint, style) = if let Some(endpoint) = &place.endpoint {
        (endpoint.clone(), UrlStyle::Path)
    } else {
        let aws = format!("https://s3.{}.amazonaws.com", place.region);
        let endpoint = aws
            .parse::<Url>()
            .map_err(|error| invalid(error.to_string()))?;
        // A dot would make it a name that the certificate does not cover.
        let dotted = place.bucket.contains('.');
        let style = if dotted {
            UrlStyle::Path
        } else {
            UrlStyle::VirtualHost
        };
        (endpoint, style)
    };
    rusty_s3::Bucket::new(endpoint, style, place.bucket.clone(), place.region.clone())
        .map_err(|error| invalid(error.to_string()))
}

/// Returns the prefix with a slash at its end, and without one at its beginning.
pub(super) fn prefix(text: &str) -> String {
    match text.trim_matches('/') {
        "" => String::new(),
        text => format!("{text}/"),
    }
}
