//! Files of columns and records: loads of Parquet, Arrow and Avro keep every promise of a load of the text they stand for.

use crate::made_text::{FIRST, MadeText, ROWS};
use crate::process::{Run, command, millstream, run};
use millstream_testkit::{each_build, skip};
use std::path::Path;
use std::process::Command;

/// Files of three rows, one of them with a NaN.
const PARQUET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/parquet/rows");
const ARROW: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/arrow/rows");
const AVRO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/avro/rows");

/// Writes so many rows with pyarrow, the first of which has this name. `false`: it is not here, and the test is skipped aloud.
fn written(path: &Path, rows: i64, first: &str) -> bool {
    let script = format!(
        "import pyarrow as pa, pyarrow.parquet as pq, sys
n = range({rows})
t = pa.table({{'id': pa.array(n, pa.int64()), 'name': pa.array(['row %d' % (i % 97) if i else '{first}' for i in n]),
  'ratio': pa.array([i / 8 for i in n], pa.float64()), 'part': pa.array([[i, None] for i in n], pa.list_(pa.int32()))}})
pq.write_table(t, sys.argv[1], compression='zstd', row_group_size=3000, write_page_checksum=True)"
    );
    python(&script, path)
}

/// Runs a script with a path. `false`: there is no pyarrow.
fn python(script: &str, path: &Path) -> bool {
    let has = Command::new("python3").args(["-c", "import pyarrow"]).output().is_ok_and(|ended| ended.status.success());
    if !has {
        skip("it needs python3 with pyarrow");
        return false;
    }
    run(Command::new("python3").args(["-c", script]).arg(path)).ends(0);
    true
}

fn load(url: &str, file: &str, table: &str, more: &[&str]) -> Run {
    let into = ["load", file, "--into", table, "--key", "id:bigint", "--db", url, "--progress", "none"];
    millstream(&[&into[..], &["--output", "json"], more].concat())
}

#[tokio::test]
async fn a_file_of_columns_loads_as_the_text_it_stands_for() {
    each_build(async |db| {
        let (folder, client) = (tempfile::tempdir().unwrap(), db.client().await);
        let text = folder.path().join("rows.ndjson");
        std::fs::write(&text, millstream(&["cat", PARQUET]).ends(0).stdout).unwrap();
        let of_text = load(&db.url(), text.to_str().unwrap(), "of_text", &[]).ends(0).json();
        for (file, table, format) in
            [(PARQUET, "of_parquet", "parquet"), (ARROW, "of_arrow", "arrow"), (AVRO, "of_avro", "avro")]
        {
            let receipt = load(&db.url(), file, table, &[]).ends(0).json();
            for member in ["read", "inserted", "rejected", "bytes_read"] {
                assert_eq!(receipt[member], of_text[member], "{member} of {table}");
            }
            assert_eq!(receipt["stages"][0]["documents"]["null"], 1, "{receipt}");
            let differs = format!(
                "select count(*) from {table} full join of_text using (id, doc)
                                    where {table}.doc is null or of_text.doc is null"
            );
            assert_eq!(client.query_one(&differs, &[]).await.unwrap().get::<_, i64>(0), 0, "{table}");
            let verify = ["verify", file, "--into", table, "--key", "id", "--exact", "--db", &db.url()];
            millstream(&verify).ends(0);
            // Which text it was is recorded.
            let recorded = "select format from millstream.load order by load_id desc limit 1";
            let recorded: String = client.query_one(recorded, &[]).await.unwrap().get(0);
            assert_eq!(recorded, format!("auto;made={format}/1"));
            let named = load(&db.url(), file, table, &["--format", format]).ends(0).json();
            assert_eq!(named["read"], 3, "{named}");
            let other = load(&db.url(), file, table, &["--format", "ndjson"]).ends(2);
            assert!(other.stderr.contains(&format!("use --format {format}")), "{other:?}");
        }
        let rejected = load(&db.url(), PARQUET, "strict", &["--nan", "reject", "--resume", "off"]).ends(1).json();
        assert_eq!((&rejected["rejected"], &rejected["inserted"]), (&1.into(), &2.into()));
    })
    .await;
}

#[tokio::test]
async fn a_killed_load_of_parquet_resumes_and_a_changed_file_is_refused() {
    each_build(async |db| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        if !written(&path, ROWS, FIRST) {
            return;
        }
        let write = |rows: i64, first: &str| assert!(written(&path, rows, first));
        let (file, key) = (path.to_str().unwrap(), &["--key", "id:bigint"]);
        MadeText { format: "parquet", key, file, packed: None, write: &write }.prove(&db).await;
    })
    .await;
}

/// The columns of a table with their types.
async fn columns(client: &tokio_postgres::Client, table: &str) -> String {
    let sql = "select string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' order by attnum)
               from pg_attribute where attrelid = $1::text::regclass and attnum > 0";
    client.query_one(sql, &[&table]).await.unwrap().get(0)
}

#[tokio::test]
async fn columns_and_keys_have_the_types_of_the_schema() {
    each_build(async |db| {
        let (client, url) = (db.client().await, db.url());
        let all = |source: &'static str, table: &'static str, more: &[&'static str]| {
            let args = ["load", source, "--into", table, "--key", "id", "--columns", "all", "--db", &url];
            command(&[&args[..], more].concat())
        };
        let expected = "id bigint, doc jsonb, name text, price numeric, ratio double precision, \
                        at timestamp with time zone, day date, tags jsonb, more jsonb, raw text";
        for (file, table) in [(PARQUET, "all_parquet"), (ARROW, "all_arrow"), (AVRO, "all_avro")] {
            let loaded = run(&mut all(file, table, &[])).ends(0);
            assert!(
                loaded.stderr.contains("id bigint from id (whole number of at most 64 bits, by the schema)"),
                "{loaded:?}"
            );
            assert!(loaded.stderr.contains("price:numeric=price (decimal, by the schema)"), "{loaded:?}");
            assert_eq!(columns(&client, table).await, expected, "{file}");
        }
        let strings = run(&mut all(PARQUET, "all_strings", &["--nan", "string"])).ends(0);
        assert!(strings.stderr.contains("of which --nan string makes strings"), "{strings:?}");
        assert_eq!(columns(&client, "all_strings").await, expected.replace("double precision", "text"));
        // What is written over the members of the file is no part of its schema, and comes behind it.
        run(&mut all(PARQUET, "all_origin", &["--with-source", "price"])).ends(0);
        assert_eq!(
            columns(&client, "all_origin").await,
            format!("{}, price text", expected.replace(" price numeric,", ""))
        );
        // A stream has its schema in front.
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, &std::fs::read(Path::new(ARROW).with_file_name("stream")).unwrap())
            .unwrap();
        drop(writer);
        run(all("-", "all_stream", &[]).stdin(reader)).ends(0);
        let expected = "id bigint, doc jsonb, name text, ratio double precision";
        assert_eq!(columns(&client, "all_stream").await, expected);
    })
    .await;
}

#[tokio::test]
async fn schemas_of_several_files_have_a_type_in_common_or_are_refused() {
    each_build(async |db| {
        let (folder, client, url) = (tempfile::tempdir().unwrap(), db.client().await, db.url());
        let script = "import pyarrow as pa, pyarrow.parquet as pq, sys, decimal
nulls = [None] * 1500
def write(name, **columns): pq.write_table(pa.table({'id': pa.array(range(1501), pa.int32()), **columns}), sys.argv[1] + name)
write('/a', n=pa.array(nulls + [1], pa.int32()), d=pa.array(nulls + [decimal.Decimal('1.50')], pa.decimal128(9, 2)))
write('/b', n=pa.array(nulls + [2.5], pa.float64()), t=pa.array(nulls + ['x']))
write('/c', n=pa.array(nulls + ['x'], pa.string()))";
        if !python(script, folder.path()) {
            return;
        }
        let file = |name: &str| folder.path().join(name).display().to_string();
        let (a, b, c) = (file("a"), file("b"), file("c"));
        let common = ["--columns", "all", "--key", "id", "--db", &url, "--progress", "none"];
        let load = |files: &[&str], table: &str| {
            millstream(&[&["load"][..], files, &["--into", table], &common].concat())
        };
        load(&[&a, &b], "common").ends(0);
        assert_eq!(columns(&client, "common").await, "id integer, doc jsonb, n numeric, d numeric, t text");
        let refused = load(&[&a, &b, &c], "refused").ends(2);
        let says = format!("by their schemas, member \"n\" is numeric in {a} and text in {c}");
        assert!(refused.stderr.contains(&says) && refused.stderr.contains("--column NAME:TYPE=n"), "{refused:?}");
        let typed = ["load", &a, &c, "--into", "named", "--key", "id", "--column", "n:text=n", "--db", &url];
        millstream(&typed).ends(0);
        assert_eq!(columns(&client, "named").await, "id integer, doc jsonb, n text");
    })
    .await;
}

/// Rows over many types and nulls, and what Python's own JSON makes of them.
const ORACLE: &str = r#"
import pyarrow as pa, pyarrow.parquet as pq, pyarrow.ipc as ipc, sys, json, base64, datetime as dt, decimal, random
r = random.Random(7)
def some(value):
    return None if r.random() < 0.2 else value()
n = range(500)
day = dt.date(1970, 1, 1)
columns = {
    'i8': pa.array([some(lambda: r.randint(-128, 127)) for _ in n], pa.int8()),
    'i64': pa.array([some(lambda: r.randint(-2**63, 2**63 - 1)) for _ in n], pa.int64()),
    'u64': pa.array([some(lambda: r.randint(0, 2**64 - 1)) for _ in n], pa.uint64()),
    'f64': pa.array([some(lambda: r.uniform(-1e9, 1e9)) for _ in n], pa.float64()),
    'dec': pa.array([some(lambda: decimal.Decimal(r.randint(-10**20, 10**20)).scaleb(-4)) for _ in n], pa.decimal128(30, 4)),
    'bool': pa.array([some(lambda: r.random() < 0.5) for _ in n]),
    'text': pa.array([some(lambda: ''.join(r.choice('a"\\\n\u00e9\U0001f600') for _ in range(r.randint(0, 9)))) for _ in n], pa.string()),
    'large': pa.array([some(lambda: 'x' * r.randint(0, 50)) for _ in n], pa.large_string()),
    'view': pa.array([some(lambda: 'y' * r.randint(0, 50)) for _ in n], pa.string_view()),
    'raw': pa.array([some(lambda: r.randbytes(r.randint(0, 9))) for _ in n], pa.binary()),
    'fixed': pa.array([some(lambda: r.randbytes(4)) for _ in n], pa.binary(4)),
    'date': pa.array([some(lambda: day + dt.timedelta(r.randint(-20000, 50000))) for _ in n], pa.date32()),
    'at': pa.array([some(lambda: dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=r.randint(-10**15, 10**15))) for _ in n], pa.timestamp('us', 'UTC')),
    'local': pa.array([some(lambda: dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=r.randint(-10**12, 10**12))) for _ in n], pa.timestamp('ms')),
    'time': pa.array([some(lambda: dt.time(r.randint(0, 23), 5, 6, r.randint(0, 999999))) for _ in n], pa.time64('us')),
    'list': pa.array([some(lambda: [some(lambda: r.randint(0, 9)) for _ in range(r.randint(0, 4))]) for _ in n], pa.list_(pa.int32())),
    'struct': pa.array([some(lambda: {'a': some(lambda: r.randint(0, 9)), 'b': {'c': some(lambda: 'z')}}) for _ in n],
                       pa.struct([('a', pa.int32()), ('b', pa.struct([('c', pa.string())]))])),
    'map': pa.array([some(lambda: [('k%d' % i, some(lambda: r.randint(0, 9))) for i in range(r.randint(0, 3))]) for _ in n], pa.map_(pa.string(), pa.int32())),
    'dict': pa.array([some(lambda: r.choice(['x', 'y'])) for _ in n], pa.string()).dictionary_encode(),
    'none': pa.nulls(len(n)),
}
t = pa.table(columns)
def value(name, v):
    if v is None: return None
    if isinstance(v, bytes): return base64.b64encode(v).decode()
    if isinstance(v, dt.datetime): return v.strftime('%Y-%m-%dT%H:%M:%S.%f') + ('Z' if name == 'at' else '')
    if isinstance(v, dt.time): return v.strftime('%H:%M:%S.%f')
    if isinstance(v, dt.date): return v.isoformat()
    if isinstance(v, decimal.Decimal): return 'decimal ' + format(v, 'f')
    if name == 'map': return dict(v)
    return v
with open(sys.argv[1] + '.expected', 'w') as f:
    for row in t.to_pylist():
        f.write(json.dumps({k: value(k, v) for k, v in row.items()}, ensure_ascii=False) + '\n')
pq.write_table(t, sys.argv[1] + '.parquet', row_group_size=120, data_page_size=500)
pq.write_table(t, sys.argv[1] + '.v2.parquet', compression='gzip', data_page_version='2.0', use_dictionary=False)
with ipc.new_file(sys.argv[1] + '.arrow', t.schema) as w: w.write_table(t, max_chunksize=77)
with ipc.new_stream(sys.argv[1] + '.arrows', t.schema, options=ipc.IpcWriteOptions(compression='lz4')) as w: w.write_table(t)
"#;

#[test]
fn rows_are_as_pyarrow_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    if !python(ORACLE, &path) {
        return;
    }
    let file = |end: &str| format!("{}{end}", path.display());
    let expected = std::fs::read_to_string(file(".expected")).unwrap();
    for end in [".parquet", ".v2.parquet", ".arrow", ".arrows"] {
        let text = millstream(&["cat", &file(end)]).ends(0).stdout;
        assert_eq!(text.lines().count(), expected.lines().count(), "{end}");
        for (line, expected) in text.lines().zip(expected.lines()) {
            let [mut got, mut expected] = [line, expected].map(|text| {
                serde_json::from_str::<serde_json::Value>(text).unwrap_or_else(|error| panic!("{error}: {text}"))
            });
            // A decimal keeps its digits, which a value of JSON would not compare.
            if let Some(decimal) = expected["dec"].as_str() {
                let digits = format!("\"dec\":{},", decimal.trim_start_matches("decimal "));
                assert!(line.contains(&digits), "{end}: {digits} in {line}");
            }
            (got["dec"], expected["dec"]) = (serde_json::Value::Null, serde_json::Value::Null);
            assert_eq!(got, expected, "{end}");
        }
    }
}
