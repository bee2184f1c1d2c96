//! How many round trips a batch takes, counted on a slow line.

use crate::scene::{Files, request, run};
use futures_util::future::join_all;
use millstream_engine::{LoadRequest, Mode, Outcome, SkipUnchanged};
use millstream_testkit::{Proxy, TestDatabase, database, todays};
use std::fmt::Write;
use std::time::Duration;

/// Delay in each direction. Everything that is sent without waiting is sent before the first answer comes.
const DELAY: Duration = Duration::from_millis(5);
/// Batches of the two loads whose round trips are compared. Everything else is the same for both.
const BATCHES: [u64; 2] = [3, 7];
/// Loads of each kind. A machine that stalls longer than the delay can split a turn in two, but never joins two. So the
/// fewest turns count, and loads are repeated until the difference is the expected one.
const ATTEMPTS: u32 = 10;

/// Batches of one writer.
struct Case {
    writer: &'static str,
    /// What each round trip of a batch is for.
    turns: &'static [&'static str],
    /// Documents of a batch.
    rows: &'static [usize],
    /// The stored value of a document. The new one is 1.
    stored: fn(usize) -> Option<usize>,
    change: fn(&mut LoadRequest),
    /// What follows each document.
    more: &'static str,
}

const ALL_NEW: fn(usize) -> Option<usize> = |_| None;
const SOME_NEW: fn(usize) -> Option<usize> = |n| (n % 5 > 0).then_some(0);
const FEW_STORED: fn(usize) -> Option<usize> = |n| (n % 10 == 0).then_some(0);
const CHANGED: fn(usize) -> Option<usize> = |_| Some(0);
const UNCHANGED: fn(usize) -> Option<usize> = |_| Some(1);

const OPEN: &str = "begin, and the start of the COPY, whose answer tokio-postgres waits for";
const STAGE: &str = "the documents, the end of the COPY and the statements that write what is staged";
const ASK_KEYS: &str = "begin, and the question for stored keys";
const ASK: &str = "begin, and the question for fingerprints";
const END: &str = "rejects, which need the batch written, watermark and counters, which need its counts, and commit";

/// Makes small batches go the way of large ones.
const AS_LARGE: fn(&mut LoadRequest) = |wanted| wanted.arrays_rows_max = 0;

const TRY: &str = "the documents that are folded, the end of their COPY, and the rows between them";

const CHECKED: fn(&mut LoadRequest) = |wanted| {
    wanted.mode = "merge".parse().expect("a mode");
    wanted.checks = vec!["doc ? 'value'".into()];
};
const HOT: &str = "{\"id\":\"hot\",\"value\":1}\n";

const CASES: &[Case] = &[
    Case {
        writer: "copy",
        turns: &[OPEN, "the documents, and the end of the COPY, which may find a stored key", END],
        rows: &[20, 1_500],
        stored: ALL_NEW,
        change: AS_LARGE,
        more: "",
    },
    Case {
        writer: "divided",
        turns: &[
            ASK_KEYS,
            "the start of the COPY into the staging table",
            "the documents of stored keys, and the end of the COPY",
            "the start of the COPY of new keys",
            "their documents, the end of the COPY, and the statements that write what is staged",
            END,
        ],
        rows: &[20, 1_500],
        stored: FEW_STORED,
        change: |wanted| (wanted.arrays_rows_max, wanted.met_words) = (0, 0),
        more: "",
    },
    // The lane has read the keys of the table, which are fewer than those of the first batch.
    Case {
        writer: "divided",
        turns: &[
            OPEN,
            "the documents of stored keys, and the end of the COPY",
            "the start of the COPY of new keys",
            "their documents, the end of the COPY, and the statements that write what is staged",
            END,
        ],
        rows: &[1_500],
        stored: FEW_STORED,
        change: AS_LARGE,
        more: "",
    },
    Case {
        writer: "divided",
        turns: &[
            ASK_KEYS,
            "the start of the COPY of new keys",
            "their documents, the end of the COPY, and the few stored keys as arrays",
            END,
        ],
        rows: &[1_500],
        stored: FEW_STORED,
        change: |wanted| wanted.met_words = 0,
        more: "",
    },
    Case {
        writer: "staged",
        turns: &[OPEN, STAGE, END],
        rows: &[20, 1_500],
        stored: SOME_NEW,
        change: AS_LARGE,
        more: "",
    },
    Case {
        writer: "staged",
        turns: &[OPEN, STAGE, END],
        rows: &[20, 1_500],
        stored: SOME_NEW,
        change: AS_LARGE,
        more: "{no document\n",
    },
    // The sample that shows whether comparing pays is sent along.
    Case {
        writer: "staged",
        turns: &[OPEN, STAGE, END],
        rows: &[20, 1_500],
        stored: CHANGED,
        change: AS_LARGE,
        more: "",
    },
    Case {
        writer: "compared",
        turns: &[ASK, END],
        rows: &[20, 1_500],
        stored: UNCHANGED,
        change: |wanted| (wanted.arrays_rows_max, wanted.skip_unchanged) = (0, SkipUnchanged::On),
        more: "",
    },
    Case {
        writer: "compared",
        turns: &[ASK, OPEN, STAGE, END],
        rows: &[20, 1_500],
        stored: CHANGED,
        change: |wanted| (wanted.arrays_rows_max, wanted.skip_unchanged) = (0, SkipUnchanged::On),
        more: "",
    },
    Case {
        writer: "compared",
        turns: &[ASK, "the few documents that differ, as arrays", END],
        rows: &[1_500],
        stored: |n| Some(usize::from(n % 100 > 0)),
        change: |wanted| wanted.skip_unchanged = SkipUnchanged::On,
        more: "",
    },
    Case {
        writer: "deletes",
        turns: &[OPEN, STAGE, END],
        rows: &[20, 1_500],
        stored: SOME_NEW,
        change: |wanted| {
            let mode: Mode = "newest:value:bigint".parse().expect("a mode");
            wanted.mode = mode.with_tombstone(Some("op=d".parse().expect("a path and a value")));
        },
        more: "{\"id\":\"gone\",\"value\":2,\"op\":\"d\"}\n",
    },
    // As many documents of one key, each of which is written by itself.
    Case {
        writer: "replay",
        turns: &[OPEN, STAGE, END],
        rows: &[20, 600],
        stored: SOME_NEW,
        change: |wanted| {
            let mode: Mode = "merge".parse().expect("a mode");
            wanted.mode = mode.with_tombstone(Some("op=d".parse().expect("a path and a value")));
            wanted.checks = vec!["id <> ''".into()];
        },
        more: "{\"id\":\"hot\",\"value\":1,\"op\":\"d\"}\n",
    },
    // As many documents of one key, each of which the table may refuse. A file of them fits one chunk.
    Case {
        writer: "arrays",
        turns: &[OPEN, TRY, "the statement with the documents", END],
        rows: &[20],
        stored: SOME_NEW,
        change: CHECKED,
        more: HOT,
    },
    Case {
        writer: "upsert",
        turns: &[OPEN, TRY, "the start of the COPY into the staging table", STAGE, END],
        rows: &[600],
        stored: SOME_NEW,
        change: CHECKED,
        more: HOT,
    },
    Case {
        writer: "arrays",
        turns: &["begin, and the statement with the documents", END],
        rows: &[1, 20, 500],
        stored: SOME_NEW,
        change: |_| {},
        more: "",
    },
];

#[tokio::test]
async fn a_batch_of_any_size_takes_few_round_trips() {
    // One thread: everything that a lane sends without waiting has left it before the proxy forwards any of it.
    let db = &database().await;
    run(&db.url(), &request("public.first", "id:text", &[Files::new().write("a", "")])).await;
    let all = todays(CASES.iter().enumerate()).into_iter().map(|(n, case)| async move {
        for &rows in case.rows {
            let batches = BATCHES[1] - BATCHES[0];
            let expected = batches * case.turns.len() as u64;
            let (mut fewest, mut taken) = ([u64::MAX; 2], u64::MAX);
            for attempt in 0..ATTEMPTS {
                for (fewest, batches) in fewest.iter_mut().zip(BATCHES) {
                    let table = format!("public.trips_{n}_{rows}_{batches}_{attempt}");
                    *fewest = turns_of(db, &table, case, rows, batches).await.min(*fewest);
                }
                taken = fewest[1].saturating_sub(fewest[0]);
                if taken == expected {
                    break;
                }
            }
            let Case { writer, turns, .. } = case;
            assert_eq!(taken, expected, "{writer}: turns for {batches} batches of {rows} rows, wanted {turns:?}");
        }
    });
    join_all(all).await;
}

/// The round trips of a load of this many batches, each of this many documents for one writer.
async fn turns_of(db: &TestDatabase, table: &str, case: &Case, rows: usize, batches: u64) -> u64 {
    let files = Files::new();
    let key = |batch: u64, n: usize| format!("{batch:03}-{n:06}");
    let (mut seed, mut sources) = (String::new(), Vec::new());
    for batch in 0..batches {
        let mut text = String::new();
        for n in 0..rows {
            writeln!(text, "{{\"id\":\"{}\",\"value\":1}}\n{}", key(batch, n), case.more).expect("a text grows");
            if let Some(value) = (case.stored)(n) {
                writeln!(seed, "{{\"id\":\"{}\",\"value\":{value}}}", key(batch, n)).expect("a text grows");
            }
        }
        sources.push(files.write(&format!("{batch}"), text));
    }
    let mut wanted = request(table, "id:text", &sources);
    (wanted.lanes, wanted.batch_rows, wanted.rejects_max) = (Some(1), 1, 1_000_000);
    (case.change)(&mut wanted);
    if !seed.is_empty() {
        run(&db.url(), &LoadRequest { sources: vec![files.write("seed", seed)], ..wanted.clone() }).await;
    }
    let proxy = Proxy::start(format!("127.0.0.1:{}", db.server.port())).await;
    proxy.set(|traffic| traffic.delay = DELAY);
    let url = db.server.url_at(&proxy.address.to_string(), &db.name);
    let Outcome { receipt, stopped, .. } = run(&url, &wanted).await;
    assert!(stopped.is_none() && receipt.counters.rejected == rejects(case, rows, batches), "{receipt:?}");
    // The first batch of a load into a table with rows may take more: it finds out which writer is needed.
    let others: u64 = receipt.writers.iter().filter(|(name, _)| *name != case.writer).map(|(_, n)| n).sum();
    assert!(receipt.writers[case.writer] + others == batches && others <= 1, "{}: {receipt:?}", case.writer);
    proxy.turns()
}

fn rejects(case: &Case, rows: usize, batches: u64) -> u64 {
    if case.more.starts_with("{no") { rows as u64 * batches } else { 0 }
}
