//! Arbitrary bodies of logs with arbitrary claims: the first byte chooses the compression, the next three are the claimed size. Reading must
//! not panic, and what is unfolded has the size that was claimed.
#![no_main]

use brokermark::emulator::sls::decode::{examine, unfold};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = examine(bytes);
    let Some(([kind, size @ ..], body)) = bytes.split_first_chunk::<4>() else { return };
    let kind = ["", "lz4", "zstd", "deflate"][usize::from(kind % 4)];
    let size = u32::from_be_bytes([0, size[0], size[1], size[2]]) as usize;
    if let Ok(group) = unfold(body, kind, size) {
        assert_eq!(group.len(), size);
        let _ = examine(&group);
    }
});
