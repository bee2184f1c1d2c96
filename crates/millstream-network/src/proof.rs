//! Whether a topology works after it has taken effect.

use crate::limits::{ANSWER_MAX, FORWARD_DELAY_USUAL, LOOK, SETTLE_MAX, START_MAX, VERIFY_MAX};
use crate::output::file_name;
use crate::profile::{Activity, DIRECTORY, loaded};
use crate::topology::{Link, LinkKind, Method, Topology};
use millstream_host::Command;
use millstream_host::kernel::link::{degraded, links};
use millstream_model::Refusal;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// What must answer.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Whether the gateways must.
    pub gateways: bool,
    /// Ports, each as `HOST:PORT`.
    pub ports: Vec<String>,
}

/// Waits until every link of a topology has started and everything answers that was asked for. Returns what works worse than
/// it should, as sentences.
///
/// # Errors
/// What does not work within the time, all of it.
pub async fn verify(topology: &Topology, asked: &Asked) -> Result<Vec<String>, Refusal> {
    let begun = Instant::now();
    let limit = VERIFY_MAX + topology.links.iter().map(silence).max().unwrap_or_default();
    loop {
        let worse = worse(topology);
        // A gateway may answer before a bond has found its switch, and not a moment later.
        if worse.is_empty() || begun.elapsed() > SETTLE_MAX {
            let troubles = troubles(topology, asked).await?;
            if troubles.is_empty() {
                return Ok(worse);
            }
            if begun.elapsed() > limit {
                let hint = "millstream network read lists the links; --no-ping asks no gateway";
                return Err(Refusal::new(troubles.join("; and ")).hint(hint));
            }
        }
        sleep(LOOK).await;
    }
}

/// How long a link may say nothing after its start: a bridge with STP listens and learns first, and DHCP asks for a while.
fn silence(link: &Link) -> Duration {
    let learns = match &link.kind {
        LinkKind::Bridge(bridge) if bridge.stp => 2 * bridge.forward_delay.unwrap_or(FORWARD_DELAY_USUAL),
        _ => 0,
    };
    let asks =
        if link.families().iter().any(|family| family.method == Method::Auto) { START_MAX } else { Duration::ZERO };
    asks.max(Duration::from_secs(learns.into()))
}

async fn troubles(topology: &Topology, asked: &Asked) -> Result<Vec<String>, Refusal> {
    let loaded = loaded(Path::new(DIRECTORY)).await?;
    let mut troubles = Vec::new();
    for link in &topology.links {
        match loaded.get(&file_name(link)).map(|one| one.activity) {
            Some(Some(Activity::Up)) => {}
            Some(Some(Activity::Starting)) => troubles.push(format!("{} is still starting", link.name)),
            Some(None) | None => troubles.push(format!("{} is not up", link.name)),
        }
    }
    if !troubles.is_empty() {
        return Ok(troubles);
    }
    for (link, gateway) in gateways(topology).filter(|_| asked.gateways) {
        if !answers(link, gateway).await? {
            troubles.push(format!("the gateway {gateway} does not answer by {}", link.name));
        }
    }
    for port in &asked.ports {
        if !matches!(timeout(ANSWER_MAX, TcpStream::connect(port)).await, Ok(Ok(_))) {
            troubles.push(format!("nobody answers at {port}"));
        }
    }
    Ok(troubles)
}

fn gateways(topology: &Topology) -> impl Iterator<Item = (&Link, IpAddr)> {
    let of = |link: &Link| link.families().map(|family| family.gateway);
    topology.links.iter().flat_map(move |link| of(link).into_iter().flatten().map(move |gateway| (link, gateway)))
}

/// Whether a gateway answers by this link: another one may lead to it, too.
async fn answers(link: &Link, gateway: IpAddr) -> Result<bool, Refusal> {
    let (seconds, gateway) = (ANSWER_MAX.as_secs().to_string(), gateway.to_string());
    let mut ping = Command::new("ping");
    ping.args(["-c", "1", "-W", &seconds, "-I", &link.name, &gateway]);
    let asked = ping.run(2 * ANSWER_MAX).await;
    match asked {
        Ok(ended) => Ok(ended.status.success()),
        Err(millstream_host::Error::Late { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What works worse than it should, of the links of a topology.
fn worse(topology: &Topology) -> Vec<String> {
    let links = links(Path::new("/")).unwrap_or_default();
    let ours = degraded(&links).into_iter().filter(|one| topology.link(&one.link().name).is_some());
    ours.map(|one| one.to_string()).collect()
}
