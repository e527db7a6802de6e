//! A leaderboard: a top-K column keeps the best scores; inserting into it commutes, so that players do not wait for each other.
//!
//! ```sh
//! cargo run -p heddledb --example leaderboard
//! ```

use heddledb::{Database, Result, Table, TopK, row};

#[derive(Table)]
struct Game {
    #[table(key)]
    name: String,
    /// The three best: a score, and the player behind it.
    #[table(data_type = "top_k(3; int64; text)")]
    best: Option<TopK>,
    plays: i64,
}

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    let games = db.table_of::<Game>()?;
    db.run(|tx| tx.insert(&games, &Game { name: "chess".into(), best: None, plays: 0 }))?;
    for (player, score) in [("Ada", 7), ("Bea", 12), ("Cem", 3), ("Dan", 9), ("Eva", 12), ("Ada", 11)] {
        db.run(|tx| {
            tx.add(&games, "chess", "plays", 1)?;
            tx.top_k_insert(&games, "chess", "best", &row![score], &row![player])
        })?;
    }
    // The dynamic view of the same table knows the columns of the entries.
    let best = db.read(|snapshot| {
        let game = snapshot.get(&*games, "chess")?;
        game.map(|game| game.top_k("best")).transpose()
    })?;
    let best = best.unwrap_or_default();
    for entry in &best {
        println!("{}: {}", entry[1], entry[0]);
    }
    let shown: Vec<String> = best.iter().map(|entry| format!("{} {}", entry[0], entry[1])).collect();
    assert_eq!(shown, ["12 Eva", "11 Ada", "9 Dan"]); // one entry for each score: the greater player stays
    assert_eq!(db.run(|tx| tx.get(&games, "chess"))?.map(|game| game.plays), Some(6));
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
