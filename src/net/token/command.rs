//! A program that prints a token: what a cloud's own tool knows, or a company's.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

use super::issued::{Issued, lifetime, number, until_unix};
use crate::printable::printable;
use crate::secrets::mask_text;

/// Most bytes of what a command prints that are read.
const MAX_OUTPUT: u64 = 1 << 20;

/// What programs call a token in JSON: Entra's `az account get-access-token`, OAuth 2.0 (RFC 6749, section 5.1), and others.
const TOKENS: [&str; 4] = ["access_token", "accessToken", "token", "id_token"];

/// Its lifetime in seconds.
const LIFETIMES: [&str; 2] = ["expires_in", "expiresIn"];

/// Its end, in seconds since 1970 or as RFC 3339 has it. `expiresOn` of `az` is in local time, without saying so, and is not here.
const ENDS: [&str; 5] = ["expires_on", "expires_at", "expiry", "expiration", "token_expiry"];

/// Runs a command and reads the token that it prints: alone, or in JSON with its end.
///
/// # Errors
/// A sentence: why there is no token, or none that is valid. What the command prints to its standard output is not repeated.
pub async fn run(words: &[String], limit: Duration) -> Result<Issued, String> {
    let asked = Instant::now();
    let [program, arguments @ ..] = words else { return Err("it names no program".to_owned()) };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| not_started(&error))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let ended = timeout(limit, async {
        // It ends when both pipes are read: it may wait for that.
        let (printed, complaints) = tokio::try_join!(read(stdout), read(stderr))?;
        Ok::<_, io::Error>((printed, complaints, child.wait().await?))
    });
    let ended = ended.await.map_err(|_| format!("it has not ended within {limit:?}"))?;
    let (printed, complaints, status) = ended.map_err(|error| format!("its output cannot be read: {error}"))?;
    if !status.success() {
        return Err(failed(status, &complaints));
    }
    let issued = read_token(&printed, asked)?;
    if issued.has_ended() {
        return Err("it printed a token that has ended already".to_owned());
    }
    Ok(issued)
}

fn not_started(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "the program does not exist: install it, or write its path".to_owned(),
        _ => format!("it cannot be started: {error}"),
    }
}

async fn read(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MAX_OUTPUT).read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// With the last line of its standard error.
fn failed(status: ExitStatus, complaints: &str) -> String {
    let last = complaints.lines().rev().find(|line| !line.trim().is_empty());
    let last = last.map(|line| format!(": {}", mask_text(&printable(line.trim())))).unwrap_or_default();
    format!("it failed ({status}){last}")
}

fn read_token(printed: &str, asked: Instant) -> Result<Issued, String> {
    let printed = printed.trim();
    let (text, lifetime) = if printed.starts_with('{') {
        // Serde's own words would repeat parts of it.
        let json: Value = serde_json::from_str(printed).map_err(|_| "it printed malformed JSON".to_owned())?;
        let text = TOKENS.iter().find_map(|key| json[*key].as_str()).map(str::to_owned);
        (text.ok_or("it printed JSON without a `token` or an `access_token`")?, lifetime_in(&json))
    } else {
        (printed.to_owned(), None)
    };
    if text.is_empty() {
        return Err("it printed nothing".to_owned());
    }
    if text.contains(|character: char| character.is_whitespace() || character.is_control()) {
        return Err("it printed something else than one token, or JSON with one".to_owned());
    }
    Ok(Issued::new(&text, asked, lifetime))
}

/// As the JSON beside the token says it.
fn lifetime_in(json: &Value) -> Option<Duration> {
    let end = |value: &Value| {
        let at = || value.as_str()?.parse::<jiff::Timestamp>().ok().map(|time| time.as_second() as f64);
        number(value).or_else(at).map(until_unix)
    };
    let of_lifetime = LIFETIMES.iter().find_map(|key| lifetime(&json[*key]));
    of_lifetime.or_else(|| ENDS.iter().find_map(|key| end(&json[*key])))
}
