//! Copies of clusters to targets of others, from links, and over damaged earlier copies.

use crate::cluster::Cluster;
use crate::place::said;
use millstream_copy::ClusterReceipt;
use millstream_testkit::{SshServer, StopMode, builds, connect, skip};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The file of a table, below the data directory, once its rows are in it.
async fn file_of(cluster: &Cluster, table: &str) -> String {
    let client = connect(&cluster.server.url("postgres")).await;
    client.batch_execute("checkpoint").await.unwrap();
    let sql = "select pg_catalog.pg_relation_filepath($1::text::regclass)";
    client.query_one(sql, &[&table]).await.unwrap().get(0)
}

const WITHIN: &str = "which belongs to a server or to a copy of a cluster";

#[tokio::test(flavor = "multi_thread")]
async fn a_target_belongs_to_one_copy() {
    for build in builds().await {
        let cluster = Cluster::start(build).await;
        let mut first = cluster.server.without_data();
        let a = first.data().display().to_string();
        let t = cluster.mapping("t");
        cluster.copy(&a, &[&t]).await;
        cluster.is_verified(&first.data());
        // A server runs on the first copy, and has rows of its own.
        first.start_copy().await;
        let own = connect(&first.url("postgres")).await;
        own.execute("insert into in_space select n from generate_series(1, 500) n", &[]).await.unwrap();
        own.batch_execute("checkpoint").await.unwrap();
        let data = cluster.server.data();
        let inside = format!("tablespace={}={}", cluster.path("space").display(), data.join("x").display());
        let (in_target, s) = (cluster.mapping("t/in"), cluster.mapping("s"));
        let in_data = data.join("in").display().to_string();
        let cases: [(&str, &str, &str); 6] = [
            ("b", &t, "belongs to another copy of this cluster, whose data directory is "),
            ("b", &inside, WITHIN),
            ("b", &in_target, WITHIN),
            ("t/in", &s, WITHIN),
            ("space/in", &s, WITHIN),
            (&in_data, &s, " lies in "),
        ];
        for (to, mapping, says) in cases {
            let refused = cluster.refused(to, &[mapping]).await;
            assert!(refused.contains(says), "{to} {mapping}: {refused}");
        }
        let count = "select count(*) from in_space";
        assert_eq!(own.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 1_500);
        drop(own);
        first.stop(StopMode::Fast).await;
        // Each copy with targets of its own is one, also if the first one gets another target.
        cluster.copy("b", &[&s]).await;
        cluster.copy(&a, &[&cluster.mapping("t2")]).await;
        for copy in [first.data(), cluster.path("b")] {
            cluster.is_verified(&copy);
        }
        // What was moved may still use the target.
        fs::rename(cluster.path("b"), cluster.path("moved")).unwrap();
        let refused = cluster.refused("b", &[&s]).await;
        assert!(refused.contains("an earlier one that was removed, moved or replaced"), "{refused}");
        let refused = cluster.refused("moved", &[&s]).await;
        assert!(refused.contains("belongs to another copy of this cluster"), "{refused}");
        cluster.is_verified(&cluster.path("moved"));
        // As the hint says. The note is hidden, and stays.
        cluster.place.shell("cd s; rm -r *; test -e .millstream-copy.owner");
        cluster.copy("b", &[&s]).await;
        cluster.is_verified(&cluster.path("b"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_on_another_machine_belongs_to_one_copy_and_is_compared() {
    let Some(ssh) = SshServer::start() else { return };
    let cluster = Cluster::usual().await;
    let at = |name: &str| format!("127.0.0.1:{}", cluster.path(name).display());
    let (a, t, shell) = (at("a"), cluster.mapping("t"), format!("shell={}", ssh.shell(ssh.port())));
    // Two names of one folder.
    fs::create_dir(cluster.path("a")).unwrap();
    symlink(cluster.path("a"), cluster.path("link")).unwrap();
    let refused = cluster.refused(&a, &[&cluster.mapping("link/in"), &shell]).await;
    assert!(refused.contains("which overlaps"), "{refused}");
    cluster.copy(&a, &[&t, &shell]).await;
    cluster.is_verified(&cluster.path("a"));
    let other = "belongs to another copy of this cluster";
    for (to, says) in [("b", other), ("a/in", WITHIN), ("space/in", WITHIN)] {
        let refused = cluster.refused(&at(to), &[&t, &shell]).await;
        assert!(refused.contains(says), "{refused}");
    }
    let refused = cluster.refused("b", &[&t]).await;
    assert!(refused.contains(other), "the note is that of this machine, too: {refused}");
    // The notes of this machine are lost; what is there is read all the same.
    fs::remove_dir_all(cluster.path("home")).unwrap();
    let name = format!("a/{}", file_of(&cluster, "in_space").await);
    cluster.place.damage(&name);
    cluster.copy(&a, &[&t, &shell]).await;
    cluster.is_verified(&cluster.path("a"));
    fs::remove_file(cluster.path(&name)).unwrap();
    let found = cluster.place.problems(&a, &[&shell]);
    let (_, name) = name.rsplit_once('/').unwrap();
    assert!(found.contains(&format!("/{name}: it is missing")), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_earlier_copy_is_read_and_its_tablespaces_are_compared() {
    for build in builds().await {
        let cluster = Cluster::start(build).await;
        let client = connect(&cluster.server.url("postgres")).await;
        client.execute("insert into numbers select n, 'x' from generate_series(1, 5000) n", &[]).await.unwrap();
        let files = [file_of(&cluster, "numbers").await, file_of(&cluster, "in_space").await];
        let t = cluster.mapping("t");
        cluster.copy("to", &[&t]).await;
        files.iter().for_each(|file| cluster.place.damage(&format!("to/{file}")));
        let found = cluster.place.problems("to", &[]);
        let bytes = "its bytes differ, although its size and time do not";
        assert_eq!(found.matches(bytes).count(), 2, "{found}");
        cluster.copy("to", &[&t]).await;
        cluster.is_verified(&cluster.path("to"));
        cluster.place.is_whole("to", &[]);
        // WAL that only the removed copy had is not missing in the new one.
        for folder in ["to", "t"] {
            fs::remove_dir_all(cluster.path(folder)).unwrap();
        }
        client.batch_execute("select pg_switch_wal()").await.unwrap();
        cluster.copy("to", &[&t]).await;
        cluster.is_verified(&cluster.path("to"));
        cluster.place.is_whole("to", &[]);
    }
}

/// What a killed copy of a cluster has left: a slot on its server, and nothing else.
async fn left(cluster: &Cluster) -> String {
    let t = cluster.mapping("t");
    cluster.process("to", &[&t, "standby=standby_1"]).killed("cluster-copied=kill");
    ["to", "t"].iter().for_each(|folder| fs::remove_dir_all(cluster.path(folder)).unwrap());
    t
}

/// Copies another cluster to where a killed copy of the first one was.
async fn copy_other(first: &Cluster, other: &Cluster) -> ClusterReceipt {
    let (url, t) = (other.server.url("postgres"), first.mapping_of(&other.path("space"), "t"));
    first.copied(&url, "to", &[&t]).await.unwrap()
}

const MAKE: &str = "select pg_create_physical_replication_slot('standby_1', true)";

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_dropped_only_on_the_cluster_whose_copy_has_made_it() {
    // Servers of one build have the same identifier.
    let [one, other, ..] = builds().await else { return skip("two clusters need two builds") };
    let (first, second) = (Cluster::start(one).await, Cluster::start(other).await);
    let t = first.mapping("t");
    first.process("to", &[&t, "standby=standby_1"]).killed("cluster-copied=kill");
    connect(&second.server.url("postgres")).await.execute(MAKE, &[]).await.unwrap();
    let (url, of_other) = (second.server.url("postgres"), first.mapping_of(&second.path("space"), "t"));
    let refused = said(&first.copied(&url, "to", &[&of_other]).await.unwrap_err());
    assert!(refused.contains("belongs to a copy of another cluster"), "{refused}");
    let gone = || ["to", "t"].iter().for_each(|folder| fs::remove_dir_all(first.path(folder)).unwrap());
    gone();
    copy_other(&first, &second).await;
    assert_eq!(second.slots("standby_1").await, 1, "it is the slot of somebody else");
    gone();
    first.copy("to", &[&t]).await;
    assert_eq!(first.slots("standby_1").await, 0, "the slot was left by a copy to this place");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_slot_of_another_server_with_the_same_number_stays() {
    // Servers of one build share it, as a cluster and its copies do.
    let (first, second) = (Cluster::usual().await, Cluster::usual().await);
    left(&first).await;
    connect(&second.server.url("postgres")).await.execute(MAKE, &[]).await.unwrap();
    copy_other(&first, &second).await;
    assert_eq!(second.slots("standby_1").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_somebody_has_made_again_stays() {
    let cluster = Cluster::usual().await;
    let t = left(&cluster).await;
    let client = connect(&cluster.server.url("postgres")).await;
    let drop_it = "select pg_drop_replication_slot('standby_1')";
    for statement in [drop_it, "insert into numbers values (1, 'x')", "checkpoint", MAKE] {
        client.execute(statement, &[]).await.unwrap();
    }
    cluster.copy("to", &[&t]).await;
    assert_eq!(cluster.slots("standby_1").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_copies_that_run_at_once_one_gets_the_target() {
    let cluster = Cluster::usual().await;
    let t = cluster.mapping("t");
    // The second one has looked at the target before the first one has begun.
    let first = async { drop(cluster.copy("a", &[&t]).await) };
    let refused = Box::pin(cluster.process("b", &[&t]).held_while("copy-listed", first)).await.unwrap_err();
    assert!(refused.contains("belongs to another copy of this cluster, whose data directory is "), "{refused}");
    cluster.is_verified(&cluster.path("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_two_homes_to_one_destination_do_not_run_at_once() {
    let ssh = SshServer::start();
    let shell = ssh.as_ref().map(|ssh| format!("shell={}", ssh.shell(ssh.port())));
    let cluster = Cluster::usual().await;
    let t = cluster.mapping("t");
    cluster.copy("to", &[&t]).await;
    let there = format!("127.0.0.1:{}", cluster.path("to").display());
    let mut ways: Vec<(&str, Vec<&str>)> = vec![("to", vec![&*t])];
    ways.extend(shell.as_deref().map(|shell| (&*there, vec![&*t, shell])));
    for (first, words) in &ways {
        for (second, of_second) in &ways {
            let other = async {
                let refused = cluster.refused(second, &[&of_second[..], &["home=other-home"]].concat()).await;
                assert!(refused.contains("another copy writes to "), "{first}, {second}: {refused}");
            };
            let copied = Box::pin(cluster.process(first, words).held_while("cluster-copied", other)).await;
            copied.unwrap_or_else(|error| panic!("{first}, {second}: {error}"));
            cluster.is_verified(&cluster.path("to"));
        }
    }
    // The note of a copy that was killed stops no other copy.
    for (to, words) in &ways {
        cluster.process(to, words).killed("cluster-copied=kill");
        cluster.copy("to", &[&t, "home=other-home"]).await;
        cluster.is_verified(&cluster.path("to"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tablespace_in_the_data_directory_is_copied_once() {
    let cluster = Cluster::usual().await;
    let inside = cluster.server.data().join("in[s]ide");
    fs::create_dir(&inside).unwrap();
    cluster.server.own(&inside);
    let client = connect(&cluster.server.url("postgres")).await;
    client.batch_execute(&format!("create tablespace inside location '{}'", inside.display())).await.unwrap();
    client.batch_execute("create table in_it tablespace inside as select 1").await.unwrap();
    cluster.copy("to", &[&cluster.mapping("t"), &cluster.mapping_of(&inside, "i")]).await;
    cluster.is_verified(&cluster.path("to"));
    assert!(!cluster.path("to/in[s]ide").exists());
    assert!(cluster.path("to").join(file_of(&cluster, "in_it").await).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn links_that_lead_out_of_a_cluster_are_refused_by_name() {
    let cluster = Cluster::usual().await;
    let (place, data, t) = (&cluster.place, cluster.server.data(), cluster.mapping("t"));
    cluster.copy("to", &[&t]).await;
    fs::create_dir(cluster.path("elsewhere")).unwrap();
    for (link, named) in [("base/links", "base/links in "), ("pg_wal/0000000100000000000000FE", "pg_wal is a link to")]
    {
        symlink(cluster.path("elsewhere"), data.join(link)).unwrap();
        let planned = said(&cluster.plan("to", &[&t]).await.unwrap_err());
        for refused in [planned, cluster.refused("to", &[&t]).await] {
            assert!(refused.contains(named) && refused.contains(" is a link to"), "{refused}");
        }
        cluster.is_verified(&cluster.path("to"));
        fs::remove_file(data.join(link)).unwrap();
    }
    // A stopped cluster is a folder, but for the links in it.
    cluster.server.stop(StopMode::Fast).await;
    symlink("PG_VERSION", data.join("inside")).unwrap();
    let source = format!("{}/", data.display());
    let refused = place.refused(&source, "stopped", &[]);
    assert!(refused.contains("is a data directory of PostgreSQL"), "{refused}");
    assert!(refused.contains("pg_tblspc/") && refused.contains("postgres"), "{refused}");
    assert!(!cluster.path("stopped").exists());
    place.copy(&source, "stopped", &["exclude=/pg_tblspc/*"]);
    assert!(cluster.path("stopped/inside").is_symlink());
    // As on Debian, a data directory may lie further down.
    fs::create_dir(cluster.path("deb")).unwrap();
    fs::rename(cluster.path("stopped"), cluster.path("deb/main")).unwrap();
    symlink(cluster.path("elsewhere"), cluster.path("deb/main/pg_tblspc/1")).unwrap();
    let refused = place.refused("deb", "backup", &[]);
    assert!(refused.contains("deb/main is a data directory of PostgreSQL"), "{refused}");
    assert!(refused.contains("/deb/main/pg_tblspc/1"), "{refused}");
    assert!(!cluster.path("backup/deb").exists());
    place.copy("deb", "backup", &["exclude=/deb/main/pg_tblspc/*"]);
    assert!(cluster.path("backup/deb/main/global/pg_control").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_plain_copy_goes_to_what_a_running_server_uses() {
    let cluster = Cluster::usual().await;
    let (place, mut copy) = (&cluster.place, cluster.server.without_data());
    let (data, base, space) = (copy.data(), copy.data().join("base"), cluster.path("t"));
    cluster.copy(&data.display().to_string(), &[&cluster.mapping("t")]).await;
    copy.start_copy().await;
    place.write("photos/one", b"one");
    let ssh = SshServer::start();
    let shell = ssh.as_ref().map(|ssh| format!("shell={}", ssh.shell(ssh.port())));
    let above = data.parent().unwrap();
    let ways = [("", None)].into_iter().chain(shell.as_deref().map(|shell| ("127.0.0.1:", Some(shell))));
    for (before, shell) in ways {
        let to = |path: &Path| format!("{before}{}", path.display());
        let words = |words: &[&'static str]| {
            let mut all: Vec<&str> = words.to_vec();
            all.extend(shell);
            all
        };
        let deletes: &[&'static str] = &["delete"];
        let refused: [(&Path, &[&'static str]); 4] =
            [(&data, deletes), (&data, &[]), (&base, deletes), (&space, deletes)];
        for (path, some) in refused {
            let refused = place.refused("photos/", &to(path), &words(some));
            assert!(refused.contains("a server runs in "), "{}: {refused}", to(path));
        }
        let planned = |some: &[&'static str]| {
            let request = place.request("photos/", &to(above), &words(some));
            millstream_copy::plan(&request, &millstream_copy::Tally::default())
        };
        let refused = planned(&["delete"]).unwrap_err().to_string();
        assert!(refused.contains("a server runs in "), "{refused}");
        // Nothing of the server has the name of a file of the source.
        planned(&[]).unwrap();
        assert!(!data.join("one").exists() && !space.join("one").exists());
    }
    let client = connect(&copy.url("postgres")).await;
    let rows: i64 = client.query_one("select count(*) from in_space", &[]).await.unwrap().get(0);
    assert_eq!(rows, 1_000);
    // A stopped cluster is not copied over a server that runs either, but over one that has ended.
    cluster.server.stop(StopMode::Fast).await;
    let (source, rules) = (format!("{}/", cluster.server.data().display()), ["exclude=/pg_tblspc/*"]);
    let here = data.display().to_string();
    let refused = place.refused(&source, &here, &rules);
    assert!(refused.contains("a server runs in "), "{refused}");
    copy.stop(StopMode::Fast).await;
    // What lies there may have been copied from a server that runs elsewhere.
    fs::write(data.join("postmaster.pid"), format!("{}\n", std::process::id())).unwrap();
    place.copy(&source, &here, &rules);
}
