//! Bodies as large as they may be, made to cost more than their size: each is answered within
//! seconds, with no more text than a body has.

use std::time::{Duration, Instant};

use reports_server::http::MAX_BODY_BYTES;
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::*;

/// What any of these may take. They take a tenth of it; a build for tests on a busy machine is
/// slow.
const LIMIT: Duration = Duration::from_secs(20);

/// Sends a body with this type; gives the answer, which must come in time and be bounded.
async fn answered(server: &Server, method: &str, uri: &str, type_: &str, body: Vec<u8>) -> Answer {
    assert!(body.len() <= MAX_BODY_BYTES, "{} bytes", body.len());
    let began = Instant::now();
    let request = server.request(method, uri).header("content-type", type_);
    let answer = request.body(body).send().await;
    let took = began.elapsed();
    assert!(took < LIMIT, "{took:?}: {}", answer.code);
    assert!(
        answer.body.len() <= 4 * MAX_BODY_BYTES,
        "{} bytes",
        answer.body.len()
    );
    let warnings: usize = answer.warnings().iter().map(String::len).sum();
    assert!(warnings < 8 * 1024, "{warnings} bytes of warnings");
    assert!(answer.code < 500, "{}: {}", answer.code, head(&answer));
    answer
}

fn head(answer: &Answer) -> String {
    answer.text().chars().take(500).collect()
}

/// The report `name` with this field, in JSON.
fn with(name: &str, field: &str, value: &str) -> Vec<u8> {
    let mut object = report(name);
    object.as_object_mut().unwrap().remove(field);
    let text = object.to_string();
    let start = text.strip_suffix('}').unwrap();
    format!("{start},\"{field}\":{value}}}").into_bytes()
}

/// `{"key":{…}}` with a key as long as `length`, over fields that `field` makes.
fn below_a_long_key(length: usize, fields: usize, field: impl Fn(usize) -> String) -> String {
    let fields: Vec<String> = (0..fields).map(field).collect();
    format!("{{\"{}\":{{{}}}}}", "k".repeat(length), fields.join(","))
}

/// A path is told for each field that is doubled or unknown, and holds all keys above it.
#[rstest]
#[case::the_same(1_500_000, |_| "\"a\":1".to_owned())]
#[case::different(1_500_000, |index| format!("\"a{0}\":1,\"a{0}\":2", index % 50_000))]
#[case::shorter(200_000, |_| "\"a\":1".to_owned())]
#[case::unknown(1_500_000, |index| format!("\"a{index}\":1"))]
#[tokio::test]
async fn paths_below_a_long_key(#[case] length: usize, #[case] field: fn(usize) -> String) {
    let server = Server::start().await;
    let value = below_a_long_key(length, 80_000, field);
    let results = format!("[{{\"policy\":\"p\",\"properties\":{value}}}]");
    let body = with("a", "results", &results);
    for validation in ["Ignore", "Warn", "Strict"] {
        for type_ in ["application/json", "application/yaml"] {
            let uri = format!("{REPORTS}?fieldValidation={validation}&dryRun=All");
            let answer = answered(&server, "POST", &uri, type_, body.clone()).await;
            // No text of it is a text.
            assert!(
                matches!(answer.code, 400 | 422),
                "{}: {}",
                answer.code,
                head(&answer)
            );
        }
    }
    server.get(REPORTS).await.expect(200);
}

/// As many errors as there is room for.
#[tokio::test]
async fn errors_without_end() {
    let server = Server::start().await;
    let results = vec![json!({"result": "maybe", "scored": 1}); 60_000];
    let mut object = report("a");
    object["results"] = Value::from(results);
    let body = object.to_string().into_bytes();
    let answer = answered(&server, "POST", REPORTS, "application/json", body).await;
    assert_eq!(answer.code, 422, "{}", head(&answer));
    let causes = answer.json()["details"]["causes"].as_array().unwrap().len();
    assert_eq!(causes, 1000);
    let metadata: Vec<String> = (0..200_000)
        .map(|index| format!("\"x{index}\":0"))
        .collect();
    let body = with(
        "a",
        "metadata",
        &format!("{{\"name\":\"a\",{}}}", metadata.join(",")),
    );
    let uri = format!("{REPORTS}?fieldValidation=Strict");
    let answer = answered(&server, "POST", &uri, "application/json", body).await;
    assert_eq!(answer.code, 400, "{}", head(&answer));
}

#[rstest]
#[case::digits("9".repeat(1_000_000), 400)]
#[case::exponent("1e400".to_owned(), 400)]
#[case::negative_exponent("1e-400000".to_owned(), 201)]
#[case::long_exponent(format!("1e{}", "9".repeat(1_000_000)), 400)]
#[case::fraction(format!("0.{}", "3".repeat(1_000_000)), 422)]
#[case::beyond_64_bits("18446744073709551616".to_owned(), 422)]
#[case::whole_after_all("1.0e0".to_owned(), 201)]
#[tokio::test]
async fn huge_numbers(#[case] number: String, #[case] code: u16) {
    let server = Server::start().await;
    let body = with("a", "summary", &format!("{{\"pass\":{number}}}"));
    let answer = answered(&server, "POST", REPORTS, "application/json", body).await;
    assert_eq!(answer.code, code, "{}", head(&answer));
}

/// Every reader of bodies meets text that is none, in keys and in values.
#[rstest]
#[case("POST", REPORTS.to_owned(), "application/json")]
#[case("POST", REPORTS.to_owned(), "application/yaml")]
#[case("PUT", format!("{REPORTS}/a"), "application/json")]
#[case("PATCH", format!("{REPORTS}/a"), "application/merge-patch+json")]
#[case("PATCH", format!("{REPORTS}/a"), "application/json-patch+json")]
#[case("PATCH", format!("{REPORTS}/a?fieldManager=m"), "application/apply-patch+yaml")]
#[case("DELETE", format!("{REPORTS}/a"), "application/json")]
#[case("DELETE", format!("{REPORTS}/a"), "application/vnd.kubernetes.protobuf")]
#[case("POST", format!("{CONTROL}/policyreports.wgpolicyk8s.io/import"), "application/json")]
#[tokio::test]
async fn bytes_that_are_no_text(#[case] method: &str, #[case] uri: String, #[case] type_: &str) {
    let server = Server::start().await;
    server.created("a").await;
    let whole = report("a").to_string().into_bytes();
    let mut bodies: Vec<Vec<u8>> = vec![
        vec![0xff; 100_000],
        b"\xef\xbb\xbf{}".to_vec(),
        b"\xff\xfe{\x00}\x00".to_vec(),
        b"{\"\xc3\x28\":\"\xed\xa0\x80\"}".to_vec(),
        b"k8s\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01".to_vec(),
    ];
    for at in (0..whole.len()).step_by(11) {
        let mut spoiled = whole.clone();
        spoiled[at] = 0xfe;
        bodies.push(spoiled);
    }
    for body in bodies {
        let answer = answered(&server, method, &uri, type_, body).await;
        if answer.code >= 400 {
            assert_eq!(answer.json()["kind"], "Status", "{}", head(&answer));
        }
        if method == "DELETE" && answer.code == 200 {
            server.created("a").await;
        }
    }
    server.get(&format!("{REPORTS}/a")).await.expect(200);
}

/// Nesting, in whatever a body is read from.
#[rstest]
#[case("PATCH", "application/merge-patch+json", "{\"a\":", "}")]
#[case("PATCH", "application/json-patch+json", "[", "]")]
#[case("PATCH", "application/apply-patch+yaml", "{\"a\":", "}")]
#[case("PATCH", "application/apply-patch+yaml", "- ", "")]
#[case("DELETE", "application/json", "{\"preconditions\":", "}")]
#[case("PUT", "application/yaml", "{a: ", "}")]
#[tokio::test]
async fn deep_nesting(
    #[case] method: &str,
    #[case] type_: &str,
    #[case] open: &str,
    #[case] close: &str,
) {
    let server = Server::start().await;
    server.created("a").await;
    let uri = format!("{REPORTS}/a?fieldManager=m");
    for depth in [100, 200, 100_000] {
        let body = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        let answer = answered(&server, method, &uri, type_, body.into_bytes()).await;
        // What is not too deep to be read is pruned like any field that is unknown.
        let is_read = depth < 128 && answer.code == 200;
        let text = head(&answer);
        assert!(is_read || answer.code >= 400, "{depth} of {type_}: {text}");
    }
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

/// Lists of lists, each nine times the one before.
fn aliases() -> String {
    lines(20, |level| {
        if level == 0 {
            return "a0: &a0 [x,x,x,x,x,x,x,x,x]".to_owned();
        }
        let below = vec![format!("*a{}", level - 1); 9];
        format!("a{level}: &a{level} [{}]", below.join(","))
    })
}

/// Anchors that name each other, and keys that are doubled, cost no more than their text.
#[rstest]
#[case::aliases(aliases())]
#[case::anchors(lines(100_000, |index| format!("a{index}: &a{index} x")))]
#[case::doubled("a: 1\n".repeat(300_000))]
#[case::documents("---\n".repeat(500_000))]
#[case::flow(format!("a: {}", "[".repeat(1_000_000)))]
#[case::indents(lines(2_000, |level| format!("{}a:", " ".repeat(level))))]
#[case::tags(format!("a: {}1", "!a ".repeat(500_000)))]
#[case::quotes(format!("a: \"{}\"", "\\u0041".repeat(400_000)))]
#[tokio::test]
async fn yaml_that_costs(#[case] body: String) {
    let server = Server::start().await;
    let body = body.into_bytes();
    let uri = format!("{REPORTS}?fieldValidation=Strict");
    let posted = answered(&server, "POST", &uri, "application/yaml", body.clone()).await;
    assert_eq!(posted.code, 400, "{}", head(&posted));
    let uri = format!("{REPORTS}/a?fieldManager=m&fieldValidation=Strict");
    let type_ = "application/apply-patch+yaml";
    let applied = answered(&server, "PATCH", &uri, type_, body).await;
    assert_eq!(applied.code, 400, "{}", head(&applied));
}

/// Ten thousand operations, each as dear as it can be.
#[rstest]
#[case::in_front(|_| json!({"op": "add", "path": "/results/0", "value": {"policy": "p"}}))]
#[case::to_and_fro(|index| match index % 2 {
    0 => json!({"op": "move", "from": "/results", "path": "/metadata/x"}),
    _ => json!({"op": "move", "from": "/metadata/x", "path": "/results"}),
})]
#[case::tests(|_| json!({"op": "test", "path": "/results", "value": []}))]
#[case::copies(|_| json!({"op": "copy", "from": "/results", "path": "/metadata/x"}))]
#[case::deep_paths(|_| json!({"op": "test", "path": "/a".repeat(120)}))]
#[tokio::test]
async fn patches_that_cost(#[case] operation: fn(usize) -> Value) {
    let server = Server::start().await;
    let mut large = report("a");
    large["results"] = Value::from(vec![json!({"policy": "p".repeat(100)}); 15_000]);
    server.post(REPORTS, &large).await.expect(201);
    let operations: Vec<Value> = (0..10_000).map(operation).collect();
    let body = Value::from(operations).to_string().into_bytes();
    let uri = format!("{REPORTS}/a");
    answered(&server, "PATCH", &uri, "application/json-patch+json", body).await;
}

/// Owners of as many fields as there is room for, applied against each other.
#[tokio::test]
async fn applies_that_cost() {
    let server = Server::start().await;
    let uri = |manager: &str| format!("{REPORTS}/a?fieldManager={manager}");
    let labels = |value: &str| -> Value {
        let pairs = (0..60_000).map(|index| (format!("k{index}"), json!(value)));
        Value::Object(pairs.collect())
    };
    let config = |value: &str| {
        let mut object = report("a");
        object["metadata"]["annotations"] = labels(value);
        object.to_string().into_bytes()
    };
    let type_ = "application/apply-patch+yaml";
    // The fields are owned one by one, so the object outgrows what may be stored, or does not.
    answered(&server, "PATCH", &uri("first"), type_, config("a")).await;
    let conflicts = answered(&server, "PATCH", &uri("second"), type_, config("b")).await;
    assert!(
        matches!(conflicts.code, 201 | 409 | 413 | 422),
        "{}",
        conflicts.code
    );
    let nested = (0..100).fold(json!({}), |below, _| json!({"f:a": below}));
    let mut object = report("b");
    object["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update",
        "apiVersion": "wgpolicyk8s.io/v1alpha2", "fieldsType": "FieldsV1", "fieldsV1": nested}]);
    let body = object.to_string().into_bytes();
    let answer = answered(&server, "POST", REPORTS, "application/json", body).await;
    assert_eq!(answer.code, 201, "{}", head(&answer));
}

/// Queries are bounded by the length of a URL; what they ask is asked of every object.
#[tokio::test]
async fn selectors_that_cost() {
    let server = Server::start().await;
    for index in 0..100 {
        server.created(&format!("r{index}")).await;
    }
    let many: Vec<String> = (0..8_000).map(|index| format!("!k{index}")).collect();
    let values: Vec<String> = (0..8_000).map(|index| format!("v{index}")).collect();
    for (selector, found) in [
        (many.join(","), 100),
        (format!("app+in+({})", values.join(",")), 0),
        (format!("app+notin+({})", values.join(",")), 100),
    ] {
        let began = Instant::now();
        let uri = format!("{REPORTS}?labelSelector={selector}");
        let list = server.get(&uri).await.expect(200).json();
        assert_eq!(names(&list).len(), found);
        assert!(began.elapsed() < LIMIT);
    }
    for query in [
        "labelSelector=%ff",
        "fieldSelector=metadata.name%3D%ff",
        "continue=%00",
        "limit=%ff",
    ] {
        let answer = server.get(&format!("{REPORTS}?{query}")).await;
        assert!(
            matches!(answer.code, 200 | 400),
            "{query}: {}",
            answer.text()
        );
    }
}
