//! Steps of cases.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

/// One step of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A request whose answer is compared.
    Request(Request),
    /// Requests that are sent at the same time.
    Both(Vec<Request>),
    /// Opens a watch.
    Watch {
        /// Name of the watch in the case.
        name: String,
        /// The get that opens it.
        request: Request,
    },
    /// Reads events of a watch.
    Read {
        /// Name of the watch.
        name: String,
        /// Number of events; without it all events of the writes so far.
        count: Option<usize>,
    },
    /// Reads a watch to its end.
    End {
        /// Name of the watch.
        name: String,
    },
    /// Repeats a request until its answer is right.
    Wait {
        /// The request.
        request: Request,
        /// The condition on the answer.
        until: Until,
        /// Longest wait in seconds.
        within: u64,
    },
}

/// A condition on an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// It has this status.
    Status(u16),
    /// The JSON pointer leads to something that is not empty.
    Has(String),
}

/// The part of an answer that is compared.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pick {
    /// JSON pointer of the part.
    pub at: Option<String>,
    /// JSON pointer of a list, of which some items are compared.
    pub r#in: Option<String>,
    /// Values that these items have, by JSON pointer.
    #[serde(default)]
    pub r#where: BTreeMap<String, Value>,
}

/// A request, its variables not filled in yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Path and query.
    pub uri: String,
    /// Body.
    pub body: Content,
    /// Values that are put into a structured body, by JSON pointer.
    pub set: BTreeMap<String, Value>,
    /// JSON pointers of the values that are taken out of it.
    pub unset: Vec<String>,
    /// Headers that are added or replaced; none for one that is left out.
    pub headers: BTreeMap<String, Option<String>>,
    /// `content-type` of the body.
    pub content_type: Option<String>,
    /// User who sends it.
    pub user: Option<String>,
    /// Variables that take values of the answer, by JSON pointer.
    pub save: BTreeMap<String, String>,
    /// Fields of the answer to compare; empty for all of it.
    pub only: Vec<String>,
    /// The part of the answer to compare; none for all of it.
    pub pick: Option<Pick>,
}

/// Body of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Content {
    /// No body.
    #[default]
    None,
    /// A small valid report of this name.
    Report(String),
    /// A structured value.
    Value(Value),
    /// A text with variables, as it is.
    Text(String),
    /// Bytes that are no text.
    Bytes(Vec<u8>),
}

/// All keys of a step.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Keys {
    r#do: Option<String>,
    report: Option<String>,
    body: Option<Value>,
    bytes: Option<Texts>,
    base64: Option<String>,
    set: BTreeMap<String, Value>,
    unset: Vec<String>,
    headers: BTreeMap<String, Option<String>>,
    r#type: Option<String>,
    r#as: Option<String>,
    save: BTreeMap<String, String>,
    only: Vec<String>,
    pick: Option<Pick>,
    watch: Option<String>,
    uri: Option<String>,
    read: Option<String>,
    count: Option<usize>,
    end: Option<String>,
    wait: Option<Value>,
    at: Option<String>,
    within: Option<u64>,
    both: Option<Vec<Value>>,
}

/// One text, or several that follow each other.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Several(Vec<String>),
}

impl Step {
    /// # Errors
    /// The fault of the step, in words.
    pub(super) fn parse(step: Value) -> Result<Self, String> {
        let keys: Keys = serde_json::from_value(step).map_err(|error| error.to_string())?;
        if let Some(condition) = keys.wait.clone() {
            return Self::wait(&condition, keys);
        }
        let verbs = [&keys.r#do, &keys.watch, &keys.read, &keys.end];
        let given = verbs.iter().filter(|verb| verb.is_some()).count();
        if given + usize::from(keys.both.is_some()) != 1 {
            return Err("a step has one of do, watch, read, end, wait, both".to_owned());
        }
        let uri = keys.uri.clone().unwrap_or_default();
        if let Some(requests) = keys.both {
            let requests = requests.into_iter().map(Self::request);
            return Ok(Self::Both(requests.collect::<Result<_, _>>()?));
        }
        if let Some(name) = keys.read {
            let count = keys.count;
            return Ok(Self::Read { name, count });
        }
        if let Some(name) = keys.end {
            return Ok(Self::End { name });
        }
        match keys.watch.clone() {
            Some(name) => {
                let request = Request {
                    method: "GET".to_owned(),
                    uri,
                    ..Request::from_keys(keys)?
                };
                Ok(Self::Watch { name, request })
            }
            None => Request::parse(keys).map(Self::Request),
        }
    }

    fn wait(condition: &Value, keys: Keys) -> Result<Self, String> {
        let until = match (condition.as_str(), condition.as_u64(), &keys.at) {
            (Some("gone"), _, _) => Until::Status(404),
            (Some("present"), _, _) => Until::Status(200),
            (Some("has"), _, Some(pointer)) => Until::Has(pointer.clone()),
            (_, Some(status), _) => Until::Status(u16::try_from(status).unwrap_or_default()),
            _ => {
                return Err(format!(
                    "wait: {condition}; use gone, present, has with at, or a status"
                ));
            }
        };
        let within = keys.within.unwrap_or(30);
        let request = if keys.r#do.is_some() {
            Request::parse(keys)?
        } else {
            Request {
                method: "GET".to_owned(),
                uri: keys.uri.clone().ok_or("wait: it needs a uri or a do")?,
                ..Request::from_keys(keys)?
            }
        };
        Ok(Self::Wait {
            request,
            until,
            within,
        })
    }

    fn request(value: Value) -> Result<Request, String> {
        match Self::parse(value)? {
            Self::Request(request) => Ok(request),
            _ => Err("both takes steps with do".to_owned()),
        }
    }
}

impl Request {
    fn parse(keys: Keys) -> Result<Self, String> {
        let line = keys.r#do.clone().unwrap_or_default();
        let (method, uri) = line
            .split_once(' ')
            .ok_or_else(|| format!("do: {line}; it is METHOD URI"))?;
        Ok(Self {
            method: method.to_owned(),
            uri: uri.trim().to_owned(),
            ..Self::from_keys(keys)?
        })
    }

    fn from_keys(keys: Keys) -> Result<Self, String> {
        let mut bodies = Vec::new();
        bodies.extend(keys.report.map(Content::Report));
        bodies.extend(keys.body.map(Content::Value));
        bodies.extend(keys.bytes.map(|texts| match texts {
            Texts::One(text) => Content::Text(text),
            Texts::Several(texts) => Content::Text(texts.concat()),
        }));
        if let Some(text) = keys.base64 {
            let bytes = STANDARD.decode(text.trim());
            bodies.push(Content::Bytes(bytes.map_err(|e| format!("base64: {e}"))?));
        }
        if bodies.len() > 1 {
            return Err("a request has one of report, body, bytes, base64".to_owned());
        }
        Ok(Self {
            body: bodies.pop().unwrap_or_default(),
            set: keys.set,
            unset: keys.unset,
            headers: keys.headers,
            content_type: keys.r#type,
            user: keys.r#as,
            save: keys.save,
            only: keys.only,
            pick: keys.pick,
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_has_all_its_parts() {
        let step = json!({"do": "PATCH ${item a}?force=true", "body": {"a": null}, "as": "u",
            "type": "application/merge-patch+json", "headers": {"accept": null},
            "save": {"rv": "/metadata/resourceVersion"}, "unset": ["/x"]});
        let Step::Request(request) = Step::parse(step).unwrap() else {
            unreachable!("it has a do");
        };
        assert_eq!(request.method, "PATCH");
        assert_eq!(request.uri, "${item a}?force=true");
        assert_eq!(request.body, Content::Value(json!({"a": null})));
        assert_eq!(request.headers["accept"], None);
        assert_eq!(request.user.as_deref(), Some("u"));
    }

    #[test]
    fn a_null_body_is_none() {
        let step = Step::parse(json!({"do": "POST /x", "body": null})).unwrap();
        assert!(matches!(step, Step::Request(request) if request.body == Content::None));
    }

    #[test]
    fn bodies_in_parts_are_put_together() {
        let step = Step::parse(json!({"do": "POST /x", "bytes": ["[", "1", "]"]})).unwrap();
        let Step::Request(request) = step else {
            unreachable!("it has a do");
        };
        assert_eq!(request.body, Content::Text("[1]".to_owned()));
    }

    #[test]
    fn watches_and_waits() {
        let read = Step::parse(json!({"read": "w", "count": 2})).unwrap();
        let expected = Step::Read {
            name: "w".into(),
            count: Some(2),
        };
        assert_eq!(read, expected);
        assert!(Step::parse(json!({"wait": "soon", "uri": "/x"})).is_err());
        let wait = json!({"wait": 409, "do": "POST /x", "within": 5});
        assert!(
            matches!(Step::parse(wait).unwrap(), Step::Wait { until: Until::Status(409), request, within: 5 }
                if request.method == "POST")
        );
        assert!(Step::parse(json!({"wait": "has", "uri": "/x"})).is_err());
        assert!(Step::parse(json!({"both": [{"wait": "gone", "uri": "/x"}]})).is_err());
    }
}
