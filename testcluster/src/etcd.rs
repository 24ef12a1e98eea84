//! Figures of etcd, and its maintenance, through its JSON gateway.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Cluster, Error, http, network};

/// etcd's size and revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtcdStatus {
    /// Bytes of the database file.
    pub db_bytes: u64,
    /// Bytes of it that hold data; [`Cluster::etcd_defragment`] returns the rest.
    pub used_bytes: u64,
    /// The revision of the last write.
    pub revision: u64,
}

impl Cluster {
    /// Returns etcd's size and revision.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub async fn etcd_status(&self) -> Result<EtcdStatus, Error> {
        let answer = self.etcd("/v3/maintenance/status", &json!({})).await?;
        Ok(EtcdStatus {
            db_bytes: number(&answer["dbSize"]),
            used_bytes: number(&answer["dbSizeInUse"]),
            revision: number(&answer["header"]["revision"]),
        })
    }

    /// Drops all history up to now, and returns when that is done (physically, too).
    ///
    /// # Errors
    /// If etcd refuses.
    pub async fn etcd_compact(&self) -> Result<(), Error> {
        let revision = self.etcd_status().await?.revision;
        let request = json!({"revision": revision.to_string(), "physical": true});
        self.etcd("/v3/kv/compaction", &request).await.map(drop)
    }

    /// Returns the free space of the database file to the file system. etcd does not answer
    /// meanwhile.
    ///
    /// # Errors
    /// If etcd refuses.
    pub async fn etcd_defragment(&self) -> Result<(), Error> {
        self.etcd("/v3/maintenance/defragment", &json!({}))
            .await
            .map(drop)
    }

    /// Returns the number of keys that begin with `prefix`, e.g. `/registry/wgpolicyk8s.io/`.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub async fn etcd_count(&self, prefix: &str) -> Result<u64, Error> {
        let mut end = prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            *last = last.saturating_add(1);
        }
        let request = json!({
            "key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end), "count_only": true,
        });
        Ok(number(&self.etcd("/v3/kv/range", &request).await?["count"]))
    }

    /// Writes an object as a kube-apiserver stores those of CRDs.
    ///
    /// # Errors
    /// If etcd refuses.
    pub async fn etcd_put(&self, key: &str, object: &Value) -> Result<(), Error> {
        let value = STANDARD.encode(object.to_string());
        let request = json!({"key": STANDARD.encode(key), "value": value});
        self.etcd("/v3/kv/put", &request).await.map(drop)
    }

    async fn etcd(&self, path: &str, request: &Value) -> Result<Value, Error> {
        let url = format!("http://{}{path}", network::ETCD);
        let failed = |why: String| Error::Http {
            url: url.clone(),
            why,
        };
        let local = self.forward(network::ETCD)?;
        let (status, body) = http::post(local, path, request).await.map_err(failed)?;
        if !status.is_success() {
            return Err(failed(format!(
                "{status}: {}",
                String::from_utf8_lossy(&body)
            )));
        }
        serde_json::from_slice(&body).map_err(|source| Error::Json { what: url, source })
    }
}

/// Returns a number of the gateway, which writes 64-bit numbers as strings, and leaves zeros out.
fn number(value: &Value) -> u64 {
    value
        .as_str()
        .and_then(|text| text.parse().ok())
        .or_else(|| value.as_u64())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_gateway() {
        assert_eq!(number(&json!("18446744073709551615")), u64::MAX);
        assert_eq!(number(&json!(7)), 7);
        assert_eq!(number(&Value::Null), 0);
    }
}
