//! Errors of requests: whether another attempt may succeed, and their failure classes.

use super::connect::{HttpError, HttpResponse};
use crate::broker::FailureClass;
use crate::printable::printable;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ServiceError {
    /// The service's own code, or one of the client's: `SocketTimeout`, `NetworkError`, `BadResponse`.
    pub code: String,
    pub message: String,
}

/// Errors after which the service's own producers send again, besides network errors.
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
        ServiceError { code: printable(code).into_owned(), message: printable(&message.into()).into_owned() }
    }

    /// Ignores case and a final `s`, in which documentation and servers differ (`ProjectNotExist`).
    fn is(&self, codes: &[&str]) -> bool {
        let code = self.code.to_ascii_lowercase();
        codes.iter().any(|known| code == *known || code.strip_suffix('s') == Some(known))
    }

    /// Whether another attempt may succeed.
    pub fn is_retriable(&self) -> bool {
        self.is(&RETRIABLE) || self.is(&["networkerror"])
    }

    /// Whether a quota is exceeded.
    pub fn is_quota(&self) -> bool {
        self.is(&["writequotaexceed", "shardwritequotaexceed", "exceedquota"])
    }

    /// Whether the store, or its project, does not exist.
    pub fn is_unknown_store(&self) -> bool {
        self.is(&["logstorenotexist", "projectnotexist"])
    }

    /// Whether the service knows the credentials, and they lack the right to do this:
    /// <https://github.com/aliyun/aliyun-log-go-sdk/issues/38> shows its words.
    pub fn is_denied(&self) -> bool {
        self.is(&["unauthorized"]) && self.message.contains("denied by sts or ram")
    }

    /// Whether the service refuses the credentials.
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
    fn from(error: HttpError) -> Self {
        let code = match &error {
            HttpError::Unreachable(_) | HttpError::Lost(_) => "NetworkError",
            HttpError::Timeout(_) => "SocketTimeout",
        };
        ServiceError::new(code, error.to_string())
    }
}

/// The response, if the request succeeded. A response without a request id is not from the service.
///
/// # Errors
/// The service's code and message, or `BadResponse`.
pub fn accepted(response: HttpResponse) -> Result<HttpResponse, ServiceError> {
    let identified = !response.header("x-log-requestid").is_empty();
    if response.status == 200 {
        return match identified {
            true => Ok(response),
            false => Err(ServiceError::new("BadResponse", "status 200, but without the service's request id")),
        };
    }
    #[derive(serde::Deserialize)]
    struct ErrorBody {
        #[serde(rename = "errorCode")]
        code: String,
        #[serde(rename = "errorMessage", default)]
        message: String,
    }
    match serde_json::from_slice::<ErrorBody>(&response.body) {
        Ok(body) => Err(ServiceError { code: body.code, message: body.message }),
        Err(_) => {
            Err(ServiceError::new("BadResponse", format!("status {} without the service's error", response.status)))
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
            let error = ServiceError::new(code, "");
            assert_eq!((error.is_retriable(), error.class()), (retriable, class), "{code}");
        }
    }
}
