use serde_json::{Value, json};

use super::{ApplyError, FieldManager};
use crate::managed::Managed;
use crate::testing::{at, field_manager, object, stored};

mod apply;
mod kubectl;
mod names;
mod properties;
mod settled;
mod update;
mod versions;

/// Returns the owners below `.spec`, one a line: `name Operation time: paths`.
fn owners(object: &Value) -> Vec<String> {
    let managed = Managed::decode(object).unwrap();
    let entries = managed.encode();
    let describe = |entry: &Value| {
        let set = crate::FieldSet::from_fields_v1(&entry["fieldsV1"]).unwrap();
        let time = entry["time"].as_str().map_or("never", |time| &time[17..19]);
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let (name, operation) = (text("manager"), text("operation"));
        let paths = set.to_string().replace('\n', " ").replace(".spec", "");
        format!("{name} {operation} {time}: {paths}")
    };
    entries.as_array().unwrap().iter().map(describe).collect()
}

/// A sequence of writes to one object.
struct Story {
    manager: FieldManager,
    live: Option<Value>,
    seconds: i64,
}

impl Story {
    fn new() -> Self {
        Self {
            manager: field_manager(),
            live: None,
            seconds: 0,
        }
    }

    /// Writes a `spec`, each write a second after the one before; the first one creates.
    fn update(mut self, name: &str, spec: Value) -> Self {
        self.seconds += 1;
        let mut new = object(spec);
        if let Some(live) = &self.live {
            new["metadata"] = live["metadata"].clone();
        }
        let now = at(self.seconds - 1);
        let updated = self.manager.update(self.live.as_ref(), new, name, now);
        self.live = Some(stored(updated));
        self
    }

    fn apply(self, name: &str, spec: Value) -> Self {
        self.try_apply(name, spec, false).unwrap()
    }

    fn force(self, name: &str, spec: Value) -> Self {
        self.try_apply(name, spec, true).unwrap()
    }

    fn try_apply(mut self, name: &str, spec: Value, force: bool) -> Result<Self, ApplyError> {
        self.seconds += 1;
        let now = at(self.seconds - 1);
        let config = object(spec);
        let applied = self
            .manager
            .apply(self.live.as_ref(), &config, name, force, now)?;
        self.live = Some(stored(applied));
        Ok(self)
    }

    fn conflicts(self, name: &str, spec: Value) -> crate::Conflicts {
        match self.try_apply(name, spec, false) {
            Err(ApplyError::Conflicts(conflicts)) => conflicts,
            Err(other) => panic!("no conflict, but {other}"),
            Ok(story) => panic!("no conflict, but {:?}", story.live),
        }
    }

    fn spec(&self) -> Value {
        self.live
            .as_ref()
            .map_or(json!(null), |live| live["spec"].clone())
    }

    fn owners(&self) -> Vec<String> {
        self.live.as_ref().map(owners).unwrap_or_default()
    }
}
