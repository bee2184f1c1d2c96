//! Objects in a store: found by address or pattern, printed whole, and no credentials in what is printed.

use crate::process::{Run, command, run};
use millstream_testkit::{Answer, Bucket};

fn cat(bucket: &Bucket, sources: &[&str]) -> Run {
    run(command(&["cat"]).args(sources).envs(bucket.environment()))
}

/// An object of one document, which is its key.
fn put(bucket: &Bucket, key: &str) {
    bucket.put(key, format!("{}\n", serde_json::json!({ "key": key })));
}

/// The keys in what was printed.
fn keys(run: &Run) -> Vec<String> {
    let key = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["key"].as_str().unwrap().to_owned();
    run.stdout.lines().map(key).collect()
}

#[test]
fn objects_are_found_by_address_and_by_pattern() {
    let bucket = Bucket::start();
    bucket.set_page_keys(2);
    let odd = ["logs/2026/a.json", "logs/2026/b ~+%20=?#é.json", "logs/2026/c&d<e>.json", "logs/2027/a.json"];
    odd.into_iter().for_each(|key| put(&bucket, key));
    for other in ["logs/2026/.part.json", "logs/2026/deep/a.json", "logs/a.json", "logs2/2026/a.json"] {
        put(&bucket, other);
    }
    // What other programs make to stand for folders, and an object without documents.
    for empty in ["logs/", "logs/2026/", "logs/2026/empty.json"] {
        bucket.put(empty, Vec::new());
    }
    for key in odd {
        assert_eq!(keys(&cat(&bucket, &[&Bucket::s3(key)]).ends(0)), [key]);
    }
    let found = cat(&bucket, &[&Bucket::s3("logs/*/*.json")]).ends(0);
    assert_eq!((keys(&found).as_slice(), found.stderr.as_str()), (&odd.map(str::to_owned)[..], ""));
    assert_eq!(keys(&cat(&bucket, &[&Bucket::s3("logs/**/a.json")]).ends(0)).len(), 4);
    let none = cat(&bucket, &[&Bucket::s3("logs/*/none.json")]).ends(2);
    assert!(none.stderr.contains("no object matches s3://bucket/logs/*/none.json"), "{none:?}");
    let folder = cat(&bucket, &[&Bucket::s3("logs/2026/")]).ends(2);
    assert!(folder.stderr.contains("is a folder, and no object"), "{folder:?}");
}

#[test]
fn a_key_with_the_characters_of_a_pattern_is_meant_if_it_is_there() {
    let bucket = Bucket::start();
    for key in ["odd/[1].json", "odd/1.json"] {
        put(&bucket, key);
    }
    assert_eq!(keys(&cat(&bucket, &[&Bucket::s3("odd/[1].json")]).ends(0)), ["odd/[1].json"]);
    assert_eq!(keys(&cat(&bucket, &[&Bucket::s3("odd/[12].json")]).ends(0)), ["odd/1.json"]);
}

#[test]
fn ten_thousand_keys_are_listed_page_by_page_and_only_what_matches_is_read() {
    let bucket = Bucket::start();
    (0..10_000).for_each(|n| put(&bucket, &format!("many/{n:05}.json")));
    let found = cat(&bucket, &[&Bucket::s3("many/*7777.json")]).ends(0);
    assert_eq!(keys(&found), ["many/07777.json"]);
    let asked = bucket.asked();
    let pages = asked.iter().filter(|asked| asked.key.is_empty());
    assert!(pages.clone().all(|page| page.query.contains("prefix=many")), "{asked:?}");
    assert_eq!((pages.count(), asked.len()), (10, 11), "{asked:?}");
}

#[test]
fn a_store_that_asks_for_fewer_requests_is_asked_again() {
    let bucket = Bucket::start();
    (0..5).for_each(|n| put(&bucket, &format!("{n}.json")));
    bucket.set_page_keys(2);
    let mut requests = 0;
    bucket.answers(move |_| {
        requests += 1;
        if requests % 3 == 0 { Answer::Status(503, "SlowDown") } else { Answer::Whole }
    });
    assert_eq!(keys(&cat(&bucket, &[&Bucket::s3("*.json")]).ends(0)).len(), 5);
}

#[test]
fn credentials_are_found_and_never_printed() {
    let bucket = Bucket::start();
    put(&bucket, "a.json");
    let address = Bucket::s3("a.json");
    let cat_without = |more: &[(&str, &str)]| {
        let mut command = command(&["cat", &address]);
        command.envs(bucket.environment()).env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
        run(command.envs(more.iter().copied()))
    };
    let none = cat_without(&[]).ends(2);
    assert!(none.stderr.contains("there are no credentials for s3://bucket/a.json"), "{none:?}");
    assert!(none.stderr.contains("hint: set AWS_ACCESS_KEY_ID"), "{none:?}");
    cat_without(&[("AWS_SKIP_SIGNATURE", "true")]).ends(0);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    std::fs::write(&file, "[mine]\naws_access_key_id = hush-id\naws_secret_access_key = hush-hush\n").unwrap();
    let file = file.to_str().unwrap();
    let profile = |name: &str| cat_without(&[("AWS_SHARED_CREDENTIALS_FILE", file), ("AWS_PROFILE", name)]);
    profile("mine").ends(0);
    let unknown = profile("other").ends(2);
    assert!(unknown.stderr.contains("there is no profile other"), "{unknown:?}");
    for (status, code) in
        [(403, "SignatureDoesNotMatch"), (400, "AuthorizationHeaderMalformed"), (301, "PermanentRedirect")]
    {
        bucket.answers(move |_| Answer::Status(status, code));
        let refused = cat(&bucket, &[&address]).ends(2);
        let listing = cat(&bucket, &[&Bucket::s3("*.json")]).ends(2);
        for run in [&refused, &listing] {
            assert!(run.stderr.contains("cannot look up s3://bucket/"), "{run:?}");
            assert!(run.stderr.contains("hint: ") && !run.stderr.contains("hush"), "{run:?}");
        }
    }
}

#[test]
fn a_store_that_names_another_address_gets_no_credentials_there() {
    let (bucket, other) = (Bucket::start(), Bucket::start());
    put(&other, "a.json");
    let there: &'static str = other.web("a.json").leak();
    bucket.answers(move |_| Answer::Moved(there));
    // Keys without a token sign each request, and nothing of that goes to the other one.
    assert_eq!(keys(&cat(&bucket, &[&Bucket::s3("a.json")]).ends(0)), ["a.json"]);
    let headers: Vec<String> = other.asked().into_iter().flat_map(|asked| asked.headers).collect();
    assert!(headers.contains(&"user-agent".to_owned()), "{headers:?}");
    for secret in ["authorization", "x-amz-security-token", "referer"] {
        assert!(!headers.contains(&secret.to_owned()), "{headers:?}");
    }
    other.calm();
    for source in [Bucket::s3("a.json"), Bucket::s3("*.json")] {
        let mut command = command(&["cat", &source]);
        let refused = run(command.envs(bucket.environment()).env("AWS_SESSION_TOKEN", "hush-token")).ends(2);
        assert!(refused.stderr.contains("the store answered 307"), "{refused:?}");
        assert!(refused.stderr.contains("hint: set AWS_REGION") && !refused.stderr.contains("hush"), "{refused:?}");
    }
    assert!(other.asked().is_empty(), "{:?}", other.asked());
}

#[test]
fn the_number_of_requests_at_once_is_a_setting() {
    let bucket = Bucket::start();
    put(&bucket, "a.json");
    for (ranges, code) in [("1", 0), ("16", 0), ("0", 2), ("17", 2)] {
        let mut command = command(&["cat", &Bucket::s3("a.json")]);
        let ended = run(command.envs(bucket.environment()).env("MILLSTREAM_OBJECT_RANGES", ranges)).ends(code);
        assert_eq!(code == 2, ended.stderr.contains("MILLSTREAM_OBJECT_RANGES takes 1 to 16"), "{ended:?}");
    }
}

#[test]
fn addresses_that_hold_a_password_are_refused_without_it() {
    for address in ["https://user:hush@example.test/a.json", "s3://id:hush@bucket/a.json"] {
        let refused = run(&mut command(&["cat", address])).ends(2);
        assert!(refused.stderr.contains("holds a user") && !refused.stderr.contains("hush"), "{refused:?}");
    }
}

#[test]
fn no_error_shows_a_secret_wherever_it_was_given() {
    let bucket = Bucket::start();
    bucket.answers(|_| Answer::Status(403, "AccessDenied"));
    let [(_, server), ..] = bucket.environment();
    let (with_user, bad_port) = (server.replace("//", "//hush:hush@"), "http://hush:hush@h:hush".to_owned());
    let folder = tempfile::tempdir().unwrap();
    let unknown = folder.path().join("account.json");
    std::fs::write(&unknown, "{\"type\":\"hush\",\"refresh_token\":\"hush\"}").unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "hush\n").unwrap();
    let account =
        |more: &str| format!("{{\"private_key\":\"hush\",\"private_key_id\":\"hush\",\"client_email\":\"a\"{more}}}");
    let sas = format!("AccountName=me;SharedAccessSignature=sig=hush;BlobEndpoint={server}");
    let set = |name, value: &str| (name, value.to_owned());
    let (account_name, denied) = (set("AZURE_STORAGE_ACCOUNT", "me"), "the store answered 403");
    let s3 = [
        (vec![set("AWS_SESSION_TOKEN", "hush-token")], denied),
        (vec![set("AWS_ENDPOINT_URL", &with_user)], denied),
        (vec![set("AWS_ENDPOINT_URL", "http://h.invalid"), set("http_proxy", &with_user), set("NO_PROXY", "")], denied),
        (vec![set("AWS_ACCESS_KEY_ID", "hush\n")], "AWS_ACCESS_KEY_ID holds the end of a line"),
        (vec![set("AWS_SESSION_TOKEN", "hush\n")], "AWS_SESSION_TOKEN holds the end of a line"),
        (vec![set("AWS_ENDPOINT_URL", "hush:hush@h")], "AWS_ENDPOINT_URL is not the address of a server"),
        (vec![set("AWS_ENDPOINT_URL", &bad_port)], "AWS_ENDPOINT_URL is not the address of a server"),
        (vec![set("AWS_REGION", "hush hush")], "AWS_REGION holds a character"),
        (vec![set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_str().unwrap())], "holds the end of a line"),
    ]
    .map(|(settings, says)| (Bucket::s3("a.json"), settings, says));
    let google = [
        (vec![set("GOOGLE_BEARER_TOKEN", "hush"), set("GOOGLE_BASE_URL", &server)], denied),
        (vec![set("GOOGLE_BEARER_TOKEN", "hush\n")], "GOOGLE_BEARER_TOKEN holds the end of a line"),
        (vec![set("GOOGLE_BASE_URL", &bad_port)], "GOOGLE_BASE_URL is not the address of a server"),
        (vec![set("GOOGLE_SERVICE_ACCOUNT_KEY", &account(""))], "cannot look up gs://bucket/a.json"),
        (vec![set("GOOGLE_SERVICE_ACCOUNT_KEY", &account(",\"disable_oauth\":\"hush\""))], "expected a boolean"),
        (vec![set("GOOGLE_APPLICATION_CREDENTIALS", unknown.to_str().unwrap())], "unknown variant ***"),
    ]
    .map(|(settings, says)| ("gs://bucket/a.json".to_owned(), settings, says));
    let azure = [
        (vec![set("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=hush%2Fhush"), set("AZURE_STORAGE_ENDPOINT", &server)], denied),
        (vec![set("AZURE_STORAGE_CONNECTION_STRING", &sas)], denied),
        (vec![set("AZURE_STORAGE_SAS_TOKEN", "hush")], "cannot look up az://bucket/*.json"),
        (vec![set("AZURE_STORAGE_KEY", "hush!")], "cannot look up az://bucket/*.json"),
        (vec![set("AZURE_STORAGE_TOKEN", "hush\n")], "AZURE_STORAGE_TOKEN holds the end of a line"),
    ]
    .map(|(settings, says)| ("az://bucket/*.json".to_owned(), [settings, vec![account_name.clone()]].concat(), says));
    let typed = [
        (bucket.web("a.json?X-Amz-Signature=hush#hush"), denied),
        ("http://hush:hush@127.0.0.1/a.json".to_owned(), "holds a user"),
        ("http://hush:hush".to_owned(), "names no object"),
        ("s3://hush:hush@bucket/a.json".to_owned(), "holds a user"),
    ]
    .map(|(address, says)| (address, Vec::new(), says));
    for (address, settings, says) in s3.into_iter().chain(google).chain(azure).chain(typed) {
        let mut command = command(&["cat", &address]);
        command.envs(bucket.environment()).env("HOME", folder.path());
        let ended = run(command.envs(settings.iter().map(|(name, value)| (*name, value)))).ends(2);
        assert!(ended.stderr.contains(says) && !ended.stderr.contains("hush"), "{address} {settings:?}: {ended:?}");
    }
}

#[test]
fn a_bucket_or_a_host_that_no_address_can_have_is_refused() {
    for address in ["s3://a b/c.json", "s3://a<b/*.json", "http://a\"b/c.json"] {
        let refused = run(&mut command(&["cat", address])).ends(2);
        assert!(refused.stderr.contains("no address has"), "{refused:?}");
    }
}

#[cfg(feature = "columnar")]
#[test]
fn a_parquet_object_is_printed_as_its_file_is() {
    const PARQUET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/parquet/rows");
    let bucket = Bucket::start();
    bucket.put("rows.parquet", std::fs::read(PARQUET).unwrap());
    let expected = crate::process::millstream(&["cat", PARQUET]).ends(0);
    assert_eq!(cat(&bucket, &[&Bucket::s3("rows.parquet")]).ends(0).stdout, expected.stdout);
}
