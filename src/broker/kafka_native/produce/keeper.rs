//! Starts a producing client, and the task that keeps it up to date: leaders, identities, and messages that have waited for too long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::config::KafkaNativeOptions;
use super::super::error::CallError;
use super::super::net::cluster::Cluster;
use super::client::{Client, Messages};
use super::completion;
use super::serve::serve;
use super::transaction_task::end_transactions;
use super::transactions::Transactions;
use crate::measure::AckRecorder;
use crate::measure::host::tasks::watched;

/// How often the task looks for messages that have waited for too long.
const SWEEP: Duration = Duration::from_millis(500);

/// Metadata is asked for at least so often (`metadata.max.age.ms`), …
const METADATA_AGE: Duration = Duration::from_secs(300);

/// … and not more often than this.
const METADATA_PAUSE: Duration = Duration::from_millis(100);

/// Starts a client of `cluster`. `transactional_id`: of its transactions, if it sends in them.
///
/// # Errors
/// When it is to be idempotent, and the broker gives it no identity.
pub async fn start(
    cluster: Arc<Cluster>,
    options: KafkaNativeOptions,
    messages: Messages,
    transactional_id: &str,
) -> Result<Arc<Client>, CallError> {
    let (transactions, identity) = match options.transactions {
        Some(of_options) => {
            let (begun, identity) = Transactions::begin(cluster.clone(), transactional_id, of_options).await?;
            (Some(Arc::new(begun)), Some(identity))
        }
        None if options.idempotence => (None, Some(cluster.new_identity().await?)),
        None => (None, None),
    };
    let serve_node = |node, client| tokio::spawn(watched("connection", 0, serve(node, client))).abort_handle();
    let client = Arc::new(Client::new(cluster, options, messages, identity, transactions, serve_node));
    client.kept_by(tokio::spawn(keep(client.clone())).abort_handle());
    if let Some(transactions) = client.transactions() {
        let task = tokio::spawn(end_transactions(client.clone(), transactions.clone()));
        transactions.ended_by(task.abort_handle());
    }
    Ok(client)
}

/// Keeps a client up to date. Never returns.
async fn keep(client: Arc<Client>) {
    let recorder = client.acks.recorder();
    let mut updated = Instant::now();
    loop {
        client.needs_upkeep(SWEEP).await;
        sweep(&client, &recorder);
        client.renew_broken().await;
        let age = updated.elapsed();
        if age >= METADATA_AGE || (client.is_outdated() && age >= METADATA_PAUSE) {
            updated = Instant::now();
            client.update_metadata().await;
        }
    }
}

/// Fails what has waited for too long, and finds partitions that need another identity.
fn sweep(client: &Client, recorder: &AckRecorder) {
    let (now, mut expired) = (Instant::now(), Vec::new());
    for partition in client.partitions() {
        if partition.expire(&client.limits, now, &mut expired) {
            client.renew(&partition);
        }
    }
    completion::expired(client, recorder, expired);
}
