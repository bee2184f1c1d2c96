//! The advisory lock by which a running load is known.

use super::schema::Schema;
use crate::error::Error;
use tokio_postgres::GenericClient;

/// First key of the lock, the same for every load: `msld` in ASCII.
pub(super) const LOAD_LOCK_CLASS: i32 = 0x6d73_6c64;

/// The two keys of the advisory lock that the control connection of a load holds as long as it
/// runs. Whoever gets the lock knows that no process runs the load.
pub fn load_lock_keys(load_id: i64) -> (i32, i32) {
    // Identity values beyond 2^31 share a lock with a load two thousand million loads older.
    let id = i32::try_from(load_id & i64::from(i32::MAX)).expect("31 bits fit");
    (LOAD_LOCK_CLASS, id)
}

/// The process of the server that works for a load, our own left aside.
pub(super) async fn at_work(client: &impl GenericClient, schema: &Schema, load_id: i64) -> Result<Option<i32>, Error> {
    let sql = schema.sql(include_str!("load_at_work.sql"));
    let row = client.query_opt(&sql, &[&load_id, &LOAD_LOCK_CLASS]).await?;
    Ok(row.map(|row| row.get(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_class_and_the_number() {
        assert_eq!(load_lock_keys(7), (LOAD_LOCK_CLASS, 7));
        assert_eq!(load_lock_keys(1 << 31), (LOAD_LOCK_CLASS, 0));
        assert_eq!(load_lock_keys(i64::MAX), (LOAD_LOCK_CLASS, i32::MAX));
    }
}
