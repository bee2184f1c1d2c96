//! Copies of clusters to targets of others, from links, and over damaged earlier copies.

use crate::copy::shell;
use crate::copy_cluster::Cluster;
use crate::process::{killed, run};
use millstream_testkit::{Server, Settings, SshServer, StopMode, builds, connect, default_build, skip};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

async fn started() -> Cluster {
    Cluster::start(Server::start(default_build().await, Settings::default()).await).await
}

/// Changes bytes of a file of a copy, but neither its size nor its time.
fn damage(path: &Path) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let before = file.metadata().unwrap().modified().unwrap();
    file.write_all_at(b"DAMAGE", 100).unwrap();
    file.set_modified(before).unwrap();
}

/// The file of a table, below the data directory, once its rows are in it.
async fn file_of(cluster: &Cluster, table: &str) -> String {
    let client = connect(&cluster.server.url("postgres")).await;
    client.batch_execute("checkpoint").await.unwrap();
    let sql = "select pg_catalog.pg_relation_filepath($1::text::regclass)";
    client.query_one(sql, &[&table]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_belongs_to_one_copy() {
    for build in builds().await {
        let cluster = Cluster::start(Server::start(build, Settings::default()).await).await;
        let mut first = cluster.server.without_data();
        let a = first.data();
        let a = a.to_str().unwrap();
        let t = cluster.mapping("t");
        cluster.copy(&[a, "--tablespace", &t]).ends(0);
        cluster.is_verified(&first.data());
        // A server runs on the first copy, and has rows of its own.
        first.start_copy().await;
        let own = connect(&first.url("postgres")).await;
        own.execute("insert into in_space select n from generate_series(1, 500) n", &[]).await.unwrap();
        own.batch_execute("checkpoint").await.unwrap();
        let data = cluster.server.data();
        let inside = format!("{}={}", cluster.path("space").display(), data.join("x").display());
        let (in_target, s, in_data) = (cluster.mapping("t/in"), cluster.mapping("s"), data.join("in"));
        let within = "which belongs to a server or to a copy of a cluster";
        let cases: [(&[&str], &str); 6] = [
            (&["b", "--tablespace", &t], "belongs to another copy of this cluster, whose data directory is "),
            (&["b", "--tablespace", &inside], within),
            (&["b", "--tablespace", &in_target], within),
            (&["t/in", "--tablespace", &s], within),
            (&["space/in", "--tablespace", &s], within),
            (&[in_data.to_str().unwrap(), "--tablespace", &s], " lies in "),
        ];
        for (args, says) in cases {
            let refused = cluster.copy(args).ends(2);
            assert!(refused.stderr.contains(says), "{args:?}: {refused:?}");
        }
        let count = "select count(*) from in_space";
        assert_eq!(own.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 1_500);
        drop(own);
        first.stop(StopMode::Fast).await;
        // Each copy with targets of its own is one, also if the first one gets another target.
        cluster.copy(&["b", "--tablespace", &s]).ends(0);
        cluster.copy(&[a, "--tablespace", &cluster.mapping("t2")]).ends(0);
        for copy in [first.data(), cluster.path("b")] {
            cluster.is_verified(&copy);
        }
        // What was moved may still use the target.
        fs::rename(cluster.path("b"), cluster.path("moved")).unwrap();
        let refused = cluster.copy(&["b", "--tablespace", &s]).ends(2);
        assert!(refused.stderr.contains("an earlier one that was removed, moved or replaced"), "{refused:?}");
        let refused = cluster.copy(&["moved", "--tablespace", &s]).ends(2);
        assert!(refused.stderr.contains("belongs to another copy of this cluster"), "{refused:?}");
        cluster.is_verified(&cluster.path("moved"));
        // As the hint says. The note is hidden, and stays.
        shell(&cluster.path("s"), "rm -r *; test -e .millstream-copy.owner");
        cluster.copy(&["b", "--tablespace", &s]).ends(0);
        cluster.is_verified(&cluster.path("b"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_on_another_machine_belongs_to_one_copy_and_is_compared() {
    let Some(ssh) = SshServer::start() else { return };
    let cluster = started().await;
    let at = |name: &str| format!("127.0.0.1:{}", cluster.path(name).display());
    let (a, b, t) = (at("a"), at("b"), cluster.mapping("t"));
    let shell = ssh.shell(ssh.port());
    // Two names of one folder.
    fs::create_dir(cluster.path("a")).unwrap();
    symlink(cluster.path("a"), cluster.path("link")).unwrap();
    let refused = cluster.copy(&[&a, "--tablespace", &cluster.mapping("link/in"), "--ssh", &shell]).ends(2);
    assert!(refused.stderr.contains("which overlaps"), "{refused:?}");
    cluster.copy(&[&a, "--tablespace", &t, "--ssh", &shell]).ends(0);
    cluster.is_verified(&cluster.path("a"));
    let within = "which belongs to a server or to a copy of a cluster";
    for (to, says) in
        [(&*b, "belongs to another copy of this cluster"), (&*at("a/in"), within), (&*at("space/in"), within)]
    {
        let refused = cluster.copy(&[to, "--tablespace", &t, "--ssh", &shell]).ends(2);
        assert!(refused.stderr.contains(says), "{refused:?}");
    }
    let refused = cluster.copy(&["b", "--tablespace", &t]).ends(2);
    assert!(
        refused.stderr.contains("belongs to another copy of this cluster"),
        "the note is that of this machine, too"
    );
    // The notes of this machine are lost; what is there is read all the same.
    fs::remove_dir_all(cluster.path("home")).unwrap();
    damage(&cluster.path("a").join(file_of(&cluster, "in_space").await));
    cluster.copy(&[&a, "--tablespace", &t, "--ssh", &shell]).ends(0);
    cluster.is_verified(&cluster.path("a"));
    let file = cluster.path("a").join(file_of(&cluster, "in_space").await);
    fs::remove_file(&file).unwrap();
    let found = run(&mut cluster.command(&["copy", "verify", &a, "--ssh", &shell])).ends(1).stdout;
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(found.contains(&format!("/{name}: it is missing")), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_earlier_copy_is_read_and_its_tablespaces_are_compared() {
    for build in builds().await {
        let cluster = Cluster::start(Server::start(build, Settings::default()).await).await;
        let client = connect(&cluster.server.url("postgres")).await;
        client.execute("insert into numbers select n, 'x' from generate_series(1, 5000) n", &[]).await.unwrap();
        let [numbers, in_space] = [file_of(&cluster, "numbers").await, file_of(&cluster, "in_space").await];
        let t = cluster.mapping("t");
        let copy = || cluster.copy(&["to", "--tablespace", &t]).ends(0);
        let verify = |code| run(&mut cluster.command(&["copy", "verify", "to"])).ends(code).stdout;
        copy();
        for file in [&numbers, &in_space] {
            damage(&cluster.path("to").join(file));
        }
        let found = verify(1);
        let bytes = "its bytes differ, although its size and time do not";
        assert_eq!(found.matches(bytes).count(), 2, "{found}");
        copy();
        cluster.is_verified(&cluster.path("to"));
        verify(0);
        // WAL that only the removed copy had is not missing in the new one.
        for folder in ["to", "t"] {
            fs::remove_dir_all(cluster.path(folder)).unwrap();
        }
        client.batch_execute("select pg_switch_wal()").await.unwrap();
        copy();
        cluster.is_verified(&cluster.path("to"));
        verify(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_dropped_only_on_the_cluster_whose_copy_has_made_it() {
    // Servers of one build have the same identifier.
    let [one, other, ..] = builds().await else { return skip("two clusters need two builds") };
    let first = Cluster::start(Server::start(one, Settings::default()).await).await;
    let second = Cluster::start(Server::start(other, Settings::default()).await).await;
    let url = first.server.url("postgres");
    let t = first.mapping("t");
    let args = ["copy", "--postgres", &url, "to", "--tablespace", &t, "--progress", "none"];
    killed(first.command(&args).args(["--standby", "standby_1"]), "cluster-copied=kill");
    let gone = || ["to", "t"].iter().for_each(|folder| fs::remove_dir_all(first.path(folder)).unwrap());
    let [of_first, of_second] = [connect(&url).await, connect(&second.server.url("postgres")).await];
    let slots = "select from pg_replication_slots where slot_name = 'standby_1'";
    let make = "select pg_create_physical_replication_slot('standby_1', true)";
    of_second.execute(make, &[]).await.unwrap();
    let url = second.server.url("postgres");
    let other = format!("{}={}", second.path("space").display(), first.path("t").display());
    let of_other = ["copy", "--postgres", &url, "to", "--tablespace", &other, "--progress", "none"];
    let refused = run(&mut first.command(&of_other)).ends(2);
    assert!(refused.stderr.contains("belongs to a copy of another cluster"), "{refused:?}");
    gone();
    run(&mut first.command(&of_other)).ends(0);
    assert_eq!(of_second.query(slots, &[]).await.unwrap().len(), 1, "it is the slot of somebody else");
    gone();
    run(&mut first.command(&args)).ends(0);
    assert_eq!(of_first.query(slots, &[]).await.unwrap().len(), 0, "the slot was left by a copy to this place");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_slot_of_another_server_with_the_same_number_stays() {
    // Servers of one build share it, as a cluster and its copies do.
    let (first, second) = (started().await, started().await);
    let [url, other_url] = [&first, &second].map(|cluster| cluster.server.url("postgres"));
    let t = first.mapping("t");
    let args = ["copy", "--postgres", &url, "to", "--tablespace", &t, "--progress", "none"];
    killed(first.command(&args).args(["--standby", "standby_1"]), "cluster-copied=kill");
    ["to", "t"].iter().for_each(|folder| fs::remove_dir_all(first.path(folder)).unwrap());
    let client = connect(&other_url).await;
    client.execute("select pg_create_physical_replication_slot('standby_1', true)", &[]).await.unwrap();
    let other = format!("{}={}", second.path("space").display(), first.path("t").display());
    let args = ["copy", "--postgres", &other_url, "to", "--tablespace", &other, "--progress", "none"];
    run(&mut first.command(&args)).ends(0);
    let slots = "select from pg_replication_slots where slot_name = 'standby_1'";
    assert_eq!(client.query(slots, &[]).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_somebody_has_made_again_stays() {
    let cluster = started().await;
    let (url, t) = (cluster.server.url("postgres"), cluster.mapping("t"));
    let args = ["copy", "--postgres", &url, "to", "--tablespace", &t, "--progress", "none"];
    killed(cluster.command(&args).args(["--standby", "standby_1"]), "cluster-copied=kill");
    let client = connect(&url).await;
    for statement in [
        "select pg_drop_replication_slot('standby_1')",
        "insert into numbers values (1, 'x')",
        "checkpoint",
        "select pg_create_physical_replication_slot('standby_1', true)",
    ] {
        client.execute(statement, &[]).await.unwrap();
    }
    run(&mut cluster.command(&args)).ends(0);
    let slots = "select from pg_replication_slots where slot_name = 'standby_1'";
    assert_eq!(client.query(slots, &[]).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_copies_that_run_at_once_one_gets_the_target() {
    let cluster = started().await;
    let t = cluster.mapping("t");
    // The second one has looked at the target before the first one has begun.
    let args = ["b", "--tablespace", &t];
    let first = async {
        cluster.copy(&["a", "--tablespace", &t]).ends(0);
    };
    let second = cluster.copy_while(&args, "copy-listed", first).await;
    let said = String::from_utf8_lossy(&second.stderr);
    let is_refused = said.contains("belongs to another copy of this cluster, whose data directory is ");
    assert!(second.status.code() == Some(2) && is_refused, "{said}");
    cluster.is_verified(&cluster.path("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_two_homes_to_one_destination_do_not_run_at_once() {
    let ssh = SshServer::start();
    let remote_shell = ssh.as_ref().map(|ssh| ssh.shell(ssh.port()));
    let cluster = started().await;
    let (url, t) = (cluster.server.socket_url("postgres"), cluster.mapping("t"));
    cluster.copy(&["to", "--tablespace", &t]).ends(0);
    let there = format!("127.0.0.1:{}", cluster.path("to").display());
    let mut ways: Vec<Vec<&str>> = vec![vec!["to"]];
    ways.extend(remote_shell.as_deref().map(|shell| vec![&*there, "--ssh", shell]));
    for first in &ways {
        for second in &ways {
            let args = ["copy", "--postgres", &url, "--progress", "none", "--tablespace", &t];
            let other = async {
                let mut command = cluster.command(&[&args[..], second].concat());
                let refused = run(command.env("MILLSTREAM_HOME", cluster.path("other-home"))).ends(2);
                assert!(refused.stderr.contains("another copy writes to "), "{first:?}, {second:?}: {refused:?}");
            };
            let args = [&["--tablespace", &*t][..], first].concat();
            let done = cluster.copy_while(&args, "cluster-copied", other).await;
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{first:?}, {second:?}: {said}");
            cluster.is_verified(&cluster.path("to"));
        }
    }
    // The note of a copy that was killed stops no other copy.
    for way in &ways {
        let args = ["copy", "--postgres", &url, "--progress", "none", "--tablespace", &t];
        killed(&mut cluster.command(&[&args[..], way].concat()), "cluster-copied=kill");
        let mut command = cluster.command(&[&args[..], &["to"]].concat());
        run(command.env("MILLSTREAM_HOME", cluster.path("other-home"))).ends(0);
        cluster.is_verified(&cluster.path("to"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tablespace_in_the_data_directory_is_copied_once() {
    let cluster = started().await;
    let inside = cluster.server.data().join("in[s]ide");
    fs::create_dir(&inside).unwrap();
    cluster.server.own(&inside);
    let client = connect(&cluster.server.url("postgres")).await;
    client.batch_execute(&format!("create tablespace inside location '{}'", inside.display())).await.unwrap();
    client.batch_execute("create table in_it tablespace inside as select 1").await.unwrap();
    let (t, moved) = (cluster.mapping("t"), format!("{}={}", inside.display(), cluster.path("i").display()));
    cluster.copy(&["to", "--tablespace", &t, "--tablespace", &moved]).ends(0);
    cluster.is_verified(&cluster.path("to"));
    assert!(!cluster.path("to/in[s]ide").exists());
    assert!(cluster.path("to").join(file_of(&cluster, "in_it").await).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn links_that_lead_out_of_a_cluster_are_refused_by_name() {
    let cluster = started().await;
    let (data, t) = (cluster.server.data(), cluster.mapping("t"));
    cluster.copy(&["to", "--tablespace", &t]).ends(0);
    fs::create_dir(cluster.path("elsewhere")).unwrap();
    for (link, named) in [("base/links", "base/links in "), ("pg_wal/0000000100000000000000FE", "pg_wal is a link to")]
    {
        symlink(cluster.path("elsewhere"), data.join(link)).unwrap();
        for more in [&["--dry-run"][..], &[]] {
            let refused = cluster.copy(&[&["to", "--tablespace", &t], more].concat()).ends(2);
            assert!(refused.stderr.contains(named) && refused.stderr.contains(" is a link to"), "{refused:?}");
        }
        cluster.is_verified(&cluster.path("to"));
        fs::remove_file(data.join(link)).unwrap();
    }
    // A stopped cluster is a folder, but for the links in it.
    cluster.server.stop(StopMode::Fast).await;
    symlink("PG_VERSION", data.join("inside")).unwrap();
    let source = format!("{}/", data.display());
    for more in [&["--dry-run"][..], &[]] {
        let refused = run(&mut cluster.command(&[&["copy", &source, "stopped"], more].concat())).ends(2);
        assert!(refused.stderr.contains("is a data directory of PostgreSQL"), "{refused:?}");
        assert!(refused.stderr.contains("pg_tblspc/") && refused.stderr.contains("copy --postgres URL"), "{refused:?}");
    }
    assert!(!cluster.path("stopped").exists());
    let args = ["copy", &source, "stopped", "--exclude", "/pg_tblspc/*", "--progress", "none"];
    run(&mut cluster.command(&args)).ends(0);
    assert!(cluster.path("stopped/inside").is_symlink());
    // As on Debian, a data directory may lie further down.
    fs::create_dir(cluster.path("deb")).unwrap();
    fs::rename(cluster.path("stopped"), cluster.path("deb/main")).unwrap();
    symlink(cluster.path("elsewhere"), cluster.path("deb/main/pg_tblspc/1")).unwrap();
    let args = ["copy", "deb", "backup", "--progress", "none"];
    let refused = run(&mut cluster.command(&args)).ends(2);
    assert!(refused.stderr.contains("deb/main is a data directory of PostgreSQL"), "{refused:?}");
    assert!(refused.stderr.contains("/deb/main/pg_tblspc/1"), "{refused:?}");
    assert!(!cluster.path("backup/deb").exists());
    run(&mut cluster.command(&[&args[..], &["--exclude", "/deb/main/pg_tblspc/*"]].concat())).ends(0);
    assert!(cluster.path("backup/deb/main/global/pg_control").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_cluster_is_not_copied_over_a_server_that_runs() {
    let cluster = started().await;
    cluster.server.stop(StopMode::Fast).await;
    let mut copy = cluster.server.without_data();
    let (source, to) = (format!("{}/", cluster.server.data().display()), copy.data());
    let copied = |to: &str, more: &[&str]| {
        let args = ["copy", &source, to, "--exclude", "/pg_tblspc/*", "--progress", "none"];
        run(&mut cluster.command(&[&args[..], more].concat()))
    };
    let here = to.to_str().unwrap();
    copied(here, &[]).ends(0);
    copy.start_copy().await;
    let ssh = SshServer::start();
    let shell = ssh.as_ref().map(|ssh| ssh.shell(ssh.port()));
    let there = shell.as_deref().map(|shell| (format!("127.0.0.1:{here}"), vec!["--ssh", shell]));
    for (to, more) in [(here.to_owned(), vec![])].into_iter().chain(there) {
        for more in [&more[..], &[&more[..], &["--dry-run"]].concat()] {
            let refused = copied(&to, more).ends(2);
            assert!(refused.stderr.contains("a server runs in "), "{to}: {refused:?}");
        }
    }
    copy.stop(StopMode::Fast).await;
    // What lies there may have been copied from a server that runs elsewhere.
    fs::write(to.join("postmaster.pid"), format!("{}\n", std::process::id())).unwrap();
    copied(here, &[]).ends(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_plain_copy_goes_to_what_a_running_server_uses() {
    let cluster = started().await;
    let mut copy = cluster.server.without_data();
    let (data, base, space) = (copy.data(), copy.data().join("base"), cluster.path("t"));
    cluster.copy(&[data.to_str().unwrap(), "--tablespace", &cluster.mapping("t")]).ends(0);
    copy.start_copy().await;
    fs::create_dir(cluster.path("photos")).unwrap();
    fs::write(cluster.path("photos/one"), "one").unwrap();
    let ssh = SshServer::start();
    let shell = ssh.as_ref().map(|ssh| ssh.shell(ssh.port()));
    let (above, deletes, looks) = (data.parent().unwrap(), ["--delete", "--yes"], ["--delete", "--dry-run"]);
    let ways = [("", vec![])].into_iter().chain(shell.as_deref().map(|shell| ("127.0.0.1:", vec!["--ssh", shell])));
    for (before, way) in ways {
        let copied = |to: &Path, more: &[&str]| {
            let to = format!("{before}{}", to.display());
            let args = ["copy", "photos/", &to, "--progress", "none"];
            run(&mut cluster.command(&[&args[..], more, &way].concat()))
        };
        let all: [(&Path, &[&str]); 5] =
            [(&data, &deletes), (&data, &[]), (&base, &deletes), (&space, &deletes), (above, &looks)];
        for (to, more) in all {
            let refused = copied(to, more).ends(2);
            assert!(refused.stderr.contains("a server runs in "), "{before}{}: {refused:?}", to.display());
        }
        // Nothing of the server has the name of a file of the source.
        copied(above, &["--dry-run"]).ends(0);
        assert!(!data.join("one").exists() && !space.join("one").exists());
    }
    let client = connect(&copy.url("postgres")).await;
    let rows: i64 = client.query_one("select count(*) from in_space", &[]).await.unwrap().get(0);
    assert_eq!(rows, 1_000);
    copy.stop(StopMode::Fast).await;
}
