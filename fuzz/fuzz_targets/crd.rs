//! The program of [`fuzz::crd`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::crd(data));
