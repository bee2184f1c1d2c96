//! Google Cloud Storage. Credentials: a file that the environment names, that of the command `gcloud`, an instance.

use super::connector::Connector;
use super::setting::Setting;
use super::{Kind, Opened, client_options, retry, unopened};
use crate::address::Address;
use crate::error::Error;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey as Key};
use std::sync::Arc;

pub(super) const KIND: Kind = Kind { scheme: "gs", lists: true, denied: DENIED, elsewhere: ELSEWHERE, open };

const DENIED: &str = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to the file of an \
                      account that may read and list the bucket; for a bucket that everybody may read set \
                      GOOGLE_SKIP_SIGNATURE=true";

const ELSEWHERE: &str = "check the bucket, and the address of the store if one is set";

/// An object that was stored with the encoding gzip comes as it is stored, and not decompressed in a size that nobody knows.
const AS_STORED: &str = "gzip";

/// What requests carry, with the names that people give it.
const CARRIED: [(Key, Setting, &str); 2] =
    [(Key::BaseUrl, Setting::Server, "GOOGLE_BASE_URL"), (Key::BearerToken, Setting::Token, "GOOGLE_BEARER_TOKEN")];

fn open(address: &Address) -> Result<Opened, Error> {
    let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(&address.bucket);
    let value = |key: &Key| builder.get_config_value(key).filter(|value| !value.is_empty());
    for (key, setting, name) in CARRIED {
        value(&key).map_or(Ok(()), |value| setting.require(name, &value))?;
    }
    let secrets = [Key::ServiceAccountKey, Key::BearerToken].iter().filter_map(value).collect();
    let plain = value(&Key::BaseUrl).is_some_and(|url| url.starts_with("http://"));
    let builder = builder.with_http_connector(Connector::Following);
    let built = builder.with_client_options(client_options(plain, Some(AS_STORED))).with_retry(retry()).build();
    let client = built.map_err(|error| unopened(&address.name, &error, DENIED))?;
    Ok(Opened { client: Arc::new(client), secrets })
}
