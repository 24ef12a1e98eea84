//! The address of a collector.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::Authority;

use super::error::TraceError;

/// The path below the address at which a collector takes traces.
const PATH: &str = "/v1/traces";

/// The address of a collector that speaks OTLP over HTTP, such as
/// `http://otel-collector.monitoring:4318`. As with `OTEL_EXPORTER_OTLP_ENDPOINT`, the path of the
/// traces is added to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    address: String,
    is_https: bool,
    port: u16,
}

impl Endpoint {
    /// Returns the URL to which spans are sent.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}{PATH}", self.address)
    }

    /// Returns whether the collector has a certificate.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// Returns the port of the collector.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Endpoint {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let wrong = |why| TraceError::Endpoint {
            endpoint: text.to_owned(),
            why,
        };
        let uri: Uri = text.parse().map_err(|_| wrong("it is not a URL"))?;
        let is_https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("it begins neither with http:// nor with https://")),
        };
        let authority = uri.authority().map_or("", Authority::as_str);
        if authority.contains('@') {
            return Err(wrong("it must not hold a name or a password"));
        }
        let host = uri.host().unwrap_or_default();
        if host.is_empty() {
            return Err(wrong("it has no host"));
        }
        let port = uri.port_u16().filter(|port| *port > 0);
        if port.is_none() && authority != host {
            return Err(wrong("its port is no number from 1 to 65535"));
        }
        if text.contains(['?', '#']) {
            return Err(wrong("it must not have a query or a fragment"));
        }
        let default = if is_https { 443 } else { 80 };
        Ok(Self {
            address: text.trim_end_matches('/').to_owned(),
            is_https,
            port: port.unwrap_or(default),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("http://collector:4318", "http://collector:4318/v1/traces", 4318)]
    #[case("http://collector/", "http://collector/v1/traces", 80)]
    #[case("https://traces.example", "https://traces.example/v1/traces", 443)]
    #[case(
        "https://traces.example:8443/otlp",
        "https://traces.example:8443/otlp/v1/traces",
        8443
    )]
    #[case("http://[::1]:4318", "http://[::1]:4318/v1/traces", 4318)]
    fn spans_go_below_the_address(#[case] text: &str, #[case] url: &str, #[case] port: u16) {
        let endpoint: Endpoint = text.parse().unwrap();
        assert_eq!((endpoint.url().as_str(), endpoint.port()), (url, port));
        assert_eq!(endpoint.is_https(), text.starts_with("https"));
    }

    #[rstest]
    #[case("collector:4317", "neither")]
    #[case("grpc://collector:4317", "neither")]
    #[case("/v1/traces", "neither")]
    #[case("http://", "URL")]
    #[case("http://a b", "URL")]
    #[case("http://user:secret@collector", "password")]
    #[case("http://collector:0", "port")]
    #[case("http://collector:65536", "port")]
    #[case("http://collector?a=b", "query")]
    #[case("http://collector#a", "fragment")]
    fn what_is_no_address_is_refused_with_the_reason(#[case] text: &str, #[case] why: &str) {
        let error = text.parse::<Endpoint>().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
