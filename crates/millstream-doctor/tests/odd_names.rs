//! Names that hold ends of lines: the commands of repairs mean the objects with these names, and do nothing else.

use crate::checks::report;
use millstream_testkit as testkit;

#[tokio::test]
async fn commands_mean_the_objects_whose_names_have_ends_of_lines() {
    let database = testkit::database().await;
    let client = database.client().await;
    let make = "create table victim (n int primary key);
        create table \"a\ndrop table victim; --\" (n int); insert into \"a\ndrop table victim; --\" select generate_series(1, 10);
        create table t (n int primary key, m int);
        create index \"i\nj\" on t (m); create index \"i\nk\" on t (m);
        create index \"i j\" on t (m, n); create index \"i k\" on t (n, m); analyze";
    client.batch_execute(make).await.unwrap();
    let mut commands = Vec::new();
    for (check, settings) in [("table-without-key", "[threshold.table-without-key]\nrows = 1"), ("duplicate-index", "")]
    {
        let found = report(&database, check, settings).await;
        commands.extend(found.findings.into_iter().filter_map(|finding| finding.repair).flat_map(|one| one.commands));
    }
    let remark = r#"-- alter table public.U&"a\000adrop table victim; --" add primary key (..)"#;
    assert!(commands.len() == 2 && commands[0] == remark, "{commands:?}");
    for command in &commands {
        client.batch_execute(command).await.unwrap();
    }
    client.batch_execute("select from victim").await.unwrap();
    let left = "select indexrelname::text from pg_stat_user_indexes where relname = 't' and indexrelname <> 't_pkey'";
    let left: Vec<String> = client.query(left, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let has = |name: &str| left.iter().any(|one| one == name);
    assert!(left.len() == 3 && has("i j") && has("i k"), "{left:?}");
}
