//! Tells the engine's files that they are compiled for the models: constants are small there.

fn main() {
    println!("cargo::rustc-cfg=heddle_model");
    println!("cargo::rerun-if-changed=build.rs");
}
