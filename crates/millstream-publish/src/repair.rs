//! Finds change records that have become unreliable, and creates them again.

use crate::error::Error;
use crate::limits::PUBLISH_LOCK_WAIT;
use crate::lock::{lock_exclusively, lock_publishing};
use crate::origin::{is_unlogged, refuse_unfit};
use crate::record::ChangeRecord;
use crate::refresh_target::RefreshTarget;
use millstream_model::CollectionName;
use millstream_pg::{Explained, fill};
use std::time::Instant;
use tokio_postgres::{Client, GenericClient};

/// Creates unreliable change records again, so that one swap is needed and not one for every refresh. Call it before
/// the refresh takes its snapshot, which then sees what was not recorded. Returns warnings, by collection. If a record
/// cannot be created again, the refresh still works, but it is a swap each time.
///
/// # Errors
/// The server's, when the records cannot be examined.
pub(crate) async fn repair(client: &Client, targets: &[RefreshTarget<'_>]) -> Result<Vec<(u32, String)>, Error> {
    let mut warnings: Vec<(u32, String)> = Vec::new();
    for target in targets.iter().filter(|target| target.model.definition.is_recorded()) {
        let (change_record, table_oid) = (target.change_record(), target.model.table_oid);
        if warnings.iter().any(|(oid, _)| *oid == table_oid) {
            continue;
        }
        let Some(cause) = change_record.unrecorded_cause(client).await? else {
            if let Err(error) = change_record.restore(client).await {
                let out = error.hint().unwrap_or_else(|| "refresh as a role that may write the record".into());
                let warning = format!(
                    "every refresh builds it anew: a crash emptied the change record, which could not be restored: \
                     {error}; {out}"
                );
                warnings.push((table_oid, warning));
            }
            continue;
        };
        let made = match refuse_unfit(client, &target.collection).await {
            Ok(()) => change_record.make_again(client, &target.collection.name).await,
            refused => refused,
        };
        let warning = match made {
            Ok(()) => format!("some changes were not recorded, because {cause}; the record was created again"),
            Err(error) => {
                // The refresh continues on this connection. If the connection is lost, the refresh fails and says so.
                let _ = client.batch_execute("rollback").await;
                // If that fails too, the record is missing or belongs to another role.
                if change_record.distrust(client).await.is_err() {
                    let _ = client.batch_execute("rollback").await;
                }
                let out =
                    error.hint().unwrap_or_else(|| "refresh as a role that may do that, or publish it again".into());
                format!(
                    "every refresh builds it anew: some changes are not recorded, because {cause}, and the record \
                     could not be created again: {error}; {out}"
                )
            }
        };
        warnings.push((table_oid, warning));
    }
    Ok(warnings)
}

impl ChangeRecord<'_> {
    /// Why the record is unreliable, as a clause; `None` if it is reliable.
    pub(crate) async fn unrecorded_cause(&self, client: &impl GenericClient) -> Result<Option<String>, Error> {
        let [record, key] = self.functions();
        let sql = fill!(include_str!("unheard.sql"), marks = include_str!("marks.sql"));
        let row = client.query_opt(&sql, &[&self.table_oid, &record, &key, &self.record()]).await?;
        Ok(row.and_then(|row| row.get(0)))
    }

    /// Why the changed keys are not known.
    pub(crate) async fn why_everything(&self, client: &impl GenericClient) -> Result<String, Error> {
        Ok(match self.unrecorded_cause(client).await? {
            Some(cause) => format!("some changes are not recorded: {cause}"),
            None => "everything may have changed".to_owned(),
        })
    }

    /// Another role that owns the record or a function of its triggers, if there is one.
    pub(crate) async fn other_owner(&self, client: &impl GenericClient) -> Result<Option<String>, Error> {
        let [record, key] = self.functions();
        let row = client.query_opt(include_str!("record_owner.sql"), &[&self.record(), &record, &key]).await?;
        Ok(row.map(|row| row.get(0)))
    }

    /// Creates the record and its triggers again while nobody else uses the collection. Everything then counts as
    /// changed, for every model. After an error, the caller rolls back.
    async fn make_again(&self, client: &Client, name: &CollectionName) -> Result<(), Error> {
        if let Some(owner) = self.other_owner(client).await? {
            // Otherwise this role would own the new record, and its former owner could neither read nor drop it.
            let problem = format!("it belongs to the role {owner}");
            return Err(Error::refused(problem, format!("refresh a model of the collection as {owner}")));
        }
        // Before anybody is locked out.
        self.require_heard(client).await?;
        client.batch_execute("begin").await?;
        lock_publishing(client).await?;
        let record = self.record();
        let present = "select pg_catalog.to_regclass($1) is not null";
        let present: bool = client.query_one(present, &[&record]).await?.get(0);
        let tables = if present { format!("{}, {record}", self.table) } else { self.table.clone() };
        let lock = format!("lock table {tables} in access exclusive mode");
        if !lock_exclusively(client, &lock, Instant::now() + PUBLISH_LOCK_WAIT).await? {
            return Err(Error::InUse { collection: name.clone(), seconds: PUBLISH_LOCK_WAIT.as_secs() });
        }
        let again = Self { unlogged: is_unlogged(client, self.table_oid).await?, ..self.clone() };
        again.turn_off(client).await?;
        again.turn_on(client).await?;
        client.execute(&format!("insert into {record} (keys, everything) values (0, true)"), &[]).await?;
        Ok(client.batch_execute("commit").await?)
    }
}
