//! S3, and servers that speak as it does. Credentials: the environment, a profile, a web identity, a container, an instance.

use super::connector::Connector;
use super::profile::{Profile, profile};
use super::setting::Setting;
use super::{Kind, Opened, client_options, retry, unopened};
use crate::address::Address;
use crate::error::Error;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key};
use std::sync::Arc;

pub(super) const KIND: Kind = Kind { scheme: "s3", lists: true, denied: DENIED, elsewhere: ELSEWHERE, open };

const DENIED: &str = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, for an account that may read and \
                      list the bucket; for a bucket that everybody may read set AWS_SKIP_SIGNATURE=true";

const ELSEWHERE: &str =
    "set AWS_REGION to the region of the bucket, and AWS_ENDPOINT_URL only for a server of your own";

/// Settings by which the crate finds credentials elsewhere than in keys.
const OTHER_CREDENTIALS: [Key; 3] =
    [Key::WebIdentityTokenFile, Key::ContainerCredentialsRelativeUri, Key::ContainerCredentialsFullUri];

/// What requests carry, with the names that people give it.
const CARRIED: [(Key, Setting, &str); 8] = [
    (Key::AccessKeyId, Setting::Token, "AWS_ACCESS_KEY_ID"),
    (Key::Token, Setting::Token, "AWS_SESSION_TOKEN"),
    (Key::Region, Setting::Label, "AWS_REGION"),
    (Key::Endpoint, Setting::Server, "AWS_ENDPOINT_URL"),
    (Key::S3Endpoint, Setting::Server, "AWS_ENDPOINT_URL_S3"),
    (Key::StsEndpoint, Setting::Server, "AWS_ENDPOINT_URL_STS"),
    (Key::MetadataEndpoint, Setting::Server, "AWS_METADATA_ENDPOINT"),
    (Key::ContainerCredentialsFullUri, Setting::Server, "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
];

fn open(address: &Address) -> Result<Opened, Error> {
    Setting::Name.require(&address.name, &address.bucket)?;
    let builder = AmazonS3Builder::from_env().with_bucket_name(&address.bucket);
    let profile = profile()?;
    let builder = with_profile(builder, &profile)?;
    require_carried(&builder)?;
    let value = |key: &Key| builder.get_config_value(key).filter(|value| !value.is_empty());
    let endpoint = value(&Key::S3Endpoint).or_else(|| value(&Key::Endpoint));
    let skips = value(&Key::SkipSignature).is_some_and(|skips| skips == "1" || skips.eq_ignore_ascii_case("true"));
    let has_keys = value(&Key::AccessKeyId).is_some();
    // An instance of Amazon's has credentials of its own, which are good for no other server.
    if endpoint.is_some() && !has_keys && !skips && !OTHER_CREDENTIALS.iter().any(|key| value(key).is_some()) {
        return Err(Error::refused(format!("there are no credentials for {}", address.name), DENIED));
    }
    let plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    let secrets = [Key::AccessKeyId, Key::SecretAccessKey, Key::Token].iter().filter_map(value).collect();
    // Keys that last have no token. Those that are found elsewhere have one.
    let has_token = !skips && (!has_keys || value(&Key::Token).is_some());
    let connector = if has_token { Connector::Direct } else { Connector::Following };
    let builder = builder.with_http_connector(connector).with_client_options(client_options(plain, None));
    let built = builder.with_retry(retry()).build();
    let client = built.map_err(|error| unopened(&address.name, &error, DENIED))?;
    Ok(Opened { client: Arc::new(client), secrets })
}

/// Requires that requests can carry what they must.
fn require_carried(builder: &AmazonS3Builder) -> Result<(), Error> {
    let value = |key: &Key| builder.get_config_value(key).filter(|value| !value.is_empty());
    for (key, setting, name) in CARRIED {
        value(&key).map_or(Ok(()), |value| setting.require(name, &value))?;
    }
    let Some(file) = value(&Key::ContainerAuthorizationTokenFile) else { return Ok(()) };
    // The client says why it cannot be read.
    let token = std::fs::read_to_string(&file).unwrap_or_default();
    Setting::Token.require(&format!("{file}, which AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE names,"), &token)
}

/// Adds what the environment leaves to the profile.
fn with_profile(mut builder: AmazonS3Builder, profile: &Profile) -> Result<AmazonS3Builder, Error> {
    let has = |builder: &AmazonS3Builder, keys: &[Key]| {
        keys.iter().any(|key| builder.get_config_value(key).is_some_and(|value| !value.is_empty()))
    };
    if !has(&builder, &[Key::Region, Key::DefaultRegion])
        && let Some(region) = profile.get("region")
    {
        builder = builder.with_region(region);
    }
    if !has(&builder, &[Key::S3Endpoint, Key::Endpoint])
        && let Some(endpoint) = profile.get("endpoint_url")
    {
        builder = builder.with_endpoint(endpoint);
    }
    if has(&builder, &[Key::AccessKeyId, Key::WebIdentityTokenFile]) {
        return Ok(builder);
    }
    match (profile.get("aws_access_key_id"), profile.get("aws_secret_access_key")) {
        (Some(id), Some(secret)) => builder = builder.with_access_key_id(id).with_secret_access_key(secret),
        _ => return profile.require_plain().map(|()| builder),
    }
    if let Some(token) = profile.get("aws_session_token") {
        builder = builder.with_token(token);
    }
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(profile: &str) -> Result<AmazonS3Builder, Error> {
        with_profile(AmazonS3Builder::new(), &Profile::of("default", profile, ""))
    }

    #[test]
    fn a_profile_gives_what_the_environment_does_not() {
        let text = "[default]\naws_access_key_id=id\naws_secret_access_key=secret\nregion=eu-north-1\n\
                    endpoint_url=http://localhost:9\naws_session_token=token\n";
        let builder = built(text).unwrap();
        for (key, expected) in [
            (Key::AccessKeyId, "id"),
            (Key::SecretAccessKey, "secret"),
            (Key::Token, "token"),
            (Key::Region, "eu-north-1"),
            (Key::Endpoint, "http://localhost:9"),
        ] {
            assert_eq!(builder.get_config_value(&key).as_deref(), Some(expected));
        }
        let named = AmazonS3Builder::new().with_access_key_id("mine").with_region("us-west-1");
        let builder = with_profile(named, &Profile::of("default", text, "")).unwrap();
        assert_eq!(builder.get_config_value(&Key::AccessKeyId).as_deref(), Some("mine"));
        assert_eq!(builder.get_config_value(&Key::SecretAccessKey), None);
        assert_eq!(builder.get_config_value(&Key::Region).as_deref(), Some("us-west-1"));
    }

    #[test]
    fn what_no_request_can_carry_is_refused() {
        let text = "[default]\naws_access_key_id=id\naws_secret_access_key=secret\n";
        assert!(require_carried(&built(text).unwrap()).is_ok());
        for (more, says) in [
            ("aws_session_token=to\0ken\n", "AWS_SESSION_TOKEN"),
            ("region=eu north\n", "AWS_REGION"),
            ("endpoint_url=localhost:9000\n", "AWS_ENDPOINT_URL is not the address of a server"),
        ] {
            let error = require_carried(&built(&format!("{text}{more}")).unwrap()).unwrap_err();
            assert!(error.to_string().starts_with(says), "{error}");
        }
    }

    #[test]
    fn a_profile_that_needs_another_program_says_how_to_give_its_credentials() {
        for text in ["[default]\nsso_session=x\n", "[default]\ncredential_process=/bin/x secret\n"] {
            let error = built(text).unwrap_err();
            assert!(error.hint().contains("aws configure export-credentials"), "{}", error.hint());
            assert!(!format!("{error:?}").contains("secret"));
        }
        assert!(built("").is_ok());
    }
}
