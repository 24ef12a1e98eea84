//! The program of [`fuzz::managed_fields`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::managed_fields(data));
