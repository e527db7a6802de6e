//! Checks that every like has been counted once at its user and once at its page.

use heddledb::{Database, Snapshot};

use super::{NO_PAGE, PAGE, USER};
use crate::scan;

/// The likes of all pages.
pub(super) fn marks(db: &Database) -> crate::Result<u64> {
    let Some(page) = scan::table_if_there(db, PAGE)? else { return Ok(0) };
    let likes = scan::fold(
        db,
        &page,
        || 0,
        |sum, row| {
            *sum += row.int("likes")?.unsigned_abs();
            Ok(())
        },
    );
    Ok(likes?)
}

/// The likes of one table.
#[derive(Default)]
struct Likes {
    sum: i128,
    rows: i64,
    /// The first row that is wrong on its own.
    wrong: Option<String>,
}

/// Checks both sums, and the number of likes where it is known.
pub(super) fn check(db: &Database, marks: Option<u64>) -> Result<(), String> {
    let snapshot = db.snapshot().map_err(|error| error.to_string())?;
    let pages = likes_of((db, &snapshot), PAGE, None)?;
    let users = likes_of((db, &snapshot), USER, Some(pages.rows))?;
    for likes in [&pages, &users] {
        if let Some(wrong) = &likes.wrong {
            return Err(wrong.clone());
        }
    }
    if pages.sum != users.sum {
        return Err(format!("pages have {} likes, but users {}", pages.sum, users.sum));
    }
    match marks {
        Some(marks) if i128::from(marks) != pages.sum => {
            Err(format!("pages have {} likes, but {marks} were committed", pages.sum))
        }
        _ => Ok(()),
    }
}

/// Reads a table, and for users looks whether their last pages are pages. A table that is missing counts as empty,
/// because a load may have been cut short.
fn likes_of((db, snapshot): (&Database, &Snapshot), name: &str, pages: Option<i64>) -> Result<Likes, String> {
    let failed = |error| format!("{name}s can't be read: {error}");
    let Some(table) = scan::table_if_there(db, name).map_err(failed)? else { return Ok(Likes::default()) };
    let read = scan::fold_in(snapshot, &table, Likes::default(), |all, row| {
        let (id, likes) = (row.int("id")?, row.int("likes")?);
        all.sum += i128::from(likes);
        all.rows += 1;
        let mut wrong = likes < 0;
        if let Some(pages) = pages {
            let last = row.int("last_page")?;
            wrong |= if likes == 0 { last != NO_PAGE } else { !(1..=pages).contains(&last) };
        }
        if wrong && all.wrong.is_none() {
            all.wrong =
                Some(format!("{name} {id} has {likes} likes, which does not fit the rest of its row"));
        }
        Ok(())
    });
    read.map_err(failed)
}
