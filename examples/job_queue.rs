//! A job queue: workers reserve the first free job without waiting for each other (`try_reserve` in a session), and a job that its
//! worker has not finished is free again.
//!
//! ```sh
//! cargo run -p heddledb --example job_queue
//! ```

use heddledb::{Database, Result, Session, Table, TableOf, set};

#[derive(Clone, Debug, PartialEq, Table)]
#[table(index(by_state(state, id)))]
struct Job {
    #[table(key)]
    id: i64,
    work: String,
    #[table(default = "waiting")]
    state: String,
    done_by: Option<u32>,
}

/// Reserves the first waiting job that no other session has, if there is one. The transaction stays open while the job is done.
fn take(session: &mut Session, jobs: &TableOf<Job>) -> Result<Option<Job>> {
    session.begin()?;
    session.run(|tx| {
        // What is only passed by is no reason for a conflict.
        let waiting =
            tx.search(|| tx.scan_index(jobs, "by_state", "waiting")?.collect::<Result<Vec<Job>>>())?;
        for job in waiting {
            if tx.try_reserve(jobs, job.id)? {
                // It may have been done since the scan.
                return Ok(tx.get(jobs, job.id)?.filter(|job| job.state == "waiting"));
            }
        }
        Ok(None)
    })
}

fn finish(session: &mut Session, jobs: &TableOf<Job>, job: &Job, worker: u32) -> Result<()> {
    session.run(|tx| tx.update(jobs, job.id, set! { state: "done", done_by: worker }))?;
    session.commit()
}

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    let jobs = db.table_of::<Job>()?;
    db.run(|tx| {
        (1..=6).try_for_each(|id| tx.insert_columns(&jobs, set! { id: id, work: format!("letter {id}") }))
    })?;
    let (mut first, mut second) = (db.session()?, db.session()?);
    let (one, two) = (take(&mut first, &jobs)?, take(&mut second, &jobs)?);
    let (Some(one), Some(two)) = (one, two) else { return Err(heddledb::fail("there are six jobs")) };
    println!("the first worker does {}, the second {}", one.work, two.work);
    assert_eq!((one.id, two.id), (1, 2));
    finish(&mut first, &jobs, &one, 1)?;
    second.rollback()?; // it has failed: the job is free again
    let mut done = 1;
    while let Some(job) = take(&mut second, &jobs)? {
        finish(&mut second, &jobs, &job, 2)?;
        done += 1;
    }
    second.rollback()?;
    let left = db.run(|tx| Ok(tx.scan_index(&jobs, "by_state", "waiting")?.count()))?;
    println!("{done} jobs done, {left} left");
    assert_eq!((done, left), (6, 0));
    assert_eq!(db.run(|tx| tx.get(&jobs, 2))?.and_then(|job| job.done_by), Some(2));
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
