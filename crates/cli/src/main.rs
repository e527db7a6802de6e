//! `heddle`: the command line of HeddleDB.
fn main() {}
