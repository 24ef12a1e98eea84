//! Who has rights in one namespace sees no byte of another: not in lists, watches, tables, counts,
//! tokens, the texts of errors, or the time that an answer takes; through the kube-apiserver and
//! straight at the server.
mod cost;
mod ground;
mod reading;
mod refusals;
mod watching;
mod writing;

use std::time::Instant;

use crate::api_support::{ALL_REPORTS, Setup};
use comparison::serving::request::Outgoing;
use ground::{FORMS, Ground, HIDDEN};

#[tokio::test(flavor = "multi_thread")]
async fn nobody_sees_what_is_not_theirs_to_see() {
    let mut setup = Setup::start().await;
    setup.switch().await;
    let ground = Ground::lay(&setup).await;
    the_administrator_sees_everything(&ground).await;
    for way in &ground.ways {
        println!("{}", way.name);
        timed("reading", reading::all(&ground, way)).await;
        timed("refusals", refusals::all(&ground, way)).await;
        timed("writing", writing::all(&ground, way)).await;
        timed("watching", watching::all(&setup, &ground, way)).await;
    }
    timed("cost", cost::of_others(&setup, &ground)).await;
    timed(
        "rights",
        refusals::a_right_that_is_taken_away_is_gone(&setup, &ground),
    )
    .await;
}

/// Says how long a step took.
async fn timed(step: &str, work: impl Future<Output = ()>) {
    let began = Instant::now();
    Box::pin(work).await;
    println!("{step}: {:.1} s", began.elapsed().as_secs_f64());
}

/// The administrator sees everything that the users must not see.
async fn the_administrator_sees_everything(ground: &Ground) {
    for (accept, plain) in FORMS {
        let request = Outgoing::get(ALL_REPORTS).header("accept", accept);
        let answer = ground.admin(&request).await;
        assert_eq!(answer.code, 200, "{}", answer.text());
        assert!(answer.text().contains(HIDDEN), "{accept}");
        let names = ground.hidden.iter().zip(&ground.uids);
        let mut seen = names.map(|(_, uid)| answer.text().contains(uid));
        assert!(!plain || seen.all(|seen| seen), "{}", answer.text());
    }
}
