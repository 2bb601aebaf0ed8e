use futures_util::FutureExt;
use proptest::prelude::*;

use super::*;

#[test]
fn a_log_is_unstaged_without_a_trace() {
    let mut staged = Staged::default();
    let send_tag = SendTag::new(0, 0, 0, 0, true);
    let log = |end| StagedLog { end, raw_bytes: 1, taken_bytes: 1, send_tag, payload_bytes: 1 };
    staged.bytes.extend([1, 2, 3]);
    staged.logs.extend([log(2), log(3)]);
    staged.unstage();
    assert_eq!((&staged.bytes[..], staged.logs.len()), (&[1, 2][..], 1));
    staged.unstage();
    assert_eq!((staged.bytes.len(), staged.logs.len()), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_was_appended_is_gathered_in_order(lengths in prop::collection::vec(0..3 * PIECE_BYTES, 0..8)) {
        let spare = SparePieces::default();
        for _ in 0..2 {
            let (mut chunks, mut whole) = (Chunks::default(), Vec::new());
            for (number, &length) in lengths.iter().enumerate() {
                let bytes: Vec<u8> = (0..length).map(|place| (place * 7 + number) as u8).collect();
                chunks.extend(&bytes, &spare);
                whole.extend(bytes);
            }
            prop_assert_eq!(chunks.len(), whole.len());
            prop_assert_eq!(chunks.pieces.len(), whole.len().div_ceil(PIECE_BYTES));
            let mut gathered = Vec::new();
            chunks.gather(&mut gathered, &spare);
            prop_assert!(gathered == whole);
        }
        // The second round used the pieces of the first.
        let total: usize = lengths.iter().sum();
        prop_assert_eq!(spare.0.lock().len(), total.div_ceil(PIECE_BYTES));
    }
}

fn batch() -> Batch {
    let destination = LogDestination { store: "store".into(), topic: Vec::new(), source: Vec::new(), shard_hash: None };
    Batch {
        group: Arc::new(Group::new(destination, "pack".to_owned())),
        body: Chunks::default(),
        logs: Vec::new(),
        raw_bytes: 0,
        taken_bytes: 0,
        opened: Instant::now(),
    }
}

/// Two workers have looked and found nothing, and have not begun to wait, when two batches come.
#[tokio::test]
async fn each_worker_gets_a_batch_though_none_waits_yet() {
    let queue = Queue::default();
    assert!(queue.pop().is_err() && queue.pop().is_err());
    queue.push(batch());
    queue.push(batch());
    assert!(queue.changed.notified().now_or_never().is_some(), "the first worker");
    assert!(matches!(queue.pop(), Ok(Job::Fresh(_))));
    assert!(queue.changed.notified().now_or_never().is_some(), "the second worker");
    assert!(matches!(queue.pop(), Ok(Job::Fresh(_))));
    assert!(queue.changed.notified().now_or_never().is_none(), "nothing is left");
}
