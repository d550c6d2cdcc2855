//! TLS for those who call: certificate and key from files, and renewed files picked up.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::{FileStamp, Lookup, TlsFiles};
use crate::listen::Tls;

type Stamps = (Option<FileStamp>, Option<FileStamp>);

/// Reads the files now, and again for the first connection after they have changed. A renewal that
/// cannot be used is said once, and the last good pair serves on.
///
/// # Errors
///
/// What is wrong with the files, and what to do.
pub(crate) fn reloading(files: TlsFiles, lookup: Arc<dyn Lookup>) -> Result<Tls, String> {
    let first = acceptor(&files, lookup.as_ref())?;
    let stamps = stamps(&files, lookup.as_ref());
    let held: Mutex<(Stamps, TlsAcceptor)> = Mutex::new((stamps, first));
    Ok(Arc::new(move || {
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self::stamps(&files, lookup.as_ref());
        if now != held.0 {
            held.0 = now;
            match acceptor(&files, lookup.as_ref()) {
                Ok(renewed) => {
                    tracing::info!("took up the renewed certificate");
                    held.1 = renewed;
                }
                Err(fault) => tracing::error!("keeping the old certificate: {fault}"),
            }
        }
        Some(held.1.clone())
    }))
}

fn stamps(files: &TlsFiles, lookup: &dyn Lookup) -> Stamps {
    let stamp = |path: &Path| lookup.facts(path).ok().map(|facts| facts.stamp);
    (stamp(&files.cert), stamp(&files.key))
}

fn acceptor(files: &TlsFiles, lookup: &dyn Lookup) -> Result<TlsAcceptor, String> {
    let read = |variable: &str, path: &Path| {
        lookup.read_file(path).map_err(|error| format!("{variable}: {}: {error}", path.display()))
    };
    let (cert_name, key_name) = ("GATEWAY_TLS_CERT_FILE", "GATEWAY_TLS_KEY_FILE");
    let certs = CertificateDer::pem_slice_iter(&read(cert_name, &files.cert)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("{cert_name}: not a PEM certificate chain: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(&read(key_name, &files.key)?)
        .map_err(|error| format!("{key_name}: not a PEM private key: {error}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .with_no_client_auth()
        .with_single_cert(certs, key)
        .map_err(|error| format!("{cert_name} and {key_name} do not belong together: {error}"))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
