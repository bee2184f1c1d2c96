//! Finds the programs that subjects need and asks for their versions before anything is measured.

use crate::core::Found;
use crate::error::Error;
use crate::ingest::bench::Bench;
use crate::ingest::python;
use millstream_model::words::option;
use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;

/// A kind of program.
#[derive(Debug)]
pub(crate) struct Tool {
    /// Its name.
    pub(crate) name: &'static str,
    find: Find,
}

type Find = for<'a> fn(&'a Bench, &'a mut dyn FnMut(&str)) -> Finding<'a>;
type Finding<'a> = Pin<Box<dyn Future<Output = Result<Found, Error>> + 'a>>;

/// PostgreSQL's own client.
pub(crate) const PSQL: Tool = Tool { name: "psql", find: |_, _| Box::pin(installed("psql", "postgresql-client")) };

/// A Python that has psycopg 3.
pub(crate) const PSYCOPG: Tool =
    Tool { name: "psycopg", find: |bench, progress| Box::pin(python::find(bench, &python::PSYCOPG, progress)) };

/// A Python that has pymongo.
pub(crate) const PYMONGO: Tool = Tool { name: "pymongo", find: |bench, progress| Box::pin(mongo(bench, progress)) };

/// MongoDB's own loader.
pub(crate) const MONGOIMPORT: Tool =
    Tool { name: "mongoimport", find: |_, _| Box::pin(installed("mongoimport", "mongoimport")) };

/// The library's example, built next to the measured binary.
pub(crate) const PRODUCERS: Tool =
    Tool { name: "producers", find: |bench, _| Box::pin(std::future::ready(example(bench, "producers"))) };

/// The found programs, by name.
#[derive(Debug, Default)]
pub(crate) struct Tools(BTreeMap<&'static str, Found>);

impl Tools {
    /// Finds a program, once.
    pub(crate) async fn add(
        &mut self,
        tool: &Tool,
        bench: &Bench,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        if !self.0.contains_key(tool.name) {
            let found = (tool.find)(bench, progress).await?;
            self.0.insert(tool.name, found);
        }
        Ok(())
    }

    /// Path of a found program.
    pub(crate) fn program(&self, tool: &Tool) -> Result<&Path, Error> {
        let missing = || Error::missing(tool.name, "it was not looked for".to_owned(), "this is a bug".to_owned());
        Ok(&self.0.get(tool.name).ok_or_else(missing)?.program)
    }

    /// The version of each program.
    pub(crate) fn versions(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(name, found)| ((*name).to_owned(), found.version.clone())).collect()
    }
}

/// A Python with pymongo that has reached MongoDB.
async fn mongo(bench: &Bench, progress: &mut dyn FnMut(&str)) -> Result<Found, Error> {
    let found = python::find(bench, &python::PYMONGO, progress).await?;
    let hint = || format!("{} names a MongoDB that is running, without a database's name", option("mongo-uri"));
    match bench.reach_mongo(&found.program).await {
        Ok(()) => Ok(found),
        Err(error) => Err(Error::missing("MongoDB", error.chain(), hint())),
    }
}

/// An example from the directory where cargo puts the examples of the measured binary.
fn example(bench: &Bench, name: &'static str) -> Result<Found, Error> {
    let program = bench.ground.binary.with_file_name("examples").join(name);
    if program.is_file() {
        return Ok(Found { program, version: format!("{name}, built beside the measured binary") });
    }
    let hint = format!("cargo build --release -p millstream-engine --example {name}");
    Err(Error::missing(name, "it was not built beside the measured binary".to_owned(), hint))
}

/// A program in PATH.
async fn installed(name: &'static str, package: &str) -> Result<Found, Error> {
    let hint = format!("install it (package {package}), or choose others by {}", option("subjects"));
    Found::installed(name, hint).await
}
