//! Processor time of a PostgreSQL server on this machine.

use millstream_host::{Account, cpu_seconds_of};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use tokio_postgres::Client;

/// Name of the server's processes.
const PROGRAM: &str = "postgres";

/// The processes of a server on this machine.
#[derive(Debug)]
pub(crate) struct ServerCpu {
    account: Account,
    data: PathBuf,
}

impl ServerCpu {
    /// The server of a session. `None` if its processes cannot be seen: it runs elsewhere, or we may not know where its
    /// data is.
    pub(crate) async fn find(client: &Client) -> Option<Self> {
        let data = data_directory(client).await?;
        // The owner of the data runs the server.
        let owner = std::fs::metadata(&data).ok()?;
        let account = match rustix::process::geteuid().as_raw() == owner.uid() {
            true => Account::current()?,
            false => Account::numbered(owner.uid(), owner.gid()),
        };
        let found = Self { account, data };
        found.seconds().is_some().then_some(found)
    }

    /// User and system time so far of all processes of the server, also of those that have ended: the postmaster waits
    /// for its children, and the kernel then adds their time to it.
    pub(crate) fn seconds(&self) -> Option<f64> {
        let pids = millstream_local::processes(&self.account, &self.data);
        pids.into_iter().filter_map(|pid| cpu_seconds_of(pid, PROGRAM)).reduce(|sum, seconds| sum + seconds)
    }
}

/// The server's data directory, if we may read the setting.
async fn data_directory(client: &Client) -> Option<PathBuf> {
    let row = client.query_one("select pg_catalog.current_setting('data_directory')", &[]).await.ok()?;
    Some(PathBuf::from(row.get::<_, String>(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_a_server_has_no_processor_time() {
        let data = tempfile::tempdir().unwrap();
        let account = Account::current().unwrap();
        assert_eq!(ServerCpu { account, data: data.path().to_owned() }.seconds(), None);
    }
}
