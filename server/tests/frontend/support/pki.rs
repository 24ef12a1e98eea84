//! Certificates of the test's making.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use reports_server::tls::CertificateFiles;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;

pub const SERVER_NAME: &str = "server.reports.svc";

pub struct Ca {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key in PEM.
pub struct Leaf {
    pub cert: String,
    pub key: String,
}

impl Ca {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    pub fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> Leaf {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        Leaf {
            cert,
            key: key.serialize_pem(),
        }
    }

    pub fn client(&self, name: &str) -> Leaf {
        self.issue(name, ExtendedKeyUsagePurpose::ClientAuth)
    }

    pub fn server(&self) -> Leaf {
        self.issue(SERVER_NAME, ExtendedKeyUsagePurpose::ServerAuth)
    }
}

impl Leaf {
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(self.cert.as_bytes())
            .map(Result::unwrap)
            .collect()
    }

    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }
}

/// The CAs of a cluster, and the serving certificate in a directory like a Secret volume.
pub struct Pki {
    pub serving: Ca,
    pub front_proxy: Ca,
    volume: TempDir,
}

impl Pki {
    pub fn new() -> Self {
        let (serving, front_proxy) = (Ca::new("serving"), Ca::new("front-proxy"));
        let this = Self {
            serving,
            front_proxy,
            volume: TempDir::new().unwrap(),
        };
        this.write_serving(&this.serving.server(), "1");
        this
    }

    pub fn serving_files(&self) -> CertificateFiles {
        let data = self.volume.path().join("..data");
        CertificateFiles {
            cert: data.join("tls.crt"),
            key: data.join("tls.key"),
        }
    }

    /// Exchanges both files as kubelet does: a new directory, then one rename of a link.
    pub fn write_serving(&self, leaf: &Leaf, generation: &str) {
        let root = self.volume.path();
        let directory: PathBuf = root.join(format!("..{generation}"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("tls.crt"), &leaf.cert).unwrap();
        std::fs::write(directory.join("tls.key"), &leaf.key).unwrap();
        let link = root.join("..data_tmp");
        std::os::unix::fs::symlink(&directory, &link).unwrap();
        std::fs::rename(link, root.join("..data")).unwrap();
    }

    /// Data of `kube-system/extension-apiserver-authentication`.
    pub fn front_proxy_config(&self) -> BTreeMap<String, String> {
        let pairs = [
            (
                "requestheader-client-ca-file",
                self.front_proxy.pem.as_str(),
            ),
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            (
                "requestheader-extra-headers-prefix",
                r#"["X-Remote-Extra-"]"#,
            ),
        ];
        pairs
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    /// The certificate of a kube-apiserver.
    pub fn proxy(&self) -> Leaf {
        self.front_proxy.client("front-proxy-client")
    }
}
