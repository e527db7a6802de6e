//! A page's records outlive the node that they were read from, for as long as the thread is pinned.

use super::*;

#[test]
fn fences_and_versions_of_replaced_nodes_stay_readable() {
    let records = Records::default();
    let index = OrderedIndex::<4>::with_fan_out();
    let guard = crossbeam_epoch::pin();
    let made: Vec<Record<'_>> = (0..200_u32).map(|number| records.make(&number.to_be_bytes())).collect();
    for record in &made {
        index.insert(*record, |_| {}, &guard);
    }
    let page = index.page_forward(Bound::Unbounded, &mut Vec::new(), &guard);
    let next = page.next.map(<[u8]>::to_vec);
    for record in &made {
        assert!(index.remove(*record, &guard));
    }
    // Others come and go meanwhile, and collect garbage.
    std::thread::scope(|scope| {
        scope.spawn(|| (0..1000).for_each(|_| crossbeam_epoch::pin().flush()));
    });
    assert!(!page.version.is_current());
    assert_eq!(page.next.map(<[u8]>::to_vec), next);
}
