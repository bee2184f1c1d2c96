//! Settings of a server that `alter system` has written.

use super::session::{assignment, identity, open, refusal};
use crate::limits::{SETTING_EFFECT_MAX, SETTING_LOOK};
use millstream_host::{Answer, Kind, Refusal};
use millstream_pg::ConnInfo;
use std::time::Instant;

/// A setting by its name. Its value is what `alter system` has written; without that, other files or the default count.
#[derive(Debug)]
pub struct SettingKind {
    /// The server.
    pub db: ConnInfo,
}

impl Kind for SettingKind {
    fn name(&self) -> &'static str {
        "setting"
    }

    fn read<'a>(&'a self, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let session = open(&self.db, None).await?;
            let row = session.client.query_opt(include_str!("setting.sql"), &[&target]).await.map_err(refusal)?;
            Ok(row.map(|row| row.get(0)))
        })
    }

    fn write<'a>(&'a self, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let session = open(&self.db, None).await?;
            let sql = format!("alter system {}", assignment(target, value));
            session.client.batch_execute(&sql).await.map_err(refusal)?;
            session.client.batch_execute("select pg_reload_conf()").await.map_err(refusal)?;
            if value.is_some() { self.comes_into_effect(target).await } else { Ok(()) }
        })
    }

    fn identity<'a>(&'a self, _: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(identity(&self.db))
    }

    fn server(&self) -> Option<String> {
        Some(self.db.describe())
    }
}

impl SettingKind {
    /// Waits until new sessions have the value that was written. The server reads its files a little later.
    async fn comes_into_effect(&self, name: &str) -> Result<(), Refusal> {
        let begun = Instant::now();
        loop {
            let session = open(&self.db, None).await?;
            let written = session.client.query_opt(include_str!("setting.sql"), &[&name]).await.map_err(refusal)?;
            if let Some(error) = written.and_then(|row| row.get::<_, Option<String>>("error")) {
                return Err(Refusal(format!("the server does not take the value of {name}: {error}")));
            }
            let sql =
                "select source, coalesce(sourcefile, '') like '%postgresql.auto.conf' from pg_settings where name = $1";
            let row = session.client.query_one(sql, &[&name]).await.map_err(refusal)?;
            if row.get(1) {
                return Ok(());
            }
            if begun.elapsed() > SETTING_EFFECT_MAX {
                let source: String = row.get(0);
                return Err(Refusal(format!(
                    "the value of {name} has no effect, because another one comes from: {source}"
                )));
            }
            tokio::time::sleep(SETTING_LOOK).await;
        }
    }
}
