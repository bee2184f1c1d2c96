//! `copy`: a tree of files, copied by several workers, resumed and verified.

mod cluster;
mod receipt;
mod rules;
mod verify;

use crate::confirmation::confirmed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interruption::Watched;
use crate::output::{Output, note};
use crate::progress::{Counts, ProgressChoice};
use crate::quantity::{self, Size, things};
use crate::signal::Signals;
use millstream_copy::limits::WORKERS_MAX;
use millstream_copy::{Delete, Deletion, Error, Phase, Plan, Request, Tally, Workers, copy, plan};
use millstream_local::Home;
use rules::RuleArgs;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  millstream copy photos /backup
  millstream copy photos/ /backup/photos --verify
  millstream copy / /mnt/new --one-file-system --xattrs --exclude /tmp/
  millstream copy photos/ me@host:backup/photos --compress --verify
  millstream copy photos/ /backup/photos --delete --dry-run
  millstream copy --postgres postgres:///postgres /backup/cluster
  millstream copy verify /backup/photos

Exit code 1 if an entry could not be copied, or changed while it was read.";

/// What a copy of a cluster decides by itself.
const NOT_OF_CLUSTERS: [&str; 11] = [
    "exclude",
    "include",
    "copy_links",
    "one_file_system",
    "xattrs",
    "hash",
    "fsync",
    "verify",
    "delete",
    "trash",
    "max_delete",
];

/// How many entries that would be deleted are printed; all are counted.
const DELETED_SHOWN_MAX: usize = 10;

/// Copy a tree of files with several workers, and verify it
///
/// A slash at the end of SOURCE means what is in the folder; without it, the folder itself is copied into
/// DESTINATION. This is the rule of rsync.
///
/// One of both may lie on another machine: HOST:PATH by ssh, or HOST::MODULE/PATH and rsync://HOST/MODULE/PATH of a daemon of
/// rsync. Several processes of rsync then move the files.
///
/// Rights, times, hard links, holes and special files are kept; as root, owners too. A file is copied under a
/// temporary name and gets its own when it is whole. A file of the same size and time is not copied again. If you stop or
/// kill a copy, the same command resumes it.
///
/// While a file is read, it is hashed (BLAKE3). The hashes are kept in a manifest, by which `copy verify` compares the
/// copy at any later time, without the source.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct CopyArgs {
    #[command(subcommand)]
    command: Option<CopyCommand>,

    /// Folder or file to copy; left out with --postgres
    #[arg(value_name = "SOURCE", required_unless_present = "postgres")]
    source: Option<PathBuf>,

    /// Where to copy it
    #[arg(value_name = "DESTINATION", required_unless_present = "postgres")]
    destination: Option<PathBuf>,

    #[command(flatten)]
    rules: RuleArgs,

    /// Copy what links lead to, instead of the links
    #[arg(long)]
    copy_links: bool,

    /// Do not enter other file systems; the folders where they are mounted become empty folders
    #[arg(long)]
    one_file_system: bool,

    /// Also copy extended attributes, ACLs among them
    #[arg(long)]
    xattrs: bool,

    /// Read and hash also the files that the file system could clone, and compare those that are there already by their
    /// bytes
    #[arg(long)]
    hash: bool,

    /// End only once everything is on the disk
    #[arg(long)]
    fsync: bool,

    /// Read the copy again at the end and compare it
    #[arg(long)]
    verify: bool,

    /// Files that are copied at once: a number, or auto, which begins with one and a half for each processor and adds
    /// more while that helps
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = workers)]
    workers: Workers,

    /// Copy no more bytes per second than this, all workers together
    #[arg(long, value_name = "SIZE")]
    bandwidth: Option<Size>,

    /// Delete what DESTINATION has and SOURCE has not, after you have seen it
    ///
    /// What --exclude excludes is protected. Nothing is deleted if SOURCE could not be listed whole.
    #[arg(long, help_heading = "Deleting")]
    delete: bool,

    /// Delete without asking
    #[arg(long, requires = "delete", help_heading = "Deleting")]
    yes: bool,

    /// Delete nothing if it would be more entries than this
    #[arg(long, value_name = "N", requires = "delete", help_heading = "Deleting")]
    max_delete: Option<u64>,

    /// Move it to this folder instead, which must be on the same file system
    #[arg(long, value_name = "DIR", requires = "delete", help_heading = "Deleting")]
    trash: Option<PathBuf>,

    /// Delete everything if SOURCE is empty
    #[arg(long, requires = "delete", help_heading = "Deleting")]
    yes_empty: bool,

    /// Copy the whole PostgreSQL cluster of this server while it runs; only on the server's own machine
    #[arg(long, value_name = "URL", help_heading = "PostgreSQL", conflicts_with_all = NOT_OF_CLUSTERS)]
    postgres: Option<String>,

    /// Put the tablespace that is at OLD to NEW; put a backslash before a = of a path
    #[arg(long, value_name = "OLD=NEW", requires = "postgres", help_heading = "PostgreSQL", value_parser = cluster::mapping)]
    tablespace: Vec<(PathBuf, PathBuf)>,

    /// Make a standby, which uses a new replication slot of this name
    #[arg(long, value_name = "SLOT", requires = "postgres", help_heading = "PostgreSQL")]
    standby: Option<String>,

    /// Remote shell with its options [default: $RSYNC_RSH, else ssh that asks for no password]
    #[arg(long, value_name = "COMMAND", help_heading = "Other machines")]
    ssh: Option<OsString>,

    /// Compress what goes through the network
    #[arg(long, help_heading = "Other machines")]
    compress: bool,

    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// How to show progress
    #[arg(long, value_name = "HOW", default_value = "auto")]
    progress: ProgressChoice,
}

#[derive(Debug, clap::Subcommand)]
enum CopyCommand {
    Verify(verify::VerifyArgs),
}

fn workers(text: &str) -> Result<Workers, String> {
    if text == "auto" {
        return Ok(Workers::Auto);
    }
    let number = text.parse().ok().filter(|number| (1..=WORKERS_MAX).contains(number));
    number.map(Workers::Fixed).ok_or_else(|| format!("expected auto, or a number from 1 to {WORKERS_MAX}"))
}

/// Runs the command.
pub async fn run(args: &CopyArgs, output: Output, signals: &Signals) -> Result<Exit, Failure> {
    if let Some(CopyCommand::Verify(args)) = &args.command {
        return verify::run(args, output, signals).await;
    }
    if let Some(url) = &args.postgres {
        return cluster::run(url, args, output, signals).await;
    }
    let (Some(source), Some(destination)) = (&args.source, &args.destination) else {
        return Err(Failure::bug("a copy without its two paths was not refused"));
    };
    let request = request(args, source, destination)?;
    let (watched, tally) = watched(args.progress, signals);
    if args.dry_run {
        let (planned, stopped) = watched.run("the plan", move || plan(&request, &tally)).await?;
        return match stopped {
            Some(exit) => Ok(exit),
            None => print_plan(&planned?, output),
        };
    }
    let (asks, printer) = (!args.yes, watched.printer());
    let may_delete = move |deletion: &Deletion| printer.alone(|| may_delete(asks, deletion));
    let (copied, stopped) = watched.run("the copy", move || copy(&request, &tally, &may_delete)).await?;
    if let (Err(error @ Error::Stopped), Some(exit)) = (&copied, stopped) {
        note(&error.to_string());
        return Ok(exit);
    }
    let receipt = copied?;
    output.print(&receipt, &receipt::text(&receipt))?;
    let is_compared_whole = receipt.verified.as_ref().is_none_or(|verified| !verified.stopped);
    if let Some(exit) = stopped.filter(|_| receipt.stopped || !is_compared_whole) {
        note(if receipt.stopped { "stopped; the same command resumes" } else { "stopped; the rest was not compared" });
        return Ok(exit);
    }
    let is_clean = receipt.failed == 0
        && receipt.changed == 0
        && receipt.kept_because.is_none()
        && receipt.failures.is_empty()
        && receipt.verified.as_ref().is_none_or(|verified| verified.problems == 0);
    Ok(if is_clean { Exit::Done } else { Exit::Findings })
}

fn request(args: &CopyArgs, source: &Path, destination: &Path) -> Result<Request, Failure> {
    let mut request = Request::new(source, destination, home()?);
    request.shell.clone_from(&args.ssh);
    request.compress = args.compress;
    request.rules = args.rules.rules();
    request.copy_links = args.copy_links;
    request.one_file_system = args.one_file_system;
    request.attributes = args.xattrs;
    request.hash = args.hash;
    request.fsync = args.fsync;
    request.verify = args.verify;
    request.workers = args.workers;
    request.bytes_per_second = args.bandwidth.map(|size| size.bytes as u64);
    request.delete = args.delete.then(|| Delete {
        most: args.max_delete,
        trash: args.trash.clone(),
        even_all: args.yes_empty,
        ..Delete::default()
    });
    Ok(request)
}

/// Where copies keep their manifests.
fn home() -> Result<PathBuf, Failure> {
    Ok(Home::choose(None)?.folder("copies")?)
}

fn print_plan(plan: &Plan, output: Output) -> Result<Exit, Failure> {
    output.print(plan, &receipt::plan(plan))?;
    Ok(if plan.failures.is_empty() { Exit::Done } else { Exit::Findings })
}

/// Shows what would be deleted, and asks.
fn may_delete(asks: bool, deletion: &Deletion) -> bool {
    note(&format!("not in the source: {}", receipt::entries(deletion.entries, deletion.bytes)));
    for path in deletion.first.iter().take(DELETED_SHOWN_MAX) {
        note(&format!("  {path}"));
    }
    let more = deletion.entries.saturating_sub(DELETED_SHOWN_MAX as u64);
    if more > 0 {
        note(&format!("  and {more} more"));
    }
    if !asks {
        return true;
    }
    let alone = || Failure::user("there is no terminal to ask on").hint("add --yes");
    confirmed("Delete them?", alone).unwrap_or_else(|failure| {
        failure.print();
        false
    })
}

/// Starts watching a copy, and counting what it does.
fn watched(progress: ProgressChoice, signals: &Signals) -> (Watched, Arc<Tally>) {
    let tally = Arc::new(Tally::default());
    let counted = Arc::clone(&tally);
    (Watched::start(progress, Arc::clone(&tally), signals, move || counted.stop()), tally)
}

impl Counts for Tally {
    fn input(&self) -> (u64, Option<u64>) {
        let (done, seen) = (self.done.load(Relaxed), self.seen.load(Relaxed));
        let (bytes, seen_bytes) = (self.done_bytes.load(Relaxed), self.seen_bytes.load(Relaxed));
        if self.phase() == Phase::Listing {
            return (0, None);
        }
        // A small file takes about as long as 64 KiB of a large one.
        let work = |entries: u64, bytes: u64| bytes.saturating_add(entries.saturating_mul(64 << 10));
        (work(done, bytes), Some(work(seen, seen_bytes)))
    }

    fn state(&self, elapsed: Duration) -> String {
        let (done, bytes) = (self.done.load(Relaxed), self.done_bytes.load(Relaxed));
        let seen = self.seen.load(Relaxed);
        if self.phase() == Phase::Listing {
            return format!("listing: {}", things(seen, "entry"));
        }
        let verb = if self.phase() == Phase::Copying { "copied" } else { "verified" };
        let seconds = elapsed.as_secs_f64();
        let mut text = format!(
            "{verb} {} of {}, {}/s, {}, {}/s",
            quantity::count(done),
            things(seen, "entry"),
            quantity::rate(quantity::per_second(done, seconds)),
            quantity::bytes(bytes),
            quantity::byte_rate(bytes, seconds)
        );
        let failed = self.failed.load(Relaxed);
        if failed > 0 {
            text.push_str(&format!(", {} failed", quantity::count(failed)));
        }
        text
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let counts = [
            ("entries", &self.done),
            ("entries_seen", &self.seen),
            ("bytes", &self.done_bytes),
            ("bytes_seen", &self.seen_bytes),
            ("failed", &self.failed),
        ];
        counts.into_iter().map(|(name, count)| (name, count.load(Relaxed))).collect()
    }
}
