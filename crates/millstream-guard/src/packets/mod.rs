//! What each construct of a packet filter costs, as time for a packet.
//!
//! A row of `rows.toml` is a set of rules and what must happen to each packet. It is measured in a network of its own, so
//! that this machine's filters are neither asked nor changed. Before it is measured, it must prove itself: of a thousand
//! packets, exactly as many are counted as dropped or delivered as the row declares, and connection tracking is in use
//! where it should be and nowhere else.

mod backend;
mod bpf;
mod counts;
mod frame;
mod generator;
mod live;
mod program;
mod raw;
mod row;
mod rules;
mod traffic;

pub use backend::Backend;
pub use generator::Generator;
pub use row::{ROWS, Row, Verdict, rows};
pub(crate) use traffic::stay_on_one_processor;
pub use traffic::{Limit, Sent, Traffic, send};

use crate::limits::{GATE_PACKETS, SECONDS_MAX};
use crate::prober::Prober;
use counts::Counts;
use millstream_host::Sandbox;
use millstream_model::Refusal;
use millstream_model::range::Family;

/// What measuring a row gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Its packets, and the time that they took.
    Measured(Sent),
    /// It cannot be measured here, and why.
    Skipped(String),
}

/// Proves a row and measures it for some seconds. The prober gets a [`Traffic`] as its last argument, sends it by [`send`], and
/// prints a [`Sent`].
///
/// # Errors
/// A network cannot be made, the rules are refused, or the packets do not meet the fate that the row declares.
pub fn measure(
    row: &Row,
    backend: Backend,
    generator: Generator,
    family: Family,
    seconds: f64,
    prober: &Prober,
) -> Result<Outcome, Refusal> {
    if !(seconds > 0.0 && seconds <= SECONDS_MAX) {
        return Err(Refusal::new(format!(
            "--seconds takes a number above 0, and at most {SECONDS_MAX}, not {seconds}"
        )));
    }
    let uses_xdp = backend == Backend::Xdp || generator == Generator::Live;
    if let Some(why) = row
        .lacks(backend)
        .or_else(|| row.lacks_packets(generator))
        .map(str::to_owned)
        .or_else(|| rules::missing(row, backend, family))
        .or_else(|| uses_xdp.then(|| live::missing(generator)).flatten())
    {
        return Ok(Outcome::Skipped(why));
    }
    let sandbox = match Sandbox::make(1) {
        Ok(sandbox) => sandbox,
        Err(error) => return Ok(Outcome::Skipped(format!("no network of its own can be made here: {error}"))),
    };
    if generator == Generator::Live
        && let Err(error) = live::prepare(&sandbox, family)
    {
        return Ok(Outcome::Skipped(format!("no virtual cable can be laid here: {error}")));
    }
    if let Some(why) = rules::load(&sandbox, row, backend, generator, family)? {
        return Ok(Outcome::Skipped(why));
    }
    let traffic = |limit| Traffic {
        generator,
        family,
        sources: row.sources,
        is_raw: row.raw,
        is_read: row.bound,
        is_answered: row.counts,
        is_dropped: backend == Backend::Xdp,
        limit,
        asked_by: std::process::id(),
    };
    let before = Counts::read(&sandbox, backend, row, family)?;
    let sent = sent(&sandbox, prober, &traffic(Limit::Packets(GATE_PACKETS.max(row.sources.into()))))?;
    let counted = Counts::read(&sandbox, backend, row, family)?.since(&before);
    counted.and_watched(sent.dropped).prove(row, sent.packets)?;
    Ok(Outcome::Measured(self::sent(&sandbox, prober, &traffic(Limit::Seconds(seconds)))?))
}

/// Sends packets from within the network.
fn sent(sandbox: &Sandbox, prober: &Prober, traffic: &Traffic) -> Result<Sent, Refusal> {
    let traffic = serde_json::to_string(traffic).map_err(|error| Refusal::new(error.to_string()))?;
    prober.send(sandbox, 0, |command| {
        command.arg(traffic);
    })
}
