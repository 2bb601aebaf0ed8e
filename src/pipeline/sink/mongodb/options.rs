//! The keys of a MongoDB sink, and what the driver is told of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use mongodb::options::{ClientOptions, Credential, ServerAddress, Tls, TlsOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::{CA_WITHOUT_TLS, CONNECT, a_minute, yes};
use crate::scenario::Secret;
use crate::scenario::tables::DurationText;

/// The keys of a sink of this kind.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// `host:port` of one server, or of several of a replica set.
    pub address: Option<String>,
    #[serde(default)]
    pub addresses: Vec<String>,
    pub replica_set: Option<String>,
    pub database: String,
    pub collection: String,
    /// The JSON fields that a document has.
    pub fields: Vec<String>,
    /// Whether it also has `producer_ts`, `consumer_ts` (seconds since 1970) and `latency` (seconds, at receipt).
    #[serde(default = "yes")]
    pub timestamps: bool,
    #[serde(default = "yes")]
    pub ordered: bool,
    /// `"majority"`, or how many servers.
    pub write_concern: Option<WriteConcern>,
    #[serde(default)]
    pub document_id: DocumentId,
    pub username: Option<String>,
    #[serde(default)]
    pub password: Option<Secret>,
    /// The database that has the user; otherwise `admin`.
    pub auth_source: Option<String>,
    #[serde(default)]
    pub tls: bool,
    /// PEM file of the authorities to trust; otherwise those of Mozilla.
    #[schemars(extend("format" = "existing-file"))]
    pub ca: Option<PathBuf>,
    #[serde(default = "a_minute", with = "DurationText")]
    pub timeout: Duration,
}

/// What `timestamps` adds to a document.
pub(super) const TIMESTAMPS: [&str; 3] = ["consumer_ts", "producer_ts", "latency"];

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum WriteConcern {
    Servers(i32),
    Named(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum DocumentId {
    /// `topic/partition-offset`, so that a message that is written again is not a new row. The topic is its CRC-32, as eight
    /// hexadecimal digits: with whole names, which are long, FerretDB took a fifth fewer rows.
    #[default]
    Offset,
    /// The server's.
    Generated,
}

impl Options {
    pub fn read(table: toml::Table) -> Result<Self, toml::de::Error> {
        use serde::de::Error;
        let says_tls = table.contains_key("tls");
        let options: Options = table.try_into()?;
        if options.ca.is_some() && !says_tls {
            return Err(Error::custom(CA_WITHOUT_TLS));
        }
        let hosts: Vec<&String> = options.hosts().collect();
        if hosts.is_empty() || hosts.iter().any(|host| ServerAddress::parse(host).is_err() || host.contains('@')) {
            return Err(Error::custom("a mongodb sink needs an `address` or `addresses`, each `host:port`"));
        }
        // Servers take `a.b` for a field within another one, refuse `$a`, and have one `_id`.
        if let Some(field) =
            options.fields.iter().find(|field| field.contains('.') || field.starts_with('$') || *field == "_id")
        {
            return Err(Error::custom(format!(
                "`fields` cannot hold \"{field}\": a document's field has no `.`, does not begin with `$`, and its `_id` is `document_id`"
            )));
        }
        let own = if options.timestamps { &TIMESTAMPS[..] } else { &[][..] };
        let mut names = own.iter().copied().chain(options.fields.iter().map(String::as_str));
        let mut before = BTreeSet::new();
        if let Some(twice) = names.find(|name| !before.insert(*name)) {
            return Err(Error::custom(format!(
                "`fields` would make a document with two fields \"{twice}\": with `timestamps`, it has {} already",
                TIMESTAMPS.join(", ")
            )));
        }
        if matches!(options.write_concern, Some(WriteConcern::Servers(..=0))) {
            return Err(Error::custom(
                "with a `write_concern` of 0 the server does not report whether a row was written",
            ));
        }
        if options.username.is_some() != options.password.is_some() {
            return Err(Error::custom("a `username` and its `password` go together"));
        }
        if options.auth_source.is_some() && options.username.is_none() {
            return Err(Error::custom("an `auth_source` without a `username` has no effect"));
        }
        Ok(options)
    }

    /// The write concern that each insertion asks for.
    pub fn durability(&self) -> BTreeMap<String, String> {
        let concern = match &self.write_concern {
            None => "the server's default".to_owned(),
            Some(WriteConcern::Servers(servers)) => servers.to_string(),
            Some(WriteConcern::Named(name)) => name.clone(),
        };
        BTreeMap::from([("write-concern".to_owned(), concern)])
    }

    pub fn hosts(&self) -> impl Iterator<Item = &String> {
        self.address.iter().chain(&self.addresses)
    }
}

/// # Errors
/// When the password cannot be read.
pub(super) fn client_options(options: &Options, connections: usize) -> Result<ClientOptions, String> {
    let hosts = options.hosts().map(ServerAddress::parse).collect::<Result<Vec<_>, _>>();
    let hosts = hosts.map_err(|error| format!("mongodb: {error}"))?;
    let mut client = ClientOptions::builder()
        .direct_connection(options.replica_set.is_none().then_some(hosts.len() == 1))
        .hosts(hosts)
        .repl_set_name(options.replica_set.clone())
        .connect_timeout(options.timeout.min(CONNECT))
        .server_selection_timeout(options.timeout.min(Duration::from_secs(2)))
        // One more for the row count.
        .max_pool_size(u32::try_from(connections).unwrap_or(u32::MAX).saturating_add(1))
        .build();
    if let (Some(username), Some(password)) = (&options.username, &options.password) {
        let login = Credential::builder().username(username.clone()).password(password.reveal()?);
        client.credential = Some(login.source(options.auth_source.clone()).build());
    }
    if options.tls {
        client.tls = Some(Tls::Enabled(TlsOptions::builder().ca_file_path(options.ca.clone()).build()));
    }
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_looked_up_where_the_scenario_says() {
        let source = |more: &str| {
            let login = "username = 'u'\npassword = 'p'";
            let text = format!("address = 'h:1'\ndatabase = 'd'\ncollection = 'c'\nfields = []\n{login}\n{more}");
            let options = Options::read(text.parse().unwrap()).unwrap();
            client_options(&options, 1).unwrap().credential.unwrap().source
        };
        assert_eq!((source("auth_source = 'users'"), source("")), (Some("users".to_owned()), None));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |text: &str| {
            let text = format!("database = 'd'\ncollection = 'c'\nfields = []\n{text}");
            Options::read(text.parse().unwrap()).unwrap_err().message().to_owned()
        };
        assert!(refused("").contains("address"));
        for field in ["a.b", "$a", "_id"] {
            let text = format!("address = 'h:1'\ndatabase = 'd'\ncollection = 'c'\nfields = ['{field}']");
            let refused = Options::read(text.parse().unwrap()).unwrap_err();
            assert!(refused.message().contains(&format!("\"{field}\"")), "{refused}");
        }
        assert!(refused("address = 'u:p@h:1'").contains("host:port"));
        assert!(refused("address = 'h:1'\nwrite_concern = 0").contains("write_concern"));
        assert!(refused("address = 'h:1'\nusername = 'u'").contains("password"));
        assert!(refused("address = 'h:1'\nauth_source = 'a'").contains("username"));
        assert!(refused("address = 'h:1'\nca = 'ca.pem'").contains("tls = true"));
        for (fields, timestamps, is_refused) in
            [("'a', 'latency'", true, true), ("'a', 'latency'", false, false), ("'a', 'a'", false, true)]
        {
            let text = format!(
                "address = 'h:1'\ndatabase = 'd'\ncollection = 'c'\nfields = [{fields}]\ntimestamps = {timestamps}"
            );
            assert_eq!(Options::read(text.parse().unwrap()).is_err(), is_refused, "{text}");
        }
    }
}
