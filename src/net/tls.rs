//! Certificates and keys as rustls uses them.

use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "sls-emulator")]
use rustls::ServerConfig;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

pub use super::Tls;

/// The certificates that a client trusts, and its own.
pub struct TlsIdentity {
    authorities: Vec<CertificateDer<'static>>,
    pub own: Option<Own>,
    verify_host: bool,
}

/// The client's own certificate and key.
pub struct Own {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl TlsIdentity {
    /// Reads the files that the scenario names.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn read(tls: &Tls) -> Result<Self, String> {
        let authorities = match &tls.ca {
            Some(file) => certificates(file)?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        let own = match (&tls.certificate, &tls.key) {
            (Some(certificate), Some(key)) => {
                let bytes = in_pem(key)?;
                let private = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| no_key(key, &bytes, &error))?;
                Some(Own { chain: certificates(certificate)?, key: private })
            }
            _ => None,
        };
        Ok(TlsIdentity { authorities, own, verify_host: tls.verify_host })
    }

    /// For client connections.
    ///
    /// # Errors
    /// When a trusted certificate or the client's own cannot be used.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, String> {
        let provider = provider();
        let mut roots = RootCertStore::empty();
        // The system's store may hold certificates that rustls rejects.
        if roots.add_parsable_certificates(self.authorities.iter().cloned()).0 == 0 {
            return Err("no trusted certificate can be used: name a file of certificates in `broker.security.tls.ca`"
                .to_owned());
        }
        let roots = Arc::new(roots);
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = if self.verify_host {
            builder.with_root_certificates(roots)
        } else {
            let chain = WebPkiServerVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|error| format!("the trusted certificates cannot be used: {error}"))?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyHost(chain)))
        };
        let config = match &self.own {
            None => builder.with_no_client_auth(),
            Some(own) => builder
                .with_client_auth_cert(own.chain.clone(), own.key.clone_key())
                .map_err(|error| format!("the client's certificate cannot be used: {error}"))?,
        };
        Ok(Arc::new(config))
    }
}

/// What the connections of a scenario use, where it asks for TLS.
///
/// # Errors
/// A sentence that names the file which cannot be read or used.
pub fn client_config(tls: Option<&Tls>) -> Result<Option<Arc<ClientConfig>>, String> {
    tls.map(|tls| TlsIdentity::read(tls)?.client_config()).transpose()
}

/// For a server with the certificates of one PEM file and the key of another.
///
/// # Errors
/// A sentence that names the file which cannot be used.
#[cfg(feature = "sls-emulator")]
pub fn server_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, String> {
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| format!("{} holds no private key: {error}", key.display()))?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(certificates(certificate)?, private)
        .map_err(|error| format!("{} cannot be used: {error}", certificate.display()))?;
    Ok(Arc::new(config))
}

/// The cryptography provider of all connections.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// What connects to `host` by TLS, and the name that the server's certificate must have.
///
/// # Errors
/// When a certificate cannot have such a name.
pub fn connector(mut config: Arc<ClientConfig>, host: &str) -> Result<(TlsConnector, ServerName<'static>), String> {
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| format!("\"{host}\" is not a host that a certificate can name"))?;
    // Servers in Java end a handshake that indicates such a name, and clients in Java indicate none (`SNIHostName.java`).
    if host.contains('_') {
        Arc::make_mut(&mut config).enable_sni = false;
    }
    Ok((TlsConnector::from(config), name))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let unreadable = |error| format!("{} holds no certificates: {error}", file.display());
    let found = CertificateDer::pem_slice_iter(&in_pem(file)?).collect::<Result<Vec<_>, _>>();
    match found.map_err(unreadable)? {
        found if found.is_empty() => Err(format!("{} holds no certificates", file.display())),
        found => Ok(found),
    }
}

/// What the file holds, if it is not in a form that is known to be another than PEM without a passphrase.
fn in_pem(file: &Path) -> Result<Vec<u8>, String> {
    let name = file.display();
    let bytes = std::fs::read(file).map_err(|error| format!("{name} cannot be read: {error}"))?;
    match &bytes[..] {
        [0xfe, 0xed, 0xfe, 0xed, ..] => Err(format!(
            "{name} is a Java key store, and PEM is needed: `keytool -importkeystore -srckeystore {name} -deststoretype PKCS12 \
             -destkeystore store.p12`, then `openssl pkcs12 -in store.p12 -nodes`"
        )),
        // A sequence with its length (X.690): of DER, and of PKCS #12, which a Java key store may be as well.
        [0x30, 0x80..=0x84, ..] => Err(format!(
            "{name} is binary (DER or PKCS #12), and PEM is needed: `openssl x509 -inform der -in {name}` for a certificate, `openssl pkey \
             -inform der -in {name}` for a key, `openssl pkcs12 -in {name} -nodes` for a store of both"
        )),
        _ => Ok(bytes),
    }
}

/// In the first lines of an encrypted key (RFC 7468, section 11, and RFC 1421, section 4.6).
const ENCRYPTED: &[u8] = b"ENCRYPTED";

/// Why a file holds no key that can be used.
fn no_key(file: &Path, bytes: &[u8], error: &pem::Error) -> String {
    let name = file.display();
    if bytes.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED) {
        return format!(
            "the key in {name} is encrypted with a passphrase, which is not supported: `openssl pkey -in {name}` prints it without one"
        );
    }
    format!("{name} holds no private key: {error}")
}

/// Why a certificate is refused for its dates, as people write them, with the clock that was compared.
pub fn date_refusal(reason: &CertificateError) -> Option<String> {
    let at = |time: &UnixTime| {
        let time = jiff::Timestamp::from_second(time.as_secs() as i64);
        time.map_or_else(|error| error.to_string(), |time| time.to_string())
    };
    Some(match reason {
        CertificateError::ExpiredContext { time, not_after } => {
            format!("the server's certificate expired on {}; this machine's clock says {}", at(not_after), at(time))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            format!(
                "the server's certificate is valid from {} on; this machine's clock says {}",
                at(not_before),
                at(time)
            )
        }
        _ => return None,
    })
}

/// Trusts every server with a certificate of a trusted authority, for any host: `verify_host = false`.
#[derive(Debug)]
struct AnyHost(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_an_underscore_is_not_indicated() {
        let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
        let indicates = |host| connector(config.clone(), host).unwrap().0.config().enable_sni;
        assert_eq!(["kafka-1.test", "kafka_1.test"].map(indicates), [true, false]);
    }
}
