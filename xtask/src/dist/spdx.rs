//! The list of components, in SPDX's JSON.

use super::components::{Component, Components, Linked};
use super::programs::{cannot, printed};
use super::release::Release;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Writes the list beside the packages.
pub(super) fn write(release: &Release, components: &Components) -> Result<PathBuf, String> {
    let created = release.date("+%Y-%m-%dT%H:%M:%SZ")?;
    // Two commits of one version have documents of different names.
    let commit = printed(Command::new("git").args(["rev-parse", "HEAD"]).current_dir(&release.root));
    let commit = commit.map_or_else(|_| release.moment.clone(), |commit| commit.trim().to_owned());
    let list = document(components, &created, &commit);
    let name = format!("millstream-{}.spdx.json", release.version);
    let file = release.place(&name, &|other| other.starts_with("millstream-") && other.ends_with(".spdx.json"))?;
    fs::write(&file, format!("{list:#}\n")).map_err(cannot("write", &file))?;
    Ok(file)
}

fn document(components: &Components, created: &str, commit: &str) -> Value {
    let program = components.program();
    let describes = relation("SPDXRef-DOCUMENT", "DESCRIBES", &id(program));
    let uses = components
        .uses
        .iter()
        .map(|(from, to)| relation(&id(&components.all[*from]), "DEPENDS_ON", &id(&components.all[*to])));
    let links = components
        .linked
        .iter()
        .map(|linked| relation(&id(program), "STATIC_LINK", &id_of(linked.name, &linked.version)));
    let relations: Vec<Value> = std::iter::once(describes).chain(uses).chain(links).collect();
    let packages: Vec<Value> = components.all.iter().map(package).chain(components.linked.iter().map(linked)).collect();
    json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("{}-{}", program.name, program.version),
        "documentNamespace": format!("https://spdx.org/spdxdocs/{}-{}-{commit}", program.name, program.version),
        "creationInfo": { "created": created, "creators": ["Tool: cargo xtask dist"] },
        "packages": packages,
        "relationships": relations,
    })
}

fn linked(linked: &Linked) -> Value {
    described(linked.name, &linked.version, linked.license)
}

fn described(name: &str, version: &str, license: &str) -> Value {
    json!({
        "SPDXID": id_of(name, version),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": license,
        "copyrightText": "NOASSERTION",
    })
}

fn package(component: &Component) -> Value {
    let license = component.license.as_deref().unwrap_or("NOASSERTION");
    let mut package = described(&component.name, &component.version, license);
    if component.is_foreign {
        // A `+` has a meaning in such an address.
        let locator = format!("pkg:cargo/{}@{}", component.name, component.version.replace('+', "%2B"));
        package["externalRefs"] = json!([
            { "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator }
        ]);
    }
    if let Some(checksum) = &component.checksum {
        package["checksums"] = json!([{ "algorithm": "SHA256", "checksumValue": checksum }]);
    }
    package
}

fn id(component: &Component) -> String {
    id_of(&component.name, &component.version)
}

/// The name of a component in the document, which may have letters, digits, dots and hyphens.
fn id_of(name: &str, version: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    format!("SPDXRef-{}", format!("{name}-{version}").chars().map(plain).collect::<String>())
}

fn relation(from: &str, kind: &str, to: &str) -> Value {
    json!({ "spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::components::tests::three;

    #[test]
    fn the_document_has_every_component_and_what_it_uses() {
        let list = document(&three(), "2026-01-02T03:04:05Z", "c0ffee");
        assert_eq!(list["packages"].as_array().unwrap().len(), 4);
        assert_eq!(list["packages"][3]["licenseDeclared"], "MIT");
        assert_eq!(list["packages"][0]["checksums"][0]["checksumValue"], "12ab");
        assert_eq!(list["packages"][0]["externalRefs"][0]["referenceLocator"], "pkg:cargo/a@1.0.0%2Bx");
        assert_eq!(list["packages"][0]["licenseDeclared"], "NOASSERTION");
        assert!(list["packages"][2].get("externalRefs").is_none());
        let relations: Vec<String> = list["relationships"].as_array().unwrap().iter().map(words).collect();
        let expected = [
            "SPDXRef-DOCUMENT DESCRIBES SPDXRef-millstream-0.1.0",
            "SPDXRef-b-2.0.0 DEPENDS_ON SPDXRef-a-1.0.0-x",
            "SPDXRef-millstream-0.1.0 DEPENDS_ON SPDXRef-b-2.0.0",
            "SPDXRef-millstream-0.1.0 STATIC_LINK SPDXRef-rust-std-1.2.3",
        ];
        assert_eq!(relations, expected);
        assert_eq!(list, document(&three(), "2026-01-02T03:04:05Z", "c0ffee"));
    }

    fn words(relation: &Value) -> String {
        let names = ["spdxElementId", "relationshipType", "relatedSpdxElement"];
        names.map(|name| relation[name].as_str().unwrap()).join(" ")
    }
}
