//! Databases that pipelines write to: those that `scripts/test` starts, and further ones for tests that kill them.

use std::io::{BufRead, BufReader, Read, Write};
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

/// The first line of Redis's answer to an inline command; of several, one a line, to the last of them.
pub fn ask_redis(address: &str, commands: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{commands}\r\n").unwrap();
    let answers = BufReader::new(stream).lines().take(commands.lines().count());
    answers.last().unwrap().unwrap()
}

/// The text that Redis answers to an inline command with: several lines.
pub fn text_of_redis(address: &str, command: &str) -> String {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    write!(stream.get_mut(), "{command}\r\n").unwrap();
    let mut length = String::new();
    stream.read_line(&mut length).unwrap();
    let mut text = vec![0; length[1..].trim().parse().unwrap()];
    stream.read_exact(&mut text).unwrap();
    String::from_utf8(text).unwrap()
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

/// Lets a collection have each value of a field once.
#[cfg(feature = "mongodb")]
pub fn make_unique(address: &str, database: &str, collection: &str, field: &str) {
    use mongodb::IndexModel;
    use mongodb::bson::{Document, doc};
    use mongodb::options::IndexOptions;

    let make = async {
        let client =
            mongodb::Client::with_uri_str(format!("mongodb://{address}/?directConnection=true")).await.unwrap();
        let options = IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder().keys(doc! { field: 1 }).options(options).build();
        client.database(database).collection::<Document>(collection).create_index(index).await.unwrap();
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(make);
}
