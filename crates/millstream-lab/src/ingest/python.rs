//! Finds a Python with the package that a rival needs: the given one, or an environment made for the run.

use crate::core::Found;
use crate::error::Error;
use crate::ingest::bench::{Bench, error_message};
use crate::limits::SAMPLE_TIME_MAX;
use millstream_host::Command;
use millstream_model::words::{option, set};
use std::path::Path;

/// A package, with the version to measure.
pub(crate) struct Package {
    name: &'static str,
    /// The requirement for pip.
    requirement: &'static str,
    /// A script that prints the versions for the record.
    version: &'static str,
}

pub(crate) const PSYCOPG: Package = Package {
    name: "psycopg",
    requirement: "psycopg[binary]==3.3.9",
    version: "import sys, psycopg\n\
              print('psycopg', psycopg.__version__, psycopg.pq.__impl__, 'libpq', psycopg.pq.version(), \
              'Python', sys.version.split()[0])",
};

pub(crate) const PYMONGO: Package = Package {
    name: "pymongo",
    requirement: "pymongo==4.20.0",
    version: "import sys, pymongo\n\
              print('pymongo', pymongo.version, 'Python', sys.version.split()[0])",
};

/// The program that makes the environment.
const PYTHON: &str = "python3";

/// The Python to run. It has been checked to have the package.
pub(crate) async fn find(bench: &Bench, package: &Package, progress: &mut dyn FnMut(&str)) -> Result<Found, Error> {
    if let Some(program) = &bench.ground.python {
        let hint = format!("{} -m pip install '{}'", program.display(), package.requirement);
        return ask(program, package).await.map_err(|why| Error::missing(package.name, why, hint));
    }
    let program = bench.file("python").join("bin").join("python");
    progress(&format!("installing {} into a virtual environment of the run", package.requirement));
    make(bench, package, &program).await.map_err(|why| {
        let hint = format!(
            "that takes python3 with its venv module, and a network for pip; else {} names a Python that has the \
             package, or {} chooses others",
            set("python", "FILE"),
            option("subjects")
        );
        Error::missing(package.name, why, hint)
    })
}

/// Makes the environment if it is missing, and installs the package.
async fn make(bench: &Bench, package: &Package, program: &Path) -> Result<Found, String> {
    if !program.exists() {
        let dir = bench.file("python");
        let mut venv = Command::new(PYTHON);
        done(venv.args(["-m", "venv"]).arg(dir)).await?;
    }
    let mut pip = Command::new(program);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
    done(pip.args(["--retries", "1", "--only-binary", ":all:", package.requirement])).await?;
    ask(program, package).await
}

async fn ask(program: &Path, package: &Package) -> Result<Found, String> {
    let version = done(Command::new(program).args(["-c", package.version])).await?;
    Ok(Found { program: program.to_owned(), version: version.trim().to_owned() })
}

/// Runs a command, which must succeed, and returns what it printed. It ends with its children if the run is abandoned.
async fn done(command: &mut Command) -> Result<String, String> {
    let measured = command.measure(SAMPLE_TIME_MAX).await;
    let ended = measured.and_then(|measured| measured.ended.succeeded());
    ended.map(|ended| ended.stdout).map_err(|error| match error {
        millstream_host::Error::Failed { said, .. } => error_message(&said),
        error => error.to_string(),
    })
}
