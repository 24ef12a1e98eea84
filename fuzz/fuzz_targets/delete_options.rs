//! The program of [`fuzz::delete_options`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::delete_options(data));
