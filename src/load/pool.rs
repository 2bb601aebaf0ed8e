//! Ready-made payloads, so that generating them never limits sending.

/// Every payload of a trial, in one allocation that never moves.
#[derive(Debug)]
pub struct PayloadPool {
    bytes: Box<[u8]>,
}

impl PayloadPool {
    /// Whether `payload` lies inside the pool, so that it lives and stays unchanged as long as the pool does.
    pub fn holds(&self, payload: &[u8]) -> bool {
        let pool = self.bytes.as_ptr_range();
        let payload = payload.as_ptr_range();
        pool.start <= payload.start && payload.end <= pool.end
    }
}
