//! Any bytes of a stream, read as a value and as a message: reading must not panic, its memory must stay in proportion to the
//! bytes, and a value must be the same after it was written and read again. Inputs up to 1 MiB: `-max_len=1048576`.
#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use brokermark::broker::Details;
use brokermark::broker::rabbitmq_stream::codec::amqp::{decode, encode};
use brokermark::broker::rabbitmq_stream::{Body, body};
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Counts what is allocated and not freed, and the most of it since the last reset.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; the counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let allocated = ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(allocated, Ordering::Relaxed);
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let before = ALLOCATED.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    drop(decode(bytes));
    let peak = PEAK.load(Ordering::Relaxed) - before;
    assert!(peak <= 256 * bytes.len() + (1 << 20), "{} bytes took {peak}", bytes.len());

    body::open(Body::Amqp, bytes);
    let details = body::MessageDetails { body: Body::Amqp, message: bytes, timestamp_ms: 0 };
    let _ = (details.key(), details.headers());

    let mut again = Vec::new();
    if let Ok(value) = decode(bytes) {
        assert_eq!(encode(&value, &mut again), Ok(()));
        assert_eq!(decode(&again), Ok(value));
    }
});
