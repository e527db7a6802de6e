//! A list of users who are online: heartbeats as maxima, which commute; a report of those seen lately, from a secondary index in a snapshot.
//!
//! ```sh
//! cargo run -p heddledb --example presence
//! ```

use heddledb::{Database, Result, Table, TableOf, Timestamp, row};

#[derive(Debug, PartialEq, Table)]
#[table(index(by_room(room, user)))]
struct Presence {
    #[table(key)]
    user: String,
    room: String,
    /// The latest heartbeat: they may arrive in any order.
    seen: Timestamp,
}

fn enter(
    db: &Database,
    presence: &TableOf<Presence>,
    user: &str,
    room: &str,
    seen: Timestamp,
) -> Result<bool> {
    db.run(|tx| tx.put(presence, &Presence { user: user.to_string(), room: room.to_string(), seen }))
}

fn heartbeat(db: &Database, presence: &TableOf<Presence>, user: &str, seen: Timestamp) -> Result<()> {
    db.run(|tx| tx.max(presence, user, "seen", seen))
}

fn online(db: &Database, presence: &TableOf<Presence>, room: &str, since: Timestamp) -> Result<Vec<String>> {
    db.read(|snapshot| {
        let in_room = snapshot.scan_index(presence, "by_room", room)?.collect::<Result<Vec<Presence>>>()?;
        Ok(in_room.into_iter().filter(|one| one.seen >= since).map(|one| one.user).collect())
    })
}

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    let presence = db.table_of::<Presence>()?;
    let minute = |minute: i64| Timestamp::from_microseconds(minute * 60_000_000);
    for (user, room, at) in [("ada", "lobby", 1), ("bea", "lobby", 2), ("cem", "attic", 3)] {
        assert!(enter(&db, &presence, user, room, minute(at)?)?, "{user} is new");
    }
    heartbeat(&db, &presence, "ada", minute(9)?)?;
    heartbeat(&db, &presence, "ada", minute(5)?)?; // late, and so without effect
    assert!(!enter(&db, &presence, "cem", "lobby", minute(8)?)?, "cem has moved");
    let now_online = online(&db, &presence, "lobby", minute(6)?)?;
    println!("online in the lobby: {}", now_online.join(", "));
    assert_eq!(now_online, ["ada", "cem"]);
    // Those not seen for long leave: a transaction that reads and deletes.
    let left = db.run(|tx| {
        let mut left = Vec::new();
        for one in tx.scan(&presence, ..)? {
            let one = one?;
            if one.seen < minute(6)? {
                left.push(one.user);
            }
        }
        left.iter().try_for_each(|user| tx.delete(&presence, user).map(drop))?;
        Ok(left)
    })?;
    assert_eq!(left, ["bea"]);
    assert!(db.run(|tx| tx.insert(&presence, row!["dan", "attic", Timestamp::now()])).is_ok());
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
