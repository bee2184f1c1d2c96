//! One run of a load, from its first byte to its receipt.

use crate::batch::Keys;
use crate::distributed::load_distributed;
use crate::engine::Finish;
use crate::error::Error;
use crate::feed::Feed;
use crate::feeding::feed_all;
use crate::missing::delete_missing;
use crate::observe::Event;
use crate::outcome::{Outcome, Surroundings};
use crate::request::LoadRequest;
use crate::run::{Begun, Run};
use std::sync::Arc;

/// One run of a load: its sources are fed to the engine, which decodes them, gives each document to a lane by its slot,
/// and commits. A coordinator of Citus gets several loads instead. `interrupted` is the load that an interrupted run has
/// left.
///
/// # Errors
/// As for [`crate::load`].
pub(crate) async fn load_once(
    request: &LoadRequest,
    around: &Surroundings,
    interrupted: Option<i64>,
) -> Result<Outcome, Error> {
    request.check()?;
    let mut feed = Feed::open(request, Arc::clone(&around.tally))?;
    feed.reports_to(&around.observer);
    let keys = request.delete_missing.as_ref().map(|wanted| Keys::new(&wanted.directory, wanted.memory_bytes));
    let keys = keys.transpose()?.map(Arc::new);
    let mut run = match Run::begin(request, around, &mut feed, interrupted, None).await {
        Err(Error::Coordinator { .. }) => return Box::pin(load_distributed(request, around, feed)).await,
        Err(error) => return Err(error),
        Ok(Begun::Run(run)) => run,
        Ok(Begun::Finished(receipt)) => {
            if request.delete_missing.is_some() {
                let warning = "no missing row is deleted now, because these sources were added before; `millstream verify \
                               FILE .. --exact` lists the rows that they lack";
                around.observer.event(Event::Warning(warning.to_owned()));
            }
            return Ok(Outcome { receipt: *receipt, stopped: None, error: None, recalled: true });
        }
    };
    let finish = match run.start_engine(keys.clone()).await {
        Err(error) => Finish::failed(error),
        Ok(engine) => {
            let (lanes, watched) = run.lanes();
            let finish = async {
                let fed = feed_all(&mut feed, &engine, around).await;
                let finish = engine.finish(fed).await;
                Box::pin(delete_missing(finish, keys, &lanes, watched)).await
            };
            tokio::select! {
                biased;
                finish = finish => finish,
                fenced = run.hold() => Finish::failed(fenced),
            }
        }
    };
    run.end(finish, feed.contents()).await
}
