//! Hashes of texts against the server's own.

use millstream_pg::hash_text;
use millstream_testkit::{Cases, every_build};

#[tokio::test]
async fn texts_hash_as_the_server_hashes_them() {
    every_build(async |db| {
        let client = db.client().await;
        let sql = client.prepare("select hashtextextended($1 collate \"C\", $2)").await.unwrap();
        for mut rng in Cases::new(300) {
            let text: String = (0..rng.usize(..60)).map(|_| rng.char('\u{1}'..='\u{3ff}')).collect();
            let seeds = [0, 1, -1, rng.i64(..)];
            for (seed, ours) in seeds.into_iter().zip(hash_text(text.as_bytes(), seeds)) {
                let theirs: i64 = client.query_one(&sql, &[&text, &seed]).await.unwrap().get(0);
                assert_eq!(ours, theirs, "{text:?} {seed}");
            }
        }
    })
    .await;
}
