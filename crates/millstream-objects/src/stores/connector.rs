//! Opens the connections to stores. No host gets a secret that was given for another one.

use crate::limits::{CONNECT_WAIT, READ_WAIT};
use object_store::client::{HttpClient, HttpConnector};
use object_store::{ClientConfigKey, ClientOptions, Error as StoreError};
use reqwest::redirect::Policy;
use std::time::Duration;

/// How the requests of a store are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connector {
    /// An answer that names another address is an error. The requests have a header of the store's own with a token, which
    /// the client would repeat there.
    Direct,
    /// An answer that names another address is followed: gateways send to where the bytes are. The client repeats no
    /// authorization there, and does not say where it came from, because that address may end in a signature.
    Following,
}

const USER_AGENT: &str = concat!("millstream/", env!("CARGO_PKG_VERSION"));

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient, StoreError> {
        let value = |key: ClientConfigKey| options.get_config_value(&key);
        let is_plain = value(ClientConfigKey::AllowHttp).is_some_and(|allowed| allowed == "true");
        // The crate waits less for an instance's own service, which may not be there.
        let connect_wait = value(ClientConfigKey::ConnectTimeout)
            .and_then(|wait| wait.strip_suffix('s')?.parse::<u64>().ok())
            .map_or(CONNECT_WAIT, Duration::from_secs);
        let policy = match self {
            Self::Direct => Policy::none(),
            Self::Following => Policy::default(),
        };
        let builder = reqwest::Client::builder()
            .user_agent(USER_AGENT)
            .default_headers(options.get_default_headers().cloned().unwrap_or_default())
            .connect_timeout(connect_wait)
            .read_timeout(READ_WAIT)
            .redirect(policy)
            .referer(false)
            .https_only(!is_plain)
            .http1_only()
            // What is decompressed has another size than the object.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate();
        let client = builder.build().map_err(|error| StoreError::Generic { store: "HTTP", source: Box::new(error) })?;
        Ok(HttpClient::new(client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::client_options;

    #[test]
    fn what_the_connector_reads_is_what_the_options_say() {
        for (plain, said) in [(true, "true"), (false, "false")] {
            let options = client_options(plain, None);
            assert_eq!(options.get_config_value(&ClientConfigKey::AllowHttp).as_deref(), Some(said));
            let wait = options.get_config_value(&ClientConfigKey::ConnectTimeout);
            assert_eq!(wait, Some(format!("{}s", CONNECT_WAIT.as_secs())));
        }
        let options = client_options(false, Some("gzip"));
        let encoding = options.get_default_headers().and_then(|headers| headers.get("accept-encoding"));
        assert_eq!(encoding.and_then(|encoding| encoding.to_str().ok()), Some("gzip"));
    }
}
