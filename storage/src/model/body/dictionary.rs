//! The dictionaries that texts are compressed with: one that is compiled in, and those that are
//! trained from stored objects. Trained ones are in no database and in no answer.

use std::io;
use std::sync::{Arc, LazyLock};

use zstd::dict::{DecoderDictionary, EncoderDictionary};

use super::{Body, BodyError};

/// The level of compression. On Kyverno's reports level 3 is as quick as level 1 (some 40 µs for 12
/// kB) and smaller; level 6 takes three times as long for 18 % less.
const LEVEL: i32 = 3;

/// Text that nearly every report has, so that the compressor need not learn it from each one: a
/// report of 12 kB takes 1.4 kB with it, and 1.9 kB without. The text at the end is the cheapest to
/// refer to. Texts in SQLite need it as it is: see [`super::packed`].
pub(super) const BUILT_IN: &[u8] = include_bytes!("dictionary.txt");

static BUILT_IN_PREPARED: LazyLock<Arc<Dictionary>> = LazyLock::new(|| {
    Arc::new(Dictionary {
        encoder: EncoderDictionary::copy(BUILT_IN, LEVEL),
        decoder: Arc::new(Decoder {
            generation: 0,
            prepared: DecoderDictionary::copy(BUILT_IN),
        }),
    })
});

/// Most bytes of a trained dictionary.
const TRAINED_BYTES: usize = 64 << 10;
/// Most bytes of each part of an object that are trained with.
const PART_BYTES: usize = 32 << 10;
/// The place of the number in a trained dictionary, which each frame would repeat in four bytes.
const NUMBER: std::ops::Range<usize> = 4..8;

/// A dictionary, prepared for both directions.
pub(crate) struct Dictionary {
    pub(super) encoder: EncoderDictionary<'static>,
    pub(super) decoder: Arc<Decoder>,
}

/// The part of a dictionary that reading needs. Each body keeps the one that it was compressed
/// with; what writing needs is dropped when a newer dictionary takes its place.
pub(super) struct Decoder {
    pub generation: u64,
    pub prepared: DecoderDictionary<'static>,
}

impl Dictionary {
    /// Returns the dictionary that is compiled in.
    pub fn built_in() -> &'static Arc<Self> {
        &BUILT_IN_PREPARED
    }

    /// Trains a dictionary. Takes up to some seconds of processor time and tens of megabytes.
    ///
    /// # Errors
    /// If the samples are too few or too uniform.
    pub fn train(samples: &Samples, generation: u64) -> io::Result<Self> {
        let Samples { text, lengths } = samples;
        let mut trained = zstd::dict::from_continuous(text, lengths, TRAINED_BYTES)?;
        // A frame of number 0 does not carry it: its body knows the dictionary.
        if let Some(number) = trained.get_mut(NUMBER) {
            number.fill(0);
        }
        Ok(Self {
            encoder: EncoderDictionary::try_copy(&trained, LEVEL)?,
            decoder: Arc::new(Decoder {
                generation,
                prepared: DecoderDictionary::try_copy(&trained)?,
            }),
        })
    }

    /// Returns the number of dictionaries that the resource has had; 0 for the one that is compiled
    /// in.
    pub fn generation(&self) -> u64 {
        self.decoder.generation
    }

    /// Returns the memory held, in bytes.
    pub fn memory(&self) -> usize {
        self.encoder.as_cdict().sizeof() + self.decoder.prepared.as_ddict().sizeof()
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dictionary({})", self.generation())
    }
}

/// Texts to train a dictionary from. Both parts of an object count as texts of their own, since
/// they are compressed one by one.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    text: Vec<u8>,
    lengths: Vec<usize>,
}

impl Samples {
    /// Adds the text of an object.
    ///
    /// # Errors
    /// Only when the memory of the body is corrupt.
    pub fn add(&mut self, body: &Body) -> Result<(), BodyError> {
        self.add_part(|out| body.append_head(out))?;
        self.add_part(|out| body.append_tail(out))
    }

    fn add_part(
        &mut self,
        append: impl FnOnce(&mut Vec<u8>) -> Result<(), BodyError>,
    ) -> Result<(), BodyError> {
        let start = self.text.len();
        append(&mut self.text)?;
        self.text.truncate(start + PART_BYTES);
        self.lengths.push(self.text.len() - start);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use zstd::zstd_safe::get_dict_id_from_frame;

    use super::*;
    use crate::model::Encoded;

    static TRAINED: LazyLock<[Arc<Dictionary>; 3]> = LazyLock::new(|| {
        [
            Arc::clone(Dictionary::built_in()),
            Arc::new(trained("policy", 1)),
            Arc::new(trained("audit", 2)),
        ]
    });

    /// Returns an object like others of the same subject.
    fn report(subject: &str, number: u64) -> Value {
        let result = |check: u64| {
            let value = number * 31 + check;
            let verdict = if value.is_multiple_of(3) {
                "fail"
            } else {
                "pass"
            };
            json!({"message": format!("rule '{subject}-{check}' has seen {value:x} here"),
                "policy": format!("{subject}-of-the-house-{}", check % 5), "result": verdict,
                "timestamp": {"nanos": 0, "seconds": 1_700_000_000 + number}})
        };
        let results: Vec<Value> = (0..20).map(result).collect();
        json!({"kind": "Report", "metadata": {"name": format!("{subject}-{number:032x}")},
            "results": results})
    }

    fn compressed(object: &Value, dictionary: &Dictionary) -> Body {
        Encoded::from_value(object, dictionary).unwrap().body
    }

    fn samples(objects: impl Iterator<Item = Value>) -> Samples {
        let mut samples = Samples::default();
        for object in objects {
            let body = compressed(&object, Dictionary::built_in());
            samples.add(&body).unwrap();
        }
        samples
    }

    fn trained(subject: &str, generation: u64) -> Dictionary {
        let samples = samples((0..400).map(|number| report(subject, number)));
        Dictionary::train(&samples, generation).unwrap()
    }

    fn text(body: &Body) -> Vec<u8> {
        let mut text = Vec::new();
        body.append_json(&mut text, 7, None).unwrap();
        text
    }

    fn metadata(body: &Body) -> Vec<u8> {
        let mut text = Vec::new();
        body.append_metadata(&mut text, 7).unwrap();
        text
    }

    #[test]
    fn a_trained_dictionary_makes_bodies_smaller_and_keeps_their_texts() {
        let dictionary = &TRAINED[1];
        for number in 1000..1050 {
            let before = compressed(&report("policy", number), Dictionary::built_in());
            let after = before.recompress(dictionary).unwrap();
            assert_eq!((before.generation(), after.generation()), (0, 1));
            assert!(after.compressed_len() < before.compressed_len());
            assert_eq!(text(&after), text(&before));
            assert_eq!(metadata(&after), metadata(&before));
        }
    }

    #[test]
    fn frames_do_not_repeat_the_number_of_their_dictionary() {
        let body = compressed(&report("policy", 1000), &TRAINED[1]);
        assert_eq!(get_dict_id_from_frame(&body.frames), None);
    }

    #[test]
    fn the_memory_of_a_dictionary_is_bounded() {
        let memory = TRAINED[1].memory();
        assert!((TRAINED_BYTES / 8..2 << 20).contains(&memory), "{memory}");
    }

    #[test]
    fn a_body_keeps_the_dictionary_that_it_was_compressed_with() {
        let object = report("policy", 1000);
        let old = trained("policy", 1);
        let body = compressed(&object, &old);
        drop(old);
        let want = text(&compressed(&object, Dictionary::built_in()));
        assert_eq!(text(&body), want);
        let newer = body.recompress(&TRAINED[2]).unwrap();
        drop(body);
        assert_eq!((newer.generation(), text(&newer)), (2, want));
    }

    #[test]
    fn too_few_samples_are_an_error() {
        assert!(Dictionary::train(&Samples::default(), 1).is_err());
        let few = samples((0..2).map(|number| report("policy", number)));
        assert!(Dictionary::train(&few, 1).is_err());
    }

    #[test]
    fn a_dictionary_of_whatever_clients_send_is_refused_or_works() {
        let same = || json!({"metadata": {"name": "n"}});
        let uniform = samples((0..5000).map(|_| same()));
        let random = samples((0..500_u64).map(|number| {
            let noise: Vec<u64> = (0..200)
                .scan(number + 1, |state, _| {
                    let product = state.wrapping_mul(6_364_136_223_846_793_005);
                    *state = product.rotate_left(17);
                    Some(*state)
                })
                .collect();
            json!({"metadata": {"name": "n"}, "spec": noise})
        }));
        for samples in [uniform, random] {
            let Ok(dictionary) = Dictionary::train(&samples, 1) else {
                continue;
            };
            for object in [same(), report("policy", 1)] {
                let body = compressed(&object, &dictionary);
                let want = compressed(&object, Dictionary::built_in());
                assert_eq!(text(&body), text(&want));
            }
        }
    }

    #[test]
    fn a_sample_takes_a_part_of_a_large_object() {
        let large = json!({"metadata": {"name": "n"}, "spec": "x".repeat(10 * PART_BYTES)});
        let samples = samples(std::iter::once(large));
        assert!(samples.text.len() < 2 * PART_BYTES);
        assert_eq!(samples.lengths.iter().sum::<usize>(), samples.text.len());
    }

    proptest! {
        #[test]
        fn every_text_survives_every_change_of_dictionary(
            texts in prop::collection::btree_map("[a-z\"\\\\é ]{0,12}", "\\PC{0,200}", 0..20),
            changes in prop::collection::vec(0_usize..3, 0..6),
        ) {
            let object = json!({"kind": "K", "metadata": {"name": "n"}, "spec": texts});
            let mut body = compressed(&object, Dictionary::built_in());
            let want = (text(&body), metadata(&body));
            for change in changes {
                body = body.recompress(&TRAINED[change]).unwrap();
                prop_assert_eq!(body.generation(), TRAINED[change].generation());
                prop_assert_eq!(&(text(&body), metadata(&body)), &want);
            }
        }
    }
}
