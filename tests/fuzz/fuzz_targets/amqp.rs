//! Any bytes of a stream, read as a value and as a message: reading must not panic, its memory must stay in proportion to the
//! bytes, and a value must be the same after it was written and read again. Inputs up to 1 MiB: `-max_len=1048576`.
#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use brokermark::broker::rabbitmq_stream::amqp::{Message, Sections, decode, encode};
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
    drop(Message::decode(bytes));
    drop(decode(bytes));
    let peak = PEAK.load(Ordering::Relaxed) - before;
    assert!(peak <= 256 * bytes.len() + (1 << 20), "{} bytes took {peak}", bytes.len());

    for section in Sections::new(bytes).flatten() {
        let _ = section.find("brokermark");
        let _ = section.decode();
    }
    let mut again = Vec::new();
    if let Ok(message) = Message::decode(bytes)
        && message.encode(&mut again).is_ok()
    {
        // By their text: NaN is not equal to itself.
        assert_eq!(format!("{:?}", Message::decode(&again)), format!("{:?}", Ok::<_, ()>(&message)));
    }
    again.clear();
    if let Ok(value) = decode(bytes)
        && encode(&value, &mut again).is_ok()
    {
        assert_eq!(format!("{:?}", decode(&again)), format!("{:?}", Ok::<_, ()>(&value)));
    }
});
