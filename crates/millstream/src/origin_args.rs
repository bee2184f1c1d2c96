//! `--with-source` and `--with-partitions`: members that say which file a document comes from.

use crate::args::one_path;
use crate::enrich::EnrichArgs;
use crate::failure::Failure;
use millstream_document::source;
use millstream_document::transform::{Origin, Transform, partitions};
use millstream_engine::{LoadRequest, file_name};
use std::path::Path;
use std::sync::Arc;

/// What documents say about their file.
#[derive(Debug, clap::Args)]
pub struct OriginArgs {
    /// Add the name of its file to each document, as this member
    ///
    /// It is the absolute path, or the address of an object, as `millstream loads` shows it; for a stream it is its
    /// --source-name. If a document has the member already, it is replaced. Positions and rejects refer to the documents
    /// of the file.
    #[arg(long, value_name = "MEMBER", value_parser = member)]
    with_source: Option<String>,

    /// Add the values of folders such as year=2026/month=06 to each document
    ///
    /// The members are strings, named as the folders. %XX in them is decoded. A folder
    /// `year=__HIVE_DEFAULT_PARTITION__` gives a null. Of several folders of one name, the innermost counts. If a
    /// document has the member already, it is replaced.
    #[arg(long)]
    with_partitions: bool,
}

/// Names of members, and their texts or nulls.
type Members = Vec<(String, Option<String>)>;

/// The key in the address of an object: what follows its bucket or host.
fn key(address: &str) -> &Path {
    Path::new(address.splitn(4, '/').nth(3).unwrap_or_default())
}

/// The name of one member.
fn member(text: &str) -> Result<String, String> {
    let path = one_path(text).map_err(|error| error.to_string())?.unwrap_or_default();
    match <[String; 1]>::try_from(path) {
        Ok([name]) => Ok(name),
        Err(_) => Err("it takes the name of one member, such as file; put a name with dots in double quotes".into()),
    }
}

impl OriginArgs {
    /// The names of the transforms that they ask for: none or one.
    pub fn names(&self) -> Vec<String> {
        let source = self.with_source.as_ref().map(|member| format!("source as {member}"));
        let partitions = self.with_partitions.then(|| "partitions".to_owned());
        let name: Vec<String> = source.into_iter().chain(partitions).collect();
        if name.is_empty() { Vec::new() } else { vec![name.join(" and ")] }
    }

    /// Refuses them for a topic, whose messages are in no file.
    pub fn require_none(&self) -> Result<(), Failure> {
        let option = match (&self.with_source, self.with_partitions) {
            (Some(_), _) => "--with-source",
            (None, true) => "--with-partitions",
            (None, false) => return Ok(()),
        };
        Err(Failure::user(format!("{option} does not go with a topic"))
            .hint("leave it out; --with-message MEMBER adds where a message comes from"))
    }

    /// Adds the transform to a request whose sources are final, behind those of its enrichments.
    pub fn apply(&self, request: &mut LoadRequest, enrich: &EnrichArgs) -> Result<(), Failure> {
        let Some(name) = self.names().pop() else { return Ok(()) };
        let members = self.members(request)?;
        const OTHER: &str = "name another member: --with-source MEMBER, or leave out one of the options";
        if let Some((member, _)) = members.iter().flatten().find(|(member, _)| enrich.adds(member)) {
            return Err(
                Failure::user(format!("--enrich adds {member} too, and one would replace the other")).hint(OTHER)
            );
        }
        let origin = Origin::new(name, &members).map_err(|(index, why)| {
            let spelled = request.sources.get(index).map_or("-", String::as_str);
            Failure::user(format!("{spelled}: {why}")).hint(OTHER)
        })?;
        request.transforms.push(Arc::new(origin) as Arc<dyn Transform>);
        Ok(())
    }

    /// What the documents of each source get.
    fn members(&self, request: &LoadRequest) -> Result<Vec<Members>, Failure> {
        request.sources.iter().map(|spelled| self.members_of(spelled, request)).collect()
    }

    fn members_of(&self, spelled: &str, request: &LoadRequest) -> Result<Members, Failure> {
        let file = file_name(spelled, &request.objects)?;
        let mut members = Vec::new();
        if let Some(member) = &self.with_source {
            let Some(name) = file.as_deref().or(request.source_name.as_deref()) else {
                return Err(Failure::user(format!(
                    "--with-source needs a name, and {spelled} is a stream without one"
                ))
                .hint("give it one: --source-name NAME"));
            };
            members.push((member.clone(), Some(name.to_owned())));
        }
        if self.with_partitions {
            if file.is_none() {
                return Err(Failure::user(format!("--with-partitions takes files, and {spelled} is a stream"))
                    .hint("leave it out, or load the files themselves"));
            }
            members.extend(match request.objects.get(spelled) {
                Some(object) => partitions(key(object.name())),
                None => {
                    let path = source::path(spelled);
                    // Not the path behind links: folders are named where people see them.
                    partitions(&std::path::absolute(&path).unwrap_or(path))
                }
            });
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_has_one_name() {
        assert_eq!(member("file"), Ok("file".to_owned()));
        assert_eq!(member("\"a.b\""), Ok("a.b".to_owned()));
        for wrong in ["", "a.b", "a,b", "c=a", "a:text"] {
            assert!(member(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_folders_of_an_object_are_those_of_its_key() {
        for (address, expected) in [
            ("s3://a=b/year=2026/c=1.json", "year=2026/c=1.json"),
            ("https://h:8/d=1/e.json", "d=1/e.json"),
            ("s3://b/c", "c"),
            ("s3://b", ""),
        ] {
            assert_eq!(key(address), Path::new(expected), "{address}");
        }
    }

    #[test]
    fn one_transform_does_both() {
        let names = |with_source: Option<&str>, with_partitions| {
            OriginArgs { with_source: with_source.map(str::to_owned), with_partitions }.names()
        };
        assert!(names(None, false).is_empty());
        assert_eq!(names(Some("file"), false), ["source as file"]);
        assert_eq!(names(None, true), ["partitions"]);
        assert_eq!(names(Some("file"), true), ["source as file and partitions"]);
    }
}
