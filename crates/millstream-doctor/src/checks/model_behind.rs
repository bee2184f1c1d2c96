//! Check `model-behind`: read models of Millstream that do not have what was loaded.

use super::ours::{schemas, seconds_since, unread};
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::server::Database;
use millstream_model::quantity::age;
use millstream_model::{Class, Level, shell_word};
use millstream_store::{collections, models};
use std::collections::BTreeMap;

pub(super) const CHECK: Check = Check {
    id: "model-behind",
    about: "read models of Millstream that were not refreshed since the last load",
    class: Class::Fact,
    thresholds: &[("hours", 24.0)],
    manual: include_str!("model_behind.md"),
    looks: &[Look::Database(|_, database, task| Box::pin(look(database, task)))],
};

async fn look(database: &Database, task: Task) -> Looked {
    let client = &database.session.client;
    for schema in schemas(database).await? {
        let collections = collections::list(client, &schema).await.map_err(unread)?;
        let loaded: BTreeMap<String, String> = collections
            .into_iter()
            .filter_map(|collection| Some((collection.name.to_string(), collection.last_load_at?)))
            .collect();
        for model in models::list(client, &schema).await.map_err(unread)? {
            let collection = model.collection.as_ref().map(ToString::to_string);
            let Some(loaded) = collection.as_ref().and_then(|name| loaded.get(name)) else { continue };
            // Times of one form are in the order of their texts.
            let is_behind = model.refreshed_at.as_ref().is_none_or(|refreshed| refreshed < loaded);
            let waits = seconds_since(database, loaded).await?;
            if !is_behind || waits < task.threshold("hours") * 3_600.0 {
                continue;
            }
            let name = model.name.to_string();
            let sentence = format!("it does not have what was loaded {} ago", age(waits));
            let refreshed = model.refreshed_at.unwrap_or_else(|| "never".to_owned());
            let finding = task
                .finding(Level::Info, name.clone(), sentence)
                .with("last load", loaded, "millstream loads")
                .with("last refresh", refreshed, "millstream models")
                .unless("the load changed nothing, or the model is meant to stay as it is")
                .repaired(
                    "refresh it; do it after each load, or every few minutes",
                    "it takes processor and disk; readers see the old rows until it has finished",
                )
                .run([format!("$ millstream refresh {}", shell_word(&name))]);
            task.keep(finding);
        }
    }
    Ok(Seen::default())
}
