//! Every keyword libpq knows, its variable, and whether we use, ignore or refuse it.

use super::{Environment, Said};
use crate::error::Error;

/// What we do with a keyword.
pub(super) enum Use {
    /// Used.
    Used,
    /// Accepted, without effect.
    Ignored,
    /// Refused unless it has one of these harmless values. Ignoring it would be less safe than what the user asked for.
    Refused { harmless: &'static [&'static str], why: &'static str },
}

pub(super) struct Keyword {
    pub(super) name: &'static str,
    variable: Option<&'static str>,
    usage: Use,
}

const fn used(name: &'static str, variable: Option<&'static str>) -> Keyword {
    Keyword { name, variable, usage: Use::Used }
}

const fn ignored(name: &'static str, variable: Option<&'static str>) -> Keyword {
    Keyword { name, variable, usage: Use::Ignored }
}

const fn refused(
    name: &'static str,
    variable: Option<&'static str>,
    harmless: &'static [&'static str],
    why: &'static str,
) -> Keyword {
    Keyword { name, variable, usage: Use::Refused { harmless, why } }
}

/// Sorted. Source: PostgreSQL 18, `fe-connect.c`, `PQconninfoOptions`.
///
/// Ignored are settings that our own session settings override (`client_encoding`), old settings without effect, and
/// settings of Kerberos. Kerberos is used only with `gssencmode=require`, which is refused, or if the server asks for
/// it, which is an error.
pub(super) const KEYWORDS: &[Keyword] = &[
    used("application_name", Some("PGAPPNAME")),
    used("channel_binding", Some("PGCHANNELBINDING")),
    ignored("client_encoding", Some("PGCLIENTENCODING")),
    used("connect_timeout", Some("PGCONNECT_TIMEOUT")),
    used("dbname", Some("PGDATABASE")),
    used("fallback_application_name", None),
    ignored("gssdelegation", Some("PGGSSDELEGATION")),
    refused("gssencmode", Some("PGGSSENCMODE"), &["disable", "prefer"], "GSSAPI encryption is not supported"),
    ignored("gsslib", Some("PGGSSLIB")),
    used("host", Some("PGHOST")),
    used("hostaddr", Some("PGHOSTADDR")),
    used("keepalives", None),
    used("keepalives_count", None),
    used("keepalives_idle", None),
    used("keepalives_interval", None),
    ignored("krbsrvname", Some("PGKRBSRVNAME")),
    used("load_balance_hosts", Some("PGLOADBALANCEHOSTS")),
    ignored("max_protocol_version", Some("PGMAXPROTOCOLVERSION")),
    refused("min_protocol_version", Some("PGMINPROTOCOLVERSION"), &["3.0"], "only protocol 3.0 is spoken"),
    refused("oauth_client_id", None, &[], "OAuth is not supported"),
    refused("oauth_client_secret", None, &[], "OAuth is not supported"),
    refused("oauth_issuer", None, &[], "OAuth is not supported"),
    refused("oauth_scope", None, &[], "OAuth is not supported"),
    used("options", Some("PGOPTIONS")),
    used("passfile", Some("PGPASSFILE")),
    used("password", Some("PGPASSWORD")),
    used("port", Some("PGPORT")),
    refused("replication", None, &["false", "off", "no", "0"], "a replication connection cannot load data"),
    refused("require_auth", Some("PGREQUIREAUTH"), &[], "the method of authentication cannot be enforced"),
    refused("requirepeer", Some("PGREQUIREPEER"), &[], "the server's user cannot be checked"),
    refused("scram_client_key", None, &[], "logging in with a stored SCRAM key is not supported"),
    refused("scram_server_key", None, &[], "logging in with a stored SCRAM key is not supported"),
    used("service", Some("PGSERVICE")),
    used("ssl_max_protocol_version", Some("PGSSLMAXPROTOCOLVERSION")),
    used("ssl_min_protocol_version", Some("PGSSLMINPROTOCOLVERSION")),
    used("sslcert", Some("PGSSLCERT")),
    used("sslcertmode", Some("PGSSLCERTMODE")),
    ignored("sslcompression", Some("PGSSLCOMPRESSION")),
    refused("sslcrl", Some("PGSSLCRL"), &[], "revocation lists are not supported"),
    refused("sslcrldir", Some("PGSSLCRLDIR"), &[], "revocation lists are not supported"),
    used("sslkey", Some("PGSSLKEY")),
    refused("sslkeylogfile", None, &[], "session keys are never written to a file"),
    used("sslmode", Some("PGSSLMODE")),
    used("sslnegotiation", Some("PGSSLNEGOTIATION")),
    refused(
        "sslpassword",
        None,
        &[],
        "encrypted client keys are not supported; decrypt the key into a file of mode 0600",
    ),
    used("sslrootcert", Some("PGSSLROOTCERT")),
    used("sslsni", Some("PGSSLSNI")),
    used("target_session_attrs", Some("PGTARGETSESSIONATTRS")),
    used("tcp_user_timeout", None),
    used("user", Some("PGUSER")),
];

/// The keyword of this name, as in the list.
pub(super) fn known(name: &str) -> Option<&'static str> {
    KEYWORDS.binary_search_by(|k| k.name.cmp(name)).ok().map(|i| KEYWORDS[i].name)
}

/// Adds the settings of the `PG*` variables that no earlier source has given. An empty variable counts as unset.
pub(super) fn add_variables(said: &mut Said, env: &Environment) {
    for keyword in KEYWORDS {
        let value = keyword.variable.and_then(|name| env.variable(name)).filter(|v| !v.is_empty());
        if let Some(value) = value {
            said.entry(keyword.name).or_insert_with(|| value.to_owned());
        }
    }
}

/// Refuses the settings that we do not support.
pub(super) fn check(said: &Said) -> Result<(), Error> {
    for keyword in KEYWORDS {
        let Some(value) = said.get(keyword.name).filter(|v| !v.is_empty()) else { continue };
        if let Use::Refused { harmless, why } = keyword.usage
            && !harmless.contains(&value.as_str())
        {
            let where_from = keyword.variable.map(|v| format!(" (or variable {v})")).unwrap_or_default();
            return Err(Error::settings(format!("connection option \"{}\"{where_from}: {why}", keyword.name)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(KEYWORDS.is_sorted_by(|a, b| a.name < b.name));
        for keyword in KEYWORDS {
            assert_eq!(known(keyword.name), Some(keyword.name));
        }
        assert_eq!(known("hosst"), None);
    }

    #[test]
    fn refused_keywords_are_named() {
        for keyword in KEYWORDS {
            let refusal = check(&Said::from([(keyword.name, "require".to_owned())]));
            let expected = matches!(keyword.usage, Use::Refused { .. });
            assert_eq!(refusal.is_err(), expected, "{}", keyword.name);
            if let Err(error) = refusal {
                assert!(error.to_string().contains(keyword.name));
            }
            if let Use::Refused { harmless, .. } = keyword.usage {
                for value in harmless {
                    assert!(check(&Said::from([(keyword.name, (*value).to_owned())])).is_ok());
                }
            }
        }
    }
}
