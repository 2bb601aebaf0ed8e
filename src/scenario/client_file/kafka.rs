//! Properties of Kafka's Java client and of librdkafka.

use toml_edit::Value;

use super::jaas::LoginModule;
use super::properties::Property;
use super::{Known, Mapped, addresses, find, path};

/// Properties that do not change what is sent or received, and why.
const LEFT_OUT: [(&str, &str); 20] = [
    ("auto.commit.interval.ms", "consumers of a load commit nothing"),
    ("buffer.memory", "it limits the Java client's memory: see `producers.in_flight`"),
    ("client.dns.lookup", "every address of a name is tried"),
    ("client.id", "clients have names of their own here; a quota of the broker for this name does not hold for them"),
    ("connections.max.idle.ms", "connections are kept"),
    ("default.api.timeout.ms", "it limits how long calls of the Java client wait"),
    ("enable.auto.commit", "consumers of a load commit nothing"),
    ("group.id", "brokermark names the groups: a pipeline joins another one with `pipeline.group`"),
    ("group.protocol", "where members join a group, `consumers.properties` has it"),
    ("group.remote.assignor", "where members join a group, `consumers.properties` has it"),
    ("heartbeat.interval.ms", "members show signs of life often enough"),
    ("max.poll.interval.ms", "it limits the time between calls of the Java client"),
    ("max.poll.records", "it limits what one call of the Java client returns"),
    ("max.request.size", "a topic's `max.message.bytes` limits messages"),
    ("metadata.max.age.ms", "the cluster is asked again when something has changed"),
    ("partition.assignment.strategy", "where members join a group, `consumers.properties` has it"),
    ("reconnect.backoff.max.ms", "the client has pauses of its own between attempts"),
    ("reconnect.backoff.ms", "the client has pauses of its own between attempts"),
    ("retry.backoff.max.ms", "the client has pauses of its own between attempts"),
    ("retry.backoff.ms", "the client has pauses of its own between attempts"),
];

/// Beginnings of the names of such properties.
const LEFT_OUT_PREFIXES: [(&str, &str); 4] = [
    ("schema.registry.", "payloads are bytes here, without a schema"),
    ("basic.auth.", "payloads are bytes here, without a schema"),
    ("key.", "payloads are bytes here"),
    ("value.", "payloads are bytes here"),
];

/// Properties for which the scenario has keys.
const REFUSED: [(&str, &str); 3] = [
    ("group.instance.id", "every member needs one of its own: set `broker.kafka.static_members`"),
    ("interceptor.classes", "brokermark runs no classes of Java: remove it"),
    ("transactional.id", "every producer needs one of its own: set `broker.kafka.transactions`"),
];

/// What the own client does, as the Java client does it by default; librdkafka has these properties under the same name.
const FIXED: [(&str, &str); 6] = [
    ("fetch.max.bytes", "52428800"),
    ("fetch.max.wait.ms", "500"),
    ("fetch.min.bytes", "1"),
    ("max.partition.fetch.bytes", "1048576"),
    ("retries", "2147483647"),
    ("client.rack", ""),
];

pub(super) fn map(properties: &[Property], known: &Known, mapped: &mut Mapped) {
    security(properties, mapped);
    let is_librdkafka = known.text("broker", "client").is_some_and(|client| client == "librdkafka");
    for one in properties.iter().filter(|one| !is_security(&one.key)) {
        match one.key.as_str() {
            "bootstrap.servers" | "metadata.broker.list" => {
                mapped.set("broker.addresses", addresses(one.value.split(','), 9092), one);
            }
            "auto.offset.reset" => start(one, known, mapped),
            _ => tuning(one, is_librdkafka, mapped),
        }
    }
}

fn tuning(one: &Property, is_librdkafka: bool, mapped: &mut Mapped) {
    let (key, value) = (one.key.as_str(), one.value.as_str());
    let milliseconds = || format!("{value}ms");
    let (name, value): (&str, Value) = match key {
        "acks" | "request.required.acks" => ("acks", value.into()),
        "compression.type" | "compression.codec" => ("compression", value.into()),
        "enable.idempotence" => match boolean(one, mapped) {
            Some(is_numbered) => ("idempotence", is_numbered.into()),
            None => return,
        },
        "isolation.level" => ("isolation", value.replace('_', "-").into()),
        "linger.ms" | "queue.buffering.max.ms" => ("linger", milliseconds().into()),
        "partitioner" => ("partitioner", value.into()),
        // The Java client gathers no batches then.
        "batch.size" if value == "0" => ("batch_bytes", "1B".into()),
        "batch.size" => ("batch_bytes", format!("{value}B").into()),
        "max.in.flight.requests.per.connection" | "max.in.flight" if !is_librdkafka => match value.parse::<i64>() {
            Ok(requests) => ("max_in_flight", requests.into()),
            Err(_) => return mapped.refuse(one, "it is not a whole number"),
        },
        "delivery.timeout.ms" | "message.timeout.ms" if !is_librdkafka => ("delivery_timeout", milliseconds().into()),
        "request.timeout.ms" if !is_librdkafka => ("request_timeout", milliseconds().into()),
        "session.timeout.ms" if !is_librdkafka => ("session_timeout", milliseconds().into()),
        _ => return other(one, is_librdkafka, mapped),
    };
    mapped.set(&format!("broker.kafka.{name}"), value, one);
}

/// librdkafka also has the words `t`, `f`, `1` and `0` (`_RK_C_BOOL` in `rdkafka_conf.c`).
fn boolean(one: &Property, mapped: &mut Mapped) -> Option<bool> {
    match one.value.as_str() {
        "t" | "T" | "1" => Some(true),
        "f" | "F" | "0" => Some(false),
        _ => mapped.boolean(one),
    }
}

/// What a property is that no client here takes.
pub(in crate::scenario) enum Untaken {
    /// Without it, the load is the same, for this reason.
    LeftOut(&'static str),
    /// It is refused, for this reason.
    Refused(&'static str),
}

pub(in crate::scenario) fn untaken(key: &str) -> Option<Untaken> {
    let of = |table: &[(&str, &'static str)]| table.iter().find(|(name, _)| *name == key).map(|(_, reason)| *reason);
    let prefix = LEFT_OUT_PREFIXES.iter().find(|(prefix, _)| key.starts_with(prefix)).map(|(_, reason)| *reason);
    of(&REFUSED).map(Untaken::Refused).or(of(&LEFT_OUT).or(prefix).map(Untaken::LeftOut))
}

/// A property that is not a key of `[broker.kafka]`.
fn other(one: &Property, is_librdkafka: bool, mapped: &mut Mapped) {
    let key = one.key.as_str();
    match untaken(key) {
        Some(Untaken::Refused(reason)) => return mapped.refuse(one, reason),
        Some(Untaken::LeftOut(reason)) => return mapped.leave_out(one, reason),
        None => {}
    }
    if is_librdkafka {
        return mapped.set(&format!("broker.properties.{key}"), one.value.as_str(), one);
    }
    match FIXED.iter().find(|(name, _)| *name == key) {
        Some((_, value)) if *value == one.value => mapped.leave_out(one, "the client does this anyway"),
        Some(_) => mapped.refuse(
            one,
            "only `client = \"librdkafka\"` can be told: remove it, or add --set broker.client=librdkafka",
        ),
        None => mapped.refuse(one, "it has no counterpart in brokermark: remove it"),
    }
}

/// Where consumers begin. A property makes no consumers.
fn start(one: &Property, known: &Known, mapped: &mut Mapped) {
    match one.value.as_str() {
        "earliest" | "smallest" | "beginning" => mapped.leave_out(one, "consumers begin at the first message anyway"),
        "latest" | "largest" | "end" if known.has("consumers") => mapped.set("consumers.from", "latest", one),
        "latest" | "largest" | "end" => mapped.leave_out(one, "the scenario has no consumers"),
        _ => mapped.refuse(one, "write earliest or latest"),
    }
}

/// Whether a property is about TLS or a login.
pub(in crate::scenario) fn is_security(key: &str) -> bool {
    ["sasl.", "ssl.", "enable.ssl."].iter().any(|prefix| key.starts_with(prefix)) || key == "security.protocol"
}

/// `[broker.security]` of those properties that are about it.
pub(in crate::scenario) fn security(properties: &[Property], mapped: &mut Mapped) {
    let protocol = properties.iter().find(|one| one.key == "security.protocol");
    let name = protocol.map_or_else(String::new, |one| one.value.to_ascii_uppercase());
    let (tls, sasl) = match name.as_str() {
        "" | "PLAINTEXT" => (false, false),
        "SSL" => (true, false),
        "SASL_PLAINTEXT" => (false, true),
        "SASL_SSL" => (true, true),
        _ => {
            let reason = "write PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL";
            return protocol.into_iter().for_each(|one| mapped.refuse(one, reason));
        }
    };
    if let Some(protocol) = protocol.filter(|_| tls) {
        mapped.set("broker.security.tls", true, protocol);
    }
    let (of_tls, of_sasl): (Vec<&Property>, Vec<&Property>) = properties
        .iter()
        .filter(|one| is_security(&one.key) && one.key != "security.protocol")
        .partition(|one| !one.key.starts_with("sasl."));
    for (has, all) in [(tls, &of_tls), (sasl, &of_sasl)] {
        let reason = "`security.protocol` does without it";
        all.iter().filter(|_| !has).for_each(|one| mapped.leave_out(one, reason));
    }
    if tls {
        of_tls.iter().for_each(|one| tls_property(one, properties, mapped));
    }
    if sasl {
        login(properties, &of_sasl, mapped);
    }
}

const TO_PEM: &str = "Java's keystores are not read: export it as PEM (keytool -exportcert -rfc, or openssl pkcs12), name that file, and set the \
                      store's type to PEM";

fn tls_property(one: &Property, properties: &[Property], mapped: &mut Mapped) {
    let is_pem = |store: &str| {
        let kind = find(properties, &[&format!("ssl.{store}.type")]);
        kind.is_some_and(|kind| kind.value.eq_ignore_ascii_case("PEM"))
    };
    const TLS: &str = "broker.security.tls";
    match (one.key.as_str(), one.value.as_str()) {
        ("ssl.endpoint.identification.algorithm", name) if name.is_empty() || name.eq_ignore_ascii_case("none") => {
            mapped.set(&format!("{TLS}.verify_host"), false, one);
        }
        ("ssl.endpoint.identification.algorithm", _) => mapped.leave_out(one, "hosts are verified anyway"),
        (_, "") => {}
        ("ssl.truststore.location", file) if is_pem("truststore") => mapped.set(&format!("{TLS}.ca"), path(file), one),
        ("ssl.keystore.location", file) if is_pem("keystore") => {
            mapped.set(&format!("{TLS}.certificate"), path(file), one);
            mapped.set(&format!("{TLS}.key"), path(file), one);
        }
        ("ssl.ca.location", file) => mapped.set(&format!("{TLS}.ca"), path(file), one),
        ("ssl.certificate.location", file) => mapped.set(&format!("{TLS}.certificate"), path(file), one),
        ("ssl.key.location", file) => mapped.set(&format!("{TLS}.key"), path(file), one),
        ("ssl.truststore.location" | "ssl.keystore.location", _) => mapped.refuse(one, TO_PEM),
        ("ssl.truststore.type", _) if is_pem("truststore") => mapped.leave_out(one, "files are PEM anyway"),
        ("ssl.keystore.type", _) if is_pem("keystore") => mapped.leave_out(one, "files are PEM anyway"),
        ("ssl.truststore.type" | "ssl.keystore.type", _) => mapped.refuse(one, TO_PEM),
        ("ssl.truststore.password" | "ssl.keystore.password", _) => {
            mapped.refuse(one, "files in PEM have no password: remove it");
        }
        ("ssl.key.password", _) => {
            mapped.refuse(
                one,
                "the key is read without a password: decrypt it (openssl pkey -in KEY -out PLAIN), and remove this",
            );
        }
        ("ssl.truststore.certificates" | "ssl.keystore.certificate.chain" | "ssl.keystore.key", _) => {
            mapped.refuse(
                one,
                "write it to a file, and name that with --set broker.security.tls.ca, .certificate or .key",
            );
        }
        ("ssl.protocol" | "ssl.enabled.protocols", value) if value.contains("TLSv1.2") || value.contains("TLSv1.3") => {
            mapped.leave_out(one, "TLS 1.2 and 1.3 are used");
        }
        ("enable.ssl.certificate.verification", _) => match boolean(one, mapped) {
            Some(true) => mapped.leave_out(one, "certificates are verified anyway"),
            Some(false) => mapped.refuse(
                one,
                "certificates are always verified: name their authority with --set broker.security.tls.ca",
            ),
            None => {}
        },
        _ => mapped.refuse(one, "it has no counterpart in brokermark: remove it"),
    }
}

const SASL: &str = "broker.security.sasl";

fn login(properties: &[Property], all: &[&Property], mapped: &mut Mapped) {
    let mechanism = find(properties, &["sasl.mechanism", "sasl.mechanisms"]);
    let kerberos =
        "Kerberos is not supported: use a listener with SCRAM-SHA-512, OAUTHBEARER or PLAIN, or a client's certificate";
    let Some(mechanism) = mechanism.filter(|one| one.value != "GSSAPI") else {
        let protocol = properties.iter().find(|one| one.key == "security.protocol");
        let by = mechanism.or(protocol);
        let missing = "without `sasl.mechanism`, the mechanism is GSSAPI. ";
        let reason = format!("{}{kerberos}", if mechanism.is_none() { missing } else { "" });
        return by.into_iter().for_each(|one| mapped.refuse(one, reason.as_str()));
    };
    mapped.set(&format!("{SASL}.mechanism"), mechanism.value.as_str(), mechanism);
    let is_bearer = mechanism.value == "OAUTHBEARER";
    for one in all.iter().filter(|one| !one.value.is_empty() && one.key != mechanism.key) {
        let set = match one.key.as_str() {
            "sasl.jaas.config" => {
                jaas(one, &mechanism.value, mapped);
                continue;
            }
            "sasl.username" => "username",
            "sasl.password" => "password",
            "sasl.oauthbearer.token.endpoint.url" if is_bearer => "oauth2.token_url",
            "sasl.oauthbearer.client.id" | "sasl.oauthbearer.client.credentials.client.id" if is_bearer => {
                "oauth2.client_id"
            }
            "sasl.oauthbearer.client.secret" | "sasl.oauthbearer.client.credentials.client.secret" if is_bearer => {
                "oauth2.client_secret"
            }
            "sasl.oauthbearer.scope" if is_bearer => "oauth2.scope",
            _ => {
                login_class(one, mapped);
                continue;
            }
        };
        mapped.set(&format!("{SASL}.{set}"), one.value.as_str(), one);
    }
}

/// Classes of Java that get credentials, and what librdkafka has for them.
fn login_class(one: &Property, mapped: &mut Mapped) {
    let class = one.value.rsplit('.').next().unwrap_or_default();
    match (one.key.as_str(), class) {
        ("sasl.login.callback.handler.class", "OAuthBearerLoginCallbackHandler")
        | ("sasl.client.callback.handler.class", "IAMClientCallbackHandler")
        | ("sasl.oauthbearer.method", "oidc" | "OIDC") => mapped.leave_out(one, "it is what the mechanism does here"),
        ("sasl.login.callback.handler.class" | "sasl.client.callback.handler.class" | "sasl.login.class", _) => {
            let reason = "brokermark runs no classes of Java: remove it, and set what gives a token, as in --set \
                          'broker.security.sasl.token_command=[\"program\"]'";
            mapped.refuse(one, reason);
        }
        (key, _) if key.starts_with("sasl.kerberos.") => mapped.refuse(one, "Kerberos is not supported: remove it"),
        (key, _) if key.starts_with("sasl.login.") => mapped.leave_out(one, "a token is renewed before it ends"),
        _ => mapped.refuse(one, "it has no counterpart in brokermark: remove it"),
    }
}

fn jaas(one: &Property, mechanism: &str, mapped: &mut Mapped) {
    let mut module = match LoginModule::parse(&one.value) {
        Ok(module) => module,
        Err(reason) => return mapped.refuse(one, reason),
    };
    let options: &[(&str, &str)] = match module.name.as_str() {
        "PlainLoginModule" | "ScramLoginModule" => &[("username", "username"), ("password", "password")],
        "OAuthBearerLoginModule" => {
            &[("clientId", "oauth2.client_id"), ("clientSecret", "oauth2.client_secret"), ("scope", "oauth2.scope")]
        }
        "IAMLoginModule" => &[],
        "Krb5LoginModule" => return mapped.refuse(one, "Kerberos is not supported"),
        other => return mapped.refuse(one, format!("brokermark does not know the login module `{other}`")),
    };
    let fits = match module.name.as_str() {
        "PlainLoginModule" => mechanism == "PLAIN",
        "ScramLoginModule" => mechanism.starts_with("SCRAM-"),
        "OAuthBearerLoginModule" => mechanism == "OAUTHBEARER",
        _ => mechanism == "AWS_MSK_IAM",
    };
    if !fits {
        return mapped.refuse(one, format!("`{}` does not go with `sasl.mechanism` = {mechanism}", module.name));
    }
    for (option, key) in options {
        if let Some(value) = module.take(option) {
            mapped.set(&format!("{SASL}.{key}"), value, one);
        }
    }
    let rest: Vec<String> = module.rest().iter().map(|option| format!("`{option}`")).collect();
    if !rest.is_empty() {
        let advice = match module.name.as_str() {
            "IAMLoginModule" => {
                "write the credentials into the environment, as `aws configure export-credentials --format env` prints them"
            }
            _ => "remove it",
        };
        mapped.refuse(
            one,
            format!("{} of `{}` has no counterpart in brokermark: {advice}", rest.join(", "), module.name),
        );
    }
}
