//! The commands: one file each, joined here.

mod cat;
mod collections;
mod compact;
mod copy;
mod db;
mod demo;
mod distinct;
mod doctor;
mod drop;
mod explain_index;
mod freeze;
mod get;
mod guard;
mod lab;
mod load;
mod loads;
mod models;
mod network;
mod own;
mod publish;
mod ranges;
mod refresh;
mod rejects;
mod unpublish;
mod verify;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::signal::Signals;

/// Every command. One more is its file, a line here and a line in [`run`].
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Demo(demo::DemoArgs),
    Load(Box<load::LoadArgs>),
    Cat(cat::CatArgs),
    Loads(loads::LoadsArgs),
    Collections(collections::CollectionsArgs),
    Drop(drop::DropArgs),
    Compact(compact::CompactArgs),
    Freeze(freeze::FreezeArgs),
    Get(get::GetArgs),
    Distinct(distinct::DistinctArgs),
    Rejects(rejects::RejectsArgs),
    Verify(verify::VerifyArgs),
    Publish(publish::PublishArgs),
    Refresh(refresh::RefreshArgs),
    ExplainIndex(explain_index::ExplainIndexArgs),
    Doctor(doctor::DoctorArgs),
    Models(models::ModelsArgs),
    Unpublish(unpublish::UnpublishArgs),
    Ranges(ranges::RangesArgs),
    Guard(guard::GuardArgs),
    Network(network::NetworkArgs),
    Copy(Box<copy::CopyArgs>),
    Lab(lab::LabArgs),
    Db(db::DbArgs),
    #[command(name = "self")]
    Own(own::OwnArgs),
}

/// Runs the command that was asked for. `definition` is the whole command line, which some commands print.
pub async fn run(
    command: Command,
    output: Output,
    signals: Signals,
    definition: fn() -> clap::Command,
) -> Result<Exit, Failure> {
    match command {
        Command::Demo(args) => demo::run(&args, output, signals).await,
        Command::Load(args) => load::run(&args, output, signals).await,
        Command::Cat(args) => cat::run(&args, output),
        Command::Loads(args) => loads::run(&args, output).await,
        Command::Collections(args) => collections::run(&args, output).await,
        Command::Drop(args) => drop::run(&args, output).await,
        Command::Compact(args) => compact::run(&args, output, signals).await,
        Command::Freeze(args) => freeze::run(&args, output, signals).await,
        Command::Get(args) => get::run(&args, output).await,
        Command::Distinct(args) => distinct::run(&args, output).await,
        Command::Rejects(args) => rejects::run(&args, output).await,
        Command::Verify(args) => verify::run(&args, output).await,
        Command::Publish(args) => publish::run(&args, output, signals).await,
        Command::Refresh(args) => refresh::run(&args, output, signals).await,
        Command::ExplainIndex(args) => explain_index::run(&args, output).await,
        Command::Doctor(args) => doctor::run(&args, output, &signals).await,
        Command::Models(args) => models::run(&args, output).await,
        Command::Unpublish(args) => unpublish::run(&args, output).await,
        Command::Ranges(args) => ranges::run(&args, output, &signals).await,
        Command::Guard(args) => guard::run(&args, output).await,
        Command::Network(args) => network::run(&args, output).await,
        Command::Copy(args) => Box::pin(copy::run(&args, output, &signals)).await,
        Command::Lab(args) => lab::run(&args, output, signals).await,
        Command::Db(args) => db::run(&args, output).await,
        Command::Own(args) => own::run(&args, output, definition).await,
    }
}
