//! A registry of schemas, with the REST interface of Confluent's as far as clients that write messages use it.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::scripted_issuer::{listen, read};

/// The first id that it gives.
pub const FIRST_ID: u32 = 100_001;

/// Listens until the test ends.
pub struct Registry {
    pub url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    requests: Vec<String>,
    /// Subjects with their bodies of requests.
    schemas: Vec<(String, Value)>,
}

impl Registry {
    /// Takes requests with this header `Authorization` only; any without.
    pub fn start(authorization: Option<&'static str>) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let own = state.clone();
        let address = listen(move |stream, _| serve(stream, &mut own.lock().unwrap(), authorization));
        Registry { url: format!("http://{address}"), state }
    }

    /// The first line of each request.
    pub fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }

    /// The subject and the body of each schema.
    pub fn schemas(&self) -> Vec<(String, Value)> {
        self.state.lock().unwrap().schemas.clone()
    }
}

fn serve(mut stream: TcpStream, state: &mut State, authorization: Option<&str>) -> io::Result<()> {
    let (head, body) = read(&stream)?;
    let line = head.lines().next().unwrap_or_default().to_owned();
    let allowed = authorization.is_none_or(|wanted| head.to_lowercase().contains(&wanted.to_lowercase()));
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    let (status, answer) = if allowed {
        respond(&line, body, state)
    } else {
        (401, json!({"error_code": 401, "message": "Unauthorized"}))
    };
    state.requests.push(line);
    let answer = answer.to_string();
    write!(stream, "HTTP/1.1 {status} -\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}", answer.len())
}

fn respond(line: &str, body: Value, state: &mut State) -> (u16, Value) {
    let path = line.strip_prefix("POST /subjects/").and_then(|rest| rest.split(' ').next());
    let Some(path) = path else { return (404, json!({"error_code": 404, "message": "HTTP 404 Not Found"})) };
    let error = |status: u16, code: u32, message: &str| (status, json!({"error_code": code, "message": message}));
    let text = body["schema"].as_str().unwrap_or_default().to_owned();
    let found =
        |subject: &str, state: &State| state.schemas.iter().position(|one| *one == (subject.to_owned(), body.clone()));
    let Some(subject) = path.strip_suffix("/versions") else {
        let id = found(path, state).map(|index| FIRST_ID + index as u32);
        return match id {
            Some(id) => (200, json!({"subject": path, "id": id, "version": 3, "schema": text})),
            None if state.schemas.iter().any(|(subject, _)| subject == path) => error(404, 40403, "Schema not found"),
            None => error(404, 40401, "Subject 'x' not found."),
        };
    };
    match text {
        text if text.contains("incompatible") => error(409, 409, "Schema being registered is incompatible"),
        text if text.contains("unusable") => error(422, 42201, "Invalid schema \u{1b}[31m"),
        _ => {
            let index = found(subject, state).unwrap_or_else(|| {
                state.schemas.push((subject.to_owned(), body.clone()));
                state.schemas.len() - 1
            });
            (200, json!({"id": FIRST_ID + index as u32}))
        }
    }
}
