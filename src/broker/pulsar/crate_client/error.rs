//! The crate's errors, by class.

use std::io::ErrorKind;

use pulsar_rs::Error;
use pulsar_rs::error::{ConnectionError, ConsumerError, ProducerError, ServiceDiscoveryError};

use crate::broker::FailureClass;
use crate::broker::pulsar::error::RequestError;

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        RequestError::from(&error)
    }
}

impl From<&Error> for RequestError {
    fn from(error: &Error) -> Self {
        match error {
            Error::Connection(error)
            | Error::Producer(ProducerError::Connection(error))
            | Error::Consumer(ConsumerError::Connection(error))
            | Error::ServiceDiscovery(ServiceDiscoveryError::Connection(error)) => of_connection(error),
            Error::ServiceDiscovery(ServiceDiscoveryError::Query(Some(number), words)) => {
                RequestError::refused(*number as i32, words.as_deref().unwrap_or_default())
            }
            Error::Producer(ProducerError::Batch(error)) => RequestError::from(&**error),
            Error::Producer(ProducerError::Fenced) => {
                RequestError { class: FailureClass::Fenced, message: error.to_string(), lasting: true }
            }
            Error::Producer(ProducerError::Closed) => RequestError::lost(error.to_string()),
            Error::Authentication(_) => {
                RequestError { class: FailureClass::Authorisation, message: error.to_string(), lasting: true }
            }
            _ => RequestError { class: FailureClass::Other, message: error.to_string(), lasting: false },
        }
    }
}

fn of_connection(error: &ConnectionError) -> RequestError {
    match error {
        ConnectionError::PulsarError(Some(number), words) => {
            RequestError::refused(*number as i32, words.as_deref().unwrap_or_default())
        }
        ConnectionError::Io(cause) if cause.kind() == ErrorKind::TimedOut => RequestError::late(error.to_string()),
        ConnectionError::SlowDown => {
            RequestError { class: FailureClass::QueueFull, message: error.to_string(), lasting: false }
        }
        ConnectionError::Authentication(_) => {
            RequestError { class: FailureClass::Authorisation, message: error.to_string(), lasting: true }
        }
        _ => RequestError::lost(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use pulsar_rs::proto::ServerError;

    use super::*;

    #[test]
    fn errors_of_the_crate_have_the_classes_of_our_own_client() {
        let class = |error: ConnectionError| RequestError::from(Error::Connection(error)).class;
        assert_eq!(class(io::Error::from(ErrorKind::TimedOut).into()), FailureClass::Timeout);
        assert_eq!(class(io::Error::from(ErrorKind::BrokenPipe).into()), FailureClass::ConnectionLost);
        assert_eq!(class(ConnectionError::SlowDown), FailureClass::QueueFull);
        let fenced =
            ConnectionError::PulsarError(Some(ServerError::ProducerFenced), Some("taken\n\tat java".to_owned()));
        let batch = ProducerError::Batch(Arc::new(Error::Producer(ProducerError::Connection(fenced))));
        let fenced = RequestError::from(Error::Producer(batch));
        assert_eq!((fenced.class, fenced.lasting), (FailureClass::Fenced, true));
        assert_eq!(fenced.message, "ProducerFenced: taken");
    }
}
