//! What every experiment has: factors, metrics, runs and their order; conditions, and the files of records.

mod build;
mod environment;
mod groups;
pub(crate) mod latency;
pub(crate) mod libpq;
mod limiter;
mod machine;
mod metric;
mod network;
mod order;
pub(crate) mod record_file;
pub mod recorder;
mod run;
mod series;
mod server_cpu;
mod spread;
pub mod statistics;
pub(crate) mod word;

pub use build::Build;
pub use environment::{Difference, Environment, difference};
pub(crate) use groups::groups;
pub use latency::Latency;
pub use limiter::{Limited, Limiter, Observed};
pub(crate) use machine::flush_us;
pub use machine::{Disk, Machine};
pub use metric::{Better, METRICS, Metric};
pub(crate) use network::Proxy;
pub(crate) use order::blocks;
pub use run::{Factors, Measures, Outcome, Run};
pub use series::Series;
pub(crate) use server_cpu::ServerCpu;
pub use spread::Spread;
