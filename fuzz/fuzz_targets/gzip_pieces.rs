//! The program of [`fuzz::gzip_pieces`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::gzip_pieces(data));
