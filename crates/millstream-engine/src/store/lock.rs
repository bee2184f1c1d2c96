//! The advisory lock by which a running load is known.

use super::schema::Schema;
use crate::error::Error;
use tokio_postgres::GenericClient;

impl Schema {
    /// First key of the locks of the loads on record here: two schemas of one database number their loads alike.
    pub(super) fn load_lock_class(&self) -> i32 {
        // FNV-1a, the same for every program that works with the schema.
        let hash = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        self.name().bytes().fold(0x811c_9dc5, hash).cast_signed()
    }
}

/// The two keys of the advisory lock that the control connection of a load holds as long as it
/// runs. Whoever gets the lock knows that no process runs the load.
pub fn load_lock_keys(schema: &Schema, load_id: i64) -> (i32, i32) {
    // Identity values beyond 2^31 share a lock with a load two thousand million loads older.
    let id = i32::try_from(load_id & i64::from(i32::MAX)).expect("31 bits fit");
    (schema.load_lock_class(), id)
}

/// The process of the server that works for a load, our own left aside.
pub(super) async fn at_work(client: &impl GenericClient, schema: &Schema, load_id: i64) -> Result<Option<i32>, Error> {
    let sql = schema.sql(include_str!("load_at_work.sql"));
    let row = client.query_opt(&sql, &[&load_id, &schema.load_lock_class()]).await?;
    Ok(row.map(|row| row.get(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_class_and_the_number() {
        // From <http://www.isthe.com/chongo/tech/comp/fnv/>, test vectors of FNV-1a with 32 bits.
        for (name, class) in [("a", 0xe40c_292c_u32), ("foobar", 0xbf9c_f968)] {
            let schema = Schema::new(name);
            assert_eq!(load_lock_keys(&schema, 7), (class.cast_signed(), 7));
            assert_eq!(load_lock_keys(&schema, 1 << 31), (class.cast_signed(), 0));
            assert_eq!(load_lock_keys(&schema, i64::MAX), (class.cast_signed(), i32::MAX));
        }
    }
}
