//! Sections `server` and `settings`: PostgreSQL's version and build, and its settings that are not the default.

use super::Facts;
use crate::error::Error;
use tokio_postgres::Client;

/// Settings that are never recorded, besides those of [`PRIVATE`]: they name places, hosts or people, or may hold a secret.
const NEVER: &[&str] = &[
    "application_name",
    "bonjour_name",
    "cluster_name",
    "event_source",
    "krb_server_keyfile",
    "listen_addresses",
    "log_filename",
    "oauth_validator_libraries",
    "port",
    "primary_slot_name",
    "ssl_crl_dir",
    "synchronous_standby_names",
    "synchronized_standby_slots",
    "syslog_ident",
    "temp_tablespaces",
    "default_tablespace",
    "unix_socket_group",
];

/// How names end that are private, also in extensions and in later versions.
const PRIVATE: &[&str] = &[
    "command",
    "conninfo",
    "directory",
    "directories",
    "file",
    "path",
    "host",
    "hosts",
    "password",
    "passwords",
    "secret",
    "token",
    "key",
    "user",
    "role",
    "url",
    "uri",
];

/// Extensions whose settings are recorded. Of others nothing is known.
const EXTENSIONS: &[&str] = &["auto_explain.", "pg_prewarm.", "pg_stat_statements.", "plpgsql."];

/// Version and build.
///
/// # Errors
/// The server's.
pub(super) async fn build(client: &Client) -> Result<Facts, Error> {
    let version: String = client.query_one("select pg_catalog.version()", &[]).await?.get(0);
    let mut found = Facts::from([("version".to_owned(), version)]);
    let fixed = client.query(include_str!("fixed.sql"), &[]).await?;
    found.extend(fixed.iter().map(|row| (row.get("name"), row.get("value"))));
    // Only some roles may read this view.
    let flags = client.query("select name::text, setting::text from pg_catalog.pg_config", &[]).await;
    for row in flags.unwrap_or_default() {
        let (name, setting): (String, String) = (row.get(0), row.get(1));
        if ["CC", "CFLAGS", "CONFIGURE"].contains(&name.as_str()) {
            found.insert(format!("build.{}", name.to_lowercase()), without_paths(&setting));
        }
    }
    Ok(found)
}

/// Settings that are not the default, with their units.
///
/// # Errors
/// The server's.
pub(super) async fn settings(client: &Client) -> Result<Facts, Error> {
    let rows = client.query(include_str!("settings.sql"), &[]).await?;
    let pairs = rows.iter().map(|row| (row.get::<_, String>("name"), row.get("value")));
    Ok(pairs.filter(|(name, _)| is_recorded(name)).collect())
}

fn is_recorded(name: &str) -> bool {
    let last = name.rsplit(['_', '.']).next().unwrap_or(name);
    let known = !name.contains('.') || EXTENSIONS.iter().any(|extension| name.starts_with(extension));
    known && !NEVER.contains(&name) && !PRIVATE.contains(&last)
}

/// The words of a build's flags that hold no path.
fn without_paths(flags: &str) -> String {
    flags.split_whitespace().filter(|word| !word.contains('/')).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_hosts_and_secrets_are_not_recorded() {
        let private = ["data_directory", "hba_file", "port", "my.setting", "plpgsql.secret", "unix_socket_directories"];
        let private = [&private[..], &["primary_conninfo", "ssl_passphrase_command", "dynamic_library_path"]].concat();
        assert!(private.iter().all(|name| !is_recorded(name)));
        let kept = ["shared_buffers", "max_wal_size", "pg_stat_statements.max", "TimeZone", "shared_preload_libraries"];
        assert!(kept.iter().all(|name| is_recorded(name)));
    }

    #[test]
    fn flags_keep_their_words_without_paths() {
        let flags = "'--enable-nls' '--prefix=/usr/x' -O2 -ffile-prefix-map=/build/a=. '--with-icu'";
        assert_eq!(without_paths(flags), "'--enable-nls' -O2 '--with-icu'");
    }
}
