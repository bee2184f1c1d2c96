//! Every advisory lock that Millstream takes: what it protects, its key, and the order in which several are taken.

use crate::error::Error;
use tokio_postgres::GenericClient;

/// A kind of advisory lock.
#[derive(Debug, PartialEq, Eq)]
pub struct AdvisoryLock {
    /// Its name. A constant key is this name in ASCII.
    pub name: &'static str,
    /// How its key is made.
    pub key: Key,
    /// Who takes it, and what it protects.
    pub about: &'static str,
}

/// How the key of a lock is made. For PostgreSQL, locks of one number and locks of two numbers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// One lock for the database.
    One(i64),
    /// A lock for each number of a class.
    Class(i32),
    /// The first number is a hash of our schema's name, because two schemas of a database use the same numbers.
    Schema,
    /// A number that SQL composes of these 24 bits, 32 bits of the table's OID and 8 bits of the slot.
    Slot(i32),
}

/// `SCHEMA`: held to make, update or bind our tables.
pub const SCHEMA: AdvisoryLock = AdvisoryLock {
    name: "millsche",
    key: Key::One(0x6d69_6c6c_7363_6865),
    about: "makes, updates or binds our tables; until the transaction ends",
};

/// `FREEZE`: held to make an unlogged collection logged. A load into an unlogged one tries it, shared.
pub const FREEZE: AdvisoryLock = AdvisoryLock {
    name: "mslf",
    key: Key::Class(0x6d73_6c66),
    about: "freezes the collection of this table's OID; a load into an unlogged collection tries it, shared",
};

/// `OPEN`: held to look up or record a load.
pub const OPEN: AdvisoryLock = AdvisoryLock {
    name: "msldopen",
    key: Key::One(0x6d73_6c64_6f70_656e),
    about: "looks up or records a load and takes its lock; whoever locks loads otherwise waits for it once",
};

/// `LOAD`: held by the control session of a load while the load runs.
pub const LOAD: AdvisoryLock = AdvisoryLock {
    name: "load",
    key: Key::Schema,
    about: "runs the load of this number; others try it, to know that nobody does",
};

/// `COMPACTION`: held to merge or drop the segments of a table.
pub const COMPACTION: AdvisoryLock = AdvisoryLock {
    name: "mslc",
    key: Key::Class(0x6d73_6c63),
    about: "merges or drops the segments of this table's OID; only tried",
};

/// `RUNNER`: held by the session of `publish --every`.
pub const RUNNER: AdvisoryLock = AdvisoryLock {
    name: "mslr",
    key: Key::Class(0x6d73_6c72),
    about: "keeps this model up to date again and again; only tried",
};

/// `PUBLISH`: held to make or remove models, or to prevent that.
pub const PUBLISH: AdvisoryLock = AdvisoryLock {
    name: "mslpubls",
    key: Key::One(0x6d73_6c70_7562_6c73),
    about: "makes or removes models, or keeps others from it; only tried",
};

/// `MODEL`: held to refresh or change a model.
pub const MODEL: AdvisoryLock = AdvisoryLock {
    name: "mslm",
    key: Key::Class(0x6d73_6c6d),
    about: "refreshes or changes this model, several in the order of their numbers; only tried",
};

/// `BUILD`: held, shared, by the sessions that build a model. The next refresh waits for them.
pub const BUILD: AdvisoryLock = AdvisoryLock {
    name: "mslb",
    key: Key::Class(0x6d73_6c62),
    about: "builds this model, shared by the sessions of a build; the next refresh waits for them",
};

/// `SLOT`: held by a lane of a load that compares versions with those of deleted keys (`lane_turn.sql`).
pub const SLOT: AdvisoryLock = AdvisoryLock {
    name: "mst",
    key: Key::Slot(0x6d_7374),
    about: "writes keys of this slot, several in the order of slots; until the transaction ends",
};

/// `LAB`: held by a run of the lab as long as it lives.
pub const LAB: AdvisoryLock = AdvisoryLock {
    name: "mlab",
    key: Key::Class(0x6d6c_6162),
    about: "a run of the lab with this number in the names of its schemas",
};

/// Every lock, in the order in which a session takes several. A command that takes them in another order only tries
/// the later one, and ends as busy if it is taken. So no two sessions wait for each other.
pub const ADVISORY_LOCKS: &[&AdvisoryLock] =
    &[&SCHEMA, &FREEZE, &OPEN, &LOAD, &COMPACTION, &RUNNER, &PUBLISH, &MODEL, &BUILD, &SLOT, &LAB];

/// The key of one lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKey {
    /// A lock of one number.
    One(i64),
    /// A lock of two numbers.
    Two(i32, i32),
}

impl AdvisoryLock {
    /// The lock of the whole database.
    ///
    /// # Panics
    /// If there is not one lock for the whole database.
    pub const fn whole(&self) -> LockKey {
        match self.key {
            Key::One(key) => LockKey::One(key),
            _ => panic!("this lock has a number"),
        }
    }

    /// The lock of a number.
    ///
    /// # Panics
    /// If the lock has no constant class.
    pub const fn of(&self, number: i32) -> LockKey {
        LockKey::Two(self.class(), number)
    }

    /// The first of the two numbers.
    ///
    /// # Panics
    /// If the lock has no constant class.
    pub const fn class(&self) -> i32 {
        match self.key {
            Key::Class(class) => class,
            _ => panic!("this lock has no class"),
        }
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
        let mut seen = std::collections::BTreeSet::new();
        for lock in ADVISORY_LOCKS {
            let spelled = match lock.key {
                Key::One(key) => key.to_be_bytes().to_vec(),
                Key::Class(class) => class.to_be_bytes().to_vec(),
                Key::Slot(bits) => bits.to_be_bytes()[1..].to_vec(),
                Key::Schema => lock.name.as_bytes().to_vec(),
            };
            assert_eq!(String::from_utf8(spelled).as_deref(), Ok(lock.name));
            assert!(seen.insert(lock.name), "{} is there twice", lock.name);
        }
    }

    #[test]
    fn keys_are_written_with_their_sign() {
        assert_eq!(LockKey::Two(-1, 7).sql("pg_advisory_lock"), "pg_catalog.pg_advisory_lock(-1, 7)");
        assert_eq!(OPEN.whole().sql("pg_advisory_lock"), "pg_catalog.pg_advisory_lock(7886766551078036846)");
    }
}
