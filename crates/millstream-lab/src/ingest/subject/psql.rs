//! The way without another program: `\copy` into a temporary table, then one upsert of it.

use super::{Subject, Trial};
use crate::error::Error;
use crate::ingest::bench::TABLE;
use crate::ingest::phase::Phase;
use crate::ingest::timing::Timing;
use crate::ingest::tool::PSQL;
use millstream_host::Command;

/// Placeholder for the path of the documents in the script.
const DOCUMENTS: &str = "the_documents";

pub(crate) const SUBJECT: Subject = Subject {
    name: "merge",
    about: "psql: \\copy into a temporary table, then one insert .. select distinct on .. on conflict do update",
    tools: &[&PSQL],
    run: |trial, phase, table| Box::pin(run(trial, phase, table)),
    ..Subject::PLAIN
};

async fn run(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    trial.create_first(phase, table).await?;
    let (file, _) = trial.input(&SUBJECT, phase);
    let path = file.display().to_string().replace('\'', "''");
    let text = include_str!("psql.sql").replace(TABLE, &trial.bench.quoted(table));
    let script = trial.bench.script("merge.sql", &text.replace(DOCUMENTS, &path))?;
    let mut command = Command::new(trial.tools.program(&PSQL)?);
    command.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--set=VERBOSITY=terse", "--file"]).arg(script);
    trial.bench.client(&mut command, trial.durability);
    trial.bench.run(SUBJECT.name, &mut command).await
}
