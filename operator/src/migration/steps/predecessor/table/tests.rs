use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn object(name: &str, uid: &str, generation: i64, text: &str) -> Value {
    json!({"metadata": {"namespace": "n", "name": name, "uid": uid, "generation": generation,
        "resourceVersion": "1"}, "text": text})
}

fn key(name: &str) -> Key {
    Key {
        namespace: "n".to_owned(),
        name: name.to_owned(),
    }
}

fn gone(name: &str, uid: &str) -> Change {
    Change::Gone {
        key: key(name),
        uid: uid.to_owned(),
    }
}

#[test]
fn a_state_is_told_once_however_many_watches_say_it() {
    let mut table = Table::default();
    let first = object("a", "u", 1, "x");
    let told = table.event(ImportType::Added, first.clone());
    assert_eq!(told, Some(Change::State(first.clone())));
    let mut again = first.clone();
    again["metadata"]["resourceVersion"] = json!("9");
    assert_eq!(table.event(ImportType::Modified, again), None);
    let second = object("a", "u", 2, "y");
    let told = table.event(ImportType::Modified, second.clone());
    assert_eq!(told, Some(Change::State(second)));
    // The watch at the other kube-apiserver is behind.
    assert_eq!(table.event(ImportType::Added, first), None);
}

#[test]
fn what_was_deleted_does_not_return_by_a_watch_that_is_behind() {
    let mut table = Table::default();
    table.event(ImportType::Added, object("a", "u", 1, "x"));
    let deleted = table.event(ImportType::Deleted, object("a", "u", 1, "x"));
    assert_eq!(deleted, Some(gone("a", "u")));
    assert_eq!(
        table.event(ImportType::Added, object("a", "u", 1, "x")),
        None
    );
    // The same name again is another object.
    let anew = object("a", "w", 1, "x");
    assert_eq!(
        table.event(ImportType::Added, anew.clone()),
        Some(Change::State(anew))
    );
    assert_eq!(
        table.event(ImportType::Deleted, object("a", "u", 1, "x")),
        None
    );
}

#[test]
fn a_list_tells_what_watches_have_missed_and_nothing_that_they_know_better() {
    let mut table = Table::default();
    for name in ["a", "b", "c"] {
        table.event(ImportType::Added, object(name, name, 1, "x"));
    }
    table.begin_list();
    assert_eq!(table.listed(object("a", "a", 1, "x")), None);
    let b = object("b", "b", 2, "y");
    assert_eq!(table.listed(b.clone()), Some(Change::State(b)));
    // Created and changed after the list was read at the predecessor.
    table.event(ImportType::Added, object("d", "d", 2, "z"));
    assert_eq!(table.listed(object("d", "d", 1, "x")), None);
    assert_eq!(table.end_list(), [gone("c", "c")]);
    assert_eq!(table.objects().len(), 3);
}

#[test]
fn an_object_that_was_deleted_while_it_was_listed_stays_gone() {
    let mut table = Table::default();
    table.event(ImportType::Added, object("a", "u", 1, "x"));
    table.begin_list();
    table.event(ImportType::Deleted, object("a", "u", 1, "x"));
    assert_eq!(table.listed(object("a", "u", 1, "x")), None);
    assert!(table.end_list().is_empty());
    assert!(table.objects().is_empty());
}

#[test]
fn a_list_that_was_given_up_deletes_nothing() {
    let mut table = Table::default();
    table.event(ImportType::Added, object("a", "u", 1, "x"));
    table.begin_list();
    table.give_up_list();
    assert!(table.end_list().is_empty());
    assert_eq!(table.objects().len(), 1);
}

#[derive(Clone, Debug)]
enum Op {
    Write(u8),
    Delete(u8),
}

proptest! {
    /// Two watches tell the same events at paces of their own, and a list is read at some point. In
    /// the end the table has what the predecessor has, and so has a server that was told the
    /// changes.
    #[test]
    fn the_table_ends_as_the_predecessor(
        ops in prop::collection::vec(
            prop_oneof![(0u8..4).prop_map(Op::Write), (0u8..4).prop_map(Op::Delete)], 0..30),
        picks in prop::collection::vec(0u8..3, 0..90),
        list_from in 0usize..30,
        list_at in 0usize..30,
    ) {
        let mut world: BTreeMap<u8, (u32, i64)> = BTreeMap::new();
        let mut events = Vec::new();
        let mut listed = Vec::new();
        for (n, op) in ops.iter().enumerate() {
            if n == list_from.min(list_at) {
                listed = world.clone().into_iter().collect();
            }
            let uid = u32::try_from(n).unwrap();
            match op {
                Op::Write(k) => {
                    let state = world.get(k).map_or((uid, 1), |(uid, g)| (*uid, g + 1));
                    world.insert(*k, state);
                    events.push((ImportType::Modified, *k, state));
                }
                Op::Delete(k) => if let Some(state) = world.remove(k) {
                    events.push((ImportType::Deleted, *k, state));
                },
            }
        }
        if list_from.min(list_at) >= ops.len() {
            listed = world.clone().into_iter().collect();
        }
        let build = |k: u8, (uid, generation): (u32, i64)| {
            object(&k.to_string(), &uid.to_string(), generation, &generation.to_string())
        };
        let mut table = Table::default();
        let mut told: BTreeMap<String, (String, i64)> = BTreeMap::new();
        let mut tell = |change: Option<Change>| match change {
            Some(Change::State(o)) => {
                let meta = &o["metadata"];
                let state = (meta["uid"].as_str().unwrap().to_owned(),
                    meta["generation"].as_i64().unwrap());
                told.insert(meta["name"].as_str().unwrap().to_owned(), state);
            }
            Some(Change::Gone { key, .. }) => { told.remove(&key.name); }
            None => {}
        };
        // The list is asked for first, and its answer comes somewhere among the events.
        let mut at = [0, 0];
        let mut rest = listed.into_iter();
        table.begin_list();
        let all = picks.into_iter().chain(std::iter::repeat_n(0, 200)).chain(
            std::iter::repeat_n(1, 200));
        for pick in all {
            if pick == 2 {
                if let Some((k, state)) = rest.next() {
                    tell(table.listed(build(k, state)));
                }
                continue;
            }
            let next = &mut at[usize::from(pick)];
            if let Some((type_, k, state)) = events.get(*next) {
                *next += 1;
                tell(table.event(*type_, build(*k, *state)));
            }
        }
        for (k, state) in rest {
            tell(table.listed(build(k, state)));
        }
        for change in table.end_list() {
            tell(Some(change));
        }
        let expected: BTreeMap<String, (String, i64)> = world
            .into_iter()
            .map(|(k, (uid, g))| (k.to_string(), (uid.to_string(), g)))
            .collect();
        prop_assert_eq!(&told, &expected);
        let held: BTreeMap<String, String> = table.objects().iter()
            .map(|(k, h)| (k.name.clone(), h.uid.clone())).collect();
        let uids: BTreeMap<String, String> = expected.into_iter().map(|(k, (u, _))| (k, u)).collect();
        prop_assert_eq!(held, uids);
    }
}
