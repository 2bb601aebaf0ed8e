//! Bytes of a stream come from other programs. Decoding them takes memory in proportion to their number, whatever they contain.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use brokermark::broker::rabbitmq_stream::amqp::{Message, decode};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Counts what each thread has allocated and not freed, and the most of it.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; the counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn count(bytes: isize) {
    // A thread that is ending has no counters any more.
    let _ = ALLOCATED.try_with(|allocated| {
        allocated.set(allocated.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(allocated.get())));
    });
}

/// The most memory that decoding takes at one time, in bytes.
fn peak_of_decoding(bytes: &[u8]) -> usize {
    let before = ALLOCATED.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    drop(decode(bytes));
    drop(Message::decode(bytes));
    (PEAK.with(Cell::get) - before) as usize
}

/// A value's size in memory is at most this many times its encoded size, and one array of elements without bytes is allowed.
fn assert_in_proportion(bytes: &[u8]) {
    let peak = peak_of_decoding(bytes);
    assert!(peak <= 256 * bytes.len() + (1 << 20), "{} bytes took {peak}", bytes.len());
}

/// A compound with 32-bit size and count around `content`.
fn compound(code: u8, count: usize, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![code];
    bytes.extend_from_slice(&(content.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(&(count as u32).to_be_bytes());
    bytes.extend_from_slice(content);
    bytes
}

const NULL: u8 = 0x40;
const LIST_32: u8 = 0xd0;
const MAP_32: u8 = 0xd1;
const ARRAY_32: u8 = 0xf0;

#[test]
fn lists_and_maps_in_each_other_that_claim_many_elements() {
    for code in [LIST_32, MAP_32] {
        let mut bytes = vec![NULL; 60_000];
        for _ in 0..60 {
            let count = bytes.len() / 2 * 2;
            bytes = compound(code, count, &bytes);
        }
        assert_in_proportion(&bytes);
    }
}

#[test]
fn an_array_whose_elements_share_a_large_descriptor() {
    let descriptor = compound(LIST_32, 2_000, &[NULL; 2_000]);
    let mut content = vec![0x00];
    content.extend_from_slice(&descriptor);
    content.push(NULL);
    assert_in_proportion(&compound(ARRAY_32, 4_000, &content));
}

#[test]
fn many_arrays_of_elements_without_bytes() {
    let array = compound(ARRAY_32, 4_000, &[NULL]);
    let arrays: Vec<u8> = std::iter::repeat_n(array, 5_000).flatten().collect();
    assert_in_proportion(&compound(LIST_32, 5_000, &arrays));
}

/// Bytes that are more like values than random ones are: compounds in each other, whose codes, sizes and counts are often wrong.
fn random_value(random: &mut Xoshiro256PlusPlus, most_bytes: usize) -> Vec<u8> {
    const CODES: [u8; 12] = [0x00, NULL, 0x45, 0x53, 0xa0, 0xa1, 0xb0, 0xc0, 0xc1, LIST_32, MAP_32, ARRAY_32];
    let mut bytes = vec![0; random.random_range(0..most_bytes)];
    match random.random_range(0..3) {
        0 => random.fill_bytes(&mut bytes),
        1 => bytes.fill(CODES[random.random_range(0..CODES.len())]),
        _ => bytes.iter_mut().for_each(|byte| *byte = CODES[random.random_range(0..CODES.len())]),
    }
    for _ in 0..random.random_range(0..64) {
        let count = match random.random_range(0..3) {
            0 => bytes.len(),
            1 => 1 << random.random_range(0..24),
            _ => random.random_range(0..8),
        };
        bytes = compound([LIST_32, MAP_32, ARRAY_32][random.random_range(0..3)], count, &bytes);
        if random.random_bool(0.3) {
            // A described value, or an array whose elements have a descriptor.
            bytes.splice(0..0, [0x00, 0x53, 0x75]);
        }
    }
    bytes
}

/// What the fuzz target asserts of any bytes, on some that are always the same.
#[test]
fn random_compounds_of_any_size() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for most_bytes in [64, 4 << 10, 64 << 10] {
        (0..300).for_each(|_| assert_in_proportion(&random_value(&mut random, most_bytes)));
    }
    (0..5).for_each(|_| assert_in_proportion(&random_value(&mut random, 1 << 20)));
}
