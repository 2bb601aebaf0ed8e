//! Whether databases can be reached and written to, before any row: at the begin of a trial, and for `brokermark doctor`.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::sink::{self, Database, Sink, SinkError};
use crate::measure::Clock;
use crate::scenario;

/// How long a sink may take to prove that it can be written to.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why a sink cannot be written to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("cannot be written to: {}", .0.message.trim_end_matches('.'))]
    Unwritable(SinkError),
    #[error("cannot be written to: no answer within {PATIENCE:?}")]
    Silent,
    #[error(
        "holds rows already, and brokermark removes only its own: remove them, write elsewhere, or remove `pipeline.remove_rows`"
    )]
    HoldsRows,
}

/// What is known of a sink before any row.
#[derive(Debug)]
pub struct ExaminedSink {
    /// Its kind and address.
    pub place: String,
    /// The settings that decide what its acknowledgements mean, or why nothing can be written.
    pub found: Result<BTreeMap<String, String>, Refusal>,
}

/// Examines every sink of a pipeline that reads `topic`. No row is written.
///
/// # Errors
/// When a secret or a file cannot be read.
pub async fn examine(config: &scenario::Pipeline, topic: &str) -> Result<Vec<ExaminedSink>, String> {
    let columns: Vec<String> = config.sinks.iter().flat_map(|sink| sink.needs.fields.clone()).collect();
    let clock = Clock::start();
    let open = |one| sink::open(one, &columns, topic, clock, 1);
    let databases: Vec<Box<dyn Database>> = config.sinks.iter().map(open).collect::<Result<_, _>>()?;
    let examinations = databases.iter().map(|database| async {
        let found = match prove(&**database, config.remove_rows).await {
            Ok(mut sink) => {
                Ok(timeout(PATIENCE, sink.durability()).await.ok().and_then(Result::ok).unwrap_or_default())
            }
            Err(refusal) => Err(refusal),
        };
        ExaminedSink { place: database.place(), found }
    });
    Ok(join_all(examinations).await)
}

/// Proves that the sink can be written to, and, with `removes`, that it holds nothing where its rows will be removed. The connection
/// is returned.
pub(super) async fn prove(database: &dyn Database, removes: bool) -> Result<Box<dyn Sink>, Refusal> {
    let proof = async {
        let mut sink = database.connection();
        sink.connect().await?;
        sink.prove().await?;
        let is_free = !removes || sink.is_empty().await?;
        Ok::<_, SinkError>((sink, is_free))
    };
    match timeout(PATIENCE, proof).await {
        Ok(Ok((sink, true))) => Ok(sink),
        Ok(Ok((_, false))) => Err(Refusal::HoldsRows),
        Ok(Err(error)) => Err(Refusal::Unwritable(error)),
        Err(_) => Err(Refusal::Silent),
    }
}
