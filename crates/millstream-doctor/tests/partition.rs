//! Faults of partitions: one finding for all of a table, under one key.

use crate::checks::{keys, report, sql};
use millstream_testkit as testkit;

#[tokio::test]
async fn faults_of_partitions_are_one_finding_under_the_key_of_their_root() {
    testkit::every_build(async |database| {
        let (client, settings) = (database.client().await, "[threshold.dead-tuples]\ntable_mb = 0.1");
        sql(&client, "create table log (day int, n int) partition by range (day)").await;
        for day in 1..=5 {
            let bounds = format!("for values from ({day}) to ({})", day + 1);
            sql(&client, &format!("create table log_{day} partition of log {bounds} with (autovacuum_enabled = off)"))
                .await;
        }
        sql(
            &client,
            "create table alone (day int, n int) with (autovacuum_enabled = off);
             insert into alone select 1, n from generate_series(1, 5000) as n;
             insert into log select day, n from generate_series(1, 5) as day, generate_series(1, 5000) as n",
        )
        .await;
        assert_eq!(keys(&report(&database, "dead-tuples", settings).await), [""; 0]);
        sql(&client, "update log set n = n + 1; update alone set n = n + 1").await;
        let found = report(&database, "dead-tuples", settings).await;
        assert_eq!(keys(&found), ["public.alone", "public.log"]);
        let [alone, several] = &found.findings[..] else { panic!("{found:?}") };
        assert!(alone.sentence.starts_with("50 % of the rows are dead"), "{alone:?}");
        assert!(several.sentence.starts_with("5 partitions; the worst is public.log_"), "{several:?}");
        assert_eq!(several.key, format!("dead-tuples:{}:public.log", database.name));
        assert_eq!(several.evidence.iter().filter(|one| one.name == "the next worst").count(), 2, "{several:?}");
        let repair = several.repair.as_ref().unwrap();
        assert_eq!(repair.change, None);
        assert_eq!(repair.commands.len(), 4, "{repair:?}");
        assert_eq!(repair.commands[3], "-- and the same for the other 2");

        sql(&client, "vacuum alone; vacuum log_1; vacuum log_2; vacuum log_3; vacuum log_4").await;
        let found = report(&database, "dead-tuples", settings).await;
        assert_eq!(keys(&found), ["public.log"], "the key stays");
        let finding = &found.findings[0];
        assert!(finding.sentence.starts_with("the partition public.log_5: 50 %"), "{finding:?}");
        let change = finding.repair.as_ref().unwrap().change.as_ref().unwrap();
        assert_eq!(change.target, format!("{}/public.log_5/autovacuum_enabled", database.name));
        sql(&client, "vacuum log_5").await;
        assert_eq!(keys(&report(&database, "dead-tuples", settings).await), [""; 0]);
    })
    .await;
}
