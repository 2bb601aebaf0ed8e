//! Publishes with RabbitMQ's own Rust client and prints how long that took.
//!
//!     rabbitmq-rust HOST:PORT single|batch|pipelined MESSAGES
//!
//! `single` and `batch` await the confirmation of each message, or of each 100, before the next; `pipelined` keeps at most
//! 10,000 messages without one.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rabbitmq_stream_client::Environment;
use rabbitmq_stream_client::types::Message;
use tokio::sync::Notify;

const BATCH: u64 = 100;
const IN_FLIGHT: u64 = 10_000;

fn batch(begin: u64, end: u64) -> Vec<Message> {
    (begin..end).map(|number| Message::builder().body(format!("{number:010}")).build()).collect()
}

async fn confirmed(
    environment: &Environment,
    stream: &str,
    size: u64,
    messages: u64,
) -> Result<Duration, Box<dyn Error>> {
    let mut producer = environment.producer().name("compare").build(stream).await?;
    let begin = Instant::now();
    let mut sent = 0;
    while sent < messages {
        let end = messages.min(sent + size);
        let mut batch = batch(sent, end);
        let all = match size {
            1 => producer.send_with_confirm(batch.remove(0)).await?.confirmed(),
            _ => producer.batch_send_with_confirm(batch).await?.iter().all(|status| status.confirmed()),
        };
        if !all {
            return Err("a message was not confirmed".into());
        }
        sent = end;
    }
    let took = begin.elapsed();
    producer.close().await?;
    Ok(took)
}

async fn pipelined(environment: &Environment, stream: &str, messages: u64) -> Result<Duration, Box<dyn Error>> {
    let producer = environment.producer().build(stream).await?;
    let confirmed = Arc::new((AtomicU64::new(0), AtomicU64::new(0), Notify::new()));
    let begin = Instant::now();
    let mut sent = 0;
    while sent < messages {
        let end = messages.min(sent + BATCH);
        let counted = confirmed.clone();
        let count = move |status: Result<_, _>| {
            let (confirmed, failed, more) = &*counted;
            if status.is_err() {
                failed.fetch_add(1, Ordering::Relaxed);
            }
            if confirmed.fetch_add(1, Ordering::Release) % BATCH == BATCH - 1 {
                more.notify_one();
            }
            async {}
        };
        producer.batch_send(batch(sent, end), count).await?;
        sent = end;
        let left = if sent == messages { 0 } else { IN_FLIGHT - BATCH };
        while sent - confirmed.0.load(Ordering::Acquire) > left {
            // The last of them may come without a notice.
            let _ = tokio::time::timeout(Duration::from_millis(1), confirmed.2.notified()).await;
        }
    }
    let took = begin.elapsed();
    producer.close().await?;
    match confirmed.1.load(Ordering::Relaxed) {
        0 => Ok(took),
        failed => Err(format!("{failed} messages failed").into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, kind, messages] = &arguments[..] else {
        return Err("usage: rabbitmq-rust HOST:PORT single|batch|pipelined MESSAGES".into());
    };
    let (host, port) = address.rsplit_once(':').ok_or("no port")?;
    let messages: u64 = messages.parse()?;
    let environment = Environment::builder().host(host).port(port.parse()?).build().await?;
    let stream = format!("compare-{}", std::process::id());
    environment.stream_creator().create(&stream).await?;
    let took = match kind.as_str() {
        "single" => confirmed(&environment, &stream, 1, messages).await,
        "batch" => confirmed(&environment, &stream, BATCH, messages).await,
        _ => pipelined(&environment, &stream, messages).await,
    };
    environment.delete_stream(&stream).await?;
    println!("{messages} messages in {:.6} s", took?.as_secs_f64());
    Ok(())
}
