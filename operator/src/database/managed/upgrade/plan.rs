//! The plan of the next stage of a major upgrade: a pure function of what is seen in the namespace.

/// The state of the database that is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Database {
    /// It answers.
    Ready,
    /// It does not answer, and may be starting or ending.
    #[default]
    Unready,
    /// It has no pod, and none is asked for.
    Stopped,
}

/// A Job of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Name of the Job.
    pub name: String,
    /// The outcome of the Job.
    pub outcome: Outcome,
}

/// The outcome of a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The Job has not ended yet.
    Running,
    /// The Job has succeeded.
    Succeeded,
    /// The Job has failed and is not tried again.
    Failed,
}

/// The facts that are seen in the namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The database in use.
    pub database: Database,
    /// The image in its `StatefulSet`.
    pub image: Option<String>,
    /// Jobs of this upgrade and of others.
    pub jobs: Vec<Job>,
    /// True when a pod of any of them may still run, be its Job gone or not.
    pub live: bool,
}

/// The present stage of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The remains of another upgrade have to be removed first.
    Clearing {
        /// True when the database stays stopped meanwhile.
        stopped: bool,
    },
    /// The database in use has to answer before it is upgraded.
    Waiting,
    /// A Job checks whether the upgrade can be done.
    Checking,
    /// The upgrade cannot be done.
    Refused,
    /// The database in use is being stopped.
    Stopping,
    /// A Job copies and compares.
    Copying,
    /// The upgrade has failed; the database that was in use serves again.
    Failed,
    /// The upgrade has succeeded: the new volume has to be taken into use.
    Copied,
}

impl Stage {
    /// Returns whether the database in use must not run.
    #[must_use]
    pub fn is_stopped(self) -> bool {
        match self {
            Self::Clearing { stopped } => stopped,
            Self::Waiting | Self::Checking | Self::Refused | Self::Failed => false,
            Self::Stopping | Self::Copying | Self::Copied => true,
        }
    }

    /// Returns whether the upgrade goes on by itself.
    #[must_use]
    pub fn is_under_way(self) -> bool {
        !matches!(self, Self::Refused | Self::Failed)
    }
}

/// Decides the stage of an upgrade whose Jobs have these names.
///
/// Two things must never be: a database that runs on the old volume while a Job has it, and a copy
/// that is taken into use although the old database has run since it was made. So the database runs
/// only while there is no Job that copies, or one that has failed for good; and the copy begins
/// only when the database is stopped.
#[must_use]
pub fn plan(seen: &Seen, check: &str, copy: &str) -> Stage {
    let stopped = seen.database == Database::Stopped;
    let outcome = |name: &str| {
        let job = seen.jobs.iter().find(|job| job.name == name);
        job.map(|job| job.outcome)
    };
    let known = |name: &str| name == check || name == copy;
    let strangers = seen.jobs.iter().any(|job| !known(&job.name));
    let orphans = seen.live && seen.jobs.is_empty();
    if strangers || orphans {
        return Stage::Clearing { stopped };
    }
    match (outcome(copy), outcome(check)) {
        // A pod whose Job was deleted may have the volume still.
        (None, _) if stopped && seen.live => Stage::Stopping,
        (Some(Outcome::Succeeded), _) if stopped => Stage::Copied,
        // The database has run since: its copy is out of date.
        (Some(Outcome::Succeeded), _) => Stage::Clearing { stopped },
        (Some(Outcome::Running), _) => Stage::Copying,
        (Some(Outcome::Failed), _) if seen.live => Stage::Copying,
        (Some(Outcome::Failed), _) => Stage::Failed,
        (None, Some(Outcome::Succeeded)) if stopped => Stage::Copying,
        (None, Some(Outcome::Succeeded)) => Stage::Stopping,
        (None, Some(Outcome::Failed)) => Stage::Refused,
        (None, Some(Outcome::Running)) => Stage::Checking,
        (None, None) if seen.database == Database::Ready => Stage::Checking,
        (None, None) => Stage::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use Outcome::{Failed, Running, Succeeded};

    fn seen(database: Database, jobs: &[(&str, Outcome)], live: bool) -> Seen {
        let jobs = jobs.iter().map(|(name, outcome)| Job {
            name: (*name).to_owned(),
            outcome: *outcome,
        });
        Seen {
            database,
            image: None,
            jobs: jobs.collect(),
            live,
        }
    }

    #[rstest]
    #[case::down(Database::Unready, &[], Stage::Waiting)]
    #[case::stopped_by_hand(Database::Stopped, &[], Stage::Waiting)]
    #[case::up(Database::Ready, &[], Stage::Checking)]
    #[case::checking(Database::Ready, &[("check", Running)], Stage::Checking)]
    #[case::unfit(Database::Ready, &[("check", Failed)], Stage::Refused)]
    #[case::fit(Database::Ready, &[("check", Succeeded)], Stage::Stopping)]
    #[case::ending(Database::Unready, &[("check", Succeeded)], Stage::Stopping)]
    #[case::stopped(Database::Stopped, &[("check", Succeeded)], Stage::Copying)]
    #[case::copying(Database::Stopped, &[("check", Succeeded), ("copy", Running)], Stage::Copying)]
    #[case::failed(Database::Stopped, &[("check", Succeeded), ("copy", Failed)], Stage::Failed)]
    #[case::serves_again(Database::Ready, &[("check", Succeeded), ("copy", Failed)], Stage::Failed)]
    #[case::copied(Database::Stopped, &[("check", Succeeded), ("copy", Succeeded)], Stage::Copied)]
    #[case::check_deleted(Database::Stopped, &[("copy", Succeeded)], Stage::Copied)]
    fn one_step_follows_from_the_other(
        #[case] database: Database,
        #[case] jobs: &[(&str, Outcome)],
        #[case] expected: Stage,
    ) {
        assert_eq!(
            plan(&seen(database, jobs, false), "check", "copy"),
            expected
        );
    }

    #[test]
    fn the_old_database_stays_down_while_a_pod_may_have_its_volume() {
        let failed = [("copy", Failed)];
        let live = plan(&seen(Database::Stopped, &failed, true), "check", "copy");
        assert_eq!(live, Stage::Copying);
        for jobs in [
            &[][..],
            &[("copy-of-another", Running)],
            &[("copy-of-another", Succeeded)],
        ] {
            let live = !matches!(jobs, [(_, Succeeded)]);
            let stage = plan(&seen(Database::Stopped, jobs, live), "check", "copy");
            assert_eq!(stage, Stage::Clearing { stopped: true });
            assert!(stage.is_stopped());
        }
    }

    #[rstest]
    #[case(Database::Ready)]
    #[case(Database::Unready)]
    fn a_copy_is_not_taken_when_the_database_has_run_since(#[case] database: Database) {
        let copied = [("check", Succeeded), ("copy", Succeeded)];
        let stage = plan(&seen(database, &copied, false), "check", "copy");
        assert_eq!(stage, Stage::Clearing { stopped: false });
    }

    /// For anything that is seen, a stage that lets the database run has no Job that may copy it,
    /// and a copy begins with a database that is stopped.
    #[test]
    fn no_stage_has_two_servers_on_one_volume() {
        let outcomes = [None, Some(Running), Some(Succeeded), Some(Failed)];
        for database in [Database::Ready, Database::Unready, Database::Stopped] {
            for check in outcomes {
                for copy in outcomes {
                    for live in [false, true] {
                        let jobs = [("check", check), ("copy", copy)];
                        let jobs: Vec<_> = jobs
                            .into_iter()
                            .filter_map(|(name, outcome)| Some((name, outcome?)))
                            .collect();
                        let stage = plan(&seen(database, &jobs, live), "check", "copy");
                        let stopped = database == Database::Stopped;
                        if copy == Some(Running) || (stopped && live) {
                            assert!(stage.is_stopped(), "{database:?} {jobs:?} {live}");
                        }
                        if stage == Stage::Copying && copy.is_none() {
                            assert!(stopped && !live, "{database:?} {jobs:?} {live}");
                        }
                        if stage == Stage::Copied {
                            assert_eq!(database, Database::Stopped, "{jobs:?} {live}");
                        }
                    }
                }
            }
        }
    }
}
