//! Web servers, which give an object a strong `ETag` and serve ranges of it. A signature may follow the path.

use super::connector::Connector;
use super::setting::Setting;
use super::{Kind, Opened, client_options, retry, unopened};
use crate::address::Address;
use crate::error::Error;
use object_store::http::HttpBuilder;
use std::sync::Arc;

pub(super) const KIND: Kind = Kind { scheme: "https", lists: false, denied: DENIED, elsewhere: ELSEWHERE, open };

/// Without encryption, for servers on the same network.
pub(super) const PLAIN: Kind = Kind { scheme: "http", ..KIND };

const DENIED: &str = "check the address; a signature in it may have expired. If the server asks for a password, let another \
                      program read it: curl -sSf -u .. URL | millstream load - --source-name NAME ..";

const ELSEWHERE: &str = "name the address to which the server sends you; `curl -sI URL` shows it";

/// Servers that compress what they send have no ranges of it.
const AS_STORED: &str = "identity";

fn open(address: &Address) -> Result<Opened, Error> {
    Setting::Name.require(&address.name, &address.bucket)?;
    let query = address.query.as_deref().map_or_else(String::new, |query| format!("?{query}"));
    let plain = address.scheme == PLAIN.scheme;
    let built = HttpBuilder::new()
        .with_url(format!("{}/{query}", address.root()))
        .with_http_connector(Connector::Following)
        .with_client_options(client_options(plain, Some(AS_STORED)))
        .with_retry(retry())
        .build();
    let client = built.map_err(|error| unopened(&address.name, &error, "check the address"))?;
    Ok(Opened { client: Arc::new(client), secrets: address.query.iter().cloned().collect() })
}
