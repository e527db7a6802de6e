//! Ten thousand sessions inside transactions that do nothing: what they cost, and that no thread waits for them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use heddledb::{DataType, Database, Durability, Options, ProtocolKind, Range, TableDefinition, key, row};

const SESSIONS: i64 = 10_000;
/// All of them together.
const BYTES_MAX: usize = 100_000_000;

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which counts what is in use.
struct Counting;

// SAFETY: it hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn ten_thousand_idle_sessions_cost_what_they_have_read_and_written_and_nobody_waits_for_them() {
    for &protocol in ProtocolKind::ALL {
        let options = Options::default().protocol(protocol).durability(Durability::None).workers(2);
        let db = Database::in_memory_with(options).expect("options");
        let definition = TableDefinition::new("account").column("id", DataType::Int64);
        let definition = definition.column("balance", DataType::Int64).not_null().primary_key(["id"]);
        let accounts = db.create_table(definition).expect("a table");
        db.run(|tx| (0..2 * SESSIONS).try_for_each(|id| tx.insert(&accounts, row![id, 100]))).expect("rows");
        let before = LIVE.load(Ordering::Relaxed);
        let mut sessions = Vec::new();
        for id in 0..SESSIONS {
            let mut session = db.session().expect("a session");
            session.begin().expect("a transaction");
            session.run(|tx| tx.get(&accounts, key![id]).map(drop)).expect("a read");
            session.run(|tx| tx.add(&accounts, key![SESSIONS + id], "balance", 1)).expect("a write");
            sessions.push(session);
        }
        let taken = LIVE.load(Ordering::Relaxed).saturating_sub(before);
        assert!(taken < BYTES_MAX, "{protocol}: {taken} bytes");
        // They hold no slot and no lock: rows that they have read and written change, and the rest, too.
        for id in 0..100 {
            let update = |id: i64| db.run(|tx| tx.add(&accounts, key![id], "balance", 1));
            update(id).expect("it is free");
            update(SESSIONS + id).expect("it is free");
        }
        let count = db.run(|tx| Ok(tx.scan(&accounts, Range::all())?.count())).expect("a scan");
        assert_eq!(count as i64, 2 * SESSIONS);
        let conflicts = sessions.iter_mut().filter_map(|session| session.commit().err()).count();
        assert_eq!(conflicts, 100, "{protocol}: those whose reads were changed");
        let sum = db.read(|snapshot| {
            snapshot
                .scan(&accounts, Range::all())?
                .map(|row| row?.int("balance"))
                .sum::<heddledb::Result<i64>>()
        });
        assert_eq!(sum.expect("a sum"), 200 * SESSIONS + 200 + SESSIONS - 100, "{protocol}");
    }
}
