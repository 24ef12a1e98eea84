//! The move from a PostgreSQL: what is read before it is known which specification is
//! carried out.

use crds::control::DatabaseMove;
use crds::names::ANNOTATION_BEGIN_ANEW;
use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::spec::DatabaseMode;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Resource, ResourceExt};

use super::reading::Reading;
use super::{Error, inside};
use crate::controller::found::Dereferenced;
use crate::controller::validate::{Route, Validated};
use crate::controller::{Context, workload};
use crate::database::between::{self, Found, Pods, Seen, Step};
use crate::database::check::Verdict;
use crate::database::files::{self, Objects};
use crate::database::history::{self, GivenUp};

/// Reads how far such a move is, and decides what follows. `outside` is what does not lie in the
/// target namespace, and the specification that was carried out last; `spec` is what `object` asks
/// for.
///
/// # Errors
/// If something cannot be read; that it is missing is an answer.
pub async fn read(
    object: &ReportsServer,
    outside: &Dereferenced,
    spec: &Validated,
    reading: Reading,
    ctx: &Context,
) -> Result<Found, Error> {
    // An order is never forgotten, whatever somebody has deleted.
    let accepted = outside.accepted.as_ref();
    let status = object.status.as_ref();
    let status = status.and_then(|status| status.database.as_ref());
    let noted = status.and_then(|status| status.history.as_deref());
    let from = accepted.map(between::mode);
    if from.is_none() && noted.is_none() {
        return Ok(Found::default());
    }
    let client = &ctx.client;
    let secret = inside::move_secret(client, spec).await?;
    let ordered = secret.as_ref().is_some_and(between::is_order);
    // Another move leads away from there.
    if from == Some(DatabaseMode::Embedded) && !ordered {
        return Ok(Found::default());
    }
    let stays = accepted.is_some_and(|accepted| between::is_same_place(accepted, &object.spec));
    if !ordered && stays {
        return Ok(Found::default());
    }
    let deployment = inside::deployment(client, spec).await?;
    // Without it nothing begins, and what was begun stays as it is.
    let way = reading.side(destination(object, spec, ctx).await)?;
    let is_way_unread = way.is_none();
    let (objects, destination) = way.unwrap_or_default();
    let server = match &deployment {
        Some(_) => inside::database(client).await,
        None => None,
    };
    let name = spec.names.instance();
    let postgres = spec.database.postgres();
    let identity = postgres.map_or("", |postgres| postgres.cluster_identity.as_str());
    let present = ctx.checks.present(name);
    let seen = Seen {
        accepted,
        mode: status.and_then(|status| status.mode),
        wanted: &object.spec,
        identity,
        secret: secret.as_ref(),
        server: server.as_ref(),
        noted,
        abandoned: history::given_up(GivenUp {
            asked: object.annotations().get(ANNOTATION_BEGIN_ANEW),
            noted,
            is_served: outside.is_served(),
            identity,
            present: present.as_ref(),
        }),
        is_usable: matches!(present, Some(Verdict::Usable(_))),
        destination: destination.as_ref(),
        pods: pods(deployment.as_ref()),
        leaves: object.meta().deletion_timestamp.is_some(),
    };
    let step = between::step(&seen);
    let in_force = between::in_force(&step, &seen);
    match &step {
        // It is examined anew before it is the one in use: the reports were not there yet.
        Step::Note(_) => ctx.checks.ensure_destination(name, None),
        // A file has none, and is not examined.
        Step::Switch(history) if !history.is_empty() => {
            let identity = seen.identity;
            let is_other = |found: &Verdict| history::is_other(identity, history, Some(found));
            ctx.checks.arrive(name, is_other);
        }
        _ => {}
    }
    let told = server.and_then(|server| server.move_);
    let about = |told: &DatabaseMove| {
        let secret = secret.as_ref();
        secret.is_some_and(|secret| between::is_about(told, secret))
    };
    let told = told.filter(about);
    Ok(Found {
        step,
        secret,
        told,
        in_force,
        objects,
        is_way_unread,
    })
}

/// Returns the Secrets that lead to the database that is asked for, and what is known of that.
async fn destination(
    object: &ReportsServer,
    spec: &Validated,
    ctx: &Context,
) -> Result<(Objects, Option<Verdict>), Error> {
    let external = between::mode(&object.spec) == DatabaseMode::External;
    let Some(route) = Route::of(object, spec, None).filter(|_| external) else {
        return Ok((Objects::default(), None));
    };
    let objects = files::objects(&ctx.client, &spec.namespace, &route.connection).await?;
    let verdict = match route.target(&spec.namespace, &objects) {
        Ok(target) => ctx
            .checks
            .destination_verdict(spec.names.instance(), &target),
        Err(problem) => Some(Verdict::Unusable(problem)),
    };
    Ok((objects, verdict))
}

fn pods(deployment: Option<&Deployment>) -> Pods {
    let Some(deployment) = deployment else {
        return Pods::default();
    };
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    Pods {
        embedded: workload::is_embedded(deployment),
        serve: workload::is_serving(deployment),
        rolled_out: workload::is_rolled_out(deployment),
        hear: template.is_some_and(workload::hears_of_moves),
        away: workload::is_away(deployment),
        has_file: template.is_some_and(workload::has_file),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::controller::dereference::{dereference, least};
    use crate::controller::fixtures;
    use crate::database::between::{Egress, Notes, Source, Step, home};
    use crate::database::moving;
    use crate::names::ACCEPTED_KEY;
    use crate::testing::pair;

    fn owner() -> Value {
        json!([{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "uid-1"}])
    }

    fn accepted(spec: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "m", "ownerReferences": owner()},
            "data": {ACCEPTED_KEY: spec.to_string()}})
    }

    fn external(secret: &str) -> Value {
        json!({"mode": "External", "external": {
            "connectionSecretRef": {"name": secret}, "sslMode": "disable"}})
    }

    /// A Secret of the database that is asked for is none that certificates need.
    #[tokio::test]
    async fn the_way_to_the_destination_is_read_on_the_side() {
        let map = accepted(&json!({"targetNamespace": "target", "database": external("old")}));
        let (client, server) = pair();
        let present = vec![("/configmaps/simple-server-accepted", map)];
        let _writes = fixtures::played(server, present, &["/secrets/new"]);
        let ctx = fixtures::context(&client);
        let mut object = fixtures::object(json!({"database": external("new")}));
        let status = object.status.get_or_insert_default();
        status.database.get_or_insert_default().history = Some("h".to_owned());
        assert!(dereference(&object, &ctx).await.is_err());
        let read = least(&object, &ctx).await.unwrap();
        assert!(read.between.is_way_unread);
        // Until it is known what is there, nothing changes.
        assert_eq!(Some(&read.in_force(&object).spec), read.accepted.as_ref());
        assert_ne!(read.in_force(&object).spec, object.spec);
    }

    /// An embedded server may have old pods, which are on PostgreSQL.
    #[tokio::test]
    async fn an_order_that_has_led_to_a_volume_is_read_on() {
        let embedded = json!({"targetNamespace": "target", "database": {"mode": "Embedded"}});
        let notes = Notes {
            specification: serde_json::from_value(embedded.clone()).unwrap(),
            before: serde_json::from_value(embedded.clone()).unwrap(),
            source: Source::default(),
            destination: Egress::default(),
            moved_to: Some(String::new()),
        };
        let order = home::order("uid-1", 3, None, &notes);
        let order = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "data": moving::data(&order)});
        let object = fixtures::object(json!({"database": {"mode": "Embedded"}}));
        for (order, expected) in [
            (Some(order), Step::Finish(String::new())),
            (None, Step::None),
        ] {
            let mut present = vec![("/configmaps/simple-server-accepted", accepted(&embedded))];
            let order = order.map(|order| ("/secrets/simple-database-move", order));
            present.extend(order);
            let (client, server) = pair();
            let _writes = fixtures::played(server, present, &[]);
            let ctx = fixtures::context(&client);
            let read = least(&object, &ctx).await.unwrap();
            assert_eq!(read.between.step, expected);
        }
    }
}
