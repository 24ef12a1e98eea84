//! The collector of traces.

use crds::v1alpha1::defaults::TRACING_SAMPLING_RATE;
use crds::v1alpha1::{ReportsServerSpec, reasons};
use traces::Endpoint;

use super::refusal::{Refusal, refuse};

/// The collector of traces, and what it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// The address of the collector.
    pub endpoint: Endpoint,
    /// Traces of a million that are recorded, of those that begin at the server.
    pub rate_per_million: u32,
    /// Secret with the CAs of the collector; the public ones without.
    pub ca: Option<String>,
}

/// Returns the collector that a specification names.
///
/// # Errors
/// If its address cannot be used: a server would not start with it.
pub(super) fn of(spec: &ReportsServerSpec) -> Result<Option<Tracing>, Refusal> {
    let monitoring = spec.monitoring.as_ref();
    let Some(tracing) = monitoring.and_then(|monitoring| monitoring.tracing.as_ref()) else {
        return Ok(None);
    };
    let endpoint = match tracing.endpoint.parse() {
        Ok(endpoint) => endpoint,
        Err(error) => {
            let field = "spec.monitoring.tracing.endpoint";
            return refuse(reasons::INVALID_SPEC, format!("{field}: {error}"));
        }
    };
    let rate = tracing.sampling_rate_per_million.map(u32::try_from);
    Ok(Some(Tracing {
        endpoint,
        rate_per_million: rate.and_then(Result::ok).unwrap_or(TRACING_SAMPLING_RATE),
        ca: tracing.ca_secret_ref.clone().map(|secret| secret.name),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tracing(monitoring: &Value) -> Result<Option<Tracing>, Refusal> {
        let spec = json!({"targetNamespace": "ns", "monitoring": monitoring});
        of(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn there_is_no_collector_unless_one_is_named() {
        assert_eq!(tracing(&Value::Null), Ok(None));
        assert_eq!(tracing(&json!({"serviceMonitor": true})), Ok(None));
    }

    #[test]
    fn a_collector_gets_what_senders_record_unless_a_rate_is_given() {
        let plain = tracing(&json!({"tracing": {"endpoint": "http://c:4318"}}));
        let plain = plain.unwrap().unwrap();
        assert_eq!((plain.rate_per_million, plain.ca), (0, None));
        let given = tracing(&json!({"tracing": {"endpoint": "https://c",
            "samplingRatePerMillion": 100_000, "caSecretRef": {"name": "ca"}}}));
        let given = given.unwrap().unwrap();
        assert_eq!(given.rate_per_million, 100_000);
        assert_eq!(given.ca.as_deref(), Some("ca"));
        assert_eq!(given.endpoint.port(), 443);
    }

    /// The pattern of the schema lets it pass.
    #[test]
    fn an_address_that_a_server_would_not_take_is_refused() {
        let refusal = tracing(&json!({"tracing": {"endpoint": "http://c:99999"}})).unwrap_err();
        assert_eq!(refusal.reason, reasons::INVALID_SPEC);
        let field = "spec.monitoring.tracing.endpoint: ";
        assert!(refusal.message.starts_with(field), "{}", refusal.message);
    }
}
