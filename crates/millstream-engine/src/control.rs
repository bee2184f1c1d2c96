//! The session through which loads are opened and closed, and which holds their locks.

use crate::budget::Budget;
use crate::collection::KnownTable;
use crate::drain::Drain;
use crate::error::Error;
use crate::observe::Event;
use crate::outcome::Surroundings;
use crate::request::LoadRequest;
use millstream_pg::advisory::LockKey;
use millstream_pg::{ConnInfo, Connection, SessionSettings, quote_identifier};
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};

/// What the loads of a process share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) control: Control,
    pub(crate) budget: Budget,
    /// What is known of the table into which one of them was opened last.
    pub(crate) table: Arc<KnownTable>,
    /// What bounds their end, if they end together.
    pub(crate) drain: Option<Drain>,
}

/// The session. A load has one of its own, or shares one with others of its process.
#[derive(Clone)]
pub(crate) struct Control {
    db: ConnInfo,
    /// The lock by which others of its group know its sessions.
    group: Option<LockKey>,
    session: Arc<Mutex<Session>>,
}

/// A session in use.
pub(crate) struct Session {
    pub(crate) connection: Connection,
    /// How many sessions came before it.
    pub(crate) number: u64,
    abandoned: bool,
}

impl Session {
    /// Ends the session, and with it the locks of all loads in it, which take them again in the next one. This is for a
    /// session that somebody left half-way.
    pub(crate) fn abandon(&mut self) {
        self.connection.abandon();
        self.abandoned = true;
    }
}

impl Control {
    /// Connects, checks that a load can work with this server and database, and creates our tables if they are missing.
    /// `group` is the lock that the sessions of its group share, if it has one.
    ///
    /// # Errors
    /// Whatever prevents a load from beginning.
    pub(crate) async fn open(
        request: &LoadRequest,
        around: &Surroundings,
        group: Option<LockKey>,
    ) -> Result<Self, Error> {
        let connection = prepare_database(request, around).await?;
        if let Some(group) = group {
            group.lock_shared(&connection.client).await?;
        }
        let session = Session { connection, number: 0, abandoned: false };
        Ok(Self { db: around.db.clone(), group, session: Arc::new(Mutex::new(session)) })
    }

    /// The lock of its group.
    pub(crate) fn group(&self) -> Option<LockKey> {
        self.group
    }

    /// The session, alone; a new one if the last has ended.
    ///
    /// # Errors
    /// The server's, if it takes no new session.
    pub(crate) async fn session(&self) -> Result<MutexGuard<'_, Session>, Error> {
        let mut session = self.session.lock().await;
        if session.abandoned || session.connection.client.is_closed() {
            let connection = connect_control(&self.db).await?;
            if let Some(group) = self.group {
                group.lock_shared(&connection.client).await?;
            }
            session.connection = connection;
            (session.abandoned, session.number) = (false, session.number + 1);
        }
        Ok(session)
    }

    /// The last session, which may have ended.
    pub(crate) async fn last(&self) -> MutexGuard<'_, Session> {
        self.session.lock().await
    }

    /// Resolves when the session of this number has ended.
    pub(crate) async fn ended(&self, number: u64) {
        let session = self.session.lock().await;
        let signal = (session.number == number && !session.abandoned).then(|| session.connection.end_signal());
        drop(session);
        if let Some(signal) = signal {
            signal.await;
        }
    }
}

async fn prepare_database(request: &LoadRequest, around: &Surroundings) -> Result<Connection, Error> {
    let mut control = connect_control(&around.db).await?;
    let second = connect_control(&around.db).await.map_err(alone)?;
    millstream_pg::ensure_session_pooling(&control, &second).await?;
    // Before the lanes connect: a pool may have just enough for them.
    second.close().await;
    if request.shard.is_none() {
        require_plain(&control, request).await?;
    }
    require_writes(&control).await?;
    if (request.layout.examine)(&control, request.durability).await? {
        around.observer.event(Event::WalFree);
    }
    around.observer.warn(request.durability.check(&control).await?);
    let schema = &request.schema;
    around.observer.warn(schema.ensure(&mut control.client).await?.map(|bound| bound.to_string()));
    around.observer.warn(millstream_store::orphaned_segments::drop_segments(&mut control.client, schema).await?);
    Ok(control)
}

pub(crate) async fn connect_control(db: &ConnInfo) -> Result<Connection, Error> {
    // Whoever holds what it waits for is named meanwhile.
    let control = millstream_pg::connect(db, &SessionSettings::control().with("lock_timeout", "0")).await?;
    control.client.batch_execute(include_str!("write/durable.sql")).await?;
    Ok(control)
}

/// Refuses what Citus has a part in: it answers several of our statements in its own way. A load into a distributed table
/// goes to its shards.
///
/// # Errors
/// [`Error::Coordinator`] if the server distributes tables.
pub(crate) async fn require_plain(control: &Connection, request: &LoadRequest) -> Result<(), Error> {
    let row = control.client.query_one(include_str!("citus.sql"), &[]).await?;
    let (installed, has_tables): (bool, bool) = (row.get(0), row.get(1));
    let database = control.server.database.clone();
    if !installed {
        return match request.distribute {
            false => Ok(()),
            true => Err(Error::refused(
                format!("--distribute needs Citus, and database {database} does not have that extension"),
                "leave it out, or connect to a coordinator of Citus",
            )),
        };
    }
    if !has_tables {
        return Err(Error::refused(
            format!(
                "database {database} has the extension citus, and not the tables of the versions that are known here"
            ),
            "update it: alter extension citus update; or load into a database without it",
        ));
    }
    let sql = "select groupid from pg_catalog.pg_dist_local_group";
    match control.client.query_one(sql, &[]).await?.get::<_, i32>(0) {
        0 => Err(Error::Coordinator { database }),
        _ => Err(Error::refused(
            format!("database {database} is a worker of Citus"),
            "connect to the coordinator: the load then goes to the workers by itself",
        )),
    }
}

/// Refuses a role or a database that is set to read only, because waiting does not change that.
async fn require_writes(control: &Connection) -> Result<(), Error> {
    let sql = "select source from pg_catalog.pg_settings \
               where name = 'default_transaction_read_only' and setting = 'on' and source like any ('{%user%,%database%}')";
    let Some(row) = control.client.query_opt(sql, &[]).await? else { return Ok(()) };
    let (role, database) = (quote_identifier(&control.server.role), quote_identifier(&control.server.database));
    let altered = match row.get(0) {
        "database" => format!("database {database}"),
        "user" => format!("role {role}"),
        _ => format!("role {role} in database {database}"),
    };
    Err(Error::refused(
        format!("default_transaction_read_only is on for {altered}, so that nothing can be written"),
        format!("alter {altered} set default_transaction_read_only = off; or load as another role"),
    ))
}

/// Why a server that has answered does not answer a second time.
pub(crate) fn alone(error: Error) -> Error {
    if !matches!(&error, Error::Postgres(error) if error.is_unanswered()) {
        return error;
    }
    Error::refused(
        "the server gives this load one connection, and does not answer when it asks for a second one",
        "a load needs two at once; if they come through a pool, let it have more (PgBouncer: default_pool_size, \
         max_db_connections), or connect to the server itself",
    )
}
