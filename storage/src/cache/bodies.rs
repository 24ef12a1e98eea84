//! Figures of compressed bodies.

use imbl::OrdMap;

use crate::model::Body;

/// A number of bodies and their sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bodies {
    /// Number of bodies.
    pub count: u64,
    /// Sum of the lengths of their JSON texts, in bytes.
    pub json_bytes: u64,
    /// Sum of the lengths of their compressed texts, in bytes.
    pub compressed_bytes: u64,
}

impl Bodies {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.json_bytes += other.json_bytes;
        self.compressed_bytes += other.compressed_bytes;
    }

    fn subtract(&mut self, other: Self) {
        self.count -= other.count;
        self.json_bytes -= other.json_bytes;
        self.compressed_bytes -= other.compressed_bytes;
    }
}

/// The figures of one body.
impl From<&Body> for Bodies {
    fn from(body: &Body) -> Self {
        Self {
            count: 1,
            json_bytes: body.json_len() as u64,
            compressed_bytes: body.compressed_len() as u64,
        }
    }
}

/// The compression of a resource's present bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compression {
    /// Number of dictionaries that were trained and taken; 0 while the one that is compiled in is
    /// used.
    pub generation: u64,
    /// Memory of the newest trained dictionary, in bytes; 0 without one.
    pub dictionary_bytes: usize,
    /// Trainings since the start, those whose dictionaries were not taken included.
    pub trainings: u64,
    /// All bodies.
    pub all: Bodies,
    /// Those that were compressed with the newest dictionary.
    pub newest: Bodies,
}

impl Compression {
    /// Returns the number of bodies that were compressed with another dictionary than the newest.
    #[must_use]
    pub fn outdated(&self) -> u64 {
        self.all.count.saturating_sub(self.newest.count)
    }
}

/// Figures of bodies by the generation of their dictionary. A clone shares its memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Generations(OrdMap<u64, Bodies>);

impl Generations {
    pub fn add(&mut self, body: &Body) {
        let bodies = self.0.entry(body.generation()).or_default();
        bodies.add(Bodies::from(body));
    }

    pub fn subtract(&mut self, body: &Body) {
        let generation = body.generation();
        let Some(bodies) = self.0.get_mut(&generation) else {
            return;
        };
        bodies.subtract(Bodies::from(body));
        if bodies.count == 0 {
            self.0.remove(&generation);
        }
    }

    /// Returns the figures of one generation.
    pub fn of(&self, generation: u64) -> Bodies {
        self.0.get(&generation).copied().unwrap_or_default()
    }

    /// Returns the figures of all.
    pub fn all(&self) -> Bodies {
        let mut all = Bodies::default();
        self.0.values().for_each(|bodies| all.add(*bodies));
        all
    }
}
