//! Copies as root from servers and machines that lie.

use crate::copy::{Place, appears};
use crate::copy_cluster::Cluster;
use crate::process::{Run, command, run};
use millstream_testkit::{Need, Server, Settings, builds, connect, machine_has};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;

/// Moves a folder aside, if it is there, and puts a link to the victim in its place.
fn exchange(folder: &Path, aside: &Path, victim: &Path) {
    if folder.exists() {
        fs::rename(folder, aside).unwrap();
    }
    symlink(victim, folder).unwrap();
}

#[test]
fn a_link_in_the_place_of_the_destination_gets_nothing_and_loses_nothing() {
    for point in ["copy-listed", "folders-made", "deletion-found"] {
        let place = Place::new();
        place.write("from/folder/file", b"text");
        place.write("to/old", b"");
        let kept = place.write("victim/kept", b"text");
        let (aside, victim, held) = (place.path("aside"), place.path("victim"), place.path("held"));
        let mut copying = place.command(&["from/", "to", "--delete", "--yes", "--fsync", "--progress", "none"]);
        copying.env("MILLSTREAM_FAILPOINTS", format!("{point}=wait:{}", held.display()));
        let mut child = copying.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        appears(&held, &mut child);
        exchange(&place.path("to"), &aside, &victim);
        fs::remove_file(&held).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("is no longer the folder"), "{point}: {said}");
        assert!(kept.exists() && fs::read_dir(&victim).unwrap().count() == 1, "{point}: {said}");
        assert!(aside.join("folder/file").exists() && !aside.join("old").exists(), "{point}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_a_copy_of_a_cluster_or_in_its_place_gets_nothing() {
    for build in builds().await {
        let cluster = Cluster::start(Server::start(build, Settings::default()).await).await;
        let (aside, victim) = (cluster.path("aside"), cluster.path("victim"));
        let mapping = cluster.mapping("new");
        for (point, replaced) in
            [("cluster-copied", "to/pg_wal"), ("cluster-copied", "to"), ("cluster-copied", "new"), ("wal-copied", "to")]
        {
            fs::create_dir(&victim).unwrap();
            let looks = || fs::metadata(&victim).map(|found| (found.uid(), found.gid(), found.mode())).unwrap();
            let before = looks();
            let exchanged = async { exchange(&cluster.path(replaced), &aside, &victim) };
            let refused = cluster.copy_while(&["to", "--tablespace", &mapping], point, exchanged).await;
            let said = String::from_utf8_lossy(&refused.stderr);
            let is_named =
                ["is no longer the folder", "a link is in the place of"].iter().any(|why| said.contains(why));
            assert!(refused.status.code() == Some(2) && is_named, "{point}, {replaced}: {said}");
            assert!(fs::read_dir(&victim).unwrap().next().is_none(), "{point}, {replaced}: {said}");
            assert_eq!(looks(), before, "{point}, {replaced}: {said}");
            for folder in ["to", "aside"] {
                let control = cluster.path(folder).join("global/pg_control");
                assert!(!control.exists(), "{point}, {replaced}: a server would start on {}", control.display());
            }
            for folder in ["to", "new", "aside", "victim"].map(|name| cluster.path(name)) {
                if fs::symlink_metadata(&folder).is_ok() {
                    fs::remove_dir_all(&folder).unwrap();
                }
            }
        }
        cluster.copy(&["to", "--tablespace", &mapping]).ends(0);
        cluster.is_verified(&cluster.path("to"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lies_about_a_tablespace_makes_nothing_outside_of_the_copy() {
    for build in builds().await {
        let cluster = Cluster::start(Server::start(build, Settings::default()).await).await;
        let victim = cluster.path("victim");
        fs::create_dir(&victim).unwrap();
        let client = connect(&cluster.server.url("postgres")).await;
        let lies = format!(
            "set allow_system_table_mods = on; \
             alter table pg_catalog.pg_tablespace rename to millstream_hidden; \
             create view pg_catalog.pg_tablespace as \
             select '../../../../../../../../../../../../../../../..{}/evil.sh'::text as oid; \
             create function pg_catalog.pg_tablespace_location(text) returns text language sql as $$ select '{}' $$",
            victim.display(),
            cluster.path("space").display()
        );
        client.batch_execute(&lies).await.unwrap();
        let refused = cluster.copy(&["to", "--tablespace", &cluster.mapping("new")]).ends(2);
        assert!(fs::read_dir(&victim).unwrap().next().is_none(), "{refused:?}");
    }
}

/// Copies `from` from a machine whose shell runs these lines, with the command behind the host as `$*`.
fn copy_by(dir: &Path, shell: &str) -> Run {
    let path = dir.join("shell");
    fs::write(&path, format!("#!/bin/sh\nshift\ncd {}\n{shell}\n", dir.display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let from = format!("host:{}/", dir.join("from").display());
    let args = ["copy", &from, "to", "--ssh", path.to_str().unwrap(), "--progress", "none", "--output", "json"];
    run(command(&args).env("MILLSTREAM_HOME", dir.join("home")).current_dir(dir))
}

#[test]
fn a_machine_that_shows_a_link_in_the_place_of_a_folder_gets_no_link_on_the_way_to_files() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for folder in ["from/folder", "victim", "to/other"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    fs::write(at("from/folder/file"), "text").unwrap();
    symlink("nowhere", at("from/link")).unwrap();
    // The first process of rsync finds a link, and those after it the folder.
    let lies = "case \"$*\" in *--server*) if [ ! -e lied ]; then \
        : >lied; mv from/folder kept; ln -s \"$PWD/victim\" from/folder; sh -c \"$*\"; code=$?; \
        rm from/folder; mv kept from/folder; exit $code; fi;; esac; exec sh -c \"$*\"";
    let receipt = copy_by(dir.path(), lies).ends(1).json();
    let failed = receipt["failures"].to_string();
    assert!(failed.contains("folder/file") && failed.contains("its folder could not be made"), "{receipt}");
    assert!(at("lied").exists() && !at("to/folder").is_symlink() && at("to/link").is_symlink(), "{receipt}");
    assert!(fs::read_dir(at("victim")).unwrap().next().is_none(), "{receipt}");
}

#[test]
fn what_is_listed_in_no_folder_is_refused() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for folder in ["from", "victim", "to"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    fs::write(at("from/file"), "text").unwrap();
    // An earlier copy has made the link, which the list does not name any more.
    symlink(at("victim"), at("to/link")).unwrap();
    let lies = "case \"$*\" in *-printf*) sh -c \"$*\"; \
        exec printf '%s\\0' f 644 0 0 4 1.0 1 9 1 '' link/file;; esac; exec sh -c \"$*\"";
    let refused = copy_by(dir.path(), lies).ends(2);
    assert!(refused.stderr.contains("lists link/file in a way in which no tree has it"), "{refused:?}");
    assert!(fs::read_dir(at("victim")).unwrap().next().is_none(), "{refused:?}");
}
