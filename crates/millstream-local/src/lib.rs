//! The local PostgreSQL server: find, download, start, size.

mod account;
mod download;
mod error;
mod home;
mod installation;
pub mod limits;
mod process;

pub use account::Account;
pub use download::{DOWNLOAD_SOURCES, DownloadSource, download, downloaded};
pub use error::Error;
pub use home::{HOME_VARIABLE, Home, ROOT_HOME};
pub use installation::{Installation, Origin, PLACES, PostgresBin, installed};
pub use process::processes;
