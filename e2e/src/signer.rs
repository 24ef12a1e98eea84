//! A replacement of cert-manager, which needs images that tests cannot have: it does with a
//! `Certificate` what cert-manager is documented to do as far as a client can see it, when a test
//! says so. Its authorities also sign for tests that bring their own certificates.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use serde_json::{Value, json};

/// Name of the CRD of `Certificate`.
pub const CRD: &str = "certificates.cert-manager.io";

const MANAGER: &str = "cert-manager";
/// Longest wait for a `Certificate` or its CRD.
const LIMIT: Duration = Duration::from_mins(1);
/// The time before its issue from which on a certificate is valid.
const BACKDATE: Duration = Duration::from_mins(1);

/// A certificate authority.
pub struct Authority {
    /// The authority's certificate, PEM.
    pub certificate: String,
    key: String,
}

/// The content of a Secret with a certificate.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate, PEM.
    pub certificate: String,
    /// The private key of the certificate, PEM.
    pub key: String,
    /// The authority, PEM.
    pub ca: String,
}

impl Authority {
    /// Makes an authority.
    ///
    /// # Errors
    /// If the key or the certificate cannot be made.
    pub fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate()?;
        Ok(Self {
            certificate: params.self_signed(&key)?.pem(),
            key: key.serialize_pem(),
        })
    }

    /// Signs a certificate for TLS servers.
    ///
    /// # Errors
    /// If a name is no DNS name, or it cannot be signed.
    pub fn issue(&self, dns_names: &[String], validity: Duration) -> Result<Issued> {
        let mut params = CertificateParams::new(dns_names)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let now = Duration::from_secs(u64::try_from(Timestamp::now().as_second())?);
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = epoch + now.saturating_sub(BACKDATE);
        params.not_after = epoch + (now + validity);
        let issuer = Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(&self.key)?)?;
        let key = KeyPair::generate()?;
        Ok(Issued {
            certificate: params.signed_by(&key, &issuer)?.pem(),
            key: key.serialize_pem(),
            ca: self.certificate.clone(),
        })
    }
}

/// Writes a Secret of type `kubernetes.io/tls`.
///
/// # Errors
/// If it is refused.
pub async fn store(client: &Client, namespace: &str, name: &str, issued: &Issued) -> Result<()> {
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let data = BTreeMap::from([
        ("tls.crt".to_owned(), bytes(&issued.certificate)),
        ("tls.key".to_owned(), bytes(&issued.key)),
        ("ca.crt".to_owned(), bytes(&issued.ca)),
    ]);
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(data),
        ..Secret::default()
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let params = PatchParams::apply(MANAGER).force();
    api.patch(name, &params, &Patch::Apply(&secret)).await?;
    Ok(())
}

/// Installs a CRD that accepts every `Certificate`, and waits until it is served.
///
/// # Errors
/// If it is refused.
pub async fn install(client: &Client) -> Result<()> {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd: CustomResourceDefinition = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD},
        "spec": {
            "group": "cert-manager.io", "scope": "Namespaced",
            "names": {"kind": "Certificate", "listKind": "CertificateList",
                "plural": "certificates", "singular": "certificate"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}}, "schema": {"openAPIV3Schema": anything}}],
        },
    }))?;
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    api.create(&PostParams::default(), &crd).await?;
    let established = await_condition(api, CRD, is_crd_established());
    tokio::time::timeout(LIMIT, established)
        .await
        .with_context(|| format!("{CRD} is not established"))??;
    Ok(())
}

/// One `Certificate` that is looked after.
pub struct Certificate {
    client: Client,
    namespace: String,
    name: String,
}

impl Certificate {
    /// Waits until somebody asks for a certificate by this name.
    ///
    /// # Errors
    /// If nobody does in time.
    pub async fn asked_for(client: &Client, namespace: &str, name: &str) -> Result<Self> {
        let certificate = Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let made = await_condition(certificate.api(), name, |object: Option<&DynamicObject>| {
            object.is_some()
        });
        tokio::time::timeout(LIMIT, made)
            .await
            .with_context(|| format!("nobody makes Certificate {name}"))??;
        Ok(certificate)
    }

    /// Issues what is asked for, for `validity`, and tells that it is there.
    ///
    /// # Errors
    /// If something is asked for that a TLS server cannot use, or a write is refused.
    pub async fn sign(&self, authority: &Authority, validity: Duration) -> Result<()> {
        let object = self.api().get(&self.name).await?;
        let spec = &object.data["spec"];
        let texts = |field: &str| -> Vec<String> {
            let list = spec[field].as_array();
            let list = list.into_iter().flatten().filter_map(Value::as_str);
            list.map(str::to_owned).collect()
        };
        let usages = texts("usages");
        ensure!(usages.contains(&"server auth".to_owned()), "{spec}");
        ensure!(spec["issuerRef"]["name"].is_string(), "{spec}");
        let secret = spec["secretName"].as_str().context("no secretName")?;
        let issued = authority.issue(&texts("dnsNames"), validity)?;
        store(&self.client, &self.namespace, secret, &issued).await?;
        self.tell("True", "Certificate is up to date and has not expired")
            .await
    }

    /// Tells that it cannot be issued.
    ///
    /// # Errors
    /// If the status cannot be written.
    pub async fn refuse(&self, message: &str) -> Result<()> {
        self.tell("False", message).await
    }

    async fn tell(&self, ready: &str, message: &str) -> Result<()> {
        let condition = json!({"type": "Ready", "status": ready, "message": message,
            "reason": "Test", "lastTransitionTime": Timestamp::now().to_string()});
        let patch = json!({"status": {"conditions": [condition]}});
        let params = PatchParams::default();
        let api = self.api();
        api.patch_status(&self.name, &params, &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    /// Returns whether it is still asked for.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn exists(&self) -> Result<bool> {
        Ok(self.api().get_opt(&self.name).await?.is_some())
    }

    fn api(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("cert-manager.io", "v1", "Certificate");
        let resource = ApiResource::from_gvk_with_plural(&kind, "certificates");
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }
}
