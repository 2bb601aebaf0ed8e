//! What a request's failure means: whether it is worth another try, and what class it is of.

use super::connect::{HttpError, HttpResponse};
use crate::broker::FailureClass;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ServiceError {
    /// The service's own code, or one of the client's: `SocketTimeout`, `NetworkError`, `BadResponse`.
    pub code: String,
    pub message: String,
}

/// What the service's own producers try again, besides the network's errors.
const RETRIABLE: [&str; 11] = [
    "unauthorized",
    "writequotaexceed",
    "shardwritequotaexceed",
    "exceedquota",
    "internalservererror",
    "serverbusy",
    "badresponse",
    "projectnotexist",
    "logstorenotexist",
    "sockettimeout",
    "signaturenotmatch",
];

impl ServiceError {
    fn new(code: &str, message: impl Into<String>) -> Self {
        ServiceError { code: code.to_owned(), message: message.into() }
    }

    /// As documentation and servers differ in capitals and in a final `s` (`ProjectNotExist`), so does this not.
    fn is(&self, codes: &[&str]) -> bool {
        let code = self.code.to_ascii_lowercase();
        codes.iter().any(|known| code == *known || code.strip_suffix('s') == Some(known))
    }

    /// Whether another try may succeed.
    pub fn is_retriable(&self) -> bool {
        self.is(&RETRIABLE) || self.is(&["networkerror"])
    }

    /// Whether the service takes no more for now.
    pub fn is_quota(&self) -> bool {
        self.is(&["writequotaexceed", "shardwritequotaexceed", "exceedquota"])
    }

    /// Whether the store, or its project, is not there.
    pub fn is_unknown_store(&self) -> bool {
        self.is(&["logstorenotexist", "projectnotexist"])
    }

    /// Whether the service does not know or does not let in who asks.
    pub fn is_authorisation(&self) -> bool {
        self.is(&["unauthorized", "signaturenotmatch"])
    }

    pub fn class(&self) -> FailureClass {
        match () {
            () if self.is_authorisation() => FailureClass::Authorisation,
            () if self.is_unknown_store() => FailureClass::UnknownTopic,
            () if self.is(&["sockettimeout"]) => FailureClass::Timeout,
            () if self.is(&["networkerror"]) => FailureClass::ConnectionLost,
            () if self.is(&["postbodytoolarge", "invalidlogsize"]) => FailureClass::TooLarge,
            () => FailureClass::Refused,
        }
    }
}

impl From<HttpError> for ServiceError {
    fn from(trouble: HttpError) -> Self {
        let code = match &trouble {
            HttpError::Unreachable(_) | HttpError::Lost(_) => "NetworkError",
            HttpError::Timeout(_) => "SocketTimeout",
        };
        ServiceError::new(code, trouble.to_string())
    }
}

/// The answer, if the service did what it was asked. An answer without its request id is none of the service's.
///
/// # Errors
/// The service's code and words, or `BadResponse`.
pub fn accepted(answer: HttpResponse) -> Result<HttpResponse, ServiceError> {
    let identified = !answer.header("x-log-requestid").is_empty();
    if answer.status == 200 {
        return match identified {
            true => Ok(answer),
            false => Err(ServiceError::new("BadResponse", "status 200, but without the service's request id")),
        };
    }
    #[derive(serde::Deserialize)]
    struct Said {
        #[serde(rename = "errorCode")]
        code: String,
        #[serde(rename = "errorMessage", default)]
        message: String,
    }
    match serde_json::from_slice::<Said>(&answer.body) {
        Ok(said) => Err(ServiceError { code: said.code, message: said.message }),
        Err(_) => {
            Err(ServiceError::new("BadResponse", format!("status {} without the service's error", answer.status)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_of_its_class() {
        for (code, retriable, class) in [
            ("WriteQuotaExceed", true, FailureClass::Refused),
            ("ProjectNotExist", true, FailureClass::UnknownTopic),
            ("LogstoreNotExists", true, FailureClass::UnknownTopic),
            ("LogStoreNotExist", true, FailureClass::UnknownTopic),
            ("Unauthorized", true, FailureClass::Authorisation),
            ("SocketTimeout", true, FailureClass::Timeout),
            ("NetworkError", true, FailureClass::ConnectionLost),
            ("PostBodyTooLarge", false, FailureClass::TooLarge),
            ("PostBodyInvalid", false, FailureClass::Refused),
        ] {
            let fault = ServiceError::new(code, "");
            assert_eq!((fault.is_retriable(), fault.class()), (retriable, class), "{code}");
        }
    }
}
