//! Sessions of changes: each change has its own, so that another process can make it.

use crate::limits::CHANGE_LOCK_TIME_MAX_MS;
use millstream_change::Place;
use millstream_model::Refusal;
use millstream_pg::{Connection, SessionSettings, connect, quote_literal, quote_setting};

/// Opens a session in a database; `None`: in the one that the user named.
pub(super) async fn open(place: &Place, database: Option<&str>) -> Result<Connection, Refusal> {
    let mut db = place.server()?.clone();
    if let Some(name) = database {
        name.clone_into(&mut db.dbname);
    }
    let settings = SessionSettings::doctor()
        .with("lock_timeout", &CHANGE_LOCK_TIME_MAX_MS.to_string())
        // If this process is killed, the server must not go on with its work.
        .with("client_connection_check_interval", "1s")
        .with_own_names();
    connect(&db, &settings).await.map_err(refusal)
}

/// What tells a server from others, and from its copies. The view hides the data directory from a role without
/// `pg_monitor`, such as the owner of a table. The rest tells enough then.
pub(super) async fn identity(place: &Place) -> Result<Option<String>, Refusal> {
    let sql = "select concat_ws(' ', system_identifier, \
               (select setting from pg_settings where name = 'data_directory'), current_setting('port')) \
               from pg_control_system()";
    let row = open(place, None).await?.client.query_one(sql, &[]).await.map_err(refusal)?;
    Ok(Some(row.get(0)))
}

/// The part of a statement that gives a setting a value, or takes its own value away.
pub(super) fn assignment(setting: &str, value: Option<&str>) -> String {
    let name = quote_setting(setting);
    match value {
        Some(value) => format!("set {name} = {}", quote_literal(value)),
        None => format!("reset {name}"),
    }
}

/// Settings that are lists of names. The catalog holds each name quoted, so their value cannot be written back as one
/// text. The list is that of `variable_is_guc_list_quote` in PostgreSQL's `dumputils.c`.
const NAME_LISTS: [&str; 6] = [
    "local_preload_libraries",
    "search_path",
    "session_preload_libraries",
    "shared_preload_libraries",
    "temp_tablespaces",
    "unix_socket_directories",
];

/// Refuses a setting that is such a list. `statement`: what changes it.
pub(super) fn refuse_name_list(setting: &str, statement: &str) -> Result<(), Refusal> {
    match NAME_LISTS.iter().any(|name| setting.eq_ignore_ascii_case(name)) {
        true => Err(Refusal::new(format!("{setting} is a list of names; change it by hand, with {statement}"))),
        false => Ok(()),
    }
}

/// The server's answer as a refusal.
pub(super) fn refusal(error: impl Into<millstream_pg::Error>) -> Refusal {
    Refusal::new(error.into().to_string())
}

/// Database and rest of a target such as `shop/public.orders`.
pub(super) fn parts(target: &str) -> Result<(&str, &str), Refusal> {
    target.split_once('/').ok_or_else(|| Refusal::new(format!("{target} does not begin with a database")))
}
