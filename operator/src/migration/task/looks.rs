//! The looks for what has no effect on reports while the server answers for them. Such objects may
//! come at any time and are seldom changed, so they are not followed but listed now and then.

use std::time::Duration;

use crds::control::GateState;
use crds::v1alpha1::spec::ApiOwner;
use tokio::time::Instant;

use super::refused::Refused;
use crate::migration::context::Cx;
use crate::migration::observe::bypass::Bypass;
use crate::migration::observe::bypass::read;
use crate::migration::observe::bypass::rules::Requests;
use crate::migration::observe::state::Observed;
use crate::migration::report::status::Problem;

/// The time between two looks.
const SELDOM: Duration = Duration::from_mins(1);
/// The time between two looks while a switch depends on them, or when the last one failed.
const OFTEN: Duration = Duration::from_secs(5);

/// The last look.
#[derive(Default)]
pub struct Looks {
    last: Option<Last>,
    refused: Refused,
}

struct Last {
    at: Instant,
    of: Requests,
    found: Result<Bypass, Problem>,
}

impl Last {
    fn is_due(&self, of: &Requests, depended_on: bool) -> bool {
        let period = if depended_on || self.found.is_err() {
            OFTEN
        } else {
            SELDOM
        };
        self.of != *of || self.at.elapsed() >= period
    }
}

impl Looks {
    /// Returns what was found last, after another look where one is due; none before the first. A
    /// group that the server neither serves nor is to serve is not affected by anything.
    pub async fn look(&mut self, cx: &Cx, o: &Observed) -> Option<Result<Bypass, Problem>> {
        let served = o.any_ours();
        if cx.target.owner == ApiOwner::Crd && !served {
            self.last = None;
            return Some(Ok(Bypass::default()));
        }
        let of = o.writes(&cx.target.group);
        // Clients wait or meet the CRDs, and nothing depends on it.
        let is_away = !o.all_ours() && o.is_ahead_of_etcd();
        let in_a_hurry = is_away || served && o.any_gate(GateState::Held);
        let depended_on = cx.target.settings.require_admission && !served;
        let last = self.last.as_ref();
        let due = last.is_none_or(|last| last.is_due(&of, depended_on));
        if due && !in_a_hurry && !of.is_empty() {
            let found = read::read(&cx.client, &of).await.map_err(|e| e.problem());
            let found = self.judge(found, Instant::now());
            self.take(of, found);
        }
        self.last.as_ref().map(|last| last.found.clone())
    }

    /// Returns the result of a look as it is told: a refusal may pass.
    fn judge(&mut self, found: Result<Bypass, Problem>, now: Instant) -> Result<Bypass, Problem> {
        if found.is_ok() {
            self.refused.ended(None);
        }
        found.map_err(|problem| self.refused.judge(None, problem, now).0)
    }

    /// Takes in the result of a look. One that failed for the moment says nothing against the one
    /// before.
    fn take(&mut self, of: Requests, found: Result<Bypass, Problem>) {
        let at = Instant::now();
        let passing = found.as_ref().is_err_and(|problem| !problem.stalled);
        match &mut self.last {
            Some(last) if passing && last.of == of => last.at = at,
            last => *last = Some(Last { at, of, found }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::apiservice::Holder;
    use crate::migration::context::fixtures::context;
    use crate::migration::observe::bypass::read::SOURCES;
    use crate::migration::plan::tests as states;
    use crate::refusals::GRACE;
    use crate::testing::pair;

    /// Returns the context of a cluster without any such object, and the number of lists that were
    /// asked for.
    fn cluster() -> (Cx, Arc<AtomicUsize>) {
        let (client, mut server) = pair();
        let lists = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&lists);
        tokio::spawn(async move {
            while let Some(request) = server.next_if_any().await {
                count.fetch_add(1, Ordering::Relaxed);
                request.answer(200, &json!({"metadata": {}, "items": []}));
            }
        });
        (context(&client), lists)
    }

    fn observed(holder: Holder, gate: GateState) -> Observed {
        Observed {
            resources: vec![states::resource("policyreports", gate, true, None)],
            versions: vec![states::version(holder)],
            ..Observed::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_served_group_is_looked_at_every_minute() {
        let (cx, lists) = cluster();
        let served = observed(Holder::Ours, GateState::Open);
        let mut looks = Looks::default();
        for round in 1..4 {
            for _ in 0..2 {
                let found = looks.look(&cx, &served).await;
                assert_eq!(found, Some(Ok(Bypass::default())));
                assert_eq!(lists.load(Ordering::Relaxed), round * SOURCES.len());
            }
            tokio::time::advance(Duration::from_mins(1)).await;
        }
    }

    #[tokio::test]
    async fn a_group_that_stays_with_its_crds_is_not_looked_at_until_it_is_to_be_served() {
        let (mut cx, lists) = cluster();
        let mut looks = Looks::default();
        let by_crds = observed(Holder::Crd, GateState::Closed);
        cx.target.owner = ApiOwner::Crd;
        let found = looks.look(&cx, &by_crds).await;
        assert_eq!(found, Some(Ok(Bypass::default())), "all has its effect");
        assert_eq!(lists.load(Ordering::Relaxed), 0);
        cx.target.owner = ApiOwner::Server;
        looks.look(&cx, &by_crds).await;
        assert_eq!(lists.load(Ordering::Relaxed), SOURCES.len());
    }

    #[tokio::test]
    async fn nothing_is_listed_while_clients_wait() {
        let (cx, lists) = cluster();
        let mut looks = Looks::default();
        let held = observed(Holder::Ours, GateState::Held);
        assert_eq!(looks.look(&cx, &held).await, None);
        assert_eq!(lists.load(Ordering::Relaxed), 0);
        // On the way back as well; what was found before is kept.
        looks
            .look(&cx, &observed(Holder::Ours, GateState::Open))
            .await;
        let found = looks.look(&cx, &held).await;
        assert_eq!(found, Some(Ok(Bypass::default())));
        assert_eq!(lists.load(Ordering::Relaxed), SOURCES.len());
    }

    fn requests(resource: &str) -> Requests {
        let mut requests = Requests::new("a.example");
        requests.add(resource, true, ["v1".to_owned()].iter());
        requests
    }

    fn problem(stalled: bool) -> Problem {
        Problem {
            reason: "Progressing",
            message: "503".to_owned(),
            stalled,
        }
    }

    fn bypass(name: &str) -> Bypass {
        Bypass {
            count: 1,
            named: vec![name.to_owned()],
        }
    }

    #[test]
    fn a_failure_that_passes_keeps_what_was_found_and_a_missing_right_does_not() {
        let mut looks = Looks::default();
        let found = |looks: &Looks| looks.last.as_ref().unwrap().found.clone();
        looks.take(requests("reports"), Err(problem(false)));
        assert_eq!(found(&looks), Err(problem(false)));
        looks.take(requests("reports"), Ok(bypass("a")));
        looks.take(requests("reports"), Err(problem(false)));
        assert_eq!(found(&looks), Ok(bypass("a")));
        looks.take(requests("reports"), Err(problem(true)));
        assert_eq!(found(&looks), Err(problem(true)));
    }

    #[test]
    fn a_refusal_keeps_what_was_found_until_it_stays() {
        let (mut looks, start) = (Looks::default(), Instant::now());
        let refused = || Err(Problem::forbidden(&"cannot list webhooks"));
        looks.take(requests("reports"), Ok(bypass("a")));
        let first = looks.judge(refused(), start);
        looks.take(requests("reports"), first);
        let found = |looks: &Looks| looks.last.as_ref().unwrap().found.clone();
        assert_eq!(found(&looks), Ok(bypass("a")));
        let last = looks.judge(refused(), start + GRACE);
        looks.take(requests("reports"), last);
        assert_eq!(found(&looks), refused());
        // An answer ends the row.
        assert_eq!(looks.judge(Ok(bypass("a")), start + GRACE), Ok(bypass("a")));
        let again = looks.judge(refused(), start + GRACE);
        assert!(again.is_err_and(|problem| !problem.stalled));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_is_due_at_once_for_other_resources_and_soon_where_a_switch_depends_on_it() {
        let mut looks = Looks::default();
        looks.take(requests("reports"), Ok(bypass("a")));
        let due = |looks: &Looks, resource: &str, depended_on: bool| {
            let last = looks.last.as_ref().unwrap();
            last.is_due(&requests(resource), depended_on)
        };
        assert!(!due(&looks, "reports", true));
        assert!(due(&looks, "others", false));
        tokio::time::advance(OFTEN).await;
        assert!(due(&looks, "reports", true) && !due(&looks, "reports", false));
        tokio::time::advance(SELDOM).await;
        assert!(due(&looks, "reports", false));
    }
}
