use super::super::batch::StagedLog;
use super::*;

fn accumulator(bytes: usize, logs: usize) -> (Accumulator, Arc<Group>) {
    let limits = Limits { bytes, logs, linger: Duration::from_millis(20) };
    let accumulator = Accumulator::new(1 << 30, limits, Vec::new(), "run".to_owned());
    let destination = || LogDestination { store: "s".into(), topic: Vec::new(), source: Vec::new(), shard_hash: None };
    let group = accumulator.group(b"key", destination);
    (accumulator, group)
}

fn submit(accumulator: &Accumulator, group: &Arc<Group>, sizes: &[usize]) {
    let mut staged = Staged::default();
    for (number, size) in sizes.iter().enumerate() {
        staged.bytes.extend(std::iter::repeat_n(number as u8, *size));
        let (end, send_tag) = (staged.bytes.len(), SendTag::new(0, 0, 0, 0, true));
        let payload_bytes = *size as u32;
        staged.logs.push(StagedLog { end, raw_bytes: *size, taken_bytes: *size, send_tag, payload_bytes });
    }
    accumulator.append(group, &mut staged);
}

fn queued(accumulator: &Accumulator) -> Vec<(usize, usize)> {
    let mut batches = Vec::new();
    while let Some(batch) = accumulator.queue.pop_fresh() {
        assert_eq!(batch.body.len(), batch.raw_bytes);
        batches.push((batch.logs.len(), batch.raw_bytes));
    }
    batches
}

#[test]
fn a_batch_is_queued_with_the_log_that_fills_it() {
    let (accumulator, group) = accumulator(100, 4);
    submit(&accumulator, &group, &[40, 40, 40, 10, 10, 10, 10, 5]);
    assert_eq!(queued(&accumulator), [(3, 120), (4, 40)]);
    submit(&accumulator, &group, &[100]);
    assert_eq!(queued(&accumulator), [(2, 105)]);
    assert_eq!(accumulator.pending.load(Ordering::Relaxed), 9);
}

#[test]
fn no_batch_is_larger_than_the_service_takes() {
    let (accumulator, group) = accumulator(usize::MAX, usize::MAX);
    submit(&accumulator, &group, &[MAX_BATCH_BYTES - 10, 11, MAX_BATCH_BYTES]);
    assert_eq!(queued(&accumulator), [(1, MAX_BATCH_BYTES - 10), (1, 11)]);
    submit(&accumulator, &group, &vec![1; MAX_BATCH_LOGS + 1]);
    assert_eq!(queued(&accumulator)[1..], [(MAX_BATCH_LOGS, MAX_BATCH_LOGS)]);
}

#[tokio::test]
async fn a_batch_is_queued_when_it_has_lingered() {
    let (accumulator, group) = accumulator(100, 100);
    submit(&accumulator, &group, &[1]);
    assert_eq!(queued(&accumulator), []);
    let _ = tokio::time::timeout(Duration::from_millis(200), accumulator.sweep()).await;
    assert_eq!(queued(&accumulator), [(1, 1)]);
}

#[test]
fn what_was_compressed_comes_back() {
    let compressors = Compressors::default();
    for repeats in [100, 100_000, 1] {
        let text = b"content_key_1abcdefgh".repeat(repeats);
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let (sent, size) = compressors.compress(compression, |body| body.extend(&text)).unwrap();
            let back = match compression {
                Compression::None => sent.to_vec(),
                Compression::Lz4 => lz4_flex::block::decompress(&sent, size).unwrap(),
                Compression::Zstd => zstd::bulk::decompress(&sent, size).unwrap(),
            };
            assert!(back == text && size == text.len(), "{compression:?} of {size} bytes");
        }
    }
}

#[test]
fn more_threads_than_compressors_all_have_their_turn() {
    let compressors = Compressors { idle: Mutex::new(vec![Compressor::default()]), returned: Condvar::new() };
    thread::scope(|scope| {
        for number in 0..8_u8 {
            let compressors = &compressors;
            scope.spawn(move || {
                for _ in 0..50 {
                    let (sent, _) = compressors.compress(Compression::Lz4, |body| body.extend([number; 1000])).unwrap();
                    assert_eq!(lz4_flex::block::decompress(&sent, 1000).unwrap(), [number; 1000]);
                }
            });
        }
    });
    assert_eq!(compressors.idle.lock().len(), 1);
}
