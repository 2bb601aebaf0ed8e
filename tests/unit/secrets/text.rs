use proptest::prelude::*;

use super::*;

#[test]
fn secrets_are_masked_in_every_notation() {
    let text = r#"
password = "hunter2"
sasl = { username = "a", password = "hun\"ter2", mechanism = "PLAIN" }
password = { env = "PASSWORD" }
"ssl.key.password" = 'hunter2' # why
token = """hunter
hunter
2"""
password = "hunter2
password = hunter2
passwords = ["hunter2",
  "hunter2"]
{"password": "hunter2", "a": 1}
count = 1 # the password was: hunter2
address = "me:hunter2@host:1"
headers = { x = "Bearer hunter2", mail = "me@example.org" }
"#;
    insta::assert_snapshot!(mask_text(text), @r##"
        password = "***"
        sasl = { username = "a", password = "***", mechanism = "PLAIN" }
        password = { env = "PASSWORD" }
        "ssl.key.password" = '***' # why
        token = """***
        ***
        ***"""
        password = "***
        password = ***
        passwords = [***
        ***]
        {"password": "***", "a": 1}
        count = 1 # the password was: ***
        address = "***@host:1"
        headers = { x = "Bearer ***", mail = "me@example.org" }
        "##);
}

#[test]
fn values_are_masked_in_part() {
    for (value, shown) in [
        ("https://me:hun@ter2@host/a@b", "https://***@b"),
        ("https://host/?a=b&access_token=hunter2&c=d", "https://host/?a=b&access_token=***&c=d"),
        ("kafka://me:hunter2", "kafka://***"),
        ("kafka://me:hunter2/orders?acks=1", "kafka://***"),
        ("kafka://a:9092,me:hunter2,b:9092", "kafka://***"),
        ("kafka://a:9092,[::1]:9092,[::1],b/orders:eu", "kafka://a:9092,[::1]:9092,[::1],b/orders:eu"),
        ("PLAINTEXT://:9092,INTERNAL_1://b:9093", "PLAINTEXT://:9092,INTERNAL_1://b:9093"),
        ("module required password=\"hunter2\";", "module required password=\"***\";"),
        ("basic hunter2", "basic ***"),
        ("Basic load, 12:30, me@host", "Basic load, 12:30, me@host"),
        // A word may begin behind any white space, whatever its length in UTF-8.
        ("a\u{a0}me:hunter2@host", "a\u{a0}***@host"),
        ("{\"token\": \"${uuid}\"}", "{\"token\": \"${uuid}\"}"),
    ] {
        assert_eq!(mask_value(value), shown);
    }
}

#[test]
fn offsets_follow_the_masked_line() {
    let line = r#"sasl = { password = "a-long-secret", user = "a" }"#;
    let masked = MaskedLine::new(line, &mut None);
    let user = line.find("user").unwrap();
    assert_eq!(&masked.text[masked.shown_at(user)..][..4], "user");
    assert_eq!(masked.shown_at(3), 3);
}

proptest! {
    #[test]
    fn nothing_panics(text in "[a-z@:/=#\"' {}é\\[\\]\n]{0,60}|.{0,60}") {
        mask_text(&text);
        mask_value(&text);
        mask_comments(&text);
    }
}
