//! Every advisory lock that Millstream takes: what it protects, its key, and the order in which several are taken.
//!
//! The constants stand in the order in which a session takes several locks. A command that takes them in another order
//! only tries the later one, and ends as busy if it is taken. So no two sessions wait for each other. A constant key is a
//! name in ASCII. Two locks have no constant:
//!
//! - The lock of a load comes after [`OPEN`]. It runs the load of this number; others try it, to know that nobody does.
//!   The first of its two numbers is a hash of our schema's name, because two schemas of a database use the same numbers
//!   (`load_lock_keys` of the crate `millstream-store`).
//! - The lock of a slot, `mst`, comes last. It is held by a lane of a load that compares versions with those of deleted
//!   keys (`lane_turn.sql`): it writes keys of this slot, several in the order of slots; until the transaction ends. SQL
//!   composes its number of 24 bits of the name, 32 bits of the table's OID and 8 bits of the slot.

use crate::error::Error;
use tokio_postgres::GenericClient;

/// The key of one lock. For PostgreSQL, locks of one number and locks of two numbers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKey {
    /// A lock of one number.
    One(i64),
    /// A lock of two numbers.
    Two(i32, i32),
}

/// The first number of a class of locks, one for each second number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockClass(pub i32);

/// `millsche`: makes, updates or binds our tables; until the transaction ends.
pub const SCHEMA: LockKey = LockKey::One(0x6d69_6c6c_7363_6865);

/// `mslg`: belongs to the group of processes whose name hashes to this number, shared by their sessions from their beginning
/// to their end; others only look whether a session holds it.
pub const GROUP: LockClass = LockClass(0x6d73_6c67);

/// `mslf`: freezes the collection of this table's OID; a load into it tries it, shared.
pub const FREEZE: LockClass = LockClass(0x6d73_6c66);

/// `msldopen`: looks up or records a load and takes its lock; whoever locks loads otherwise waits for it once.
pub const OPEN: LockKey = LockKey::One(0x6d73_6c64_6f70_656e);

/// `mslc`: merges or drops the segments of this table's OID; only tried.
pub const COMPACTION: LockClass = LockClass(0x6d73_6c63);

/// `mslr`: keeps this model up to date again and again, for `publish --every`; only tried.
pub const RUNNER: LockClass = LockClass(0x6d73_6c72);

/// `mslpubls`: makes or removes models, or keeps others from it; only tried.
pub const PUBLISH: LockKey = LockKey::One(0x6d73_6c70_7562_6c73);

/// `mslm`: refreshes or changes this model, several in the order of their numbers; only tried.
pub const MODEL: LockClass = LockClass(0x6d73_6c6d);

/// `mslb`: builds this model, shared by the sessions of a build; the next refresh waits for them.
pub const BUILD: LockClass = LockClass(0x6d73_6c62);

/// `mslw`: writes a batch into the table of this OID, shared by the lanes of all its loads, or alone while they take
/// turns; records that a load has emptied the table, alone; until the transaction ends.
pub const WRITE: LockClass = LockClass(0x6d73_6c77);

impl LockClass {
    /// The lock of a number.
    pub const fn of(self, number: i32) -> LockKey {
        LockKey::Two(self.0, number)
    }

    /// The lock of a table.
    pub const fn of_table(self, oid: u32) -> LockKey {
        self.of(oid.cast_signed())
    }
}

impl LockKey {
    /// Waits for the lock and holds it until the session ends or unlocks it.
    ///
    /// # Errors
    /// The server's.
    pub async fn lock(self, client: &impl GenericClient) -> Result<(), Error> {
        self.call(client, "pg_advisory_lock").await
    }

    /// As [`LockKey::lock`], but shared with others.
    ///
    /// # Errors
    /// The server's.
    pub async fn lock_shared(self, client: &impl GenericClient) -> Result<(), Error> {
        self.call(client, "pg_advisory_lock_shared").await
    }

    /// Waits for the lock and holds it until the transaction ends.
    ///
    /// # Errors
    /// The server's.
    pub async fn lock_in_transaction(self, client: &impl GenericClient) -> Result<(), Error> {
        self.call(client, "pg_advisory_xact_lock").await
    }

    /// Takes the lock until the session ends or unlocks it, if nobody else has it.
    ///
    /// # Errors
    /// The server's.
    pub async fn try_lock(self, client: &impl GenericClient) -> Result<bool, Error> {
        self.ask(client, "pg_try_advisory_lock").await
    }

    /// Takes the lock until the transaction ends, if nobody else has it.
    ///
    /// # Errors
    /// The server's.
    pub async fn try_lock_in_transaction(self, client: &impl GenericClient) -> Result<bool, Error> {
        self.ask(client, "pg_try_advisory_xact_lock").await
    }

    /// Releases a lock of the session.
    ///
    /// # Errors
    /// The server's.
    pub async fn unlock(self, client: &impl GenericClient) -> Result<(), Error> {
        self.call(client, "pg_advisory_unlock").await
    }

    /// An SQL expression that calls a function of PostgreSQL with this key.
    pub fn sql(self, function: &str) -> String {
        match self {
            Self::One(key) => format!("pg_catalog.{function}({key})"),
            Self::Two(class, number) => format!("pg_catalog.{function}({class}, {number})"),
        }
    }

    async fn call(self, client: &impl GenericClient, function: &str) -> Result<(), Error> {
        Ok(client.batch_execute(&format!("select {}", self.sql(function))).await?)
    }

    async fn ask(self, client: &impl GenericClient, function: &str) -> Result<bool, Error> {
        Ok(client.query_one(&format!("select {}", self.sql(function)), &[]).await?.get(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_keys_spell_their_names_and_are_unique() {
        let whole = [("millsche", SCHEMA), ("msldopen", OPEN), ("mslpubls", PUBLISH)];
        let classes = [
            ("mslg", GROUP),
            ("mslf", FREEZE),
            ("mslc", COMPACTION),
            ("mslr", RUNNER),
            ("mslm", MODEL),
            ("mslb", BUILD),
            ("mslw", WRITE),
        ];
        let mut seen = std::collections::BTreeSet::new();
        for (name, key) in whole.into_iter().chain(classes.map(|(name, class)| (name, class.of(0)))) {
            let spelled = match key {
                LockKey::One(key) => key.to_be_bytes().to_vec(),
                LockKey::Two(class, _) => class.to_be_bytes().to_vec(),
            };
            assert_eq!(String::from_utf8(spelled).as_deref(), Ok(name));
            assert!(seen.insert(name), "{name} is there twice");
        }
    }

    #[test]
    fn keys_are_written_with_their_sign() {
        assert_eq!(LockKey::Two(-1, 7).sql("pg_advisory_lock"), "pg_catalog.pg_advisory_lock(-1, 7)");
        assert_eq!(OPEN.sql("pg_advisory_lock"), "pg_catalog.pg_advisory_lock(7886766551078036846)");
    }
}
