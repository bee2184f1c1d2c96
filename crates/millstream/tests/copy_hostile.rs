//! Copies as root from servers and machines that lie.

use crate::copy_cluster::Cluster;
use crate::process::{Run, command, run};
use millstream_testkit::{Need, Server, Settings, builds, connect, machine_has};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
    std::os::unix::fs::symlink("nowhere", at("from/link")).unwrap();
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
    std::os::unix::fs::symlink(at("victim"), at("to/link")).unwrap();
    let lies = "case \"$*\" in *-printf*) sh -c \"$*\"; \
        exec printf '%s\\0' f 644 0 0 4 1.0 1 9 1 '' link/file;; esac; exec sh -c \"$*\"";
    let refused = copy_by(dir.path(), lies).ends(2);
    assert!(refused.stderr.contains("lists link/file in a way in which no tree has it"), "{refused:?}");
    assert!(fs::read_dir(at("victim")).unwrap().next().is_none(), "{refused:?}");
}
