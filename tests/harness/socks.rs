//! A SOCKS 5 relay (RFC 1928) that leads every connection to one address, for clients that cannot be given the address
//! themselves.

use std::io::{Read, Result, Write, copy};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;

/// Relays until the process ends; a connection lasts as long as both its ends.
pub struct Relay {
    port: u16,
}

impl Relay {
    pub fn start(address: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = address.to_owned();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let address = address.clone();
                // If one side gives up, its peer reports the loss.
                thread::spawn(move || relay(client, &address));
            }
        });
        Relay { port }
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

fn relay(mut client: TcpStream, address: &str) -> Result<()> {
    let mut methods = vec![0; usize::from(take::<2>(&mut client)?[1])];
    client.read_exact(&mut methods)?;
    client.write_all(&[5, 0])?;
    // Where to is read and not looked at.
    let rest = match take::<4>(&mut client)?[3] {
        1 => 4,
        4 => 16,
        _ => usize::from(take::<1>(&mut client)?[0]),
    };
    client.read_exact(&mut vec![0; rest + 2])?;
    let mut server = TcpStream::connect(address)?;
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    let (mut asked, mut asking) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || copy(&mut asked, &mut asking).and_then(|_| asking.shutdown(Shutdown::Write)));
    copy(&mut server, &mut client)?;
    client.shutdown(Shutdown::Write)
}

fn take<const COUNT: usize>(client: &mut TcpStream) -> Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    client.read_exact(&mut bytes)?;
    Ok(bytes)
}
