//! One run of an arm: it is prepared, measured, recorded and checked.

use super::order::Void;
use super::stage::{Ready, shell_lines};
use super::wrong::NOT_TRUE;
use crate::core::{Measures, Proxy};
use crate::error::Error;
use crate::experiments::arm::{Arm, Setup};
use crate::experiments::client_limit::{behind, client_limit};
use crate::experiments::cluster::Trouble;
use crate::experiments::command::{self, COMMAND, Ground};
use crate::experiments::conditions::Request;
use crate::experiments::counted::Counted;
use crate::experiments::files::Source;
use crate::experiments::program::Length;
use crate::experiments::watch::Watch;
use std::path::Path;
use std::time::Duration;

/// A run of an arm, as it is to be made.
#[derive(Clone, Copy)]
pub(super) struct Trial<'a> {
    pub(super) source: &'a Source,
    pub(super) request: &'a Request,
    pub(super) arm: &'a Arm,
    pub(super) setup: &'a Setup,
    pub(super) length: Length,
}

/// The numbers of a run, and why they are worthless if they are.
pub(super) type Measured = (Measures, Option<Void>);

impl Trial<'_> {
    /// Runs it on a server.
    pub(super) async fn on_server(&self, ready: &Ready<'_>) -> Result<Measured, Trouble> {
        let Self { source, request, setup, length, .. } = *self;
        let &Ready { cluster, program, ref data } = ready;
        data.reset(cluster, &self.resets()).await?;
        cluster.delay(setup.slow_disk().as_ref())?;
        let direct = cluster.db(setup.via, &data.name)?;
        let proxy = setup.delay_ms().map(|ms| Proxy::start(&direct, Duration::from_secs_f64(ms / 1e3))).transpose()?;
        let db = proxy.as_ref().map_or(&direct, |proxy| &proxy.db);
        let session = cluster.session(&data.name).await?;
        let counted = Counted::begin(&session, cluster.is_local()).await?;
        let control = cluster.db(None, &data.name)?;
        let watch = Watch::start(request.program.as_deref(), Some((cluster, &control))).await;
        let mut beside =
            setup.beside.as_ref().map(|text| command::again_and_again(text, cluster, &control)).transpose()?;
        let mut measures = match &setup.command {
            None => program.measure((source, setup, db), length).await?,
            Some(command) => command::measure(command, setup, &source.experiment, Ground::Server(cluster, db)).await?,
        };
        if beside.as_mut().is_some_and(|beside| beside.ended().is_some()) {
            let why = "the command beside the run failed; try it by itself".to_owned();
            return Err(Error::Program { program: "beside", why }.into());
        }
        drop(beside);
        let recorded = watch.finish(&source.experiment.record).await;
        let disturbance = recorded.disturbance(request.steal_max());
        recorded.add_to(&mut measures);
        counted.end(&session, &mut measures).await?;
        if let Some(shell) = setup.check.as_ref().and_then(|check| check.strip_prefix('!')) {
            let ground = Ground::Server(cluster, &control);
            command::check(shell, &source.experiment, ground, &mut measures).await?;
        } else if let Some(check) = &setup.check {
            let row = session.client.query_one(check, &[]).await.map_err(Error::from)?;
            if !row.try_get::<_, bool>(0).map_err(Error::from)? {
                return Err(Error::Wrong(format!("{NOT_TRUE}: {check}")).into());
            }
        }
        session.close().await;
        let unfit = client_limit(&measures, setup).or_else(|| behind(&measures, setup)).map(Void::Unfit);
        Ok((measures, disturbance.map(Void::Disturbed).or(unfit)))
    }

    /// Runs it without a server, with a directory for its files.
    pub(super) async fn with_files(&self, files: &Path) -> Result<Measured, Trouble> {
        let experiment = &self.source.experiment;
        for resets in self.resets() {
            shell_lines(resets, files).await.map_err(|trouble| match trouble {
                Trouble::Error(Error::Program { why, .. }) => Error::Program { program: PREPARES, why }.into(),
                trouble => trouble,
            })?;
        }
        let command = self.setup.command.as_deref().unwrap_or_default();
        let watch = Watch::start(self.request.program.as_deref(), None).await;
        let mut measures = command::measure(command, self.setup, experiment, Ground::Files(files)).await?;
        let recorded = watch.finish(&experiment.record).await;
        let void = recorded.disturbance(self.request.steal_max()).map(Void::Disturbed);
        recorded.add_to(&mut measures);
        let metric = experiment.metric.as_str();
        if !measures.values.contains_key(metric) {
            let why = format!("the last line of its output is no JSON such as {{\"{metric}\": 1.5}}");
            return Err(Error::Program { program: COMMAND, why }.into());
        }
        Ok((measures, void))
    }

    /// What is done before a run: nothing of the experiment's own, if the arm continues another.
    fn resets(&self) -> Vec<&[String]> {
        let reset = self.arm.after.is_none().then_some(&*self.source.experiment.reset);
        reset.into_iter().chain([&*self.setup.before]).collect()
    }
}

/// What errors call the commands before a run.
const PREPARES: &str = "the preparation of the run";
