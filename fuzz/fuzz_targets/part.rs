//! Fuzzes what opening a database makes of `part`; see `heddle_fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| heddle_fuzz::open("part", input));
