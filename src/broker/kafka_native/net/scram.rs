//! The login by SASL SCRAM (RFC 5802): SCRAM-SHA-256 (RFC 7677) and SCRAM-SHA-512.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};

use super::super::error::CallError;
use super::control::ControlConnection;
use crate::scenario::Sasl;

/// Which hash is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

/// A server that asks for more rounds wants to keep the client busy.
const MAX_ROUNDS: u32 = 1 << 20;

/// A server that asks for fewer makes it cheap to guess the password from what it hears (RFC 7677, section 4; `ScramMechanism` of Kafka has
/// the same minimum).
const MIN_ROUNDS: u32 = 4096;

/// Logs in.
///
/// # Errors
/// When the node refuses the credentials, or does not prove that it knows them.
pub(super) async fn log_in(
    connection: &mut ControlConnection,
    hash: Hash,
    sasl: &Sasl,
    password: &str,
) -> Result<(), CallError> {
    let nonce = format!("{:032x}", rand::random::<u128>());
    let scram = Scram::begin(hash, &sasl.username, password, nonce);
    let refused = |reason: &str| CallError::Authorisation(reason.to_owned());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| refused("a SCRAM message is not text"));
    let first = text(&connection.sasl_authenticate(scram.first().into_bytes()).await?)?;
    let proof = scram.prove(&first).map_err(refused)?;
    let last = text(&connection.sasl_authenticate(proof.message.clone().into_bytes()).await?)?;
    if proof.is_confirmed_by(&last) { Ok(()) } else { Err(refused("the broker does not know the password")) }
}

/// A login that has begun.
struct Scram<'a> {
    hash: Hash,
    password: &'a str,
    nonce: String,
    first_bare: String,
}

/// The last message to the server, and what it must answer.
struct Proof {
    message: String,
    server_signature: Vec<u8>,
}

impl<'a> Scram<'a> {
    /// `nonce` is random text without commas.
    fn begin(hash: Hash, username: &str, password: &'a str, nonce: String) -> Self {
        let name = username.replace('=', "=3D").replace(',', "=2C");
        Scram { hash, password, first_bare: format!("n={name},r={nonce}"), nonce }
    }

    /// The first message to the server.
    fn first(&self) -> String {
        format!("n,,{}", self.first_bare)
    }

    /// The answer to the server's first message.
    ///
    /// # Errors
    /// When the message is malformed or is not an answer to this client.
    fn prove(&self, server_first: &str) -> Result<Proof, &'static str> {
        let attribute = |name: &str| server_first.split(',').find_map(|part| part.strip_prefix(name));
        let malformed = "the server's first SCRAM message is malformed";
        let nonce = attribute("r=").filter(|nonce| nonce.starts_with(&self.nonce)).ok_or(malformed)?;
        let salt = attribute("s=").and_then(|salt| STANDARD.decode(salt).ok()).ok_or(malformed)?;
        let rounds = attribute("i=").and_then(|rounds| rounds.parse::<u32>().ok()).ok_or(malformed)?;
        if !(MIN_ROUNDS..=MAX_ROUNDS).contains(&rounds) {
            return Err("the server asks for a number of SCRAM rounds that is not between 4096 and 1048576");
        }
        let salted = self.salted(&salt, rounds);
        let client_key = self.hash.mac(&salted, &[b"Client Key"]);
        let stored_key = self.hash.digest(&client_key);
        let last_bare = format!("c=biws,r={nonce}");
        let signed = format!("{},{server_first},{last_bare}", self.first_bare);
        let signature = self.hash.mac(&stored_key, &[signed.as_bytes()]);
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(key, signature)| key ^ signature).collect();
        let server_key = self.hash.mac(&salted, &[b"Server Key"]);
        Ok(Proof {
            message: format!("{last_bare},p={}", STANDARD.encode(proof)),
            server_signature: self.hash.mac(&server_key, &[signed.as_bytes()]),
        })
    }

    /// `Hi` of the RFC, which is PBKDF2 with one block.
    fn salted(&self, salt: &[u8], rounds: u32) -> Vec<u8> {
        let password = self.password.as_bytes();
        let mut last = self.hash.mac(password, &[salt, &1_u32.to_be_bytes()]);
        let mut salted = last.clone();
        for _ in 1..rounds {
            last = self.hash.mac(password, &[&last]);
            salted.iter_mut().zip(&last).for_each(|(sum, byte)| *sum ^= byte);
        }
        salted
    }
}

impl Proof {
    /// Whether the server knows the password as well.
    fn is_confirmed_by(&self, server_last: &str) -> bool {
        let signature = server_last.split(',').find_map(|part| part.strip_prefix("v="));
        signature.and_then(|signature| STANDARD.decode(signature).ok()).as_ref() == Some(&self.server_signature)
    }
}

impl Hash {
    pub(super) fn mac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Hash::Sha256 => mac::<Hmac<Sha256>>(key, parts),
            Hash::Sha512 => mac::<Hmac<Sha512>>(key, parts),
        }
    }

    pub(super) fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Hash::Sha256 => Sha256::digest(bytes).to_vec(),
            Hash::Sha512 => Sha512::digest(bytes).to_vec(),
        }
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("a key of HMAC may have any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The exchange of RFC 7677, section 3.
    #[test]
    fn the_exchange_is_that_of_the_rfc() {
        let scram = Scram::begin(Hash::Sha256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO".to_owned());
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let proof = scram
            .prove("r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
            .unwrap();
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(proof.message, last);
        assert!(proof.is_confirmed_by("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!proof.is_confirmed_by("v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!proof.is_confirmed_by("e=invalid-proof"));
    }

    #[test]
    fn scram_server_with_wrong_nonce_or_rounds_is_refused() {
        let scram = Scram::begin(Hash::Sha512, "a=b,c", "secret", "mine".to_owned());
        assert_eq!(scram.first(), "n,,n=a=3Db=2Cc,r=mine");
        for wrong in
            ["r=other,s=AAAA,i=4096", "r=mine1,s=AAAA,i=4095", "r=mine1,s=AAAA,i=4000000000", "r=mine1,s=%,i=4096", ""]
        {
            assert!(scram.prove(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_of_a_server_is_refused_or_proves_nothing(
            nonce in "(mine)?[ -~]{0,8}",
            salt in "[A-Za-z0-9+/=]{0,12}|\\PC{0,4}",
            rounds in "4096|[0-9]{0,3}|\\PC{0,4}",
            last in "(v=)?\\PC{0,12}",
        ) {
            let scram = Scram::begin(Hash::Sha256, "user", "secret", "mine".to_owned());
            if let Ok(proof) = scram.prove(&format!("r={nonce},s={salt},i={rounds}")) {
                prop_assert!(nonce.starts_with("mine") && !proof.is_confirmed_by(&last));
            }
        }
    }
}
