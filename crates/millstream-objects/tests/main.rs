//! Objects of a web server that fails as real ones do.

use fastrand::Rng;
use millstream_input::{Error as InputError, Got, Input, Nan, Object, Replaced};
use millstream_objects::limits::{FIRST_BYTES, RANGE_BYTES};
use millstream_objects::{Error, Finder};
use millstream_testkit::{Answer, Bucket, gzip};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

/// Says nothing.
fn says(_: String) {}

fn find(address: &str) -> Result<Arc<dyn Object>, Error> {
    let mut found = Finder::default().find(address, &says)?;
    assert_eq!(found.len(), 1);
    Ok(found.remove(0))
}

fn bytes(length: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(length);
    (0..length).map(|_| rng.u8(..)).collect()
}

fn read(object: &Arc<dyn Object>) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    object.reader().read_to_end(&mut content)?;
    Ok(content)
}

#[test]
fn every_read_demands_the_version_that_was_found() {
    let bucket = Bucket::start();
    let content = bytes(FIRST_BYTES + 2 * RANGE_BYTES + 5);
    bucket.put("a.json", content.clone());
    let object = find(&bucket.web("a.json")).unwrap();
    assert_eq!((object.size(), object.tag()), (content.len() as u64, "v1"));
    assert_eq!(bucket.asked().len(), 1, "its size and its tag take one request");
    assert!(read(&object).unwrap() == content);
    let mut into = vec![0; 100_000];
    object.places().read_exact_at(&mut into, 1_000_000).unwrap();
    assert!(into == content[1_000_000..1_100_000]);
    let reads: Vec<_> = bucket.asked().into_iter().skip(1).collect();
    assert!(reads.len() >= 4 && reads.iter().all(|asked| asked.if_match.as_deref() == Some("\"v1\"")), "{reads:?}");
}

#[test]
fn an_object_of_one_range_is_asked_for_without_one() {
    let bucket = Bucket::start();
    bucket.put("a.json", b"{}\n".to_vec());
    // Such a server answers with 200 where it should with 206.
    bucket.answers(|_| Answer::NoRanges);
    let object = find(&bucket.web("a.json")).unwrap();
    assert_eq!(read(&object).unwrap(), b"{}\n");
}

#[test]
fn a_server_without_ranges_is_named() {
    let bucket = Bucket::start();
    bucket.put("a.json", bytes(FIRST_BYTES + 1));
    bucket.answers(|_| Answer::NoRanges);
    let error = read(&find(&bucket.web("a.json")).unwrap()).unwrap_err();
    assert!(error.to_string().contains("whole objects only"), "{error}");
}

#[test]
fn connections_that_end_and_answers_to_try_again_lose_nothing() {
    let content = bytes(FIRST_BYTES + 3 * RANGE_BYTES);
    for trouble in [
        Answer::Cut(1_000),
        Answer::Cut(0),
        Answer::Closed,
        Answer::Status(503, "SlowDown"),
        Answer::Status(500, "InternalError"),
        Answer::Status(429, "TooManyRequests"),
        Answer::Late(Duration::from_millis(20)),
    ] {
        let bucket = Bucket::start();
        bucket.put("a.json", content.clone());
        let object = find(&bucket.web("a.json")).unwrap();
        // Every second request, and so each range at least once.
        let mut odd = false;
        bucket.answers(move |_| {
            odd = !odd;
            if odd { trouble } else { Answer::Whole }
        });
        assert!(read(&object).unwrap() == content, "{trouble:?}");
    }
}

#[test]
fn trouble_that_does_not_pass_is_named_by_the_stores_own_code() {
    let bucket = Bucket::start();
    bucket.put("a.json", bytes(10));
    let object = find(&bucket.web("a.json")).unwrap();
    for (status, code) in [(403, "ExpiredToken"), (400, "KeyTooLong"), (404, "NoSuchKey")] {
        bucket.answers(move |_| Answer::Status(status, code));
        let error = read(&object).unwrap_err().to_string();
        assert!(error.contains(&format!("the store answered {status} ")) && error.contains(code), "{error}");
        assert!(!error.contains("hush"), "{error}");
    }
}

#[test]
fn an_object_that_is_replaced_in_the_middle_is_an_error_whatever_the_server_knows() {
    for knows in [Answer::Whole, Answer::AnyVersion] {
        let bucket = Bucket::start();
        let length = FIRST_BYTES + 4 * RANGE_BYTES;
        bucket.put("a.json", bytes(length));
        bucket.answers(move |_| knows);
        let object = find(&bucket.web("a.json")).unwrap();
        let mut reader = object.reader();
        reader.read_exact(&mut [0; 1_000]).unwrap();
        // Of the same size.
        bucket.put("a.json", vec![b'x'; usize::try_from(length).unwrap()]);
        let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
        assert!(error.get_ref().is_some_and(|error| error.is::<Replaced>()), "{knows:?}: {error}");
        let error = Input::of_object(&*object, Nan::Null).err().unwrap();
        assert!(matches!(error, InputError::Replaced { .. }), "{error}");
        let error = object.places().read_exact_at(&mut [0; 8], length - 8).unwrap_err();
        assert!(error.get_ref().is_some_and(|error| error.is::<Replaced>()), "{knows:?}: {error}");
    }
}

#[test]
fn parts_of_two_versions_are_not_put_together() {
    for then in [Answer::Whole, Answer::AnyVersion] {
        let bucket = Bucket::start();
        bucket.put("a.json", bytes(FIRST_BYTES));
        let object = find(&bucket.web("a.json")).unwrap();
        let mut is_first = true;
        bucket.answers(move |_| if std::mem::take(&mut is_first) { Answer::CutAndReplaced(100) } else { then });
        let error = read(&object).unwrap_err();
        let is_known = error.get_ref().is_some_and(|error| error.is::<Replaced>());
        assert_eq!(is_known, then == Answer::Whole, "{error}");
    }
}

#[test]
fn what_no_load_would_know_again_is_refused() {
    let bucket = Bucket::start();
    bucket.put("a.json", bytes(10));
    bucket.answers(|_| Answer::WeakTag);
    let error = find(&bucket.web("a.json")).unwrap_err();
    assert!(error.to_string().contains("has no strong ETag"), "{error}");
    assert!(error.hint().contains("curl"), "{}", error.hint());
}

#[test]
fn what_is_missing_or_denied_says_what_to_do() {
    let bucket = Bucket::start();
    let error = find(&bucket.web("none.json")).unwrap_err();
    assert!(error.to_string().contains("/bucket/none.json: the store answered 404"), "{error}");
    assert!(find(&bucket.web("*.json")).unwrap_err().hint().contains("name each object"));
    bucket.answers(|_| Answer::Status(403, "AccessDenied"));
    let error = find(&bucket.web("none.json")).unwrap_err();
    assert!(
        error.to_string().contains("403") && error.hint().contains("a signature in it may have expired"),
        "{error}"
    );
    let error = find(&bucket.web("a//b.json")).unwrap_err();
    assert!(error.hint().contains("empty part"), "{error}");
}

#[test]
fn a_signature_is_used_and_not_shown() {
    let bucket = Bucket::start();
    bucket.put("a b.json", b"{}\n".to_vec());
    let address = format!("{}?X-Amz-Credential=hush&X-Amz-Signature=hush%2Fhush", bucket.web("a%20b.json"));
    // It is good for GET only.
    bucket.answers(|asked| match asked.method.as_str() {
        "HEAD" => Answer::Status(403, "SignatureDoesNotMatch"),
        _ => Answer::Whole,
    });
    let object = find(&address).unwrap();
    assert_eq!((object.name(), object.size()), (bucket.web("a%20b.json").as_str(), 3));
    assert_eq!(read(&object).unwrap(), b"{}\n");
    let asked = bucket.asked();
    assert!(asked.iter().all(|asked| asked.key == "a b.json" && asked.query.ends_with("hush%2Fhush")), "{asked:?}");
    assert!(!format!("{object:?}").contains("hush"));
    bucket.answers(|_| Answer::Status(403, "ExpiredToken"));
    let error = find(&address).unwrap_err();
    assert!(!format!("{error} {error:?} {}", error.hint()).contains("hush"), "{error:?}");
    bucket.calm();
    let mut finder = Finder::default();
    finder.find(&address, &says).unwrap();
    let error = finder.find(&address.replace("hush", "hash"), &says).unwrap_err();
    assert!(error.to_string().contains("differ only behind the question mark"), "{error}");
    assert!(!format!("{error} {error:?} {} {finder:?}", error.hint()).contains("hush"), "{error:?}");
}

#[test]
fn a_server_that_names_another_address_is_followed_and_the_signature_stays_with_it() {
    let (bucket, other) = (Bucket::start(), Bucket::start());
    other.put("b.json", bytes(FIRST_BYTES + RANGE_BYTES));
    let there: &'static str = other.web("b.json").leak();
    bucket.answers(move |_| Answer::Moved(there));
    let object = find(&format!("{}?X-Amz-Signature=hush", bucket.web("a.json"))).unwrap();
    assert_eq!((object.name(), object.size()), (bucket.web("a.json").as_str(), FIRST_BYTES + RANGE_BYTES));
    assert!(read(&object).unwrap() == bytes(FIRST_BYTES + RANGE_BYTES));
    let asked = other.asked();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(
        asked.iter().all(|asked| asked.query.is_empty() && !asked.headers.contains(&"referer".to_owned())),
        "{asked:?}"
    );
    // Round in circles.
    let here: &'static str = bucket.web("a.json").leak();
    bucket.answers(move |_| Answer::Moved(here));
    let error = find(&bucket.web("a.json")).unwrap_err();
    assert!(error.to_string().contains("too many redirects"), "{error}");
}

#[test]
fn an_object_that_was_stored_compressed_is_opened() {
    let bucket = Bucket::start();
    let text = b"{\"id\":1}\n".repeat(100_000);
    bucket.put("a.json.gz", gzip(&text));
    let object = find(&bucket.web("a.json.gz")).unwrap();
    let mut input = Input::of_object(&*object, Nan::Null).unwrap();
    let (mut read, mut into) = (Vec::new(), vec![0; 100_000]);
    while let Got::Bytes(n) = input.read(&mut into).unwrap() {
        read.extend_from_slice(&into[..n]);
    }
    assert!(read == text);
    assert_eq!(input.progress().bytes_read(), object.size());
}

#[test]
fn an_object_that_is_prepared_is_asked_for_once() {
    let bucket = Bucket::start();
    bucket.put("a.json", b"{}\n".to_vec());
    let object = find(&bucket.web("a.json")).unwrap();
    for _ in 0..3 {
        object.prepare();
    }
    assert_eq!(read(&object).unwrap(), b"{}\n");
    assert_eq!(bucket.asked().len(), 2, "one for its size, one for its bytes");
    assert_eq!(read(&object).unwrap(), b"{}\n");
    assert_eq!(bucket.asked().len(), 3);
}

#[test]
fn an_empty_object_is_not_asked_for() {
    let bucket = Bucket::start();
    bucket.put("empty", Vec::new());
    let object = find(&bucket.web("empty")).unwrap();
    object.prepare();
    assert_eq!((object.size(), read(&object).unwrap().len()), (0, 0));
    assert_eq!(bucket.asked().len(), 1);
}
