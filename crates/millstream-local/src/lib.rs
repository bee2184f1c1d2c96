//! The local PostgreSQL server: find, download, start, size.
//!
//! ```no_run
//! # async fn example() -> Result<(), millstream_local::Error> {
//! use millstream_local::{LocalOptions, start};
//!
//! let server = start(&LocalOptions::default(), &mut |line| eprintln!("{line}")).await?;
//! let url = server.url();
//! # Ok(())
//! # }
//! ```

mod account;
mod cluster;
mod download;
mod error;
mod home;
mod installation;
mod keeper;
pub mod limits;
mod lock;
mod log;
mod options;
mod outlook;
mod port;
mod postmaster;
mod selection;
mod server;

pub use account::{owner_of, server_account};
pub use download::{DOWNLOAD_SOURCES, DownloadSource, download, downloaded};
pub use error::Error;
pub use home::{HOME_VARIABLE, Home};
pub use installation::{Installation, Origin, PLACES, PostgresBin, installed};
pub use keeper::Keeper;
pub use limits::ROOT_HOME;
pub use options::{LocalOptions, Progress};
pub use outlook::{Outlook, outlook};
pub use postmaster::{Phase, processes, write_as};
pub use server::{Running, Status, connect, restart, start, status, stop};
