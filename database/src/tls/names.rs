//! Names in certificates that libpq takes and the web takes no longer.

use rustls::pki_types::ServerName;
use x509_parser::prelude::{GeneralName, X509Certificate};

/// Returns the common name, where the certificate has no alternative name for hosts.
pub(super) fn only_common_name<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a str> {
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let names_hosts = alternatives.is_some_and(|extension| {
        let names = &extension.value.general_names;
        names
            .iter()
            .any(|name| matches!(name, GeneralName::DNSName(_) | GeneralName::IPAddress(_)))
    });
    if names_hosts {
        return None;
    }
    certificate
        .subject()
        .iter_common_name()
        .next()?
        .as_str()
        .ok()
}

/// Returns whether a common name stands for a host: equal but for case, or with `*.` for the first
/// label.
pub(super) fn matches(common_name: &str, host: &ServerName<'_>) -> bool {
    let host = host.to_str();
    if common_name.eq_ignore_ascii_case(&host) {
        return true;
    }
    match (common_name.strip_prefix("*."), host.split_once('.')) {
        (Some(domain), Some((label, rest))) => {
            !label.is_empty()
                && rest.eq_ignore_ascii_case(domain)
                && host.parse::<std::net::IpAddr>().is_err()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("db.example", "DB.example", true)]
    #[case("db.example", "other.example", false)]
    #[case("*.example", "db.example", true)]
    #[case("*.example", "a.db.example", false)]
    #[case("*.example", "example", false)]
    #[case("10.0.0.1", "10.0.0.1", true)]
    #[case("*.0.0.1", "10.0.0.1", false)]
    fn common_names_match_as_in_libpq(
        #[case] common_name: &str,
        #[case] host: &str,
        #[case] expected: bool,
    ) {
        let host = ServerName::try_from(host).unwrap();
        assert_eq!(matches(common_name, &host), expected);
    }
}
