use std::os::unix::fs::PermissionsExt;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

const LIMIT: Duration = Duration::from_secs(30);

fn words(words: &[&str]) -> TokenSource {
    TokenSource::Command(words.iter().map(|word| (*word).to_owned()).collect())
}

fn shell(script: &str) -> TokenSource {
    words(&["sh", "-c", script])
}

fn token(source: TokenSource) -> Token {
    Token::new(source, LIMIT).unwrap()
}

async fn refusal(source: TokenSource) -> String {
    token(source).current().await.unwrap_err()
}

/// A JSON Web Token without a signature that ends in `seconds`.
fn web_token(seconds: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let claims = URL_SAFE_NO_PAD.encode(format!("{{\"sub\":\"me\",\"exp\":{}}}", now + seconds));
    format!("eyJhbGciOiJub25lIn0.{claims}.")
}

#[tokio::test]
async fn a_file_is_read_again_and_may_be_missing_meanwhile() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "first\n").unwrap();
    let read = token(TokenSource::Secret(Secret::File(file.path().to_owned())));
    assert_eq!(&*read.current().await.unwrap(), "first");
    std::fs::write(file.path(), "second\n").unwrap();
    assert_eq!(&*read.current().await.unwrap(), "second");
    std::fs::write(file.path(), "").unwrap();
    assert_eq!(&*read.current().await.unwrap(), "second");
    std::fs::remove_file(file.path()).unwrap();
    assert_eq!(&*read.current().await.unwrap(), "second");
    assert!(refusal(TokenSource::Secret(Secret::File("/does/not/exist".into()))).await.contains("/does/not/exist"));
}

#[tokio::test]
async fn a_command_prints_a_token_alone_or_in_json() {
    let jwt = web_token(3600);
    for (printed, expected) in [
        (format!("{jwt}\n"), jwt.as_str()),
        ("opaque".to_owned(), "opaque"),
        (r#"{"access_token": "a", "expires_in": 3600, "token_type": "Bearer"}"#.to_owned(), "a"),
        (r#"{"accessToken": "b", "expiresOn": "2020-01-01 00:00:00", "expires_on": 4102444800}"#.to_owned(), "b"),
        (r#"{"token": "c", "expiry": "2100-01-01T00:00:00Z"}"#.to_owned(), "c"),
    ] {
        let found = token(words(&["printf", "%s", &printed])).current().await;
        assert_eq!(found.as_deref(), Ok(expected), "{printed}");
    }
}

#[tokio::test]
async fn a_command_is_run_again_when_its_token_nears_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let counter = folder.path().join("runs");
    // Each run adds a line, and prints how many there are.
    let script = |json: &str| format!("echo >> {0}; n=$(wc -l < {0}); printf '{json}' \"$((n))\"", counter.display());
    let kept = token(shell(&script(r#"{"token": "%s", "expires_in": 3600}"#)));
    assert_eq!(&*kept.current().await.unwrap(), "1");
    assert_eq!(&*kept.current().await.unwrap(), "1");
    let short = token(shell(&script(r#"{"token": "%s", "expires_in": 0.000001}"#)));
    // Its time is over before it can be used.
    assert!(short.current().await.unwrap_err().contains("has ended already"));
    assert_eq!(std::fs::read_to_string(&counter).unwrap().lines().count(), 2);
    assert!(short.current().await.is_err());
    assert_eq!(std::fs::read_to_string(&counter).unwrap().lines().count(), 3);
}

/// While the command fails, the last token holds if it has not ended.
#[tokio::test]
async fn a_valid_token_outlives_a_source_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let printed = folder.path().join("token");
    std::fs::write(&printed, "first").unwrap();
    let kept = token(words(&["cat", printed.to_str().unwrap()]));
    kept.current().await.unwrap();
    let now = Instant::now();
    let age = async |ends: Option<Instant>| {
        let mut last = kept.last.lock().await;
        let issued = last.as_mut().unwrap();
        (issued.fresh_until, issued.ends) = (now, ends);
    };
    std::fs::remove_file(&printed).unwrap();
    age(Some(now + LIMIT)).await;
    assert_eq!(&*kept.current().await.unwrap(), "first");
    age(Some(now)).await;
    assert!(kept.current().await.unwrap_err().contains("`token_command` (cat): it failed"));
    std::fs::write(&printed, "second").unwrap();
    assert_eq!(&*kept.current().await.unwrap(), "second");
}

#[tokio::test]
async fn a_command_that_gives_no_token_says_why() {
    let is = |found: String, words: &[&str]| {
        assert!(words.iter().all(|word| found.contains(word)), "{found}");
        assert!(!found.contains("hunter2"), "{found}");
    };
    is(refusal(words(&["/does/not/exist"])).await, &["`token_command` (/does/not/exist): the program does not exist"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
    is(refusal(words(&[file.path().to_str().unwrap()])).await, &["cannot be started"]);
    let fails = "echo hunter2; echo first >&2; echo 'log in first: password=hunter2' >&2; echo >&2; exit 3";
    is(refusal(shell(fails)).await, &["exit status: 3", ": log in first: password=***"]);
    is(refusal(shell("kill -9 $$")).await, &["signal: 9"]);
    is(refusal(shell("true")).await, &["it printed nothing"]);
    is(refusal(shell("echo hunter2 is it")).await, &["something else than one token"]);
    is(refusal(shell("echo '{\"hunter2\": 1}'")).await, &["JSON without a `token`"]);
    is(refusal(shell("echo '{\"token\": hunter2'")).await, &["malformed JSON"]);
    is(refusal(words(&["echo", &web_token(-5)])).await, &["has ended already"]);
    let limit = Duration::from_millis(1);
    let slow = Token::new(words(&["tail", "-f", "/dev/null"]), limit).unwrap().current().await.unwrap_err();
    is(slow, &["it has not ended within 1ms"]);
}
