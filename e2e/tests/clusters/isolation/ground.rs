//! Two namespaces, users with rights in one of them, and two ways to the reports.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use comparison::serving::PORT;
use comparison::serving::request::{Answer, Outgoing, open, send};
use futures::{StreamExt, stream};
use kube::{Client, Config};
use serde_json::{Value, json};
use testcluster::network;

use crate::api_support::{CLUSTER_REPORTS, GROUP, Setup, report};

/// The namespace in which the users have rights.
pub const OURS: &str = "ours";
/// The one of which they must see nothing.
pub const THEIRS: &str = "theirs";
/// A word that all reports there have in their names, labels and contents.
pub const HIDDEN: &str = "zq7hidden";
/// The reports of the one, in order.
pub const MINE: [&str; 5] = ["mine-0", "mine-1", "mine-2", "mine-3", "mine-4"];
/// Number of reports in the other.
const REPORTS: usize = 12;
/// Requests at one time where there are many.
const AT_ONCE: usize = 24;

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

/// A way to the reports.
pub struct Way {
    pub name: &'static str,
    /// A client without any credentials.
    pub client: Client,
}

pub struct Ground {
    /// Through the kube-apiserver, and straight at the server.
    pub ways: [Way; 2],
    admin: Client,
    /// Token of who has all rights in [`OURS`].
    reader: String,
    /// Token of who may see one report there.
    pub narrow: String,
    /// Token of who has all rights in [`THEIRS`].
    owner: String,
    /// Names of the reports in [`THEIRS`].
    pub hidden: Vec<String>,
    /// Their uids, and those of other things that must not be seen.
    pub uids: Vec<String>,
}

/// The reports of a namespace.
pub fn in_namespace(namespace: &str) -> String {
    format!("/apis/{GROUP}/v1alpha2/namespaces/{namespace}/policyreports")
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

/// A request with a patch.
pub fn patch(uri: &str, type_: &str, body: &Value) -> Outgoing {
    let mut request = Outgoing::new("PATCH", uri).header("content-type", type_);
    request.body = body.to_string().into_bytes();
    request
}

impl Ground {
    /// Namespaces, rights, tokens and reports.
    pub async fn lay(setup: &Setup) -> Self {
        let rights = include_str!("rights.yaml");
        let applied = setup
            .cluster
            .kubectl_with_input(["apply", "-f", "-"], rights);
        applied.await.unwrap();
        let token = async |account: &str, namespace: &str| {
            let arguments = ["create", "token", account, "-n", namespace];
            let token = setup.cluster.kubectl(arguments).await.unwrap();
            token.trim().to_owned()
        };
        let direct = (network::NODE_IP, PORT).into();
        let direct = setup.cluster.forward(direct).unwrap();
        let proxied = setup.cluster.config(0).await.unwrap().cluster_url;
        let mut ground = Self {
            ways: [
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
            reader: token("reader", OURS).await,
            narrow: token("narrow", OURS).await,
            owner: token("owner", THEIRS).await,
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
            let object = other(&name, THEIRS);
            self.uids
                .push(self.create(&in_namespace(THEIRS), &object).await);
            self.hidden.push(name);
        }
        let mut cluster = other(&format!("{HIDDEN}-cluster"), "");
        cluster["kind"] = json!("ClusterPolicyReport");
        let metadata = cluster["metadata"].as_object_mut().unwrap();
        metadata.remove("namespace");
        self.uids.push(self.create(CLUSTER_REPORTS, &cluster).await);
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

    /// Creates so many more reports in [`THEIRS`].
    pub async fn crowd(&self, count: usize) {
        let way = &self.ways[1];
        let create = |index: usize| async move {
            let object = other(&format!("{HIDDEN}-crowd-{index}"), THEIRS);
            let request = Outgoing::new("POST", in_namespace(THEIRS)).json(&object);
            let answer = send(&way.client, &with_token(&request, &self.owner)).await;
            assert_eq!(answer.unwrap().code, 201);
        };
        let all = stream::iter(0..count).map(create).buffer_unordered(AT_ONCE);
        all.collect::<()>().await;
    }

    /// The authorizers learn of new bindings a moment later, and keep refusals for seconds.
    async fn until_rights_hold(&self, setup: &Setup) {
        let ours = Outgoing::get(format!("{}/{}", in_namespace(OURS), MINE[0]));
        let theirs = Outgoing::get(format!("{}/{}", in_namespace(THEIRS), self.hidden[0]));
        let everyone = [
            (&self.reader, &ours),
            (&self.narrow, &ours),
            (&self.owner, &theirs),
        ];
        for way in &self.ways {
            for (token, request) in everyone {
                let request = with_token(request, token);
                let holds = async || send(&way.client, &request).await.unwrap().code == 200;
                setup.until("the rights hold", holds).await;
            }
        }
    }

    /// As the administrator, through the kube-apiserver.
    pub async fn admin(&self, request: &Outgoing) -> Answer {
        send(&self.admin, request).await.unwrap()
    }

    /// Without any credentials of our own. Nothing hidden may be in what is answered, which must
    /// have an end: no watch may be opened here.
    pub async fn send(&self, way: &Way, request: &Outgoing) -> Answer {
        let (code, headers, lines) = open(&way.client, request)
            .await
            .unwrap_or_else(|error| panic!("{} {request:?}: {error}", way.name));
        let watch = request.uri.contains("watch");
        assert!(
            !watch || code != 200,
            "{}: {request:?} is a watch",
            way.name
        );
        let body = lines.rest().await;
        let body = body.unwrap_or_else(|error| panic!("{} {request:?}: {error}", way.name));
        let answer = Answer {
            code,
            headers,
            body,
        };
        self.check(request, &answer);
        answer
    }

    /// As the user with all rights in [`OURS`].
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
        let asked = asked(request);
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

/// Returns everything that a request says itself, in its continue token among it.
fn asked(request: &Outgoing) -> String {
    let body = String::from_utf8_lossy(&request.body);
    let token = request.uri.split_once("continue=");
    let token = token.map_or("", |(_, rest)| rest.split('&').next().unwrap_or_default());
    let wire = URL_SAFE_NO_PAD.decode(token).unwrap();
    format!(
        "{}\n{body}\n{}",
        request.uri,
        String::from_utf8_lossy(&wire)
    )
}

fn with_token(request: &Outgoing, token: &str) -> Outgoing {
    let request = request.clone();
    request.header("authorization", &format!("Bearer {token}"))
}

/// A client that brings nothing along. The servers' certificates are for their names in the
/// cluster, by which they are not reached here.
fn client(url: http::Uri) -> Client {
    let mut config = Config::new(url);
    config.accept_invalid_certs = true;
    // What is answered is looked at, be it that something is not there yet.
    config.default_retry = false;
    Client::try_from(config).unwrap()
}
