//! Writes to a log store and reads it to its end, by the service's own client for Rust.
//!
//! `sls-rust ENDPOINT PROJECT STORE KEY_ID KEY_SECRET TOKEN REQUESTS LOGS`: posts so many requests of so many logs each,
//! then prints how many logs the store holds and how many fields they have together, topic by topic. An empty TOKEN stands for no token.
//! The client connects through `http_proxy`, because the name of its endpoint does not resolve.

use std::collections::BTreeMap;
use std::error::Error;

use aliyun_log_rust_sdk::get_cursor_models::CursorPos;
use aliyun_log_rust_sdk::{Client, Config, FromConfig};
use aliyun_log_sdk_protobuf::{Log, LogGroup};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, project, store, id, secret, token, requests, logs] = &arguments[..] else {
        return Err("usage: sls-rust ENDPOINT PROJECT STORE KEY_ID KEY_SECRET TOKEN REQUESTS LOGS".into());
    };
    let builder = Config::builder().endpoint(endpoint).max_retry(0);
    let builder = match token.is_empty() {
        true => builder.access_key(id, secret),
        false => builder.sts(id, secret, token),
    };
    let client = Client::from_config(builder.build()?)?;

    for request in 0..requests.parse::<u32>()? {
        let mut group = LogGroup::new();
        group.set_topic("rust").set_source("client").add_log_tag_kv("tag", "of a group");
        for number in 0..logs.parse::<u32>()? {
            let mut log = Log::from_unixtime(1_700_000_000 + request);
            log.add_content_kv("request", request.to_string()).add_content_kv("number", number.to_string());
            log.set_time_ns(number);
            group.add_log(log);
        }
        client.put_logs(project, store).log_group(group).send().await?;
    }

    // Logs and their fields.
    let mut topics: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let shards = client.list_shards(project, store).send().await?;
    for shard in shards.get_body().shards() {
        let place = |place| client.get_cursor(project, store, *shard.shard_id()).cursor_pos(place).send();
        let mut cursor = place(CursorPos::Begin).await?.get_body().cursor().to_owned();
        let end = place(CursorPos::End).await?.get_body().cursor().to_owned();
        while cursor != end {
            let pulled = client.pull_logs(project, store, *shard.shard_id()).cursor(cursor).count(10).send().await?;
            for group in pulled.get_body().log_group_list() {
                let topic = group.topic().clone().unwrap_or_default();
                let sum = topics.entry(topic).or_default();
                sum.0 += group.logs().len();
                sum.1 += group.logs().iter().map(|log| log.contents().len()).sum::<usize>();
            }
            cursor = pulled.get_body().next_cursor().to_owned();
        }
    }
    for (topic, (logs, fields)) in topics {
        println!("{topic}: {logs} logs, {fields} fields");
    }
    Ok(())
}
