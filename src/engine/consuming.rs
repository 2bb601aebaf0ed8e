//! The consumer task: takes what arrives and records it, until it is told to stop.

use tokio::sync::watch;

use crate::broker::{Consumer, ReceiveError, ReceivePause};
use crate::measure::{ArrivalRecorder, Clock, Errors};

/// Receives until `stop` says so, through whatever errors; returns those it met.
pub async fn consume<C: Consumer>(
    mut consumer: C,
    mut recorder: ArrivalRecorder,
    clock: Clock,
    mut stop: watch::Receiver<bool>,
) -> Errors {
    let mut errors = Errors::default();
    let mut pause = ReceivePause::default();
    loop {
        let round = async {
            pause.rest().await;
            consumer.ready().await
        };
        let ready = tokio::select! {
            ready = round => ready,
            _ = stop.wait_for(|stop| *stop) => return errors,
        };
        let taken = ready.and_then(|()| {
            let mut batch = recorder.batch();
            consumer.take(|message| {
                batch.received(message);
            })
        });
        match taken {
            Ok(_) => pause.succeeded(),
            Err(ReceiveError { class, message }) => {
                errors.record(class, clock.now_ns(), || message);
                recorder.failed();
                pause.failed();
            }
        }
        tokio::task::coop::consume_budget().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Received;
    use crate::measure::{Arrivals, FailureClass, Place};

    /// Fails so many times, then tells the test that it was asked again.
    struct Recovering {
        failures: usize,
        recovered: watch::Sender<bool>,
    }

    impl Consumer for Recovering {
        async fn ready(&mut self) -> Result<(), ReceiveError> {
            if self.failures > 0 {
                self.failures -= 1;
                return Err(ReceiveError {
                    class: FailureClass::ConnectionLost,
                    message: "the broker is gone".to_owned(),
                });
            }
            self.recovered.send_replace(true);
            std::future::pending().await
        }

        fn take(&mut self, _each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
            Ok(0)
        }
    }

    #[tokio::test]
    async fn errors_are_counted_and_survived() {
        let clock = Clock::start();
        let arrivals = Arrivals::new(clock, 0, 1, None);
        let (recovered, stop) = watch::channel(false);
        let consumer = Recovering { failures: 6, recovered };
        let errors = consume(consumer, arrivals.recorder(Place { group: 0, topic: 0 }), clock, stop).await;
        let [(class, tally)] = errors.iter().collect::<Vec<_>>()[..] else { panic!("{errors:?}") };
        assert_eq!((class, tally.count), (FailureClass::ConnectionLost, 6));
        assert_eq!(arrivals.progress()[0].errors, 6, "what was not received meanwhile may not have been offered");
        assert_eq!(tally.first.as_ref().map(|(_, message)| message.as_str()), Some("the broker is gone"));
    }
}
