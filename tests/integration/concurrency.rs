//! Long values under concurrent readers. (Random histories are the conformance suite's.)

use std::thread;

use crate::support::concurrent::{in_memory, watched};
use heddledb::{
    DataType, Error, Options, PartitionedOptions, ProtocolKind, ProtocolOptions, Range, SerialOptions,
    TableDefinition, key, row,
};

/// Keys come and go, with blocks of long values, while others read them: nothing is freed under a reader.
#[test]
fn long_values_come_and_go_under_readers() {
    watched(|| ProtocolKind::ALL.iter().for_each(|&protocol| churn(protocol)));
}

fn churn(protocol: ProtocolKind) {
    let db = in_memory(
        Options::default().protocol(
            ProtocolOptions::from(protocol)
                .serial(SerialOptions::default().partitions(2))
                .partitioned(PartitionedOptions::default().executors(2)),
        ),
    );
    let table = db
        .create_table(
            TableDefinition::new("text")
                .column("id", DataType::Int64)
                .column("body", DataType::Text)
                .primary_key(["id"])
                .index("by_body", ["body"]),
        )
        .expect("a table");
    let body =
        |number: u64| char::from(b'a' + (number % 26) as u8).to_string().repeat(100 + number as usize % 50);
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (db, table) = (&db, &table);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                for _ in 0..400 {
                    let (id, text) = (random.i64(0..40), body(random.u64(..)));
                    db.run(|tx| match random.u32(0..4) {
                        0 => tx.delete(table, key![id]).map(drop),
                        1 => match tx.insert(table, row![id, text.as_str()]) {
                            Err(Error::DuplicateKey { .. }) => Ok(()),
                            other => other,
                        },
                        2 if tx.exists(table, key![id])? => {
                            tx.update(table, key![id], &[("body", text.as_str().into())])
                        }
                        _ => {
                            for row in tx.scan(table, Range::from(key![id]))? {
                                let text = row?.text("body")?;
                                let same = text.as_bytes().windows(2).all(|pair| pair[0] == pair[1]);
                                assert!(same && text.len() >= 100, "half a value: {text}");
                            }
                            Ok(())
                        }
                    })
                    .expect("a transaction");
                }
            });
        }
    });
    db.check().expect("consistent");
}
