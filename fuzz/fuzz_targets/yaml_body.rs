//! The program of [`fuzz::yaml_body`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::yaml_body(data));
