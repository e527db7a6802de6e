//! Every model under the checker that was compiled in.

use heddle_model_doors::Quarantine;
use heddle_models::models::{Model, all};

#[global_allocator]
static ALLOCATOR: Quarantine = Quarantine;

#[test]
fn every_model_holds() {
    let only = std::env::var("HEDDLE_MODEL").ok();
    let chosen: Vec<Model> =
        all().filter(|model| only.as_deref().is_none_or(|only| only == model.name)).collect();
    assert!(!chosen.is_empty(), "there is no model of the name {only:?}");
    for model in chosen {
        let start = std::time::Instant::now();
        model.check();
        println!("{}: {:.1} s", model.name, start.elapsed().as_secs_f64());
    }
}
