//! What is examined: a server, and its databases.

use crate::limits::{LOCK_TIME_MAX_MS, ROWS_MAX, STATEMENT_TIME_MAX_MS};
use crate::partition::Roots;
use crate::recent::Earlier;
use crate::refusal::Stop;
use crate::statement::Statements;
use millstream_model::{Change, Repair, Restart};
use millstream_pg::{
    ConnInfo, Connection, Error, SessionSettings, connect, ensure_session_pooling, fill, quote_literal,
};
use millstream_store::POWERS;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// A server under examination.
#[derive(Debug)]
pub(crate) struct Server {
    /// A session in the database that the user named.
    pub(crate) session: Connection,
    /// The way to the same server, also if the user named several.
    pub(crate) db: ConnInfo,
    /// The role may read what `pg_monitor` may.
    pub(crate) may_monitor: bool,
    /// How the role logs in that may plan the statements of others.
    pub(crate) planner: Option<ConnInfo>,
    /// Seconds for which it may have counted, at most: for rates.
    pub(crate) counted_seconds: f64,
    /// Seconds for which it has surely counted. After a crash it begins anew.
    pub(crate) sure_seconds: f64,
    /// Sessions show what they do.
    tracks_activities: bool,
    /// An earlier look at its counters.
    pub(crate) earlier: Option<Earlier>,
    /// The service that runs the server, if it is a managed one.
    provider: Option<&'static Provider>,
}

/// One of its databases.
#[derive(Debug)]
pub(crate) struct Database {
    /// A session in it.
    pub(crate) session: Connection,
    /// Its name.
    pub(crate) name: String,
    /// The way to it.
    pub(crate) db: ConnInfo,
    /// How long it took to open the session.
    pub(crate) opened: Duration,
    /// `Err`: why the use of its tables and indexes is not known.
    pub(crate) counts: Result<(), String>,
    /// Seconds for which its counters may have counted, at most: for rates.
    pub(crate) counted_seconds: f64,
    /// Seconds for which they have surely counted.
    pub(crate) sure_seconds: f64,
    /// Longest time of each check that measures its tables or indexes.
    pub(crate) measure_time: Duration,
    /// Its partitions and their roots.
    pub(crate) roots: Roots,
    pub(crate) earlier: Option<Earlier>,
    statements: OnceCell<Statements>,
}

/// A managed service.
#[derive(Debug)]
struct Provider {
    name: &'static str,
    /// A setting that only its servers have.
    setting: &'static str,
    /// A database of its own, which customers cannot connect to.
    database: &'static str,
}

const PROVIDERS: &[Provider] = &[
    Provider { name: "Amazon RDS", setting: "rds.extensions", database: "rdsadmin" },
    Provider { name: "Google Cloud SQL", setting: "cloudsql.enable_pgaudit", database: "cloudsqladmin" },
    Provider { name: "Azure Database", setting: "azure.extensions", database: "azure_maintenance" },
    Provider { name: "Neon", setting: "neon.timeline_id", database: "" },
];

/// The service whose servers have this setting.
fn provider_with(setting: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|provider| provider.setting == setting)
}

impl Server {
    /// Opens a session that changes nothing and waits for no lock.
    ///
    /// # Errors
    /// The server's; a pooler is between that gives each transaction another session.
    pub(crate) async fn open(db: &ConnInfo, planner: Option<&ConnInfo>) -> Result<Self, Error> {
        let settings = SessionSettings::doctor();
        let session = connect(db, &settings).await?;
        // What is set here would stay in a session that a pooler gives to somebody else.
        ensure_session_pooling(&session, &connect(db, &settings).await?).await?;
        let here = |db: &ConnInfo| {
            let mut db = db.clone();
            db.hosts.retain(|host| host.to_string() == session.server.host);
            db.load_balance = false;
            db
        };
        let (db, planner) = (here(db), planner.map(here));
        restrict(&session).await?;
        let names: Vec<&str> = PROVIDERS.iter().map(|provider| provider.setting).collect();
        let row = session.client.query_one(include_str!("server.sql"), &[&names]).await?;
        let provider = row.get::<_, Option<&str>>("provider").and_then(provider_with);
        let (may_monitor, tracks_activities) = (row.get("may_monitor"), row.get("tracks_activities"));
        let [counted_seconds, sure_seconds] =
            ["counted_seconds", "sure_seconds"].map(|name| row.get::<_, Option<f64>>(name).unwrap_or(0.0).max(1.0));
        Ok(Self {
            session,
            db,
            may_monitor,
            planner,
            counted_seconds,
            sure_seconds,
            tracks_activities,
            earlier: None,
            provider,
        })
    }

    /// The name of the service that runs the server, if it is a managed one.
    pub(crate) fn provider(&self) -> Option<&'static str> {
        self.provider.map(|provider| provider.name)
    }

    /// The version, such as 150014.
    pub(crate) fn version_num(&self) -> i32 {
        self.session.server.version_num
    }

    /// The data directory, if this role may know it.
    pub(crate) async fn data_directory(&self) -> Result<Option<PathBuf>, Error> {
        let sql = "select setting from pg_settings where name = 'data_directory'";
        let row = self.session.client.query_opt(sql, &[]).await?;
        Ok(row.map(|row| PathBuf::from(row.get::<_, String>(0))))
    }

    /// The directories of the tablespaces outside the data directory.
    pub(crate) async fn tablespaces(&self) -> Result<Vec<PathBuf>, Error> {
        let sql =
            "select dir from pg_tablespace cross join pg_tablespace_location(oid) as dir where dir <> '' order by dir";
        let rows = self.session.client.query(sql, &[]).await?;
        Ok(rows.iter().map(|row| PathBuf::from(row.get::<_, String>(0))).collect())
    }

    /// Names of the databases without templates, and whether this role may connect to them.
    pub(crate) async fn databases(&self) -> Result<Vec<(String, bool)>, Error> {
        let sql = "select datname, has_database_privilege(oid, 'connect') from pg_database \
                   where datallowconn and not datistemplate and datname <> $1 order by datname";
        let own = self.provider.map_or("", |provider| provider.database);
        Ok(self.session.client.query(sql, &[&own]).await?.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// A repair that gives a setting another value. A managed service has its own way.
    pub(crate) fn setting(&self, name: &str, value: &str, sentence: &str, risk: &str) -> Repair {
        let (commands, change) = set(self.provider(), name, value);
        let (sentence, risk) = (sentence.to_owned(), risk.to_owned());
        Repair { sentence, commands, risk, restart: Restart::Reload, change }
    }

    /// Asks for the rows of a check, the worst first. The last parameter says how many they are at most.
    pub(crate) async fn worst(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        worst(&self.session, sql, parameters).await
    }

    /// Why other sessions are not seen, if they are not.
    pub(crate) fn blind_to_sessions(&self) -> Option<String> {
        match (self.may_monitor, self.tracks_activities) {
            (false, _) => Some("sessions of other roles; grant pg_monitor to this role to see them".to_owned()),
            (true, false) => Some("what sessions do, because track_activities is off; switch it on".to_owned()),
            (true, true) => None,
        }
    }
}

impl Database {
    /// Opens a session in a database of the same server.
    ///
    /// # Errors
    /// The server's.
    pub(crate) async fn open(server: &Server, name: &str, measure_time: Duration) -> Result<Self, Error> {
        let mut db = server.db.clone();
        name.clone_into(&mut db.dbname);
        let begun = Instant::now();
        let session = connect(&db, &SessionSettings::doctor()).await?;
        let opened = begun.elapsed();
        restrict(&session).await?;
        let row = session.client.query_one(include_str!("database.sql"), &[]).await?;
        let counts = match (session.server.in_recovery, row.get("counts")) {
            (true, _) => Err("what the primary counts; this is a standby, so examine the primary".to_owned()),
            (false, false) => Err("what is not counted, because track_counts is off; switch it on".to_owned()),
            (false, true) => Ok(()),
        };
        let reset: Option<f64> = row.get("seconds");
        let [counted_seconds, sure_seconds] =
            [server.counted_seconds, server.sure_seconds].map(|seconds| reset.unwrap_or(seconds).max(1.0));
        let roots = Roots::read(&session.client).await?;
        Ok(Self {
            session,
            name: name.to_owned(),
            db,
            opened,
            counts,
            counted_seconds,
            sure_seconds,
            measure_time,
            roots,
            earlier: server.earlier.clone(),
            statements: OnceCell::new(),
        })
    }

    /// Asks for the rows of a check, the worst first. The last parameter says how many they are at most.
    pub(crate) async fn worst(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        worst(&self.session, sql, parameters).await
    }

    /// `Err`: why the work of its own sessions is not counted. A standby counts its own.
    pub(crate) fn counts_here(&self) -> Result<(), String> {
        if self.is_standby() { Ok(()) } else { self.counts.clone() }
    }

    /// The statements that took the most time in it. They are read once.
    ///
    /// # Errors
    /// The server's.
    pub(crate) async fn statements(&self) -> Result<&Statements, Error> {
        let read = async || {
            let mut statements = Statements::read(&self.session.client).await?;
            if let Some(earlier) = &self.earlier
                && let Some(recent) = earlier.until_now(&self.session.client, &self.name).await?
            {
                statements.now_take(|id| recent.percent_of(id), recent.seconds);
            }
            Ok(statements)
        };
        self.statements.get_or_try_init(read).await
    }

    /// Opens a session in which statements of others may be planned: planning can call functions that they have written.
    pub(crate) async fn session_to_plan(&self, planner: &ConnInfo) -> Result<Connection, Stop> {
        let mut db = planner.clone();
        self.name.clone_into(&mut db.dbname);
        let session = connect(&db, &SessionSettings::doctor()).await;
        let session = session.map_err(|error| format!("statements that {} may plan: {error}", db.user))?;
        let sql = fill!(include_str!("powers.sql"), powers = POWERS);
        let powers: Option<String> = session.client.query_one(&sql, &[]).await?.get(0);
        if let Some(powers) = powers {
            let role = &db.user;
            return Err(
                format!("statements of others, because {role} is {powers}; --plan-as names another role").into()
            );
        }
        // Otherwise a condition on the key of a partitioned table leaves no partition in a plan for any value.
        session.client.batch_execute(&format!("set enable_partition_pruning = off; {}", timeouts())).await?;
        Ok(session)
    }

    /// The change that drops an index. Its old value is the definition.
    pub(crate) fn drop_index(&self, name: &str) -> Option<Change> {
        self.change("index", name)
    }

    /// The change that takes an option of a table away.
    pub(crate) fn reset_option(&self, table: &str, option: &str) -> Option<Change> {
        self.change("table-option", &format!("{table}/{option}"))
    }

    /// The change that gives an option of a table another value.
    pub(crate) fn set_option(&self, table: &str, option: &str, value: &str) -> Option<Change> {
        let change = self.change("table-option", &format!("{table}/{option}"))?;
        Some(Change { value: Some(value.to_owned()), ..change })
    }

    /// The change that gives a setting of a role another value, for its sessions in this database.
    pub(crate) fn set_for_role(&self, role: &str, setting: &str, value: &str) -> Option<Change> {
        let is_plain = !role.contains('/') && !self.name.contains('/');
        let target = format!("{role}/{}/{setting}", self.name);
        (is_plain && !self.is_standby()).then(|| Change::new("role-setting", target, value))
    }

    /// Nothing in its databases can be changed here.
    fn is_standby(&self) -> bool {
        self.session.server.in_recovery
    }

    /// A change that takes something in this database away. Its target begins with the database and a slash. A standby
    /// cannot make it.
    fn change(&self, kind: &str, what: &str) -> Option<Change> {
        let target = format!("{}/{what}", self.name);
        (!self.name.contains('/') && !self.is_standby()).then(|| Change { kind: kind.to_owned(), target, value: None })
    }
}

/// From now on the session writes nothing, waits for no lock, holds nobody up for long, takes no object of a user's schema
/// for one of the system's, and works on one processor. Its statements are too short to be worth compiling.
async fn restrict(session: &Connection) -> Result<(), Error> {
    let sql = format!(
        "set default_transaction_read_only = on; set search_path = pg_catalog; set jit = off; \
         set max_parallel_workers_per_gather = 0; {}",
        timeouts()
    );
    Ok(session.client.batch_execute(&sql).await?)
}

async fn worst(session: &Connection, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
    Ok(session.client.query(sql, &[parameters, &[&ROWS_MAX]].concat()).await?)
}

fn timeouts() -> String {
    format!("set statement_timeout = {STATEMENT_TIME_MAX_MS}; set lock_timeout = {LOCK_TIME_MAX_MS}")
}

fn set(provider: Option<&str>, name: &str, value: &str) -> (Vec<String>, Option<Change>) {
    if let Some(service) = provider {
        return (vec![format!("-- in the parameters of {service}: {name} = {value}")], None);
    }
    let change = Change::new("setting", name, value);
    let set = format!("alter system set {name} = {}", quote_literal(value));
    (vec![set, "select pg_reload_conf()".to_owned()], Some(change))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_managed_service_is_known_by_a_setting_that_only_it_has() {
        for (setting, name, database) in [
            ("rds.extensions", "Amazon RDS", "rdsadmin"),
            ("cloudsql.enable_pgaudit", "Google Cloud SQL", "cloudsqladmin"),
            ("azure.extensions", "Azure Database", "azure_maintenance"),
            ("neon.timeline_id", "Neon", ""),
        ] {
            let found = provider_with(setting).unwrap();
            assert_eq!((found.name, found.database), (name, database));
        }
        assert!(provider_with("pgaudit.log").is_none() && provider_with("").is_none());
    }

    #[test]
    fn a_managed_service_sets_its_parameters_itself() {
        let (commands, change) = set(None, "work_mem", "1MB");
        assert_eq!(commands, ["alter system set work_mem = '1MB'", "select pg_reload_conf()"]);
        assert!(change.is_some());
        let (commands, change) = set(Some("Neon"), "work_mem", "1MB");
        assert_eq!(
            (commands.as_slice(), change),
            (&["-- in the parameters of Neon: work_mem = 1MB".to_owned()][..], None)
        );
    }
}
