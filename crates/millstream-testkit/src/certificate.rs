//! Certificates for tests of encrypted connections.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// A certificate authority made for one test, and the certificates it has signed, all in PEM.
#[derive(Debug)]
pub struct Certificates {
    /// The authority, for `sslrootcert`.
    pub root: String,
    /// The server's certificate, for the given names.
    pub server: String,
    /// The server's private key.
    pub server_key: String,
    /// A client's certificate, for the given role.
    pub client: String,
    /// The client's private key.
    pub client_key: String,
}

impl Certificates {
    /// A new authority, a server certificate for these host names and addresses, and a client
    /// certificate whose common name is the role.
    pub fn new(hosts: &[&str], role: &str) -> Self {
        let (issuer, root) = authority();
        let (server, server_key) = signed(&issuer, hosts, hosts.first().copied().unwrap_or(""));
        let (client, client_key) = signed(&issuer, &[], role);
        Self { root, server, server_key, client, client_key }
    }
}

fn authority() -> (Issuer<'static, KeyPair>, String) {
    let key = KeyPair::generate().expect("a key can be made");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "a test's authority");
    let certificate = params.self_signed(&key).expect("the parameters are valid");
    (Issuer::new(params, key), certificate.pem())
}

fn signed(issuer: &Issuer<'_, KeyPair>, hosts: &[&str], name: &str) -> (String, String) {
    let key = KeyPair::generate().expect("a key can be made");
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("the host names are valid");
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.signed_by(&key, issuer).expect("the parameters are valid");
    (certificate.pem(), key.serialize_pem())
}
