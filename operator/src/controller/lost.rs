//! The order of a move that somebody has deleted after the reports have moved, while the
//! specification is refused: pods that start find the reports by it, whatever stands against the rest.

use crds::v1alpha1::{ReportsServer, ReportsServerSpec};
use kube::ResourceExt;
use tracing::{info, warn};

use super::found::Dereferenced;
use super::validate::{self, Refused, Validated};
use super::{Context, Error, apply, dereference};
use crate::database::between::{self, Step};

/// Gives the order again that a refused `object` lacks. `read` is what was read for it.
pub async fn restore(object: &ReportsServer, read: &Dereferenced, ctx: &Context) {
    let Some(asked) = asking(object, read) else {
        return;
    };
    let restored = async {
        let read = dereference::dereference(&asked, ctx).await?;
        Box::pin(give_again(&asked, &read, ctx)).await
    };
    if let Err(error) = Box::pin(restored).await {
        warn!(name = object.name_any(), %error, "cannot look for a lost order to move the reports");
    }
}

/// Returns the object with the specification that was carried out last, but for the database that is
/// asked for, where that is another one: an error elsewhere does not hide where the reports are.
fn asking(object: &ReportsServer, read: &Dereferenced) -> Option<ReportsServer> {
    let accepted = read.accepted.as_ref()?;
    let spec = ReportsServerSpec {
        database: object.spec.database.clone(),
        ..accepted.clone()
    };
    (!between::is_same_place(accepted, &spec)).then(|| ReportsServer {
        spec,
        ..object.clone()
    })
}

async fn give_again(
    asked: &ReportsServer,
    read: &Dereferenced,
    ctx: &Context,
) -> Result<(), Error> {
    if let Some(spec) = lacking(asked, read) {
        info!(
            name = asked.name_any(),
            "the order by which the reports have moved is given again"
        );
        apply::order(&ctx.client, &spec).await?;
    }
    Ok(())
}

/// Returns the specification with the order, where pods lack it.
fn lacking(asked: &ReportsServer, read: &Dereferenced) -> Option<Validated> {
    if read.between.step != Step::TellAgain {
        return None;
    }
    match validate::validate(asked, read) {
        Ok(spec) => Some(spec),
        Err(Refused { spec, .. }) => spec.map(|spec| *spec),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::controller::fixtures;
    use crate::database::between::Found;
    use crate::database::files::{Objects, Values};
    use crate::testing::pair;

    fn external(secret: &str, account: Option<&str>) -> ReportsServer {
        let account = account.map(|name| json!({"serviceAccount": {"name": name}}));
        let server = account.unwrap_or_else(|| json!({}));
        fixtures::object(
            json!({"server": server, "database": {"mode": "External", "external": {
            "connectionSecretRef": {"name": secret}, "sslMode": "disable"}}}),
        )
    }

    fn objects(secret: &str) -> Objects {
        let keys = [
            ("host", "db.example"),
            ("dbname", "reports"),
            ("username", "writer"),
            ("password", "secret"),
        ];
        let values: Values = keys
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
            .collect();
        Objects {
            secrets: [(secret.to_owned(), Some(values))].into(),
            ..Objects::default()
        }
    }

    fn found(step: Step, account: Option<&str>) -> Dereferenced {
        let mut found = fixtures::read();
        found.inside.connection = objects("old");
        found.between = Found {
            step,
            in_force: Some(external("old", account).spec),
            objects: objects("new"),
            ..Found::default()
        };
        found
    }

    async fn writes(step: Step, account: Option<&str>) -> Vec<(String, Value)> {
        let (client, server) = pair();
        let taken = fixtures::played(server, Vec::new(), &[]);
        let ctx = fixtures::context(&client);
        let asked = external("new", account);
        let found = found(step, account);
        Box::pin(give_again(&asked, &found, &ctx)).await.unwrap();
        let taken = taken.lock().unwrap();
        taken.clone()
    }

    #[tokio::test]
    async fn an_order_that_is_lost_is_given_again_beside_a_refused_specification() {
        // The account is missing, so that the specification is refused.
        for account in [None, Some("missing")] {
            let writes = Box::pin(writes(Step::TellAgain, account)).await;
            let [(path, secret)] = writes.as_slice() else {
                panic!("{writes:?}");
            };
            assert!(path.ends_with("/secrets/simple-database-move"), "{path}");
            assert!(secret["data"]["cluster-identity"].is_string(), "{secret}");
        }
    }

    /// A specification that is refused begins nothing.
    #[tokio::test]
    async fn no_other_order_is_given() {
        for step in [Step::Tell, Step::None, Step::Look] {
            let writes = Box::pin(writes(step, Some("missing"))).await;
            assert!(writes.is_empty(), "{writes:?}");
        }
    }

    #[test]
    fn the_database_is_looked_for_whatever_else_is_wrong() {
        let object = external("new", Some("missing"));
        let read = Dereferenced {
            accepted: Some(external("old", None).spec),
            ..fixtures::read()
        };
        let asked = asking(&object, &read).unwrap();
        assert_eq!(asked.spec.database, object.spec.database);
        assert_eq!(asked.spec.server, external("old", None).spec.server);
        let same = Dereferenced {
            accepted: Some(object.spec.clone()),
            ..fixtures::read()
        };
        assert!(asking(&object, &same).is_none());
        assert!(asking(&object, &fixtures::read()).is_none());
    }
}
