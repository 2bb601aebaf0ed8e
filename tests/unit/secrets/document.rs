use super::*;

#[test]
fn documents_keep_their_layout() {
    let text = r#"# password = "hunter2"
[broker] # token: hunter2
addresses = [ # secret=hunter2
  "me:hunter2@host:1", # see https://me:hunter2@host
  # passwd = hunter2
]
[broker.properties]
sasl.password = "hunter2" # note
"ssl.key.pem" = "hunter2"
"linger.ms" = 5 # the password was: hunter2
url = 'https://me:hunter2@host/?a=b&access_token=hunter2&c=d'
[broker.security.sasl]
password = { env = "KAFKA_PASSWORD" }
[sweep.over]
"broker.security.sasl.password" = ["hunter2"]
# api-key=hunter2
"#;
    let mut document: DocumentMut = text.parse().unwrap();
    insta::assert_snapshot!(mask_document(&mut document), @r##"
        # password = "***"
        [broker] # token: ***
        addresses = [ # secret=***
          "***@host:1", # see https://***@host
          # passwd = ***
        ]
        [broker.properties]
        sasl.password = "***" # note
        "ssl.key.pem" = "***"
        "linger.ms" = 5 # the password was: ***
        url = "https://***@host/?a=b&access_token=***&c=d"
        [broker.security.sasl]
        password = { env = "KAFKA_PASSWORD" }
        [sweep.over]
        "broker.security.sasl.password" = "***"
        # api-key=***
        "##);
}

#[test]
fn names_with_dots_are_secret_as_a_whole() {
    for table in ["[[consumers.group]]\nproperties.", "[sweep.over]\nbroker.properties.", "[consumers.properties]\n"] {
        let text = format!("{table}ssl.key.pem = \"hunter2\"\n");
        assert_eq!(mask_document(&mut text.parse().unwrap()), text.replace("hunter2", "***"));
        let mut tree: toml::Value = toml::from_str(&text).unwrap();
        mask_tree(&mut tree, &[]);
        assert_eq!(tree, toml::from_str(&text.replace("hunter2", "***")).unwrap());
    }
}

#[test]
fn a_command_is_shown_without_the_secrets_of_its_options() {
    let text = "[broker.security.sasl]\n\
                token_command = [\"get\", \"--client-secret\", \"hunter2\", \"--password=hunter2\", \"--token\", \"hunter2\", \"-v\"]\n";
    let mut document: DocumentMut = text.parse().unwrap();
    assert_eq!(mask_document(&mut document), text.replace("hunter2", "***"));
    let set = "broker.security.sasl.token_command=[\"get\", \"--client-secret\", \"hunter2\"]";
    assert_eq!(mask_override(set), set.replace("hunter2", "***"));
    assert_eq!(masked(&["run", "--set", set]), format!("run --set {}", set.replace("hunter2", "***")));
    let mut tree: toml::Value = toml::from_str(text).unwrap();
    mask_tree(&mut tree, &[]);
    assert_eq!(tree, toml::from_str(&text.replace("hunter2", "***")).unwrap());
}

#[test]
fn trees_are_masked_below_their_path() {
    let mut value: toml::Value = toml::Value::from("hunter2");
    mask_tree(&mut value, &["producers", "headers", "x", "api", "key"]);
    assert_eq!(value.as_str(), Some("***"));
    let mut table: toml::Value = toml::from_str("a.token = ['hunter2']\nb = 'Bearer hunter2'\nc = 'plain'").unwrap();
    mask_tree(&mut table, &[]);
    assert_eq!(table, toml::from_str("a.token = '***'\nb = 'Bearer ***'\nc = 'plain'").unwrap());
}

fn masked(arguments: &[&str]) -> String {
    mask_arguments(arguments.iter().map(|argument| (*argument).to_owned())).join(" ")
}

#[test]
fn overrides_are_masked() {
    assert_eq!(mask_override("broker.security.sasl.password=hunter 2"), "broker.security.sasl.password=***");
    assert_eq!(mask_override("producers.count=3"), "producers.count=3");
    assert_eq!(
        mask_override(r#"broker.security.sasl={username="a",password="hunter2"}"#),
        r#"broker.security.sasl={username="a",password="***"}"#
    );
}

#[test]
fn secrets_are_masked_in_every_form() {
    for arguments in [
        &["--set", "broker.security.sasl.password=hunter2"][..],
        &["--set=broker.security.sasl.password=hunter2"],
        &["--set", "broker.properties={\"sasl.password\" = \"hunter2\"}"],
        &["--set", "broker.properties={\"sasl.password\": \"hunter2\"}"],
        &["--set", "broker.properties.sasl.jaas.config=module required password=\"hunter2\";"],
        &["--set", "broker.properties.registry.api.key=hunter2"],
        &["--set", "producers.headers.authorization=hunter2"],
        &["--access-key", "hunter2"],
        &["--api-token=hunter2"],
        &["--set", "broker.addresses=[\"kafka://me:hunter2@10.0.0.1:9092\"]"],
        &["nats://me:hun@ter2@host/path"],
    ] {
        let shown = masked(arguments);
        assert!(!shown.contains("hunter2") && !shown.contains("ter2"), "{shown}");
        assert!(shown.contains("***"), "{shown}");
    }
}

/// Every pair of printable characters in a password, in a URL and in places that are known to be secret.
#[test]
fn no_printable_character_ends_a_secret() {
    for (one, other) in (' '..='~').flat_map(|one| (' '..='~').map(move |other| (one, other))) {
        let password = format!("zebra{one}{other}giraffe");
        let url = format!("kafka://me:{password}@h:1/o");
        for arguments in [
            &[url.as_str()][..],
            &["--against", &url],
            &[&format!("--against={url}")],
            &["--set", &format!("producers.headers.origin={url}")],
            &["--set", &format!("broker.security.sasl.password={password}")],
            &["--set", &format!("broker.addresses=[\"{url}\"]")],
        ] {
            let shown = masked(arguments);
            assert!(!shown.contains("zebra") && !shown.contains("giraffe"), "{arguments:?}: {shown}");
        }
    }
}

#[test]
fn other_arguments_are_unchanged() {
    for arguments in [
        &["brokermark", "run", "a.toml", "--set", "producers.keys=random"][..],
        &["--set", "broker.security.tls.key=client.key"],
        &["http://host:80/path"],
    ] {
        assert_eq!(masked(arguments), arguments.join(" "));
    }
}
