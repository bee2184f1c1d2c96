//! The settings of a session, which are set before it does anything, and why.

use crate::identifier::{quote_literal, quote_setting};
use crate::limits;
use crate::plans::{NOT_BY_KEY, PLANNER};

/// Which views and foreign tables the server refuses to read in a session, if its version can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Views {
    /// None.
    Read,
    /// All but its own: see [`SessionSettings::without_views`].
    Refused,
    /// Views, if row security does not apply to the session's role: see
    /// [`SessionSettings::without_views_past_policies`].
    RefusedPastPolicies,
}

/// The settings of one session. They are set after the login by `set`, so that nothing given with the connection
/// (`options`, `alter role .. set`, `alter database .. set`) can override them.
///
/// The search path stays that of the database and the role: triggers, defaults and CHECK functions of an adopted table
/// may rely on it. So our SQL names every schema. Only a path that puts something before `pg_catalog` is corrected,
/// because it decides which of our operators and casts are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSettings {
    /// The session's name in `pg_stat_activity`, cut to 63 bytes.
    pub application_name: String,
    /// Name and value, in the order in which they are set. If a name occurs twice, the last value counts.
    pub settings: Vec<(String, String)>,
    /// Whether the database may have another encoding than UTF8. It must have one: in SQL_ASCII, bytes can be anything.
    pub any_encoding: bool,
    /// Which views and foreign tables the server refuses to read.
    pub views: Views,
}

/// What every session of ours needs: name, value, first major version that has it.
///
/// - `timezone` to `array_nulls`: texts of times, numbers and bytes must mean the same everywhere;
/// - `quote_all_identifiers`: it changes the names that the catalog prints, which we compare;
/// - `jit`: compiling costs more than a batch's statement takes;
/// - `synchronize_seqscans`: a sequential scan starts at the table's beginning, so that two runs see one order;
/// - `client_connection_check_interval`, set by `session.sql` where the server's system can check it;
/// - timeouts of roles are meant for people at a prompt; a batch is limited by its size and by the lock timeout.
const SETTINGS: &[(&str, &str, i32)] = &[
    ("client_encoding", "UTF8", 15),
    ("timezone", "UTC", 15),
    ("datestyle", "ISO, MDY", 15),
    ("intervalstyle", "postgres", 15),
    ("extra_float_digits", "1", 15),
    ("bytea_output", "hex", 15),
    ("standard_conforming_strings", "on", 15),
    ("array_nulls", "on", 15),
    ("quote_all_identifiers", "off", 15),
    ("default_transaction_isolation", "read committed", 15),
    ("jit", "off", 15),
    ("synchronize_seqscans", "off", 15),
    ("statement_timeout", "0", 15),
    ("idle_session_timeout", "0", 15),
    ("transaction_timeout", "0", 17),
];

/// Refuses views and foreign tables that are not PostgreSQL's own. Servers before 15.8 and 16.4 do not have the setting.
const NO_VIEWS: &str = "select pg_catalog.set_config(name, 'view, foreign-table', false) from pg_catalog.pg_settings \
                        where name operator(pg_catalog.=) 'restrict_nonsystem_relation_kind';\n";

/// The same for views alone, and only if row security does not apply to one of the session's roles.
const NO_VIEWS_PAST_POLICIES: &str = include_str!("session_past_policies.sql");

impl SessionSettings {
    /// The session of lane `n`.
    pub fn lane(n: usize) -> SessionSettings {
        SessionSettings::named(&format!("millstream lane {n}"))
    }

    /// The session that creates tables, takes epochs and reads the account.
    pub fn control() -> SessionSettings {
        SessionSettings::named("millstream control").with_default_plans()
    }

    /// The session that examines a database, also one that cannot hold all of JSON.
    pub fn doctor() -> SessionSettings {
        SessionSettings { any_encoding: true, ..SessionSettings::named("millstream doctor") }
    }

    /// A session for another purpose.
    pub fn named(application_name: &str) -> SessionSettings {
        let settings = vec![
            ("lock_timeout".to_owned(), format!("{}s", limits::LOCK_TIMEOUT_S)),
            ("idle_in_transaction_session_timeout".to_owned(), format!("{}s", limits::IDLE_IN_TRANSACTION_TIMEOUT_S)),
        ];
        SessionSettings {
            application_name: application_name.to_owned(),
            settings,
            any_encoding: false,
            views: Views::Read,
        }
    }

    /// Adds a setting.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> SessionSettings {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Names mean what they mean in PostgreSQL itself. For a session that runs only our statements: a trigger, a check or
    /// an expression of a user may rely on the user's search path.
    #[must_use]
    pub fn with_own_names(self) -> SessionSettings {
        self.with("search_path", "pg_catalog")
    }

    /// The server refuses to read a view or a foreign table that is not its own, if its version can. So whoever exchanges
    /// a table for one of them gets no code run. For a session that reads only tables that Millstream made.
    ///
    /// Other sessions must read views, or may have to:
    /// - one that writes a user's table or reads it by a user's expression (load, compact, publish, refresh), as
    ///   triggers and functions may read views;
    /// - one that only reads a user's table (get, verify, distinct), as a policy of its row-level security may, and as a
    ///   partition may be a foreign table;
    /// - one that runs a user's SQL (lab, ranges, explain-index), and the doctor, which also reads the views of extensions.
    #[must_use]
    pub fn without_views(self) -> SessionSettings {
        SessionSettings { views: Views::Refused, ..self }
    }

    /// As [`SessionSettings::without_views`], for a session that only reads a user's table: a role to which row security does
    /// not apply needs no view for it, and could do the most harm by reading one.
    #[must_use]
    pub fn without_views_past_policies(self) -> SessionSettings {
        SessionSettings { views: Views::RefusedPastPolicies, ..self }
    }

    /// The planner's settings are PostgreSQL's defaults, whatever the role and the database have.
    #[must_use]
    pub fn with_default_plans(self) -> SessionSettings {
        PLANNER.iter().fold(self, |session, (name, value)| session.with(name, value))
    }

    /// The planner looks rows up by key, whatever the role and the database have, and whatever the statistics say. A
    /// statement with a join must also leave it no other way: see [`by_key`](crate::by_key).
    #[must_use]
    pub fn with_plans_by_key(self) -> SessionSettings {
        NOT_BY_KEY.iter().fold(self.with_default_plans(), |session, name| session.with(name, "off"))
    }

    /// The name as the server shows it: the user's own name comes first, if the connection string has one.
    pub(crate) fn shown_name(&self, own: Option<&str>) -> String {
        let mut name = match own {
            Some(own) if !own.is_empty() => format!("{own} ({})", self.application_name),
            _ => self.application_name.clone(),
        };
        name.truncate(name.floor_char_boundary(limits::IDENTIFIER_BYTES_MAX));
        name
    }

    /// The statements that set the settings on a server of this major version.
    pub(crate) fn sql(&self, major: i32) -> String {
        let fixed = SETTINGS.iter().filter(|(_, _, since)| *since <= major).map(|(name, value, _)| (*name, *value));
        let own = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut sql = String::new();
        for (name, value) in fixed.chain(own) {
            sql.push_str(&format!("set {} = {};\n", quote_setting(name), quote_literal(value)));
        }
        sql.push_str(match self.views {
            Views::Read => "",
            Views::Refused => NO_VIEWS,
            Views::RefusedPastPolicies => NO_VIEWS_PAST_POLICIES,
        });
        sql
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_settings_come_last() {
        let sql = SessionSettings::lane(2).with("jit", "on").with("my.x", "it's").sql(15);
        let (off, on) = (sql.find("\"jit\" = 'off'"), sql.find("\"jit\" = 'on'"));
        assert!(off.expect("ours is set") < on.expect("the caller's is set"));
        assert!(sql.contains("set \"my\".\"x\" = 'it''s';"));
        assert!(sql.contains("\"lock_timeout\" = '60s'"));
    }

    #[test]
    fn a_setting_is_sent_only_to_versions_that_have_it() {
        assert!(!SessionSettings::control().sql(16).contains("transaction_timeout\" = '0'"));
        assert!(SessionSettings::control().sql(17).contains("\"transaction_timeout\" = '0'"));
    }

    #[test]
    fn the_users_application_name_comes_first() {
        let lane = SessionSettings::lane(1);
        assert_eq!(lane.shown_name(None), "millstream lane 1");
        assert_eq!(lane.shown_name(Some("etl")), "etl (millstream lane 1)");
        let long = lane.shown_name(Some(&"é".repeat(40)));
        assert_eq!(long.len(), 62);
    }
}
