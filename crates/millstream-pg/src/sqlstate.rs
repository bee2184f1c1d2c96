//! What a SQLSTATE means for a loader: one list from code or class to kind.

use crate::kind::ErrorKind;

/// What a SQLSTATE means.
///
/// Errors of classes 42 and 21 are the user's: nearly every statement holds names of the user's tables, columns and
/// types, or an expression from the command line, and the code does not say which part is wrong.
///
/// A class that PostgreSQL does not define can only come from `raise .. using errcode` in a user's trigger or function.
/// In this way a user refuses data.
pub fn kind_of(sqlstate: &str) -> ErrorKind {
    let find = |key: &str| KINDS.binary_search_by(|(code, _)| (*code).cmp(key)).ok().map(|i| KINDS[i].1);
    find(sqlstate).or_else(|| find(sqlstate.get(..2).unwrap_or(""))).unwrap_or(ErrorKind::DataRefused)
}

/// What a driver error means.
pub fn classify(error: &tokio_postgres::Error) -> ErrorKind {
    if let Some(db) = error.as_db_error() {
        let pooler = POOLER.iter().find(|(begin, _)| db.code().code() == "08P01" && db.message().starts_with(begin));
        let kind = pooler.map_or_else(|| kind_of(db.code().code()), |(_, kind)| *kind);
        // A policy or a trigger that refuses a row may use the code of a missing right. The server's routine that
        // raised it tells them apart, in any language of the server.
        let raised = |routine: &str| db.routine() == Some(routine);
        let refuses = match kind {
            ErrorKind::Rights if db.code().code() == "42501" => {
                raised("ExecWithCheckOptions") || raised("exec_stmt_raise") && in_users_function(db.where_())
            }
            ErrorKind::Bug | ErrorKind::NotFound | ErrorKind::Exists | ErrorKind::Config => {
                in_users_function(db.where_())
            }
            _ => false,
        };
        return if refuses { ErrorKind::DataRefused } else { kind };
    }
    let text = error.to_string();
    if LOSSES.iter().any(|loss| text.starts_with(loss)) {
        return ErrorKind::Transient;
    }
    ErrorKind::Bug
}

/// Whether an error was raised inside a function of the user's that a row has called: by a trigger, a constraint or a
/// generated column. Then our statement is not wrong, whatever the code.
///
/// In every language of the server, the context of an error calls a procedural language `PL/..`.
fn in_users_function(context: Option<&str>) -> bool {
    let ours = |line: &str| OUR_FUNCTIONS.iter().any(|name| line.contains(name));
    context.unwrap_or_default().lines().any(|line| line.contains("PL/") && !ours(line))
}

/// Parts of the names of functions that Millstream itself creates. An error in them is about our statements.
const OUR_FUNCTIONS: &[&str] =
    &[".millstream_replay(", ".millstream_frozen_", ".change_", ".distinct_walk(", ".distinct_values("];

/// How the messages begin by which PgBouncer ends a session. It has one code for all of them, that of a broken protocol.
/// Source: its function `disconnect_client`.
const POOLER: &[(&str, ErrorKind)] = &[
    ("query_wait_timeout", ErrorKind::TooManyConnections),
    ("no more connections allowed", ErrorKind::TooManyConnections),
    ("server conn crashed?", ErrorKind::Transient),
];

/// How the driver's text begins if the connection broke; the driver does not expose its kinds. Its other errors (a
/// value of the wrong type, a message that cannot be encoded or was not expected) are our bugs and must not be retried.
const LOSSES: &[&str] =
    &["connection closed", "error communicating with the server", "error connecting to server", "timeout waiting"];

/// Code (five characters) or class (two) to kind, sorted; a code wins over its class.
///
/// Source: PostgreSQL 18, appendix A, `errcodes.txt`.
const KINDS: &[(&str, ErrorKind)] = &[
    ("01", ErrorKind::Bug),
    ("02", ErrorKind::Bug),
    ("03", ErrorKind::Bug),
    ("08", ErrorKind::Transient),
    ("08004", ErrorKind::Auth),
    ("08P01", ErrorKind::Bug),
    ("09", ErrorKind::DataRefused),
    ("0A", ErrorKind::Config),
    ("0B", ErrorKind::Bug),
    ("0F", ErrorKind::Bug),
    ("0L", ErrorKind::Rights),
    ("0P", ErrorKind::Rights),
    ("0Z", ErrorKind::Bug),
    ("10", ErrorKind::DataRefused),
    ("20", ErrorKind::DataRefused),
    ("21", ErrorKind::Config),
    ("22", ErrorKind::DataRefused),
    ("23", ErrorKind::DataRefused),
    ("24", ErrorKind::Bug),
    ("25", ErrorKind::Bug),
    ("25006", ErrorKind::ReadOnly),
    ("25P03", ErrorKind::Transient),
    ("25P04", ErrorKind::Cancelled),
    ("26", ErrorKind::Bug),
    ("27", ErrorKind::DataRefused),
    ("28", ErrorKind::Auth),
    ("2B", ErrorKind::Config),
    ("2D", ErrorKind::Bug),
    ("2F", ErrorKind::DataRefused),
    ("34", ErrorKind::Bug),
    ("38", ErrorKind::DataRefused),
    ("39", ErrorKind::DataRefused),
    ("3B", ErrorKind::Bug),
    ("3D", ErrorKind::NotFound),
    ("3F", ErrorKind::NotFound),
    ("40", ErrorKind::Serialization),
    ("40002", ErrorKind::DataRefused),
    ("40003", ErrorKind::Transient),
    ("40P01", ErrorKind::Deadlock),
    ("42", ErrorKind::Config),
    ("42501", ErrorKind::Rights),
    ("42701", ErrorKind::Exists),
    ("42703", ErrorKind::NotFound),
    ("42704", ErrorKind::NotFound),
    ("42710", ErrorKind::Exists),
    ("42723", ErrorKind::Exists),
    ("42883", ErrorKind::NotFound),
    ("42P01", ErrorKind::NotFound),
    ("42P04", ErrorKind::Exists),
    ("42P06", ErrorKind::Exists),
    ("42P07", ErrorKind::Exists),
    ("44", ErrorKind::DataRefused),
    ("53", ErrorKind::OutOfMemory),
    ("53100", ErrorKind::DiskFull),
    ("53300", ErrorKind::TooManyConnections),
    ("53400", ErrorKind::DiskFull),
    ("54", ErrorKind::DataRefused),
    ("55", ErrorKind::Config),
    ("55006", ErrorKind::Busy),
    ("55P03", ErrorKind::Busy),
    ("57", ErrorKind::Transient),
    ("57014", ErrorKind::Cancelled),
    ("57P04", ErrorKind::NotFound),
    ("58", ErrorKind::ServerFault),
    ("72", ErrorKind::Serialization),
    ("F0", ErrorKind::ServerFault),
    ("HV", ErrorKind::DataRefused),
    ("P0", ErrorKind::DataRefused),
    ("XX", ErrorKind::ServerFault),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_well_formed() {
        assert!(KINDS.is_sorted_by(|a, b| a.0 < b.0));
        for (code, _) in KINDS {
            assert!(matches!(code.len(), 2 | 5), "{code}");
            assert!(kind_of(code) == KINDS.iter().find(|k| k.0 == *code).expect("it is listed").1);
            let class = &code[..2];
            assert!(KINDS.iter().any(|k| k.0 == class), "class {class} has no kind");
        }
    }

    #[test]
    fn known_codes_have_the_expected_kind() {
        for (code, kind) in [
            ("08006", ErrorKind::Transient),
            ("57P01", ErrorKind::Transient),
            ("57P02", ErrorKind::Transient),
            ("57P03", ErrorKind::Transient),
            ("57P05", ErrorKind::Transient),
            ("57014", ErrorKind::Cancelled),
            ("40001", ErrorKind::Serialization),
            ("40P01", ErrorKind::Deadlock),
            ("53100", ErrorKind::DiskFull),
            ("53200", ErrorKind::OutOfMemory),
            ("53300", ErrorKind::TooManyConnections),
            ("55P03", ErrorKind::Busy),
            ("25006", ErrorKind::ReadOnly),
            ("28P01", ErrorKind::Auth),
            ("28000", ErrorKind::Auth),
            ("3D000", ErrorKind::NotFound),
            ("42501", ErrorKind::Rights),
            ("42P01", ErrorKind::NotFound),
            ("42P07", ErrorKind::Exists),
            ("42601", ErrorKind::Config),
            ("22P02", ErrorKind::DataRefused),
            ("23505", ErrorKind::DataRefused),
            ("54000", ErrorKind::DataRefused),
            ("54001", ErrorKind::DataRefused),
            ("P0001", ErrorKind::DataRefused),
            ("XX001", ErrorKind::ServerFault),
            ("21000", ErrorKind::Config),
            ("42939", ErrorKind::Config),
            ("42P10", ErrorKind::Config),
            ("34000", ErrorKind::Bug),
        ] {
            assert_eq!(kind_of(code), kind, "{code}");
        }
    }

    #[test]
    fn only_functions_of_the_user_refuse_data() {
        for context in [
            "PL/pgSQL function public.check_it() line 1 at RAISE",
            "PL/pgSQL-Funktion check_it() Zeile 1 bei RAISE",
            "SQL statement \"select 1\"\nPL/Perl function \"check_it\"",
            "PL/pgSQL function check_it() line 1 at RAISE\nSQL statement \"insert\"\n\
             PL/pgSQL function pg_temp_3.millstream_replay(text[]) line 9 at SQL statement",
        ] {
            assert!(in_users_function(Some(context)), "{context}");
        }
        for context in [
            "JSON data, line 1: {",
            "SQL statement \"insert\"\nPL/pgSQL function pg_temp_3.millstream_replay(text[]) line 9 at SQL statement",
            "PL/pgSQL function millstream.change_7_record() line 9 at SQL statement",
            "PL/pgSQL function millstream.millstream_frozen_7() line 3 at RAISE",
        ] {
            assert!(!in_users_function(Some(context)), "{context}");
        }
        assert!(!in_users_function(None));
    }

    #[test]
    fn a_code_invented_by_a_trigger_refuses_data() {
        assert_eq!(kind_of("ZX001"), ErrorKind::DataRefused);
        assert_eq!(kind_of(""), ErrorKind::DataRefused);
        assert_eq!(kind_of("é"), ErrorKind::DataRefused);
    }
}
