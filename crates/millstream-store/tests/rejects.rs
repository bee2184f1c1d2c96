//! Rejects: stored once with the bytes of their documents, listed in order, and cleared with care.

use crate::scene::Scene;
use bytes::Bytes;
use millstream_model::{Fault, Position, Reason};
use millstream_store::rejects::{self, Cleared, ReasonCount, RejectFilter, RejectRecord};
use millstream_store::{Error, RejectedDocument, insert_rejects, lane, loads};
use millstream_testkit::each_build;

fn reject(source: u32, offset: u64, reason: Reason, detail: &'static str, bytes: &'static [u8]) -> RejectedDocument {
    let (position, line, bytes) = (Position { source, offset }, offset + 1, Bytes::from_static(bytes));
    RejectedDocument { position, line, fault: Fault::new(reason, detail), whole_bytes: bytes.len() as u64, bytes }
}

async fn listed(scene: &Scene, filter: &RejectFilter, limit: Option<u64>) -> Vec<RejectRecord> {
    let mut all = Vec::new();
    let take = |record| {
        all.push(record);
        Ok::<(), Error>(())
    };
    rejects::each(&scene.client, &scene.schema, filter, limit, take).await.unwrap();
    all
}

/// A reject whose bytes change, or that is stored twice, cannot be loaded again once it is mended.
#[tokio::test]
async fn rejects_keep_their_bytes_and_are_stored_once() {
    each_build(async |db| {
        let mut scene = Scene::new(db).await;
        let load_id = scene.begin(&scene.identity(), 1).await;
        let statement = scene.client.prepare(&scene.schema.sql(lane::INSERT_REJECTS)).await.unwrap();
        let text = reject(0, 0, Reason::NotJson, "a \0 b; it holds 3 lines", "{\"é\":\n".as_bytes());
        let bytes = reject(1, 7, Reason::InvalidUtf8, "not UTF-8", b"\xff\xfe");
        let damaged = reject(1, 90, Reason::DamagedSource, "it ends here; it holds 4 lines", b"");
        let long = RejectedDocument { whole_bytes: 3 << 20, ..reject(0, 9, Reason::NotJson, "too long", b"a\0b") };
        for batch in [&[&bytes, &text][..], &[&text, &long, &damaged], &[]] {
            insert_rejects(&scene.client, &statement, load_id, batch).await.unwrap();
        }
        let mut filter = RejectFilter { table_oid: scene.table_oid, ..RejectFilter::default() };
        let all = listed(&scene, &filter, None).await;
        let shown: Vec<_> =
            all.iter().map(|one| (one.source.as_str(), one.byte_offset, one.line, one.bytes, one.truncated)).collect();
        let expected =
            [("a", 0, 1, 7, false), ("a", 9, 10, 3 << 20, true), ("b", 7, 8, 2, false), ("b", 90, 91, 0, false)];
        assert_eq!(shown, expected);
        let kept: Vec<_> = all.iter().map(|one| (one.document.as_deref(), one.document_base64.as_deref())).collect();
        let expected = [(Some("{\"é\":\n"), None), (None, Some("YQBi")), (None, Some("//4=")), (Some(""), None)];
        assert_eq!(kept, expected);
        assert_eq!(all[0].detail, "a \u{fffd} b; it holds 3 lines");
        assert_eq!(rejects::lines(&scene.client, &scene.schema, load_id).await.unwrap(), 7);
        assert_eq!(listed(&scene, &filter, Some(2)).await, all[..2]);
        let counted = |reason: Reason, count, bytes| ReasonCount { reason: reason.code().to_owned(), count, bytes };
        let counts = rejects::count(&scene.client, &scene.schema, &filter).await.unwrap();
        assert_eq!(counts[0], counted(Reason::NotJson, 2, (3 << 20) + 7));
        assert_eq!(counts.len(), 3);

        // Every field that is set narrows the selection.
        for narrow in [
            RejectFilter { load_id: Some(load_id + 1), ..filter.clone() },
            RejectFilter { table_oid: 1, ..filter.clone() },
            RejectFilter { reason: Some("not_object".into()), ..filter.clone() },
            RejectFilter { older_than_seconds: Some(3_600.0), ..filter.clone() },
        ] {
            assert!(listed(&scene, &narrow, None).await.is_empty(), "{narrow:?}");
            let cleared = rejects::clear(&scene.client, &scene.schema, &narrow).await.unwrap();
            assert_eq!(cleared, Cleared { deleted: 0, kept: 0 }, "{narrow:?}");
        }
        filter.load_id = Some(load_id);
        // The next run takes the damage back, and subtracts it from the counts.
        for (deleted, kept) in [(3, 1), (0, 1)] {
            let cleared = rejects::clear(&scene.client, &scene.schema, &filter).await.unwrap();
            assert_eq!(cleared, Cleared { deleted, kept });
        }
        scene.end(load_id, "finished", None).await;
        let cleared = rejects::clear(&scene.client, &scene.schema, &filter).await.unwrap();
        assert_eq!(cleared, Cleared { deleted: 1, kept: 0 });
        // A lane whose load was deleted meanwhile does not store the rejects of nothing.
        assert!(loads::forget(&mut scene.client, &scene.schema, load_id).await.unwrap());
        let orphan = insert_rejects(&scene.client, &statement, load_id, &[&text]).await;
        assert!(matches!(orphan, Err(Error::Fenced { load_id: of }) if of == load_id), "{orphan:?}");
    })
    .await;
}
