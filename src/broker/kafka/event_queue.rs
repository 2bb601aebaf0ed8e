//! Wakes the thread that serves a producing client when there is something to serve.
//!
//! rdkafka's `BaseProducer::poll` with a timeout, on which its `ThreadedProducer` is built, goes on for the whole timeout, whatever it has
//! served. So it does not show which messages were acknowledged together, and that is what a record counts as independent
//! (docs/METHODOLOGY.md). Without a timeout it serves one event, which is one produce request; but then the thread must be woken, for
//! which rdkafka has a call for consumers only.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;
use std::thread::{self, Thread};

use rdkafka::bindings as rd;
use rdkafka::producer::{BaseProducer, Producer, ProducerContext};

/// The event queue of a producing client. As long as this value lives, librdkafka unparks the thread that made it whenever the queue
/// has gone from empty to not empty.
pub struct EventQueue<'p> {
    queue: *mut rd::rd_kafka_queue_t,
    /// The argument of the callback, in a place of its own.
    _thread: Box<Thread>,
    _producer: PhantomData<&'p ()>,
}

impl<'p> EventQueue<'p> {
    pub fn new<C: ProducerContext>(producer: &'p BaseProducer<C>) -> Self {
        let thread = Box::new(thread::current());
        // SAFETY: the client is alive for as long as this value is, which holds a reference to the queue. The callback's argument is
        // the thread's handle, which the same value keeps until the callback has been disabled in `drop`.
        let queue = unsafe {
            let queue = rd::rd_kafka_queue_get_main(producer.client().native_ptr());
            let argument = ptr::from_ref::<Thread>(&thread).cast_mut().cast();
            rd::rd_kafka_queue_cb_event_enable(queue, Some(unpark), argument);
            queue
        };
        EventQueue { queue, _thread: thread, _producer: PhantomData }
    }
}

impl Drop for EventQueue<'_> {
    fn drop(&mut self) {
        // SAFETY: disables the callback before its argument is dropped, and returns the reference that `new` has taken.
        unsafe {
            rd::rd_kafka_queue_cb_event_enable(self.queue, None, ptr::null_mut());
            rd::rd_kafka_queue_destroy(self.queue);
        }
    }
}

extern "C" fn unpark(_client: *mut rd::rd_kafka_t, argument: *mut c_void) {
    // SAFETY: `argument` is the handle that `EventQueue::new` gave, alive until the callback is disabled.
    unsafe { (*argument.cast::<Thread>()).unpark() };
}
