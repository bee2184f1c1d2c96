//! Environment variables that lead programs built on libpq to the server.

use millstream_host::Command;
use millstream_pg::{Address, ConnInfo, Host, TlsRoot};
use std::path::Path;

/// Leads a program that is built on libpq to the server, and only there: our own variables for libpq do not reach it.
pub(crate) fn lead(command: &mut Command, db: &ConnInfo) {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("PG")) {
            command.env_remove(name);
        }
    }
    for (name, value) in variables(db) {
        command.env(name, value);
    }
}

/// Variables with which libpq reaches the same server. Passwords go here, because other users can read arguments.
fn variables(db: &ConnInfo) -> Vec<(&'static str, String)> {
    let each = |of: fn(&Host) -> String| db.hosts.iter().map(of).collect::<Vec<_>>().join(",");
    let mut variables = vec![
        ("PGHOST", each(place)),
        ("PGPORT", each(|host| host.port.to_string())),
        ("PGUSER", db.user.clone()),
        ("PGDATABASE", db.dbname.clone()),
        ("PGSSLMODE", db.tls.mode.to_string()),
    ];
    if let Some(password) = db.hosts.iter().find_map(|host| host.password.as_ref()) {
        variables.push(("PGPASSWORD", password.reveal().to_owned()));
    }
    let path = |path: &Path| path.display().to_string();
    match &db.tls.root {
        TlsRoot::File(file) => variables.push(("PGSSLROOTCERT", path(file))),
        TlsRoot::System => variables.push(("PGSSLROOTCERT", "system".to_owned())),
        TlsRoot::None => {}
    }
    // Pass only files that were named, because those must exist. libpq looks for the usual ones itself.
    if let Some(client) = db.tls.client.as_ref().filter(|client| client.named) {
        variables.extend([("PGSSLCERT", path(&client.certificate)), ("PGSSLKEY", path(&client.key))]);
    }
    variables.extend(db.options.clone().map(|options| ("PGOPTIONS", options)));
    variables
}

fn place(host: &Host) -> String {
    match (&host.name, &host.address) {
        (Some(name), _) | (None, Address::Name(name)) => name.clone(),
        (None, Address::Ip(ip)) => ip.to_string(),
        (None, Address::Socket(dir)) => dir.display().to_string(),
    }
}

/// A connection string for the same server, with its password.
pub(crate) fn text(db: &ConnInfo) -> String {
    let pairs = variables(db).into_iter().map(|(variable, value)| {
        let keyword = match variable {
            "PGDATABASE" => "dbname".to_owned(),
            other => other.trim_start_matches("PG").to_lowercase(),
        };
        format!("{keyword}='{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
    });
    pairs.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_pg::Environment;

    fn said(url: &str) -> Vec<String> {
        let db = ConnInfo::parse(url, &Environment::from_variables([])).unwrap();
        variables(&db).into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn every_part_of_a_url_becomes_a_variable() {
        let url = "postgres://u:p%20w@127.0.0.1:5433/d?sslmode=require";
        let expected = ["PGHOST=127.0.0.1", "PGPORT=5433", "PGUSER=u", "PGDATABASE=d", "PGSSLMODE=require"];
        assert_eq!(said(url), [&expected[..], &["PGPASSWORD=p w"]].concat());
    }

    #[test]
    fn options_of_the_user_stay_and_sockets_are_hosts() {
        let said = said("host=/run/pg port=5432 user=u dbname=d options='-c work_mem=1MB'");
        assert!(said.contains(&"PGHOST=/run/pg".to_owned()), "{said:?}");
        assert!(said.contains(&"PGOPTIONS=-c work_mem=1MB".to_owned()), "{said:?}");
    }

    #[test]
    fn the_connection_string_leads_to_the_same_server() {
        let surroundings = Environment::from_variables([]);
        for url in [
            "postgres://u:p%27%5C%20w@127.0.0.1:5433/d?sslmode=require",
            "host=/run/pg port=5432 user=u dbname='a b' options='-c work_mem=1MB'",
            "postgres://u:p@one:5433,two:5434/d",
        ] {
            let db = ConnInfo::parse(url, &surroundings).unwrap();
            let same = ConnInfo::parse(&text(&db), &surroundings).unwrap();
            assert_eq!(same.describe(), db.describe());
            let passwords = |db: &ConnInfo| db.hosts.iter().map(|host| host.password.clone()).collect::<Vec<_>>();
            assert_eq!((passwords(&same), same.options), (passwords(&db), db.options));
        }
    }
}
