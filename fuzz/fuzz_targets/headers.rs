//! The program of [`fuzz::headers`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::headers(data));
