//! A Redis server by a script: it keeps what SET writes in transactions.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Result, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Serves until the process ends.
pub struct ScriptedRedis {
    port: u16,
}

struct Kept {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    values: HashMap<String, Vec<u8>>,
    /// How often each key was written.
    writes: HashMap<String, usize>,
    /// Whether a transaction was held already, or none is to be.
    has_held: bool,
    /// What GET answers whatever was written, as if another program had written it.
    foreign: Option<&'static str>,
}

impl ScriptedRedis {
    /// It holds the answer to the first transaction until another connection has written the same key.
    pub fn that_holds() -> Self {
        Self::start(State { has_held: false, ..State::default() })
    }

    /// Its keys have other values than were written to them.
    pub fn that_forgets() -> Self {
        Self::start(State { has_held: true, foreign: Some("another"), ..State::default() })
    }

    fn start(state: State) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let kept = Arc::new(Kept { state: Mutex::new(state), changed: Condvar::new() });
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let kept = kept.clone();
                // The client may leave at any time.
                thread::spawn(move || serve(client, &kept));
            }
        });
        ScriptedRedis { port }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

fn serve(mut client: TcpStream, kept: &Kept) -> Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut queued: Option<Vec<Vec<Vec<u8>>>> = None;
    loop {
        let command = read_command(&mut reader)?;
        let name = String::from_utf8_lossy(&command[0]).to_uppercase();
        let reply = match (name.as_str(), &mut queued) {
            ("MULTI", _) => {
                queued = Some(Vec::new());
                "+OK\r\n".to_owned()
            }
            ("DISCARD", _) => {
                queued = None;
                "+OK\r\n".to_owned()
            }
            ("EXEC", _) => execute(queued.take().unwrap_or_default(), kept),
            (_, Some(queued)) => {
                queued.push(command);
                "+QUEUED\r\n".to_owned()
            }
            ("GET", _) => {
                let state = kept.state.lock().unwrap();
                let value = state.values.get(&text(&command[1])).map(|value| text(value)).unwrap_or_default();
                let value = state.foreign.unwrap_or(&value);
                format!("${}\r\n{value}\r\n", value.len())
            }
            ("INFO", _) => "$0\r\n\r\n".to_owned(),
            _ => "+OK\r\n".to_owned(),
        };
        client.write_all(reply.as_bytes())?;
    }
}

fn execute(commands: Vec<Vec<Vec<u8>>>, kept: &Kept) -> String {
    let mut state = kept.state.lock().unwrap();
    for command in &commands {
        state.values.insert(text(&command[1]), command[2].clone());
        *state.writes.entry(text(&command[1])).or_default() += 1;
    }
    kept.changed.notify_all();
    if !std::mem::replace(&mut state.has_held, true)
        && let Some(first) = commands.first()
    {
        let key = text(&first[1]);
        drop(kept.changed.wait_while(state, |state| state.writes[&key] < 2).unwrap());
    }
    format!("*{}\r\n{}", commands.len(), "+OK\r\n".repeat(commands.len()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An array of bulk strings: <https://redis.io/docs/latest/develop/reference/protocol-spec/>.
fn read_command(reader: &mut impl BufRead) -> Result<Vec<Vec<u8>>> {
    let count = read_number(reader)?;
    (0..count)
        .map(|_| {
            let mut bytes = vec![0; read_number(reader)? + 2];
            reader.read_exact(&mut bytes)?;
            bytes.truncate(bytes.len() - 2);
            Ok(bytes)
        })
        .collect()
}

fn read_number(reader: &mut impl BufRead) -> Result<usize> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line[1..].trim().parse().unwrap())
}
