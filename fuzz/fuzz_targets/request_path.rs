//! The program of [`fuzz::request_path`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::request_path(data));
