use proptest::prelude::*;
use serde_json::{Value, json};

use super::Story;
use crate::FieldSet;
use crate::managed::{Managed, Manager};
use crate::testing::{object, spec, typed};

/// Returns writes: the manager, whether by apply, and the value.
fn writes() -> impl Strategy<Value = Vec<(String, bool, Value)>> {
    prop::collection::vec(("[a-c]", any::<bool>(), spec()), 1..5)
}

fn run(writes: &[(String, bool, Value)]) -> Story {
    writes
        .iter()
        .fold(Story::new(), |story, (name, is_apply, spec)| {
            if *is_apply {
                story.force(name, spec.clone())
            } else {
                story.update(name, spec.clone())
            }
        })
}

fn owned(story: &Story, manager: &Manager) -> FieldSet {
    Managed::decode(story.live.as_ref().unwrap())
        .unwrap()
        .managers
        .get(manager)
        .map(|owned| owned.set.clone())
        .unwrap_or_default()
}

proptest! {
    #[test]
    fn apply_is_idempotent(writes in writes(), config in spec()) {
        let once = run(&writes).force("a", config.clone());
        let before = once.live.clone();
        let twice = once.apply("a", config);
        prop_assert_eq!(twice.live, before);
    }

    #[test]
    fn an_applier_owns_what_it_applies(writes in writes(), config in spec()) {
        let story = run(&writes).force("a", config.clone());
        let below_spec = |set: FieldSet| {
            let paths = set.paths().into_iter();
            let below = paths.filter(|path| path.to_string().starts_with(".spec"));
            below.collect::<FieldSet>()
        };
        let expected = typed(&object(config)).to_field_set().unwrap();
        prop_assert_eq!(owned(&story, &Manager::apply("a", "")), below_spec(expected));
    }

    #[test]
    fn what_is_applied_is_what_is_there(writes in writes(), config in spec()) {
        let story = run(&writes).force("a", config.clone());
        let (live, config) = (typed(&json!({"spec": story.spec()})), typed(&json!({"spec": config})));
        let comparison = config.compare(&live).unwrap();
        prop_assert!(comparison.modified.leaves().is_empty(), "{}", comparison.modified);
    }

    /// Without force nothing that somebody else owns changes; and it is removed only with an item
    /// or an entry around it that the applier owned and no longer applies.
    #[test]
    fn nothing_is_lost_without_its_owners(writes in writes(), config in spec()) {
        let before = run(&writes);
        let live = before.live.clone().unwrap();
        let applier = Manager::apply("a", "");
        let last = owned(&before, &applier);
        if let Ok(after) = before.try_apply("a", config, false) {
            let (old, new) = (typed(&live), typed(after.live.as_ref().unwrap()));
            let comparison = old.compare(&new).unwrap();
            for (manager, owned) in Managed::decode(&live).unwrap().managers {
                if manager == applier {
                    continue;
                }
                let changed = owned.set.intersection(&comparison.modified);
                prop_assert!(changed.is_empty(), "{} lost {}", manager, changed);
                for path in owned.set.leaves().intersection(&comparison.removed).paths() {
                    let around = (1..path.0.len()).any(|length| last.contains(&path.0[..length]));
                    prop_assert!(around, "{} lost {}", manager, path);
                }
            }
        }
    }
}
