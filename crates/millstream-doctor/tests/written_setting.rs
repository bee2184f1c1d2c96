//! Lines of the configuration files that are not in effect, beside lines that are spelled in another way only.

use crate::checks::seen;
use millstream_model::Level;
use millstream_testkit as testkit;

const CHECK: &str = "setting-not-in-effect";

/// Lines whose values the server spells in its own way.
const SPELLED: &str = "work_mem = ''8 MB''\\nautovacuum_naptime = ''0.5min''\\nsynchronous_commit = TRUE\\nlog_checkpoints = y\\n\
    random_page_cost = 1.10\\ndatestyle = ''iso, dmy''\\ntimezone = utc\\nlog_statement = DDL\\nSearch_Path = ''a,b''\\n\
    default_text_search_config = english\\nwal_writer_delay = 200000us\\nmax_connections = 100\\nstats.own = 5";

#[tokio::test]
async fn lines_that_are_not_in_effect_are_found_and_other_spellings_are_not() {
    for build in testkit::builds().await {
        let server = testkit::Server::start(build, testkit::Settings::default()).await;
        let url = server.url("postgres");
        let client = testkit::connect(&url).await;
        let run = async |statement: &str| client.batch_execute(statement).await.unwrap();
        // The working directory of the server is its data directory.
        let shell = async |command: &str| run(&format!("copy (select 1) to program 'cat >/dev/null; {command}'")).await;
        let reload = "select pg_reload_conf()";
        let quiet = async || drop(seen(&url, CHECK, "", <[String]>::is_empty).await);
        let found = async |subject: &str, level: Level, part: &str| {
            let report = seen(&url, CHECK, "", |keys| keys == [subject]).await;
            let finding = &report.findings[0];
            assert!(finding.sentence.contains(part) && finding.repair.is_some(), "{finding:?}");
            assert!(finding.level == level && !finding.evidence.is_empty(), "{finding:?}");
        };
        quiet().await;
        run("alter system set maintenance_work_mem = '1GB'").await;
        shell(&format!("printf \"{SPELLED}\\n\" >> postgresql.conf")).await;
        run(reload).await;
        quiet().await;

        shell("echo hash_mem_multiplier = 3 >> postgresql.conf").await;
        found("hash_mem_multiplier", Level::Warning, "has not loaded the file since").await;
        run(reload).await;
        quiet().await;
        run("alter system set hash_mem_multiplier = 4").await;
        run(reload).await;
        found("overridden", Level::Info, "do not count, because others override them: 1").await;
        run("alter system reset hash_mem_multiplier").await;
        run(reload).await;
        quiet().await;
        shell("sed -i /hash_mem/d postgresql.conf").await;
        found("hash_mem_multiplier", Level::Warning, "no line of the configuration files sets it now").await;
        run(reload).await;
        quiet().await;

        // The server would not start with either.
        shell("echo work_mem = much >> postgresql.conf").await;
        found("work_mem", Level::Warning, "the server cannot use line").await;
        shell("sed -i /much/d postgresql.conf").await;
        shell("mv postgresql.conf gone.conf").await;
        found("the configuration files", Level::Warning, "could not open file").await;
        shell("mv gone.conf postgresql.conf").await;
        quiet().await;
        // A line of a setting that only a restart changes, changed and deleted, without a reload.
        shell("echo max_worker_processes = 9 >> postgresql.conf").await;
        found("max_worker_processes", Level::Warning, "waits for a restart").await;
        shell("sed -i /max_worker_processes/d postgresql.conf").await;
        quiet().await;
    }
}
