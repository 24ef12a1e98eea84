//! Two namespaces, users with rights in one of them, and two ways to the reports.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crds::control;
use e2e::cluster::network;
use e2e::serving::PORT;
use e2e::serving::request::{Answer, Outgoing, send};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::api_support::{CLUSTER_REPORTS, GROUP, Setup, report};

/// The namespace in which the users have rights.
pub const OURS: &str = "ours";
/// The one of which they must see nothing.
pub const THEIRS: &str = "theirs";
/// What all reports there have in their names, labels and contents.
pub const HIDDEN: &str = "zq7hidden";
/// The reports of the one, in order.
pub const MINE: [&str; 5] = ["mine-0", "mine-1", "mine-2", "mine-3", "mine-4"];
/// How many there are in the other.
const REPORTS: usize = 12;

/// Forms of a list that clients ask for, and whether it is the objects as they are.
pub const FORMS: [(&str, bool); 4] = [
    ("application/json", true),
    ("application/json;as=Table;v=v1;g=meta.k8s.io", false),
    (
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
        false,
    ),
    (
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,\
         application/json",
        false,
    ),
];

/// A service account that may do everything with the reports of a namespace, and one that may see
/// one of them.
const RIGHTS: &str = r"
apiVersion: v1
kind: Namespace
metadata: {name: ours}
---
apiVersion: v1
kind: Namespace
metadata: {name: theirs}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: ours}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: narrow, namespace: ours}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: ours}
rules:
- apiGroups: [wgpolicyk8s.io]
  resources: [policyreports]
  verbs: ['*']
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: narrow, namespace: ours}
rules:
- apiGroups: [wgpolicyk8s.io]
  resources: [policyreports]
  resourceNames: [mine-0]
  verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: ours}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: ours}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: narrow, namespace: ours}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: narrow}
subjects: [{kind: ServiceAccount, name: narrow, namespace: ours}]
";

/// A way to the reports.
pub struct Way {
    pub name: &'static str,
    /// A client without any credentials.
    pub client: Client,
}

pub struct Ground {
    pub ways: Vec<Way>,
    admin: Client,
    /// Token of who has all rights in [`OURS`].
    reader: String,
    /// Token of who may see one report there.
    pub narrow: String,
    /// Names of the reports in [`THEIRS`].
    pub hidden: Vec<String>,
    /// Their uids, and those of other things that must not be seen.
    pub uids: Vec<String>,
}

/// The reports of a namespace.
pub fn in_namespace(namespace: &str) -> String {
    format!("/apis/{GROUP}/v1alpha2/namespaces/{namespace}/policyreports")
}

/// What the control API tells of all reports.
pub fn controlled() -> Vec<String> {
    let base = format!("/apis/{}/{}", control::GROUP, control::VERSION);
    let one = format!("{base}/{}/policyreports.{GROUP}", control::PLURAL);
    vec![
        format!("{base}/{}", control::PLURAL),
        format!("{one}/digest"),
        format!("{one}/digest?set=Imported&limit=1"),
        format!("{one}/gate"),
        format!("{one}/floor"),
        format!("{base}/{}/{}", control::DATABASES, control::DATABASE_NAME),
        one,
    ]
}

/// A report that says everywhere that it is hidden.
pub fn other(name: &str, namespace: &str) -> Value {
    let mut object = report(name);
    object["metadata"] = json!({
        "name": name, "namespace": namespace, "labels": {HIDDEN: HIDDEN},
        "annotations": {HIDDEN: HIDDEN},
    });
    object["scope"]["name"] = json!(HIDDEN);
    object["results"][0]["message"] = json!(HIDDEN);
    object
}

impl Ground {
    /// Namespaces, rights, tokens and reports.
    pub async fn lay(setup: &Setup) -> Self {
        setup
            .cluster
            .kubectl_with_input(["apply", "-f", "-"], RIGHTS)
            .await
            .unwrap();
        let token = async |account: &str| {
            let arguments = ["create", "token", account, "-n", OURS];
            setup
                .cluster
                .kubectl(arguments)
                .await
                .unwrap()
                .trim()
                .to_owned()
        };
        let direct = setup
            .cluster
            .forward((network::NODE_IP, PORT).into())
            .unwrap();
        let proxied = setup.cluster.config(0).await.unwrap().cluster_url;
        let mut ground = Self {
            ways: vec![
                Way {
                    name: "through the kube-apiserver",
                    client: client(proxied),
                },
                Way {
                    name: "straight at the server",
                    client: client(format!("https://{direct}").parse().unwrap()),
                },
            ],
            admin: setup.client.clone(),
            reader: token("reader").await,
            narrow: token("narrow").await,
            hidden: Vec::new(),
            uids: Vec::new(),
        };
        ground.fill().await;
        ground.until_rights_hold(setup).await;
        ground
    }

    async fn fill(&mut self) {
        for index in 0..REPORTS {
            let name = format!("{HIDDEN}-{index:02}");
            self.uids.push(
                self.create(&in_namespace(THEIRS), &other(&name, THEIRS))
                    .await,
            );
            self.hidden.push(name);
        }
        let mut cluster = other(&format!("{HIDDEN}-cluster"), "");
        cluster["kind"] = json!("ClusterPolicyReport");
        cluster["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("namespace");
        self.create(CLUSTER_REPORTS, &cluster).await;
        for name in MINE {
            self.create(&in_namespace(OURS), &report(name)).await;
        }
    }

    /// Creates as the administrator; gives the uid.
    pub async fn create(&self, uri: &str, object: &Value) -> String {
        let answer = self.admin(&Outgoing::new("POST", uri).json(object)).await;
        assert_eq!(answer.code, 201, "{}", answer.text());
        let uid = answer.json().unwrap()["metadata"]["uid"].clone();
        uid.as_str().unwrap().to_owned()
    }

    /// The authorizers learn of new bindings a moment later, and keep refusals for seconds.
    async fn until_rights_hold(&self, setup: &Setup) {
        let list = Outgoing::get(in_namespace(OURS));
        let one = Outgoing::get(format!("{}/{}", in_namespace(OURS), MINE[0]));
        for way in &self.ways {
            let hold = async || {
                self.ask(way, &list).await.code == 200
                    && self.ask_with(way, &self.narrow, &one).await.code == 200
            };
            setup.until("the rights hold", hold).await;
        }
    }

    /// As the administrator, through the kube-apiserver.
    pub async fn admin(&self, request: &Outgoing) -> Answer {
        send(&self.admin, request).await.unwrap()
    }

    /// Without any credentials of our own.
    pub async fn send(&self, way: &Way, request: &Outgoing) -> Answer {
        let answer = send(&way.client, request).await.unwrap();
        self.check(request, &answer);
        answer
    }

    /// As the user with all rights in [`OURS`]. Nothing hidden may be in what is answered.
    pub async fn ask(&self, way: &Way, request: &Outgoing) -> Answer {
        self.ask_with(way, &self.reader, request).await
    }

    /// As whoever the token says.
    pub async fn ask_with(&self, way: &Way, token: &str, request: &Outgoing) -> Answer {
        self.send(way, &with_token(request, token)).await
    }

    /// The request of the user with all rights in [`OURS`].
    pub fn request(&self, request: &Outgoing) -> Outgoing {
        with_token(request, &self.reader)
    }

    fn check(&self, request: &Outgoing, answer: &Answer) {
        let headers = format!("{:?}", answer.headers);
        self.clean(request, &format!("{headers}\n{}", answer.text()));
        // A token is a text that the eye does not read.
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if let Some(token) = body["metadata"]["continue"].as_str() {
            let wire = URL_SAFE_NO_PAD.decode(token).unwrap();
            self.clean(request, &String::from_utf8_lossy(&wire));
        }
    }

    /// Nothing of the other namespace is in a text, but what the request itself said.
    pub fn clean(&self, request: &Outgoing, text: &str) {
        let asked = format!("{}{}", request.uri, String::from_utf8_lossy(&request.body));
        for uid in &self.uids {
            assert!(!text.contains(uid), "{request:?}: {text}");
        }
        for name in self.hidden.iter().filter(|name| !asked.contains(*name)) {
            assert!(!text.contains(name), "{request:?}: {text}");
        }
        assert!(
            asked.contains(HIDDEN) || !text.contains(HIDDEN),
            "{request:?}: {text}"
        );
    }
}

fn with_token(request: &Outgoing, token: &str) -> Outgoing {
    request
        .clone()
        .header("authorization", &format!("Bearer {token}"))
}

/// A client that brings nothing along. The servers' certificates are for their names in the
/// cluster, by which they are not reached here.
fn client(url: http::Uri) -> Client {
    let mut config = Config::new(url);
    config.accept_invalid_certs = true;
    Client::try_from(config).unwrap()
}
