//! The certificates of a cluster: one CA for the cluster, one for the front proxy (the
//! aggregator's identity towards aggregated API servers), and a kubeconfig for each user.

use std::net::{IpAddr, Ipv4Addr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use serde_json::json;

use super::state::{self, StateDir};
use super::{Error, network};

/// Users with their groups, as the default RBAC of Kubernetes knows them.
const USERS: [(&str, &str, Option<&str>); 7] = [
    ("admin", "kubernetes-admin", Some("system:masters")),
    ("kube-apiserver", "kube-apiserver", Some("system:masters")),
    (
        "kube-controller-manager",
        "system:kube-controller-manager",
        None,
    ),
    ("kube-scheduler", "system:kube-scheduler", None),
    ("kube-proxy", "system:kube-proxy", None),
    ("kubelet", "system:node:node", Some("system:nodes")),
    ("coredns", "system:coredns", None),
];

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Result<(Self, KeyPem), Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate()?;
        let key_pem = KeyPem(key.serialize_pem());
        let pem = params.self_signed(&key)?.pem();
        Ok((
            Self {
                issuer: Issuer::new(params, key),
                pem,
            },
            key_pem,
        ))
    }

    fn leaf(
        &self,
        common_name: &str,
        organization: Option<&str>,
        names: Vec<SanType>,
    ) -> Result<Leaf, Error> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        if let Some(organization) = organization {
            params
                .distinguished_name
                .push(DnType::OrganizationName, organization);
        }
        params.extended_key_usages = vec![if names.is_empty() {
            ExtendedKeyUsagePurpose::ClientAuth
        } else {
            ExtendedKeyUsagePurpose::ServerAuth
        }];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.subject_alt_names = names;
        let key = KeyPair::generate()?;
        let pem = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Leaf {
            pem,
            key: KeyPem(key.serialize_pem()),
        })
    }
}

struct KeyPem(String);

struct Leaf {
    pem: String,
    key: KeyPem,
}

/// Makes all certificates, keys and kubeconfigs of a cluster in its directory.
pub(super) fn create(state: &StateDir) -> Result<(), Error> {
    let (ca, ca_key) = Authority::new("kubernetes")?;
    write(state, "ca", &ca.pem, &ca_key)?;
    let (front_proxy, front_proxy_key) = Authority::new("front-proxy")?;
    write(state, "front-proxy-ca", &front_proxy.pem, &front_proxy_key)?;

    let aggregator = front_proxy.leaf("front-proxy-client", None, Vec::new())?;
    write(
        state,
        "front-proxy-client",
        &aggregator.pem,
        &aggregator.key,
    )?;
    let serving = ca.leaf("kube-apiserver", None, apiserver_names()?)?;
    write(state, "serving", &serving.pem, &serving.key)?;

    let service_accounts = KeyPair::generate()?;
    state::write(
        &state.pki("service-accounts.pub"),
        service_accounts.public_key_pem(),
    )?;
    state::write(
        &state.pki("service-accounts.key"),
        service_accounts.serialize_pem(),
    )?;

    for (name, user, group) in USERS {
        let leaf = ca.leaf(user, group, Vec::new())?;
        write(state, name, &leaf.pem, &leaf.key)?;
        let server = format!("https://{}", network::apiserver(0));
        let kubeconfig = kubeconfig(&server, &ca.pem, &leaf.pem, &leaf.key.0);
        state::write(&state.kubeconfig(name), kubeconfig.to_string())?;
    }
    Ok(())
}

fn write(state: &StateDir, name: &str, pem: &str, key: &KeyPem) -> Result<(), Error> {
    state::write(&state.pki(&format!("{name}.crt")), pem)?;
    state::write(&state.pki(&format!("{name}.key")), &key.0)
}

/// Returns every name under which a kube-apiserver is called, by loopback forwarders too.
fn apiserver_names() -> Result<Vec<SanType>, Error> {
    let domains = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    let addresses = (0..network::MAX_APISERVERS)
        .map(network::apiserver_ip)
        .chain([
            Ipv4Addr::LOCALHOST,
            network::KUBERNETES_SERVICE_IP,
            network::NODE_IP,
        ]);
    let mut names = Vec::new();
    for domain in domains {
        names.push(SanType::DnsName(domain.try_into()?));
    }
    names.extend(addresses.map(|ip| SanType::IpAddress(IpAddr::V4(ip))));
    Ok(names)
}

/// Returns a kubeconfig (JSON is YAML too) with everything embedded.
pub(super) fn kubeconfig(
    server: &str,
    ca: &str,
    certificate: &str,
    key: &str,
) -> serde_json::Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {
            "server": server,
            "certificate-authority-data": STANDARD.encode(ca),
        }}],
        "users": [{"name": "user", "user": {
            "client-certificate-data": STANDARD.encode(certificate),
            "client-key-data": STANDARD.encode(key),
        }}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
        "current-context": "test",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_has_a_kubeconfig_and_apiservers_are_known_by_loopback_and_service() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDir::at(directory.path().to_owned());
        state.create().unwrap();
        create(&state).unwrap();
        for (name, ..) in USERS {
            let text = std::fs::read_to_string(state.kubeconfig(name)).unwrap();
            let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
            assert_eq!(config.current_context.as_deref(), Some("test"));
        }
        let names = apiserver_names().unwrap();
        for ip in [
            [127, 0, 0, 1],
            [10, 96, 0, 1],
            [10, 200, 0, 10],
            [10, 200, 0, 14],
        ] {
            assert!(
                names.contains(&SanType::IpAddress(IpAddr::from(ip))),
                "{ip:?}"
            );
        }
    }
}
