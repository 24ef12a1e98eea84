//! Every step, and whatever somebody does in it. A few cases in a usual run, the same in each unless
//! `E2E_SEED` is another number; all of them with `E2E_FULL`; with `E2E_CASES` those whose names
//! contain one of its texts, such as `back/BackWrite` or `CrdDeleted`, with commas between them.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use e2e::processes::Migration;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use testreports::ReportKind;

use crate::common::{full, rights};
use crate::interference::case::{Case, Interference, Stall};
use crate::interference::ground::{Contents, Ground, SOON, ended, reports};
use crate::interference::meddle::{DOOMED, Meddling};
use crate::interference::writer::Writer;

/// Chooses the cases of a usual run: the same in each.
const SEED: u64 = 11;
/// Number of these cases.
const DRAWN: usize = 3;

fn cases() -> Vec<Case> {
    let all = Case::all();
    if let Ok(text) = std::env::var("E2E_CASES") {
        let named = |case: &Case| text.split(',').any(|part| case.to_string().contains(part));
        return all.into_iter().filter(named).collect();
    }
    if full() {
        return all;
    }
    let seed = std::env::var("E2E_SEED").ok();
    let seed = seed.map_or(SEED, |seed| seed.parse().expect("E2E_SEED is a number"));
    let mut rng = StdRng::seed_from_u64(seed);
    let mut kinds = Interference::ALL.to_vec();
    kinds.shuffle(&mut rng);
    let mut drawn = all;
    drawn.retain(|case| !case.is_slow());
    drawn.shuffle(&mut rng);
    let one = |kind: &Interference| drawn.iter().find(|case| case.what == *kind).copied();
    kinds.iter().take(DRAWN).filter_map(one).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_others_do_in_any_step_loses_a_report() {
    let cases = cases();
    let names: Vec<_> = cases.iter().map(Case::to_string).collect();
    println!("cases: {names:?}");
    let mut ground = Ground::start().await;
    let mut failed = BTreeMap::new();
    for case in &cases {
        let begun = std::time::Instant::now();
        let result = Box::pin(run(&mut ground, *case)).await;
        let how = if result.is_ok() { "well" } else { "failed" };
        println!("{case}: {how} after {:?}", begun.elapsed());
        if let Err(error) = result {
            ground.tell();
            println!("{case}: {error:#}");
            failed.insert(case.to_string(), format!("{error:#}"));
            drop(ground);
            ground = Ground::start().await;
        }
    }
    let names: Vec<_> = failed.keys().collect();
    assert!(failed.is_empty(), "of {} cases: {names:?}", cases.len());
}

async fn run(ground: &mut Ground, case: Case) -> anyhow::Result<()> {
    if case.what == Interference::NamespaceDeleted {
        ground.namespace(DOOMED).await?;
    }
    let user = (case.what == Interference::RightsAway).then_some(rights::USER);
    ground.keep_clock(case.what.clock().is_some()).await?;
    if case.back {
        ground.reach(false).await.context("to begin with")?;
    }
    let mut expected = ground.contents().await?;
    let writer = Writer::start(ground);
    ground.die(case.step, case.back, user).await?;
    let mut meddling = Box::pin(Meddling::begin(ground, case, &mut expected)).await?;
    let migration = ground.migrate(None, case.back, user)?;
    meddling.end_soon(ground, &migration).await;
    if stalls(&migration, case.stall()).await? {
        meddling.end(ground).await?;
    }
    ended(&migration).await?;
    let written = writer.finish().await?;
    meddling.end(ground).await?;
    meddling.check(ground).await?;
    let reports_go = case.reports_go();
    compare(&ground.contents().await?, &expected).context("at the goal")?;
    if !reports_go {
        written.check(ground).await.context("at the goal")?;
        ensure!(written.acknowledged > 0, "nothing was written");
    }
    if !case.back {
        ground.reach(true).await.context("afterwards")?;
        compare(&ground.contents().await?, &expected).context("back again")?;
        if !reports_go {
            written.check(ground).await.context("back again")?;
        }
    }
    Box::pin(ground.tidy()).await?;
    let gained = |(_, (_, name)): &(ReportKind, (String, String))| name == "gained";
    for (_, (namespace, name)) in expected.into_keys().filter(gained) {
        let reports = reports(&ground.admin, &namespace);
        reports
            .delete(&name, &kube::api::DeleteParams::default())
            .await?;
    }
    Ok(())
}

/// Returns whether the migration says what it has to before somebody mends it.
async fn stalls(migration: &Migration, stall: Stall) -> anyhow::Result<bool> {
    let (words, must) = match stall {
        Stall::Never => return Ok(false),
        Stall::Maybe(words) => (words, false),
        Stall::Always(words) => (words, true),
    };
    let ends = async {
        tokio::select! {
            said = migration.says(words) => said.map(Some),
            _ = migration.process.wait() => Ok(None),
        }
    };
    match tokio::time::timeout(SOON, ends).await {
        Ok(Ok(Some(_))) => Ok(true),
        Ok(Ok(None)) if !must => Ok(false),
        Ok(Err(error)) => Err(error.into()),
        Ok(Ok(None)) => bail!("it ended without {words:?}: {}", migration.log()),
        Err(_) => bail!("no {words:?} within {SOON:?}: {}", migration.log()),
    }
}

fn compare(there: &Contents, expected: &Contents) -> anyhow::Result<()> {
    let missing: Vec<_> = expected
        .keys()
        .filter(|key| !there.contains_key(key))
        .collect();
    let more: Vec<_> = there
        .keys()
        .filter(|key| !expected.contains_key(key))
        .collect();
    let other: Vec<_> = expected
        .iter()
        .filter(|(key, content)| there.get(key).is_some_and(|found| found != *content))
        .collect();
    ensure!(
        missing.is_empty() && more.is_empty() && other.is_empty(),
        "{} of {} reports are missing, {} others: more {more:?}, missing {:?}, other {:?}",
        missing.len(),
        expected.len(),
        other.len(),
        missing.iter().take(5).collect::<Vec<_>>(),
        other.iter().take(3).collect::<Vec<_>>(),
    );
    Ok(())
}
