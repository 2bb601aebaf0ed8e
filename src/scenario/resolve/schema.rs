//! `[payload.schema]`: how records are encoded, and the id that stands before them.

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::Reader;
use super::line_sizes::LineSizes;
use super::security::both_parts_of_a_certificate;
use crate::net::token::{TokenSource, problem_of_command, problem_of_url};
use crate::scenario::tables::{RegistryTable, SchemaContent, SchemaId, SchemaTable, Topology};
use crate::schemas::{Codec, HEAD_BYTES, Login, Registry, SchemaType};

const SCHEMA: &str = "payload.schema";
const REGISTRY: &str = "payload.schema.registry";

/// Records that are generated to see whether that is possible, of each branch of the schema.
const TRIED: usize = 100;

/// A schema, and the sizes of the payloads from a file of records.
pub(super) type Read = (Arc<Codec>, Option<LineSizes>);

/// The key whose value is refused, why, and what to do.
pub(super) type Refusal = (&'static str, String, &'static str);

/// The content, and its sizes where records are in a file.
pub(super) fn read(
    reader: &Reader<'_>,
    table: &SchemaTable,
    topology: &Topology,
) -> Option<(SchemaContent, Option<LineSizes>)> {
    if table.schema_type != SchemaType::Protobuf {
        let reason = "only `protobuf` schemas have a `message`";
        reader.forbid("payload.schema.message", reason, "remove it: the file has one schema");
    }
    reader.exclusive(SCHEMA, "id", "registry", "keep one of them: with an `id`, no registry is asked");
    let id = match (&table.id, &table.registry) {
        (Some(id), _) => Some(SchemaId::Known(*id)),
        (None, Some(registry)) => self::registry(reader, registry, topology).map(SchemaId::Asked),
        (None, None) => {
            reader.missing(SCHEMA, "id", "write the schema's id, or `[payload.schema.registry]` with its `url`");
            None
        }
    };
    let known = reader.context.schemas.borrow().iter().find(|(of, _)| of == table).map(|(_, known)| known.clone());
    let found = known.unwrap_or_else(|| {
        let found = open(table);
        reader.context.schemas.borrow_mut().push((table.clone(), found.clone()));
        found
    });
    let refuse = |(key, message, advice): Refusal| reader.refuse(&format!("{SCHEMA}.{key}"), message, advice);
    let (codec, sizes) = found.map_err(refuse).ok()?;
    if table.registry.is_some() && !codec.imports.is_empty() {
        let message = format!("the schema imports {}, which brokermark does not register", codec.imports.join(", "));
        let advice = "register both with the registry's own tools, and give the `id` instead of the `registry`";
        reader.refuse("payload.schema.file", message, advice);
    }
    Some((SchemaContent { codec, records: table.records.clone(), id: id? }, sizes))
}

/// Reads the schema and encodes the records, if there are any, so that none is refused when the load is prepared.
fn open(table: &SchemaTable) -> Result<Read, Refusal> {
    let codec = Codec::open(table.schema_type, &table.file, table.message.as_deref())
        .map_err(|reason| ("file", reason, "correct the schema, `type` or `message`"))?;
    let Some(records) = &table.records else {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(0);
        let advice = "give records of your own: `records = \"orders.jsonl\"`";
        for _ in 0..TRIED {
            codec
                .generate(&mut random)
                .map_err(|reason| ("file", format!("no records can be generated: {reason}"), advice))?;
        }
        return Ok((Arc::new(codec), None));
    };
    let mut sizes = LineSizes::default();
    let all = codec.encode_lines(records, usize::MAX, |record| {
        sizes.add(HEAD_BYTES + record.len());
        Ok::<_, String>(())
    });
    all.map_err(|reason| ("records", reason, "correct the record, or the schema"))?;
    Ok((Arc::new(codec), Some(sizes)))
}

fn registry(reader: &Reader<'_>, table: &RegistryTable, topology: &Topology) -> Option<Registry> {
    let url = &table.url;
    if let Some(problem) = problem_of_url("url", url) {
        reader.refuse(
            &format!("{REGISTRY}.url"),
            problem,
            "write it as in \"http://host:8081\", and `username` and `password` beside it",
        );
    }
    let of_topic = topology.name.as_ref().filter(|_| topology.topics == 1).map(|topic| format!("{topic}-value"));
    let subject = table.subject.clone().or(of_topic);
    if subject.is_none() {
        let advice =
            "name the subject, as in `subject = \"orders-value\"`: only a topic that the scenario names gives one";
        reader.missing(REGISTRY, "subject", advice);
    }
    let tls = format!("{REGISTRY}.tls");
    both_parts_of_a_certificate(reader, &tls);
    if url.starts_with("http://") {
        reader.forbid(&tls, "a URL with http:// is asked without TLS", "remove it, or write https://");
    }
    let login = login(reader, table)?;
    let url = url.trim_end_matches('/').to_owned();
    Some(Registry { url, subject: subject?, register: table.register, login, tls: table.tls.clone() })
}

fn login(reader: &Reader<'_>, table: &RegistryTable) -> Option<Login> {
    for (one, other) in [("username", "token"), ("username", "token_command"), ("token", "token_command")] {
        reader.exclusive(REGISTRY, one, other, "keep one of them");
    }
    for (one, other) in [("username", "password"), ("password", "username")] {
        if reader.has(&format!("{REGISTRY}.{one}")) {
            reader.missing(REGISTRY, other, "a login has a `username` and a `password`");
        }
    }
    if let Some(problem) = table.token_command.as_ref().and_then(|command| problem_of_command(command)) {
        reader.refuse(&format!("{REGISTRY}.token_command"), problem, "name it");
    }
    Some(match (&table.username, &table.token, &table.token_command) {
        (Some(username), ..) => Login::Basic { username: username.clone(), password: table.password.clone()? },
        (None, Some(token), _) => Login::Bearer(TokenSource::Secret(token.clone())),
        (None, None, Some(command)) => Login::Bearer(TokenSource::Command(command.clone())),
        (None, None, None) => Login::None,
    })
}
