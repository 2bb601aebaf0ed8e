//! The transactions of a producing client. Each call but the one that begins a transaction waits for the broker, so that it must
//! not run on a thread that runs tasks.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::time::Duration;

use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;

use super::client::Client;

/// The time that the transaction has left, which rdkafka.h recommends for the calls that end one.
const AS_LONG_AS_THE_TRANSACTION: i32 = -1;

/// Why a transaction could not be begun, committed or aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionError {
    pub code: Code,
    pub reason: String,
    pub remedy: Remedy,
}

/// What helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// The same call again goes on with what it has begun.
    Again,
    /// Aborting the transaction.
    Abort,
    /// Nothing: the client is done.
    None,
}

impl Client {
    /// Registers the client's `transactional.id`, and ends what an earlier client of that id has left open.
    ///
    /// # Errors
    /// When the broker refuses it or does not answer within `timeout`.
    pub fn init_transactions(&self, timeout: Duration) -> Result<(), TransactionError> {
        // SAFETY: the client is alive; the result is the caller's.
        unsafe { outcome(rd::rd_kafka_init_transactions(self.as_ptr(), timeout.as_millis() as i32)) }
    }

    /// # Errors
    /// When a transaction is open, or the client is done.
    pub fn begin_transaction(&self) -> Result<(), TransactionError> {
        // SAFETY: as above.
        unsafe { outcome(rd::rd_kafka_begin_transaction(self.as_ptr())) }
    }

    /// # Errors
    /// When the transaction is not committed.
    pub fn commit_transaction(&self) -> Result<(), TransactionError> {
        // SAFETY: as above.
        unsafe { outcome(rd::rd_kafka_commit_transaction(self.as_ptr(), AS_LONG_AS_THE_TRANSACTION)) }
    }

    /// Aborts the transaction, and abandons its messages that are not written.
    ///
    /// # Errors
    /// When the transaction is not aborted.
    pub fn abort_transaction(&self) -> Result<(), TransactionError> {
        // SAFETY: as above.
        unsafe { outcome(rd::rd_kafka_abort_transaction(self.as_ptr(), AS_LONG_AS_THE_TRANSACTION)) }
    }

    /// Sends what waits for a batch, and waits until each message has its delivery report and the thread that takes the reports
    /// has taken it. Returns whether that was so within `timeout`.
    pub fn flush(&self, timeout: Duration) -> bool {
        // SAFETY: the client is alive.
        let code = unsafe { rd::rd_kafka_flush(self.as_ptr(), timeout.as_millis() as i32) };
        code == Code::RD_KAFKA_RESP_ERR_NO_ERROR
    }
}

/// # Safety
/// `error` must be null or the caller's own.
unsafe fn outcome(error: *mut rd::rd_kafka_error_t) -> Result<(), TransactionError> {
    let Some(error) = NonNull::new(error) else { return Ok(()) };
    let error = error.as_ptr();
    // SAFETY: by the caller's promise; the reason lives as long as the error, which is destroyed after its last use.
    unsafe {
        let remedy = match () {
            () if rd::rd_kafka_error_txn_requires_abort(error) != 0 => Remedy::Abort,
            () if rd::rd_kafka_error_is_retriable(error) != 0 => Remedy::Again,
            () => Remedy::None,
        };
        let code = rd::rd_kafka_error_code(error);
        let reason = CStr::from_ptr(rd::rd_kafka_error_string(error)).to_string_lossy().into_owned();
        rd::rd_kafka_error_destroy(error);
        Err(TransactionError { code, reason, remedy })
    }
}
