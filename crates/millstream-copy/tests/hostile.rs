//! Copies beside somebody who exchanges folders, and from machines that lie.

use crate::cluster::Cluster;
use crate::place::Place;
use millstream_testkit::{Need, builds, connect, machine_has};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

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
        let (aside, victim) = (place.path("aside"), place.path("victim"));
        let copying = place.process("from/", "to", &["delete", "fsync"]);
        let refused = copying.held(point, || exchange(&place.path("to"), &aside, &victim)).unwrap_err();
        assert!(refused.contains("is no longer the folder"), "{point}: {refused}");
        assert!(kept.exists() && fs::read_dir(&victim).unwrap().count() == 1, "{point}");
        assert!(aside.join("folder/file").exists() && !aside.join("old").exists(), "{point}");
    }
}

#[test]
fn a_machine_that_shows_a_link_in_the_place_of_a_folder_gets_no_link_on_the_way_to_files() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    place.write("from/folder/file", b"text");
    symlink("nowhere", place.path("from/link")).unwrap();
    place.shell("mkdir -p victim to/other");
    // The first process of rsync finds a link, and those after it the folder.
    let lies = format!(
        "cd {}; case \"$*\" in *--server*) if [ ! -e lied ]; then \
         : >lied; mv from/folder kept; ln -s \"$PWD/victim\" from/folder; sh -c \"$*\"; code=$?; \
         rm from/folder; mv kept from/folder; exit $code; fi;; esac; exec sh -c \"$*\"",
        place.text("")
    );
    let receipt = place.copy_in_part(&place.far("from/"), "to", &[&place.remote_shell("lies", &lies)]);
    let failed = format!("{:?}", receipt.failures);
    assert!(failed.contains("folder/file") && failed.contains("its folder could not be made"), "{failed}");
    let at = |name: &str| place.path(name);
    assert!(at("lied").exists() && !at("to/folder").is_symlink() && at("to/link").is_symlink(), "{failed}");
    assert!(fs::read_dir(at("victim")).unwrap().next().is_none(), "{failed}");
}

#[test]
fn what_is_listed_in_no_folder_is_refused() {
    if !machine_has(&[Need::RSYNC]) {
        return;
    }
    let place = Place::new();
    place.write("from/file", b"text");
    // An earlier copy has made the link, which the list does not name any more.
    place.shell("mkdir victim to; ln -s \"$PWD/victim\" to/link");
    let lies = "case \"$*\" in *-printf*) sh -c \"$*\"; \
        exec printf '%s\\0' f 644 0 0 4 1.0 1 9 1 '' link/file;; esac; exec sh -c \"$*\"";
    let refused = place.refused(&place.far("from/"), "to", &[&place.remote_shell("lies", lies)]);
    assert!(refused.contains("lists link/file in a way in which no tree has it"), "{refused}");
    assert!(fs::read_dir(place.path("victim")).unwrap().next().is_none(), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_a_copy_of_a_cluster_or_in_its_place_gets_nothing() {
    for build in builds().await {
        let cluster = Cluster::start(build).await;
        let (aside, victim) = (cluster.path("aside"), cluster.path("victim"));
        let mapping = cluster.mapping("new");
        for (point, replaced) in
            [("cluster-copied", "to/pg_wal"), ("cluster-copied", "to"), ("cluster-copied", "new"), ("wal-copied", "to")]
        {
            fs::create_dir(&victim).unwrap();
            let looks = || fs::metadata(&victim).map(|found| (found.uid(), found.gid(), found.mode())).unwrap();
            let before = looks();
            let exchanged = async { exchange(&cluster.path(replaced), &aside, &victim) };
            let refused = cluster.process("to", &[&mapping]).held_while(point, exchanged).await.unwrap_err();
            let says = ["is no longer the folder", "a link is in the place of"];
            assert!(says.iter().any(|why| refused.contains(why)), "{point}, {replaced}: {refused}");
            assert!(fs::read_dir(&victim).unwrap().next().is_none(), "{point}, {replaced}: {refused}");
            assert_eq!(looks(), before, "{point}, {replaced}: {refused}");
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
        cluster.copy("to", &[&mapping]).await;
        cluster.is_verified(&cluster.path("to"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lies_about_a_tablespace_makes_nothing_outside_of_the_copy() {
    for build in builds().await {
        let cluster = Cluster::start(build).await;
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
        let refused = cluster.refused("to", &[&cluster.mapping("new")]).await;
        assert!(fs::read_dir(&victim).unwrap().next().is_none(), "{refused}");
    }
}
