use std::path::Path;

use super::*;
use crate::scenario::parse_for;

fn read(text: &str) -> Result<PulsarOptions, String> {
    let options: PulsarOptions = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    options.check().map(|()| options)
}

#[test]
fn everything_has_a_default_and_can_be_set() {
    assert_eq!(read(""), Ok(PulsarOptions::default()));
    let options = read(
            "token = { env = 'T' }\nbatching = false\nbatch_bytes = '1MiB'\ncompression = 'zstd'\n\
             access_mode = 'exclusive-with-fencing'\nsubscription = 'key-shared'\nsend_timeout = '5s'\nhashing = 'murmur3'",
        )
        .unwrap();
    assert_eq!(options.token, Some(Secret::Env("T".to_owned())));
    assert_eq!((options.batching, options.batch_bytes), (false, 1 << 20));
    assert_eq!(options.subscription, Some(SubscriptionType::KeyShared));
    assert_eq!(options.send_timeout, Duration::from_secs(5));
}

#[test]
fn a_subscription_lets_all_members_in() {
    let of_group = |text: &str, members| SubscriptionType::for_group(&read(text).unwrap(), members);
    assert_eq!(of_group("", 1), Ok(SubscriptionType::Exclusive));
    assert_eq!(of_group("", 2), Ok(SubscriptionType::Failover));
    assert_eq!(of_group("subscription = 'exclusive'", 1), Ok(SubscriptionType::Exclusive));
    assert_eq!(of_group("subscription = 'shared'", 1), Ok(SubscriptionType::Shared));
    for key in ["deliver_after = '1s'", "negative_acks = 0.1"] {
        let refused = of_group(&format!("{key}\nsubscription = 'failover'"), 1).unwrap_err();
        assert!(refused.contains("key-shared") && of_group(key, 1).is_err(), "{refused}");
        assert_eq!(of_group(&format!("{key}\nsubscription = 'shared'"), 1), Ok(SubscriptionType::Shared));
    }
    assert!(of_group("subscription = 'exclusive'", 2).unwrap_err().contains("`consumers.members` is 2"));
}

#[test]
fn a_delay_for_which_consumers_are_not_waited_is_refused() {
    let check = |client: &str, more: &str| {
        let pulsar = "{ subscription = \"shared\", deliver_after = \"30s\" }";
        let broker = format!("{{ kind = \"pulsar\", client = \"{client}\", address = \"h:1\", pulsar = {pulsar} }}");
        let text = format!("broker = {broker}\nrun.messages = 1\n{more}");
        let plan = parse_for(crate::engine::kinds(), &text, "a.toml", &[], Path::new(""));
        plan.map(drop).map_err(|error| error.to_string())
    };
    let clients: &[&str] = if cfg!(feature = "pulsar-rs") { &["native", "pulsar-rs"] } else { &["native"] };
    for client in clients {
        let refusal = check(client, "consumers = {}").unwrap_err();
        assert!(refusal.contains("make `run.drain_deadline` longer"), "{refusal}");
        assert!(refusal.contains("`broker.pulsar.deliver_after`, messages arrive 30s after"), "{refusal}");
        let refusal = check(client, "consumers = {}\nrun.catch_up_deadline = \"20s\"").unwrap_err();
        assert!(refusal.contains("make `run.catch_up_deadline` longer"), "{refusal}");
        assert_eq!(check(client, "consumers = {}\nrun.drain_deadline = \"31s\""), Ok(()));
        assert_eq!(check(client, ""), Ok(()), "nothing is waited for");
    }
}

#[test]
fn what_cannot_be_is_refused_without_repeating_a_token() {
    for wrong in [
        "namespace = 'public'",
        "batch_messages = 0",
        "batch_bytes = 0",
        "send_timeout = '0s'",
        "send_timeout = '9ms'",
        "keep_alive = '0s'",
        "exclusive_timeout = '0s'",
        "linger = '0s'",
        "linger = '1ms'\ndeliver_after = '1s'",
        "negative_acks = 1.5",
        "negative_acks = -0.1",
        "linger = '1ms'\nbatching = false",
        "batch_by_key = true\nbatching = false",
        "deliver_after = '500us'",
        "tokn = 'x'",
        "oauth2_issuer_url = 'https://issuer'",
        "oauth2_issuer_url = 'issuer'\noauth2_private_key = 'x'",
        "oauth2_issuer_url = 'https://me:secret@issuer'\noauth2_private_key = 'x'",
        "oauth2_issuer_url = 'https://issuer'\noauth2_private_key = 'x'\ntoken = 'y'",
        "oauth2_audience = 'urn:pulsar'",
        "oauth2_private_key = 'x'",
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    let refusal = read("token = { enc = 'eyJhbGciOi' }").unwrap_err();
    assert!(!refusal.contains("eyJ"), "{refusal}");
}
