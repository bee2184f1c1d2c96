//! Azure Blob Storage. Credentials: the environment, as the command `az` and the libraries read it, or an instance.

use super::connector::Connector;
use super::setting::Setting;
use super::{Kind, Opened, client_options, retry, unopened};
use crate::address::Address;
use crate::error::Error;
use object_store::azure::{AzureConfigKey as Key, MicrosoftAzureBuilder};
use std::sync::Arc;

pub(super) const KIND: Kind = Kind { scheme: "az", lists: true, denied: DENIED, elsewhere: ELSEWHERE, open };

const DENIED: &str = "set AZURE_STORAGE_ACCOUNT, and AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, for an account that may \
                      read and list the container; AZURE_USE_AZURE_CLI=true uses the login of `az`";

const ELSEWHERE: &str = "check AZURE_STORAGE_ACCOUNT, and the endpoint if one is set";

/// Names by which `az` knows settings that the crate knows by others.
const OTHER_NAMES: [(&str, Key); 2] =
    [("AZURE_STORAGE_ACCOUNT", Key::AccountName), ("AZURE_STORAGE_KEY", Key::AccessKey)];

/// The settings in a connection string.
const IN_CONNECTION_STRING: [(&str, Key); 4] = [
    ("AccountName", Key::AccountName),
    ("AccountKey", Key::AccessKey),
    ("BlobEndpoint", Key::Endpoint),
    ("SharedAccessSignature", Key::SasKey),
];

/// What requests carry, with the names that people give it.
const CARRIED: [(Key, Setting, &str); 4] = [
    (Key::AccountName, Setting::Label, "AZURE_STORAGE_ACCOUNT"),
    (Key::Token, Setting::Token, "AZURE_STORAGE_TOKEN"),
    (Key::Endpoint, Setting::Server, "AZURE_STORAGE_ENDPOINT"),
    (Key::AuthorityHost, Setting::Server, "AZURE_AUTHORITY_HOST"),
];

fn open(address: &Address) -> Result<Opened, Error> {
    let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(&address.bucket);
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let named = OTHER_NAMES.into_iter().filter_map(|(name, key)| Some((key, variable(name)?)));
    let connection = variable("AZURE_STORAGE_CONNECTION_STRING").unwrap_or_default();
    for (key, value) in named.chain(connection_string(&connection)) {
        if builder.get_config_value(&key).is_none_or(|value| value.is_empty()) {
            builder = builder.with_config(key, value);
        }
    }
    let value = |key: &Key| builder.get_config_value(key).filter(|value| !value.is_empty());
    if value(&Key::AccountName).is_none() && value(&Key::UseEmulator).is_none_or(|uses| uses == "false") {
        return Err(Error::refused(format!("{} names no account", address.name), DENIED));
    }
    for (key, setting, name) in CARRIED {
        value(&key).map_or(Ok(()), |value| setting.require(name, &value))?;
    }
    let secrets = [Key::AccessKey, Key::SasKey, Key::Token, Key::ClientSecret].iter().filter_map(value).collect();
    let plain = value(&Key::Endpoint).is_some_and(|endpoint| endpoint.starts_with("http://"));
    let builder = builder.with_http_connector(Connector::Following).with_client_options(client_options(plain, None));
    let built = builder.with_retry(retry()).build();
    let client = built.map_err(|error| unopened(&address.name, &error, DENIED))?;
    Ok(Opened { client: Arc::new(client), secrets })
}

fn connection_string(text: &str) -> impl Iterator<Item = (Key, String)> {
    let member = |member: &str| {
        let (name, value) = member.trim().split_once('=')?;
        let (_, key) = IN_CONNECTION_STRING.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some((key, value.to_owned()))
    };
    text.split(';').filter_map(member).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_is_taken_apart() {
        let text = "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=a+b/c==;EndpointSuffix=core.windows.net";
        let members: Vec<(Key, String)> = connection_string(text).collect();
        assert_eq!(members, [(Key::AccountName, "me".to_owned()), (Key::AccessKey, "a+b/c==".to_owned())]);
        assert_eq!(connection_string("").count(), 0);
    }
}
