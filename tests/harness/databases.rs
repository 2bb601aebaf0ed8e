//! Databases that pipelines write to: those that `scripts/test` starts, and further ones for tests that kill them.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use super::server::{Server, variable};

/// `host:port` of the Redis that `scripts/test` starts.
pub fn redis() -> String {
    variable("BROKERMARK_REDIS")
}

/// `host:port` of what `scripts/test` starts to speak MongoDB's protocol.
pub fn mongodb() -> String {
    variable("BROKERMARK_MONGODB")
}

/// A Redis of a test's own.
pub fn redis_server(instance: &str, port: u16, options: &str) -> Server {
    Server::start("redis", instance, port, &[("BROKERMARK_REDIS_OPTIONS", options)])
}

pub fn mongodb_server(instance: &str, port: u16) -> Server {
    Server::start("mongodb", instance, port, &[])
}

/// The first line of Redis's answer to an inline command.
pub fn ask_redis(address: &str, command: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{command}\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// The `_id` of every document.
#[cfg(feature = "mongodb")]
pub fn documents(address: &str, database: &str, collection: &str) -> Vec<String> {
    use futures_util::TryStreamExt;
    use mongodb::bson::{Document, doc};

    let read = async {
        let client =
            mongodb::Client::with_uri_str(format!("mongodb://{address}/?directConnection=true")).await.unwrap();
        let collection = client.database(database).collection::<Document>(collection);
        let found = collection.find(doc! {}).projection(doc! { "_id": 1 }).await.unwrap();
        let found: Vec<Document> = found.try_collect().await.unwrap();
        found.iter().map(|document| document.get_str("_id").unwrap().to_owned()).collect()
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(read)
}
