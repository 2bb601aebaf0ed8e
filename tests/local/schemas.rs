//! Payloads by a schema, with a stand-in for the registry.

use brokermark::record::PayloadSchema;
use brokermark::schemas::SchemaType;

use crate::harness::scripted_registry::{FIRST_ID, Registry};
use crate::harness::{Bench, Finished, PATIENCE, Running, assert_delivered, brokermark};

const AVRO: &str = r#"{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}"#;
const PROTO: &str = "syntax = \"proto3\"; message Order { int64 id = 1; }";
const JSON: &str = r#"{"properties": {"id": {"type": "integer"}}, "required": ["id"]}"#;

/// A bench with the files of all types of schemas, whose scenario has these keys in `[payload.schema]`.
fn bench(keys: &str) -> Bench {
    let bench = Bench::new(&format!(
        "broker.kind = \"null\"\ntopology.name = \"orders\"\nconsumers.verify = true\nrun.messages = 100\n\
         [payload]\nkind = \"schema\"\npool = 10\n[payload.schema]\n{keys}\n"
    ));
    bench.write("order.avsc", AVRO);
    bench.write("order.proto", PROTO);
    bench.write("order.json", JSON);
    bench.write("orders.jsonl", "{\"id\": 1}\n{\"id\": 2}\n");
    bench
}

fn check(bench: &Bench) -> Finished {
    Running::start(brokermark().arg("check").arg(bench.scenario())).finish(PATIENCE)
}

#[test]
fn a_given_id_is_sent_without_a_registry() {
    let bench = bench("type = \"avro\"\nfile = \"order.avsc\"\nrecords = \"orders.jsonl\"\nid = 12");
    let record = bench.run(&[]).expect(0).record();
    assert_delivered(&record, 100, 1);
    let schema = PayloadSchema { schema_type: SchemaType::Avro, id: 12, subject: None, version: None };
    assert_eq!(record.payload_schema, Some(schema));
    let sizes = record.payload_sizes.unwrap();
    assert_eq!((sizes.smallest_bytes, sizes.largest_bytes), (6, 6), "five bytes before one");
}

#[test]
fn a_schema_of_each_type_is_registered_and_found_again() {
    let registry = Registry::start(Some("Authorization: Basic bWU6c2VjcmV0"));
    for (index, (name, file, text, registered_as)) in [
        ("avro", "order.avsc", AVRO, None),
        ("protobuf", "order.proto", PROTO, Some("PROTOBUF")),
        ("json", "order.json", JSON, Some("JSON")),
    ]
    .into_iter()
    .enumerate()
    {
        let keys = format!(
            "type = \"{name}\"\nfile = \"{file}\"\n[payload.schema.registry]\nurl = \"{}/\"\nusername = \"me\"\n\
             password = \"secret\"\nsubject = \"a {name}\"\n",
            registry.url
        );
        let id = FIRST_ID + index as u32;
        let schema = |finished: Finished| finished.expect(0).record().payload_schema.unwrap();
        let registering = bench(&format!("{keys}register = true"));
        let subject = Some(format!("a {name}"));
        let found = schema(registering.run(&[]));
        assert_eq!((found.id, &found.subject, found.version), (id, &subject, None));
        let found = schema(bench(&keys).run(&[]));
        assert_eq!((found.id, &found.subject, found.version), (id, &subject, Some(3)));
        let (subject, body) = registry.schemas().pop().unwrap();
        assert_eq!(subject, format!("a%20{name}"));
        assert_eq!((body["schema"].as_str(), body["schemaType"].as_str()), (Some(text), registered_as));
        let shown = std::fs::read_to_string(registering.run_directory().join("scenario.toml")).unwrap();
        assert!(!shown.contains("secret") && shown.contains("***"), "{shown}");
    }
}

#[test]
fn the_subject_is_that_of_the_topic_and_a_token_logs_in() {
    let registry = Registry::start(Some("Authorization: Bearer abc"));
    let keys = format!(
        "type = \"avro\"\nfile = \"order.avsc\"\nregistry = {{ url = \"{}\", register = true, token_command = [\"printf\", \"abc\"] }}",
        registry.url
    );
    bench(&keys).run(&[]).expect(0);
    assert_eq!(registry.requests(), ["POST /subjects/orders-value/versions HTTP/1.1"]);
}

#[test]
fn what_a_registry_refuses_is_told_with_what_to_do() {
    let registry = Registry::start(Some("Authorization: Bearer abc"));
    let failed = |text: &str, more: &str| {
        let keys = format!(
            "type = \"avro\"\nfile = \"order.avsc\"\nregistry = {{ url = \"{}\", token = \"abc\", {more} }}",
            registry.url
        );
        let bench = bench(&keys);
        bench.write("order.avsc", &AVRO.replace("Order", text));
        bench.run(&[]).expect(1).record().error.unwrap()
    };
    let refused = failed("Order", "subject = \"missing\"");
    assert!(refused.contains("no subject `missing`") && refused.contains("register = true"), "{refused}");
    let refused = failed("incompatible", "register = true");
    assert!(refused.contains("HTTP status 409") && refused.contains("not compatible"), "{refused}");
    let refused = failed("unusable", "register = true");
    assert!(refused.contains("HTTP status 422") && !refused.contains('\u{1b}'), "{refused}");
}

#[test]
fn what_keeps_a_schema_from_being_found_is_told_with_what_to_do() {
    let registry = Registry::start(Some("Authorization: Bearer abc"));
    let keys = |file: &str, more: &str| {
        format!(
            "type = \"avro\"\nfile = \"{file}\"\nregistry = {{ url = \"{}\", token = \"abc\"{more} }}",
            registry.url
        )
    };
    bench(&keys("order.avsc", ", register = true")).run(&[]).expect(0);
    let other = bench(&keys("other.avsc", ""));
    other.write("other.avsc", &AVRO.replace("id", "key"));
    let refused = other.run(&[]).expect(1).record().error.unwrap();
    assert!(refused.contains("the subject `orders-value` has other schemas only"), "{refused}");
    let without_login = keys("order.avsc", "").replace(", token = \"abc\"", "");
    let refused = bench(&without_login).run(&[]).expect(1).record().error.unwrap();
    assert!(refused.contains("HTTP status 401 (Unauthorized)") && refused.contains("`username`"), "{refused}");
    let elsewhere = keys("order.avsc", "").replace(&registry.url, &format!("{}/apis", registry.url));
    let refused = bench(&elsewhere).run(&[]).expect(1).record().error.unwrap();
    assert!(refused.contains("not the URL of a registry"), "{refused}");
    let away = "type = \"avro\"\nfile = \"order.avsc\"\nregistry.url = \"http://127.0.0.1:1\"";
    let refused = bench(away).run(&[]).expect(1).record().error.unwrap();
    assert!(refused.contains("127.0.0.1:1") && refused.contains("does the registry run?"), "{refused}");
}

/// Without a registry: it connects to nothing.
#[test]
fn check_reads_the_schema_and_the_records() {
    let avro = "type = \"avro\"\nfile = \"order.avsc\"\n";
    let right = bench(&format!("{avro}records = \"orders.jsonl\"\nregistry.url = \"http://127.0.0.1:1\""));
    check(&right).expect(0);
    let complaint = |keys: &str, complaints: &[&str]| {
        let bench = bench(keys);
        bench.write("wrong.jsonl", "{\"id\": 1}\n{\"id\": \"x\"}\n");
        bench.write("wrong.avsc", "{\"type\": \"recrd\"}");
        bench.write("import.proto", "syntax = \"proto3\"; import \"order.proto\"; message All { Order one = 1; }");
        bench.write("pattern.json", "{\"type\": \"string\", \"pattern\": \"a\"}");
        check(&bench).expect(2).complains_of(complaints);
    };
    complaint(&format!("{avro}id = 1\nrecords = \"wrong.jsonl\""), &["wrong.jsonl, line 2: `id`: \"x\" is not long"]);
    complaint("type = \"avro\"\nfile = \"wrong.avsc\"\nid = 1", &["wrong.avsc cannot be used as a schema"]);
    complaint(&format!("{avro}id = 1\nmessage = \"Order\""), &["only `protobuf` schemas have a `message`"]);
    complaint(avro, &["`id`", "payload.schema.registry"]);
    complaint(&format!("{avro}id = 1\nregistry.url = \"http://a\""), &["`id` and `registry` contradict each other"]);
    complaint(&format!("{avro}registry.url = \"a:8081\""), &["begins with http:// or https://"]);
    complaint(&format!("{avro}registry.url = \"http://me:secret@a\""), &["a URL has no name and no password"]);
    complaint(&format!("{avro}registry = {{ url = \"http://a\", username = \"me\" }}"), &["`password`"]);
    let with_key =
        |scheme: &str| format!("{avro}registry = {{ url = \"{scheme}://a\", tls = {{ key = \"order.avsc\" }} }}");
    complaint(&with_key("https"), &["`certificate` is missing in `payload.schema.registry.tls`"]);
    complaint(&with_key("http"), &["a URL with http:// is asked without TLS"]);
    complaint(&format!("{avro}id = 1\nrecord = \"orders.jsonl\""), &["records"]);
    complaint("type = \"thrift\"\nfile = \"order.avsc\"\nid = 1", &["avro", "protobuf"]);
    complaint("type = \"json\"\nfile = \"pattern.json\"\nid = 1", &["no records can be generated", "`pattern`"]);
    let import = "type = \"protobuf\"\nfile = \"import.proto\"\n";
    complaint(&format!("{import}registry.url = \"http://a\""), &["imports order.proto", "give the `id`"]);
    check(&bench_with_import(&format!("{import}id = 1"))).expect(0);
    let unnamed = "broker.kind = \"null\"\nrun.messages = 1\n[payload]\nkind = \"schema\"\n[payload.schema]\n\
                   type = \"avro\"\nfile = \"order.avsc\"\nregistry.url = \"http://a\"\n";
    let unnamed = Bench::new(unnamed);
    unnamed.write("order.avsc", AVRO);
    check(&unnamed).expect(2).complains_of(&["`subject`", "only a topic that the scenario names gives one"]);
}

fn bench_with_import(keys: &str) -> Bench {
    let bench = bench(keys);
    bench.write("import.proto", "syntax = \"proto3\"; import \"order.proto\"; message All { Order one = 1; }");
    bench
}
