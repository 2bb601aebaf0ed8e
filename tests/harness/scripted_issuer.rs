//! An issuer of tokens by OAuth 2.0, which takes one client's credentials and gives out numbers as tokens.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// The content of the client's key file.
pub const KEY: &str = r#"{"type": "client_credentials", "client_id": "me", "client_secret": "s&cret"}"#;

/// Listens until the test ends.
pub struct Issuer {
    pub url: String,
    forms: Arc<Mutex<Vec<String>>>,
}

impl Issuer {
    /// Its tokens are numbers, and last `expires_in` seconds.
    pub fn start(expires_in: u64) -> Self {
        Issuer::giving(expires_in, |number| number.to_string())
    }

    /// The same with other tokens, by their numbers.
    pub fn giving(expires_in: u64, token: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        let forms = Arc::new(Mutex::new(Vec::new()));
        let asked = forms.clone();
        let address = listen(move |stream, address| serve(stream, address, expires_in, &asked, &token));
        Issuer { url: format!("http://{address}"), forms }
    }

    /// The forms that were sent to the token endpoint, in their order. The tokens are counted as they are, from 1.
    pub fn forms(&self) -> Vec<String> {
        self.forms.lock().unwrap().clone()
    }
}

/// Answers one request.
fn serve(
    mut stream: TcpStream,
    address: &str,
    expires_in: u64,
    forms: &Mutex<Vec<String>>,
    token: &dyn Fn(usize) -> String,
) -> io::Result<()> {
    let (request, form) = read(&stream)?;
    let (status, body) = if request.starts_with("GET /.well-known/openid-configuration ") {
        ("200 OK", format!("{{\"issuer\": \"scripted\", \"token_endpoint\": \"http://{address}/token\"}}"))
    } else if request.starts_with("POST /token ") && form.contains("client_id=me&client_secret=s%26cret") {
        let mut forms = forms.lock().unwrap();
        forms.push(form);
        let token = token(forms.len());
        (
            "200 OK",
            format!("{{\"access_token\": \"{token}\", \"token_type\": \"Bearer\", \"expires_in\": {expires_in}}}"),
        )
    } else {
        ("401 Unauthorized", "{\"error\": \"invalid_client\"}".to_owned())
    };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// The lines of a request before its body, and that.
pub(super) fn read(stream: &TcpStream) -> io::Result<(String, String)> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
        head += &line;
    }
    let mut body = String::new();
    reader.take(length).read_to_string(&mut body)?;
    Ok((head, body))
}

/// Serves each connection to a new port in a thread of its own, and returns the address.
pub(super) fn listen(serve: impl Fn(TcpStream, &str) -> io::Result<()> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (own, serve) = (address.clone(), Arc::new(serve));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (own, serve) = (own.clone(), serve.clone());
            // The test sees what the client makes of an error.
            thread::spawn(move || serve(stream, &own));
        }
    });
    address
}
