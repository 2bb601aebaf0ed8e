//! What stands between a client and a server: a load balancer, and an address that never answers.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

/// Starts a load balancer, which passes its connections on to the servers in turn. Returns its address.
pub fn load_balancer(servers: &[&str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let servers: Vec<String> = servers.iter().map(|&server| server.to_owned()).collect();
    thread::spawn(move || {
        for (client, server) in listener.incoming().map_while(Result::ok).zip(servers.iter().cycle()) {
            let server = TcpStream::connect(server).unwrap();
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    address
}

/// An address whose connections are never answered, for as long as the value lives.
pub struct BlackHole(TcpListener);

impl BlackHole {
    pub fn open() -> Self {
        BlackHole(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub fn address(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }
}
