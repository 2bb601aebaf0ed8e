use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;

use super::*;

/// Messages that have arrived at a partition, or its end, and what was acknowledged over all partitions.
struct Arrived {
    messages: VecDeque<Option<&'static str>>,
    acknowledged: Arc<Mutex<Vec<&'static str>>>,
}

impl Details for &'static str {}

impl Delivery for &'static str {
    fn payload(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Stream for Arrived {
    type Item = Result<&'static str, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.messages.pop_front().map_or(Poll::Pending, |message| Poll::Ready(message.map(Ok)))
    }
}

impl Deliveries for Arrived {
    type Delivery = &'static str;
    type Error = ClientError;

    async fn acknowledge(&mut self, message: &&'static str, _: bool) -> Result<(), ClientError> {
        self.acknowledged.lock().push(message);
        Ok(())
    }
}

#[tokio::test]
async fn partitions_take_turns_and_taken_messages_are_acknowledged() {
    for (is_cumulative, expected) in [(false, vec!["a1", "b1", "a2", "a3"]), (true, vec!["b1", "a3"])] {
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let partition = |messages: &[&'static str]| Arrived {
            messages: messages.iter().copied().map(Some).collect(),
            acknowledged: acknowledged.clone(),
        };
        let partitions = vec![partition(&["a1", "a2", "a3"]), partition(&["b1"])];
        let mut consumer = StreamConsumer::new(partitions, is_cumulative);
        let mut received = Vec::new();
        consumer.ready().await.unwrap();
        assert_eq!(consumer.take_some(2, |message| received.push(message.payload.to_vec())).unwrap(), 2);
        assert_eq!(consumer.take(|message| received.push(message.payload.to_vec())).unwrap(), 2);
        assert_eq!(received, ["a1", "b1", "a2", "a3"].map(|message| message.as_bytes().to_vec()));
        assert!(acknowledged.lock().is_empty());
        consumer.close().await;
        assert_eq!(*acknowledged.lock(), expected);
    }
}

#[tokio::test]
async fn end_of_a_stream_is_reported_once_behind_its_messages() {
    let ended = Arrived { messages: [Some("last"), None].into(), acknowledged: Arc::default() };
    let mut consumer = StreamConsumer::new(vec![ended], false);
    consumer.ready().await.unwrap();
    assert_eq!(consumer.take(|_| ()).unwrap(), 1);
    assert!(consumer.ready().await.unwrap_err().message.contains("has ended"));
    assert!(consumer.ready().now_or_never().is_none());
}
