//! Pulsar's client with tokens from an issuer, by OAuth 2.0.
#![cfg(feature = "pulsar")]

use std::sync::{Arc, Mutex};

use crate::harness::scripted_issuer::{Issuer, KEY};
use crate::harness::scripted_pulsar::{Request, Scripted, challenge, receipt};
use crate::harness::{Bench, assert_acknowledged};

/// What the options and the tables of a scenario have in common.
fn scenario(server: &Scripted, issuer: &Issuer, more: &str) -> String {
    let options = format!(
        "oauth2_issuer_url = \"{}/\"\noauth2_private_key = {{ file = \"key.json\" }}\noauth2_audience = \"urn:pulsar\"\n{more}",
        issuer.url
    );
    format!("{}[producers]\ncount = 2\nbatch = 10\n[run]\nmessages = 100\n", server.broker(&options))
}

/// A server that notes the tokens of those who log in.
fn noting() -> (Scripted, Arc<Mutex<Vec<u64>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let server = Scripted::start(move |request| match request {
        Request::Authenticate { token } => {
            noted.lock().unwrap().push(token);
            None
        }
        _ => None,
    });
    (server, seen)
}

#[test]
fn a_token_is_kept_until_it_nears_its_end() {
    let (issuer, (server, seen)) = (Issuer::start(3600), noting());
    let bench = Bench::new(&scenario(&server, &issuer, "oauth2_scope = \"a b\""));
    bench.write("key.json", KEY);
    assert_acknowledged(&bench.run(&[]).expect(0).record(), 100);
    assert_eq!(
        issuer.forms(),
        ["grant_type=client_credentials&client_id=me&client_secret=s%26cret&audience=urn%3Apulsar&scope=a%20b"]
    );
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty() && seen.iter().all(|token| *token == 1), "{seen:?}");
}

/// These are at their end at once.
#[test]
fn another_token_is_asked_for_when_the_last_one_is_at_its_end() {
    let (issuer, (server, seen)) = (Issuer::start(0), noting());
    let bench = Bench::new(&scenario(&server, &issuer, ""));
    bench.write("key.json", KEY);
    assert_acknowledged(&bench.run(&[]).expect(0).record(), 100);
    let seen = seen.lock().unwrap().clone();
    let most = issuer.forms().len() as u64;
    // The first one proves the credentials; requests to the admin interface have tokens of their own.
    assert!(most > 2 && seen.iter().all(|token| (2..=most).contains(token)), "{seen:?} of {most}");
}

/// The only batch is acknowledged when the client has logged in again.
#[test]
fn a_challenge_is_answered_with_a_new_token() {
    let issuer = Issuer::start(0);
    let (seen, sent) = (Arc::new(Mutex::new(Vec::new())), Mutex::new(None));
    let noted = seen.clone();
    let server = Scripted::start(move |request| match request {
        Request::Authenticate { token } => {
            noted.lock().unwrap().push(token);
            sent.lock().unwrap().take().map(|(producer, first)| vec![receipt(producer, first)])
        }
        Request::Send { producer, first, .. } => {
            *sent.lock().unwrap() = Some((producer, first));
            Some(vec![challenge()])
        }
        _ => None,
    });
    let text =
        scenario(&server, &issuer, "").replace("count = 2", "count = 1").replace("messages = 100", "messages = 10");
    let bench = Bench::new(&text);
    bench.write("key.json", KEY);
    assert_acknowledged(&bench.run(&[]).expect(0).record(), 10);
    let seen = seen.lock().unwrap().clone();
    let [greeting, answer] = seen[..] else { panic!("{seen:?}") };
    assert!(answer > greeting, "{seen:?}");
}

#[test]
fn refused_credentials_are_told_without_the_secret() {
    let (issuer, (server, _)) = (Issuer::start(3600), noting());
    let bench = Bench::new(&scenario(&server, &issuer, ""));
    bench.write("key.json", &KEY.replace("s&cret", "wr0ng"));
    let ended = bench.run(&[]).expect(1);
    ended.complains_of(&["OAuth 2.0", "/token", "401 (invalid_client)"]);
    assert!(!ended.stderr.contains("wr0ng"), "{}", ended.stderr);
    bench.write("key.json", "wr0ng");
    let ended = bench.run(&[]).expect(1);
    ended.complains_of(&["oauth2_private_key", "client_secret"]);
    assert!(!ended.stderr.contains("wr0ng"), "{}", ended.stderr);
}
