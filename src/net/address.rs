//! Addresses of servers: `host:port`, or `[IPv6]:port`.

use std::net::Ipv6Addr;

/// The host, with the brackets of an IPv6 address, and the port. `None`: the text is not an address.
pub fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    port.parse().ok().filter(|_| !host.is_empty()).map(|port| (host, port))
}

/// The host without brackets; the whole text where it has no port.
pub fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']'])
}

/// `host:port`, with brackets around an IPv6 address.
pub fn joined(host: &str, port: impl std::fmt::Display) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Checks an address that a scenario gives.
///
/// # Errors
/// A sentence with the mistake. It repeats the text only where the text holds no credentials.
pub fn check(text: &str) -> Result<(), String> {
    if text.contains("://") {
        return Err("an address has no scheme".to_owned());
    }
    if text.contains('@') {
        return Err("an address holds no credentials: they go into `[broker.security.sasl]`".to_owned());
    }
    if let Some(written) = bracketed_ipv6(text) {
        return Err(format!("an IPv6 address has brackets, and a port: write \"{written}\""));
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(format!("the address \"{text}\" has no port"));
    };
    // It may be a password.
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("what follows the last `:` is not a port: ports are numbers from 1 to 65535".to_owned());
    }
    let bracketed = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(format!("the address \"{text}\" has no host before its port"));
    }
    // `user:password:9092` is not repeated.
    if host.contains(':') && !bracketed {
        return Err("what stands before the last `:` is not a host: an address is HOST:PORT".to_owned());
    }
    if let Some(character) = host.chars().find(|character| !is_of_a_host(*character)) {
        return Err(format!("the host of an address cannot hold `{character}`"));
    }
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok(()),
        _ if port.len() > 5 => {
            Err("what follows the last `:` is not a port: ports are numbers from 1 to 65535".to_owned())
        }
        _ => Err(format!("\"{port}\" is not a port: ports are numbers from 1 to 65535")),
    }
}

/// Of names of hosts in any script, and of IPv6 addresses with their zone.
fn is_of_a_host(character: char) -> bool {
    character.is_alphanumeric() || "-._%:[]".contains(character)
}

/// How an IPv6 address without brackets is written with them: its last part is taken for the port where that leaves an address.
fn bracketed_ipv6(text: &str) -> Option<String> {
    let is_ipv6 = |text: &str| text.parse::<Ipv6Addr>().is_ok();
    match text.rsplit_once(':') {
        Some((host, port)) if is_ipv6(host) && port.parse::<u16>().is_ok_and(|port| port > 0) => {
            Some(format!("[{host}]:{port}"))
        }
        _ if is_ipv6(text.trim_matches(['[', ']'])) => Some(format!("[{}]:PORT", text.trim_matches(['[', ']']))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_host_and_port() {
        for right in ["localhost:9092", "127.0.0.1:1", "[::1]:65535", "broker-1.example:9092"] {
            assert_eq!(check(right), Ok(()), "{right}");
        }
        for wrong in ["localhost", ":9092", "::1:9092", "host:0", "host:65536", "kafka://host:1", "u:p@host:1", "a b:1"]
        {
            assert!(check(wrong).is_err(), "{wrong}");
        }
        assert!(check("host:65536").unwrap_err().contains("65536"));
        for secret in ["me:hunter2", "me:hunter2:9092", "me:1234567890", "a:hunter2:x:1"] {
            let error = check(secret).unwrap_err();
            assert!(!error.contains("hunter2") && !error.contains("1234567890"), "it may be a password: {error}");
        }
        assert!(check("host#part:9092").unwrap_err().contains('#'));
    }

    #[test]
    fn an_ipv6_address_without_brackets_is_shown_with_them() {
        assert!(check("::1:9092").unwrap_err().contains("\"[::1]:9092\""));
        for without_port in ["fe80::1", "[fe80::1]"] {
            assert!(check(without_port).unwrap_err().contains("\"[fe80::1]:PORT\""), "{without_port}");
        }
    }

    #[test]
    fn addresses_are_split_at_their_port() {
        assert_eq!((split("[::1]:80"), host("[::1]:80")), (Some(("[::1]", 80)), "::1"));
        assert_eq!((split("host"), host("host")), (None, "host"));
        let both = [joined("::1", 80), joined("[::1]", 80), joined("host", 80)];
        assert_eq!(both, ["[::1]:80", "[::1]:80", "host:80"]);
        assert_eq!((split(":80"), split("host:65536")), (None, None));
    }
}
