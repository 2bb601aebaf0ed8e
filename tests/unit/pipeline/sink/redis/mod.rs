use super::*;
use crate::measure::Clock;

fn connection(options: &str) -> Result<Box<dyn Database>, String> {
    let options: toml::Table = options.parse().unwrap();
    open(&Opening { options: &options, columns: &[0], topic: "t", clock: Clock::start(), connections: 1 })
}

fn to(options: &str) -> Connection {
    let options: Options = toml::from_str(options).unwrap();
    let client = client(&options).unwrap();
    let (sample, samples) = (Arc::default(), Arc::default());
    Connection { client, options, column: Some(0), connection: None, sample, samples }
}

fn words(pipeline: &Pipeline) -> Vec<String> {
    let packed = String::from_utf8(pipeline.get_packed_pipeline()).unwrap();
    packed.split("\r\n").filter(|word| !word.starts_with(['$', '*'])).map(str::to_owned).collect()
}

#[test]
fn the_driver_is_given_an_ipv6_address_without_brackets() {
    let options: Options = toml::from_str("address = '[::1]:6379'\nkey = 'a'").unwrap();
    let client = client(&options).unwrap();
    assert_eq!(*client.get_connection_info().addr(), ConnectionAddr::Tcp("::1".to_owned(), 6379));
}

#[test]
fn a_batch_is_one_transaction() {
    let connection = to("address = 'h:1'\nkey = 'device_id'\nprefix = 'p:'");
    let batch = Batch::from_payloads(&[r#"{"device_id":"a"}"#, r#"{"device_id":7}"#], &["device_id"]);
    let expected = ["MULTI", "SET", "p:a", r#"{"device_id":"a"}"#, "SET", "p:7", r#"{"device_id":7}"#, "EXEC", ""];
    assert_eq!(words(&connection.pipeline(&batch).0), expected);
}

#[test]
fn a_row_whose_key_is_null_is_refused_and_not_written() {
    for transaction in [true, false] {
        let connection = to(&format!("address = 'h:1'\nkey = 'a'\ntransaction = {transaction}"));
        let batch = Batch::from_payloads(&[r#"{"a":null}"#, r#"{"a":"b"}"#], &["a"]);
        let (pipeline, rows) = connection.pipeline(&batch);
        assert!(!words(&pipeline).iter().any(|word| word == "null"), "{:?}", words(&pipeline));
        let reply = Value::Okay;
        let replies = if transaction { vec![Value::Okay, Value::Array(vec![reply])] } else { vec![reply] };
        let written = connection.account(&batch, &rows, replies).unwrap();
        let message = "the field that is the key is null".to_owned();
        let refused = RefusedRow { row: 0, class: FailureClass::Refused, message };
        assert_eq!((written.rows, written.refused), (1, vec![refused]));
    }
}

#[test]
fn temporary_refusal_differs_from_a_refused_row() {
    let batch = Batch::from_payloads(&[r#"{"a":1}"#, r#"{"a":2}"#], &["a"]);
    let account = |transaction: bool, replies: &str| {
        let connection = to(&format!("address = 'h:1'\nkey = 'a'\ntransaction = {transaction}"));
        let replies =
            replies.split_inclusive("\r\n").map(|one| redis::parse_redis_value(one.as_bytes()).unwrap()).collect();
        connection.account(&batch, &[(0, 0), (1, 1)], replies)
    };
    let refused = |word: &str| {
        let aborted = format!("+OK\r\n-{word} a reason\r\n-EXECABORT Transaction discarded\r\n");
        [account(false, &format!("+OK\r\n-{word} a reason\r\n")), account(true, &aborted)]
    };
    for word in ["LOADING", "READONLY", "MASTERDOWN", "NOPERM", "OOM", "NOAUTH", "BUSY"] {
        for error in refused(word).map(Result::unwrap_err) {
            assert!(error.retriable && error.message.contains(word), "{error:?}");
            let is_away = ["LOADING", "READONLY", "MASTERDOWN", "BUSY"].contains(&word);
            assert_eq!(error.class == FailureClass::Unavailable, is_away, "{error:?}");
        }
    }
    let [_, in_transaction] = refused("MOVED 1 127.0.0.1:2");
    let error = in_transaction.unwrap_err();
    assert!(!error.retriable && error.message.contains("Redis Cluster"), "{error:?}");
    let written = account(false, "+OK\r\n-WRONGTYPE it is a list\r\n").unwrap();
    assert_eq!(written.rows, 1);
    let message = "WRONGTYPE it is a list".to_owned();
    assert_eq!(written.refused, [RefusedRow { row: 1, class: FailureClass::Refused, message }]);
}

#[test]
fn what_is_missing_is_said() {
    assert!(connection("address = 'h:1'").err().unwrap().contains("key"));
    assert!(connection("address = 'h:1'\nkey = 'a'\ncommand = 'hset'").err().unwrap().contains("name"));
    assert!(connection("address = 'h:1'\nkey = 'a'\nname = 'n'").err().unwrap().contains("`name` has no effect"));
    let prefix = "address = 'h:1'\ncommand = 'xadd'\nname = 'n'\nprefix = 'p'";
    assert!(connection(prefix).err().unwrap().contains("`prefix` has no effect"));
    assert!(connection("address = 'h'\nkey = 'a'").err().unwrap().contains("port"));
    assert!(connection("address = 'redis://:pw@h:1'\nkey = 'a'").err().unwrap().contains("host:port"));
    assert!(connection("address = 'h:1'\nkey = 'a'\nca = 'ca.pem'").err().unwrap().contains("tls = true"));
    assert!(connection("address = 'h:1'\nkey = 'a'\nusername = 'u'").err().unwrap().contains("password"));
}
