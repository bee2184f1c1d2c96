//! The advisory lock that a load's session holds while the load runs.

use crate::error::Error;
use crate::schema::Schema;
use millstream_pg::advisory::{GROUP, LockKey};
use millstream_pg::fill;
use tokio_postgres::GenericClient;
use xxhash_rust::xxh3::xxh3_64;

impl Schema {
    /// First key of the locks of this schema's loads. Another schema of the database may use the same load numbers.
    pub(crate) fn load_lock_class(&self) -> i32 {
        hash(self.name())
    }

    /// Whether lock `k` of the server is that of the load with this number, as SQL.
    pub(crate) fn load_locked(&self, load_id: &str) -> String {
        fill!(include_str!("load_lock.sql"), load_class = self.load_lock_class(), load_id)
    }

    /// The query for the sessions that work for load `l`.
    pub(crate) fn sessions(&self) -> String {
        fill!(include_str!("load_sessions.sql"), locked = self.load_locked("l.load_id"), schema = self)
    }

    /// The state of load `l`, as SQL: one recorded as running that has no session has crashed.
    pub(crate) fn load_state(&self) -> String {
        fill!(include_str!("load_state.sql"), sessions = self.sessions())
    }
}

/// The two keys of the advisory lock that the control connection of a load holds while the load runs. If you get the
/// lock, no control connection runs the load. Lanes of it may still be connected.
pub fn load_lock_keys(schema: &Schema, load_id: i64) -> (i32, i32) {
    // Beyond 2^31, a load shares its lock with the load whose number is 2^31 lower.
    let id = i32::try_from(load_id & i64::from(i32::MAX)).expect("31 bits fit");
    (schema.load_lock_class(), id)
}

/// The lock with those keys.
pub fn load_lock(schema: &Schema, load_id: i64) -> LockKey {
    let (class, id) = load_lock_keys(schema, load_id);
    LockKey::Two(class, id)
}

/// The lock that the sessions of a group share, so that others of the group know them.
pub fn group_lock(schema: &Schema, group: &str) -> LockKey {
    GROUP.of(hash(&format!("{}\0{group}", schema.name())))
}

fn hash(text: &str) -> i32 {
    let [a, b, c, d, ..] = xxh3_64(text.as_bytes()).to_be_bytes();
    i32::from_be_bytes([a, b, c, d])
}

/// The server process of a session that works for a load. Our own session does not count.
pub(crate) async fn at_work(client: &impl GenericClient, schema: &Schema, load_id: i64) -> Result<Option<i32>, Error> {
    let sql = fill!(include_str!("load_at_work.sql"), sessions = schema.sessions());
    let row = client.query_opt(&sql, &[&load_id]).await?;
    Ok(row.map(|row| row.get(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_class_and_the_number() {
        // Programs of all versions share a server, so they must compute the same number.
        let (usual, class) = (Schema::new("millstream"), -1_120_693_721);
        assert_eq!(load_lock_keys(&usual, 7), (class, 7));
        assert_eq!(load_lock_keys(&usual, 1 << 31), (class, 0));
        assert_eq!(load_lock_keys(&usual, i64::MAX), (class, i32::MAX));
        assert_ne!(load_lock_keys(&Schema::new("other"), 7).0, class);
        assert_ne!(group_lock(&usual, "a"), group_lock(&usual, "b"));
        assert_ne!(group_lock(&usual, "a"), group_lock(&Schema::new("other"), "a"));
    }
}
