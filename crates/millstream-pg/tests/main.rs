//! The tests of this crate that need a PostgreSQL server.

mod catalog;
mod errors;
mod flood;
mod hash;
mod login;
mod pooler;
mod session;
mod standstill;
mod tls;

use millstream_pg::{ConnInfo, Connection, Environment, Error, Explained, SessionSettings};

/// An environment without variables.
fn nowhere() -> Environment {
    Environment::default().with_user("nobody")
}

async fn connect(text: &str) -> Result<Connection, Error> {
    let info = ConnInfo::parse(text, &nowhere()).unwrap_or_else(|error| panic!("{error}"));
    millstream_pg::connect(&info, &SessionSettings::named("millstream test")).await
}

async fn connected(text: &str) -> Connection {
    connect(text).await.unwrap_or_else(|error| panic!("{error}; hint: {:?}", error.hint()))
}

async fn refused(text: &str) -> Error {
    match connect(text).await {
        Err(error) => error,
        Ok(connection) => panic!("connected to {:?}", connection.server),
    }
}

/// One text from the first row.
async fn one(connection: &Connection, sql: &str) -> String {
    let rows = connection.client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    rows.iter()
        .find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
        .unwrap_or_else(|| panic!("{sql}: no value"))
}
