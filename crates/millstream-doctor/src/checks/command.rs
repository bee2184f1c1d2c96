//! Words of the commands that a repair prints, so that no name of a table or database becomes another command.

use millstream_model::shell_word;
use millstream_pg::{ConnInfo, quote_identifier};

/// A name as SQL needs it: quoted if it must be.
pub(super) fn spelled(name: &str) -> String {
    let is_plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain && !name.starts_with(|c: char| c.is_ascii_digit()) { name.to_owned() } else { quote_identifier(name) }
}

/// The options with which a program such as `pg_repack` reaches a database of a server, as they follow its name. They hold no
/// password.
pub(super) fn connection(db: &ConnInfo, name: &str) -> String {
    let host = db.hosts.first().map(|host| format!(" --host {} --port {}", shell_word(&host.place()), host.port));
    host.unwrap_or_default() + &format!(" --username {} --dbname {}", shell_word(&db.user), database(name))
}

/// The database as a program such as `reindexdb` takes it. Such programs read a bare name with `=` in it as settings, and
/// one that begins with `-` as an option.
fn database(name: &str) -> String {
    shell_word(&format!("dbname='{}'", name.replace('\\', r"\\").replace('\'', r"\'")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_pg::Environment;

    #[test]
    fn a_program_finds_the_same_server_and_is_given_no_password() {
        let db = |text: &str| ConnInfo::parse(text, &Environment::from_variables([])).unwrap();
        let reached = connection(&db("postgres://me:secret@db1:5433,db2/other"), "shop");
        assert_eq!(reached, r#" --host db1 --port 5433 --username me --dbname "dbname='shop'""#);
        let local = connection(&db("host=/run/pg user=you password=secret"), "shop");
        assert!(local.starts_with(" --host /run/pg --port 5432 --username you "), "{local}");
    }

    #[test]
    fn a_name_stays_one_word() {
        assert_eq!(["a_1", "A", "1a"].map(spelled), ["a_1", "\"A\"", "\"1a\""]);
        assert_eq!(database("shop"), r#""dbname='shop'""#);
        assert_eq!(database("x host=evil"), r#""dbname='x host=evil'""#);
        assert_eq!(database("x' $(id)"), r"'dbname='\''x\'\'' $(id)'\'''");
    }
}
