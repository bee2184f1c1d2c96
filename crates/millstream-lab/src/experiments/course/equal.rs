//! The proof that the arms of a group do the same: they leave the same tables after the same transactions.

use super::Course;
use super::stage::Ready;
use super::wrong::DIFFERS;
use crate::core::Outcome;
use crate::error::Error;
use crate::experiments::arm::Setup;
use crate::experiments::cluster::Trouble;
use crate::experiments::experiment::Equal;
use crate::experiments::files::Source;
use millstream_local::Progress;
use std::collections::BTreeMap;

impl Course<'_> {
    /// Checks all arms, if the experiment asks for that. One whose result differs is not run.
    pub(super) async fn compare_results(&mut self, say: Progress<'_>) -> Result<(), Error> {
        let source = self.source;
        let Some(equal) = &source.experiment.equal else { return Ok(()) };
        say("checking that the arms do the same");
        let mut first: BTreeMap<&str, (&str, String)> = BTreeMap::new();
        for arm in &source.experiment.arms {
            if self.out.contains_key(&arm.name) {
                continue;
            }
            let setup = source.experiment.setup(arm);
            let answer = match self.stage.ready(&arm.name, &setup, &mut self.record.conditions, say).await {
                Err(trouble) => Err(trouble),
                Ok(ready) => answer(&ready, source, &setup, equal).await,
            };
            match answer {
                Ok(answer) => {
                    let (other, expected) = first.entry(&arm.group).or_insert((&arm.name, answer.clone()));
                    if *expected != answer {
                        let why = format!("{DIFFERS} that of {other}: {answer} instead of {expected}");
                        self.out.insert(arm.name.clone(), Outcome::Error(why));
                    }
                }
                Err(Trouble::Unfit(why)) => {
                    say(&format!("{}: skipped: {why}", arm.name));
                    self.out.insert(arm.name.clone(), Outcome::Skipped(why));
                }
                Err(Trouble::Error(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What the query answers after the transactions of an arm.
async fn answer(ready: &Ready<'_>, source: &Source, setup: &Setup, equal: &Equal) -> Result<String, Trouble> {
    let &Ready { cluster, program, ref data } = ready;
    data.execute(cluster, &equal.start).await?;
    let db = cluster.db(setup.via, &data.name)?;
    program.transactions((source, setup, &db), equal.transactions).await?;
    let session = cluster.session(&data.name).await?;
    let rows = session.client.simple_query(&equal.query).await.map_err(Error::from)?;
    let answer = rows.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    Ok(answer.unwrap_or_else(|| "no row".to_owned()))
}
