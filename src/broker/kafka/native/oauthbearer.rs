//! The tokens of clients that use SASL OAUTHBEARER: librdkafka asks for one at first, and again before it expires.

use std::ffi::{CString, c_char};

use rdkafka::admin::AdminClient;
use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;
use rdkafka::client::DefaultClientContext;

use super::error::text;
use crate::broker::kafka::token::Token;
use crate::scenario::Secret;

/// Reads the token of `client` and gives it to it; librdkafka asks again after a failure.
///
/// # Safety
/// `client` must be valid.
pub(super) unsafe fn refresh(client: *mut rd::rd_kafka_t, secret: &Secret) {
    // SAFETY: by the caller's promise.
    let set = Token::read(secret).and_then(|token| unsafe { set_token(client, &token) });
    if let Err(reason) = set
        && let Ok(reason) = CString::new(reason)
    {
        // SAFETY: as above, and the reason is terminated.
        unsafe { rd::rd_kafka_oauthbearer_set_token_failure(client, reason.as_ptr()) };
    }
}

/// Gives rdkafka's administrator a token. One that librdkafka does not take leaves the last one as it is.
pub fn set_admin_token(admin: &AdminClient<DefaultClientContext>, token: &Token) {
    // SAFETY: the administrator's client is valid as long as the administrator is.
    let _ = unsafe { set_token(admin.inner().native_ptr(), token) };
}

/// Gives `client` a token.
///
/// # Errors
/// librdkafka's sentence on a token that it does not take, such as one that has expired.
///
/// # Safety
/// `client` must be valid.
unsafe fn set_token(client: *mut rd::rd_kafka_t, token: &Token) -> Result<(), String> {
    let nul = |_| "the token contains a NUL byte".to_owned();
    let value = CString::new(token.value.as_str()).map_err(nul)?;
    let principal = CString::new(token.principal.as_str()).map_err(nul)?;
    let mut reason = [0 as c_char; 512];
    // SAFETY: by the caller's promise; the strings are terminated, there are no extensions, and the buffer is as long as it says.
    let code = unsafe {
        rd::rd_kafka_oauthbearer_set_token(
            client,
            value.as_ptr(),
            token.expires_unix_ms,
            principal.as_ptr(),
            std::ptr::null_mut(),
            0,
            reason.as_mut_ptr(),
            reason.len(),
        )
    };
    if code == Code::RD_KAFKA_RESP_ERR_NO_ERROR { Ok(()) } else { Err(text(&reason)) }
}
