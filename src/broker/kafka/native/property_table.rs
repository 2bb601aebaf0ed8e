//! librdkafka's own table of its properties, for tests.

use std::ffi::CStr;

use rdkafka::bindings as rd;

/// As `CONFIGURATION.md` has it: a line for each property, with columns between `|`.
pub fn property_table() -> String {
    // SAFETY: the stream is open from its creation until it is closed. It writes to memory that is valid and terminated once
    // the stream is closed, and that is freed after its last use.
    unsafe {
        let (mut begin, mut length) = (std::ptr::null_mut(), 0);
        let stream = libc::open_memstream(&mut begin, &mut length);
        assert!(!stream.is_null(), "no memory for a stream");
        rd::rd_kafka_conf_properties_show(stream);
        libc::fclose(stream);
        let table = CStr::from_ptr(begin).to_string_lossy().into_owned();
        libc::free(begin.cast());
        table
    }
}
