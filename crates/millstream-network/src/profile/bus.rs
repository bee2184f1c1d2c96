//! NetworkManager on the system's bus, asked by `busctl`.

use crate::limits::BUS_MAX;
use millstream_host::{Command, Ended, Error};
use millstream_model::Refusal;
use serde_json::Value;

/// The daemon's name on the bus.
const NAME: &str = "org.freedesktop.NetworkManager";

/// Its main object.
const OBJECT: &str = "/org/freedesktop/NetworkManager";

/// The name that the daemon has on the bus as long as it runs. `None`: it does not run, or nobody can ask.
pub(super) async fn daemon() -> Option<String> {
    let bus = ["org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus"];
    let named = busctl(&["call", bus[0], bus[1], bus[2], "GetNameOwner", "s", NAME]).await.ok()?;
    named["data"][0].as_str().map(str::to_owned)
}

/// Calls a method of the main object: its name, the types of its arguments, and these.
///
/// # Errors
/// The daemon refuses, or does not run.
pub(super) async fn call(method: &[&str]) -> Result<Value, Refusal> {
    call_of([OBJECT, NAME], method).await
}

/// The same of another object and interface.
pub(super) async fn call_of([object, interface]: [&str; 2], method: &[&str]) -> Result<Value, Refusal> {
    let mut args = vec!["call", NAME, object, interface];
    args.extend(method);
    busctl(&args).await
}

/// A property of the main object.
pub(super) async fn property(name: &str) -> Result<Value, Refusal> {
    busctl(&["get-property", NAME, OBJECT, NAME, name]).await
}

async fn busctl(args: &[&str]) -> Result<Value, Refusal> {
    let asked = Command::new("busctl").args(["--json=short", "--auto-start=no"]).args(args).run(BUS_MAX).await;
    let ended = asked.and_then(Ended::succeeded).map_err(|error| match error {
        Error::Missing { .. } => {
            Refusal::from(error).or_hint("it comes with systemd; NetworkManager cannot be asked without it")
        }
        error => error.into(),
    })?;
    // A method without an answer prints nothing.
    if ended.stdout.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(&ended.stdout).map_err(|error| Refusal::new(format!("busctl printed no JSON: {error}")))
}
