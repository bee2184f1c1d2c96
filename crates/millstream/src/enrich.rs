//! `--enrich`: what a range of addresses knows becomes a member of each document.

use crate::args::{one_of, one_path};
use crate::failure::Failure;
use crate::store_name::StoreName;
use millstream_document::limits::ANNOTATION_BYTES_MAX;
use millstream_document::transform::{Annotate, Answer, Existing, Lookup, Missing, Transform};
use millstream_host::shell_word;
use millstream_model::{KeyRequest, path_text};
use millstream_pg::unquoted;
use millstream_ranges::{Generation, Index, Pick, Which, addresses, words};
use std::borrow::Cow;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// What to add to documents.
#[derive(Debug, clap::Args)]
pub struct EnrichArgs {
    /// Add what a store of ranges knows about an address; can be given several times
    ///
    /// WHAT is [first of|last of|all of] PATH from STORE[@N] [pick MEMBERS] as PATH. The first PATH leads to an
    /// address: 1.2.3.4, 1.2.3.4:80, [2001:db8::1]:443. For a list of addresses, such as X-Forwarded-For, write
    /// which one you mean; `all of` adds an array. STORE is a store that `millstream ranges build` made; @N names
    /// a generation. MEMBERS are paths of the range's value, such as `country, asn.org as org`; by default all
    /// members are added. The last PATH is the member that each document gets; it cannot be the key. A name with spaces
    /// needs double quotes.
    ///
    /// The rest of a document keeps its spelling. Positions, rejects and resuming refer to the file's documents. A load
    /// in which no document gets anything ends with exit code 1; its documents are loaded.
    #[arg(long, value_name = "WHAT", value_parser = Wish::parse)]
    enrich: Vec<Wish>,

    /// What becomes of a document whose address is in no range, or that has no usable address
    #[arg(long, value_name = "HOW", default_value = "keep", requires = "enrich", value_parser = one_of(Missing::ALL))]
    enrich_missing: Missing,

    /// What becomes of a document that has the member already
    #[arg(long, value_name = "HOW", default_value = "replace", requires = "enrich", value_parser = one_of(Existing::ALL))]
    enrich_existing: Existing,
}

/// One enrichment as typed.
#[derive(Debug, Clone)]
struct Wish {
    which: Which,
    from: Vec<String>,
    store: StoreName,
    pick: Option<Pick>,
    into: Vec<String>,
    /// The words before the store's generation and after it, with an absolute path.
    name: (String, String),
}

/// Digits of a generation's hash in the name of a transform.
const NAME_HASH_DIGITS: usize = 8;

const LISTS: [(&str, Which); 3] = [("first of", Which::First), ("last of", Which::Last), ("all of", Which::All)];

/// Words that are no path, unless they are in double quotes.
const KEYWORDS: [&str; 3] = ["from", "pick", "as"];

impl Wish {
    fn parse(text: &str) -> Result<Self, String> {
        let mut words = Words { text, words: words(text), at: 0 };
        let list = LISTS.iter().find(|(lead, _)| words.words.iter().take(2).map(|(_, word)| *word).eq(lead.split(' ')));
        let (lead, which) = match list {
            Some((lead, which)) => {
                words.at = 2;
                (format!("{lead} "), *which)
            }
            None => (String::new(), Which::Only),
        };
        let from = words.next("PATH")?;
        words.keyword("from")?;
        // The path of a store may hold spaces.
        let store = words.until(words.find(&["pick", "as"]), "STORE")?;
        let pick = match words.keyword("pick") {
            Ok(_) => {
                let members = words.until(words.rfind("as"), "MEMBERS")?;
                Some((Pick::parse(members)?, members))
            }
            Err(_) => None,
        };
        words.keyword("as")?;
        let into = words.next("PATH")?;
        words.end()?;
        let store = StoreName::from(OsString::from(unquoted(store)));
        let absolute = std::path::absolute(&store.path).map_err(|error| error.to_string())?;
        // Without a slash at its end.
        let absolute: PathBuf = absolute.components().collect();
        let picked = pick.as_ref().map(|(_, members)| format!(" pick {members}")).unwrap_or_default();
        let name = (format!("{lead}{from} from {}@", absolute.display()), format!("{picked} as {into}"));
        Ok(Self { which, from: path(from)?, store, pick: pick.map(|(pick, _)| pick), into: path(into)?, name })
    }
}

/// The words of an enrichment that were not read yet.
struct Words<'t> {
    text: &'t str,
    /// Each with its place in the text.
    words: Vec<(usize, &'t str)>,
    at: usize,
}

impl<'t> Words<'t> {
    /// The next word, which is not a keyword.
    fn next(&mut self, expected: &str) -> Result<&'t str, String> {
        self.take(expected, |word| !KEYWORDS.contains(&word))
    }

    fn keyword(&mut self, keyword: &str) -> Result<&'t str, String> {
        self.take(&format!("`{keyword}`"), |word| word == keyword)
    }

    fn take(&mut self, expected: &str, fits: impl Fn(&str) -> bool) -> Result<&'t str, String> {
        let word = self.words.get(self.at).map(|(_, word)| *word).filter(|word| fits(word));
        let word = word.ok_or_else(|| self.wrong(expected))?;
        self.at += 1;
        Ok(word)
    }

    /// Place of the first of these keywords.
    fn find(&self, keywords: &[&str]) -> usize {
        let place = self.words[self.at..].iter().position(|(_, word)| keywords.contains(word));
        place.map_or(self.words.len(), |place| self.at + place)
    }

    /// Place of the last such keyword.
    fn rfind(&self, keyword: &str) -> usize {
        let place = self.words[self.at..].iter().rposition(|(_, word)| *word == keyword);
        place.map_or(self.words.len(), |place| self.at + place)
    }

    /// The text up to this place, which is not empty.
    fn until(&mut self, end: usize, expected: &str) -> Result<&'t str, String> {
        let Some((start, _)) = self.words.get(self.at).filter(|_| end > self.at) else {
            return Err(self.wrong(expected));
        };
        let (last, word) = self.words[end - 1];
        self.at = end;
        Ok(&self.text[*start..last + word.len()])
    }

    fn end(&self) -> Result<(), String> {
        if self.at == self.words.len() { Ok(()) } else { Err(self.wrong("nothing more")) }
    }

    /// Points at the word that is wrong.
    fn wrong(&self, expected: &str) -> String {
        const FORM: &str = "[first of|last of|all of] PATH from STORE [pick MEMBERS] as PATH";
        match self.words.get(self.at) {
            Some((_, word)) => {
                format!("found `{word}` (word {}) where {expected} was expected in {FORM}", self.at + 1)
            }
            None => format!("it ends where {expected} was expected in {FORM}"),
        }
    }
}

fn path(text: &str) -> Result<Vec<String>, String> {
    let path = one_path(text).map_err(|error| error.to_string())?;
    path.ok_or_else(|| format!("{text:?} is not one path, such as client.ip"))
}

impl EnrichArgs {
    /// Whether any is asked for.
    pub fn is_asked(&self) -> bool {
        !self.enrich.is_empty()
    }

    /// Whether this member of a document, or what is in it, is added.
    pub fn adds(&self, member: &str) -> bool {
        self.enrich.iter().any(|wish| wish.into.first().is_some_and(|first| first == member))
    }

    /// The transforms of a load whose documents have this key. Reads the stores into memory.
    pub fn transforms(&self, key: &[KeyRequest]) -> Result<Vec<Arc<dyn Transform>>, Failure> {
        for (wish, column) in self.enrich.iter().flat_map(|wish| key.iter().map(move |column| (wish, column))) {
            // A member below it can be part of the key: it is then the range's.
            if wish.into.starts_with(&column.path) {
                return Err(Failure::user(format!(
                    "--enrich adds an object as {}, where the key column {} has its value",
                    path_text(&wish.into),
                    column.column
                ))
                .hint("name another member behind `as`"));
            }
        }
        for (n, wish) in self.enrich.iter().enumerate() {
            let before = self.enrich[..n].iter().any(|other| other.into == wish.into);
            if before && self.enrich_existing == Existing::Replace {
                let member = path_text(&wish.into);
                return Err(Failure::user(format!(
                    "two --enrich add {member}, and the second would replace the first"
                ))
                .hint("name another member behind `as`, or keep what the first adds: --enrich-existing keep"));
            }
        }
        self.enrich.iter().map(|wish| self.transform(wish, wish.store.generation)).collect()
    }

    /// The transforms that a load began with, if they differ from those asked for only in the generation of a store that was
    /// not typed. The failure says why such a generation cannot be used.
    pub fn transforms_of(&self, recorded: &[String]) -> Option<Result<Vec<Arc<dyn Transform>>, Failure>> {
        let numbers: Vec<u64> =
            self.enrich.iter().zip(recorded).map_while(|(wish, name)| self.number(wish, name)).collect();
        if recorded.len() != self.enrich.len() || numbers.len() != recorded.len() {
            return None;
        }
        let began_with = self.enrich.iter().zip(recorded).zip(numbers).map(|((wish, recorded), number)| {
            let transform = self.transform(wish, Some(number))?;
            if transform.name() != *recorded {
                return Err(Failure::user(format!("{} is another store now", wish.store.path.display())));
            }
            Ok(transform)
        });
        let hint = "start over with --resume off: the documents that are stored had the values of that generation";
        Some(began_with.collect::<Result<_, Failure>>().map_err(|failure| failure.hint(hint)))
    }

    /// The generation in the name of a transform, if the name is otherwise the one of a wish.
    fn number(&self, wish: &Wish, name: &str) -> Option<u64> {
        let (number, _hash) = name.strip_prefix(&wish.name.0)?.strip_suffix(&self.name_end(wish))?.split_once('#')?;
        number.parse().ok().filter(|number| wish.store.generation.is_none_or(|typed| typed == *number))
    }

    /// The name of a transform behind the generation.
    fn name_end(&self, wish: &Wish) -> String {
        let missing = said("missing", &Missing::ALL, self.enrich_missing);
        let existing = said("existing", &Existing::ALL, self.enrich_existing);
        format!("{}{missing}{existing}", wish.name.1)
    }

    fn transform(&self, wish: &Wish, generation: Option<u64>) -> Result<Arc<dyn Transform>, Failure> {
        let generation = Generation::open(&wish.store.path, generation)?;
        let store = &wish.store;
        let Some(receipt) = generation.receipt() else {
            return Err(Failure::user(format!("another program wrote {store}"))
                .hint("build a store of it: millstream ranges export, then millstream ranges build"));
        };
        let index = Index::read(&generation, wish.pick.as_ref())?;
        let longest = index.value_bytes_max();
        if longest > ANNOTATION_BYTES_MAX {
            return Err(Failure::user(format!(
                "a value of {store} has {longest} bytes, and at most {ANNOTATION_BYTES_MAX} can be added to a document"
            ))
            .hint("choose members with pick"));
        }
        if let Some(problem) = index.jsonb_problem() {
            return Err(Failure::user(format!("a value of {store} cannot be added to a document: {problem}"))
                .hint(format!(
                    "`millstream ranges verify {}` names the ranges; choose other members with pick, or build the store \
                     again",
                    shell_word(store)
                )));
        }
        // The hash tells a store that was made anew under the same name.
        let hash: String = receipt.xxh3.chars().take(NAME_HASH_DIGITS).collect();
        let name = format!("{}{}#{hash}{}", wish.name.0, receipt.generation, self.name_end(wish));
        let lookup = Arc::new(Ranges { index, which: wish.which });
        let (missing, existing) = (self.enrich_missing, self.enrich_existing);
        let transform = Annotate::new(name, wish.from.clone(), wish.into.clone(), missing, existing, lookup);
        Ok(Arc::new(transform.map_err(Failure::user)?))
    }
}

/// What the name of a transform says about a choice: nothing if it is the default.
fn said<T: Default + PartialEq>(what: &str, all: &[(T, &str, &str)], chosen: T) -> String {
    let name = all.iter().find(|(one, ..)| *one == chosen).map_or("", |(_, name, _)| name);
    if chosen == T::default() { String::new() } else { format!(", {what} {name}") }
}

/// What ranges know about the addresses of a text.
#[derive(Debug)]
struct Ranges {
    index: Index,
    which: Which,
}

impl Lookup for Ranges {
    fn get(&self, texts: &[Option<Cow<'_, str>>], json: &mut String) -> Vec<Answer> {
        if self.which == Which::All {
            return texts
                .iter()
                .map(|text| text.as_ref().map_or(Answer::Unusable, |text| self.all(text, json)))
                .collect();
        }
        let asked: Vec<Option<IpAddr>> = texts.iter().map(|text| self.one(text.as_ref()?)).collect();
        let known = self.index.get_all(&asked, json);
        let answers = asked.iter().zip(known).map(|(asked, known)| match (asked, known) {
            (None, _) => Answer::Unusable,
            (Some(_), None) => Answer::Missing,
            (Some(_), Some(place)) => Answer::Found(place),
        });
        answers.collect()
    }
}

impl Ranges {
    /// The address of a list that is meant.
    fn one(&self, text: &str) -> Option<IpAddr> {
        let mut listed = addresses(text);
        let address = match self.which {
            Which::First => listed.next(),
            Which::Last => listed.next_back(),
            Which::Only | Which::All => listed.next().filter(|_| listed.next().is_none()),
        };
        address.flatten()
    }

    /// An array with one element for each entry of the list, null where nothing is known.
    fn all(&self, text: &str, json: &mut String) -> Answer {
        let begin = json.len();
        let (mut usable, mut found) = (false, false);
        for (n, address) in addresses(text).enumerate() {
            json.push(if n == 0 { '[' } else { ',' });
            usable |= address.is_some();
            let value = address.and_then(|address| self.index.get(address));
            found |= value.is_some();
            json.push_str(value.unwrap_or("null"));
            if json.len() - begin > ANNOTATION_BYTES_MAX {
                json.truncate(begin);
                return Answer::TooLong;
            }
        }
        json.push(']');
        match (found, usable) {
            (true, _) => Answer::Found(begin..json.len()),
            (false, true) => Answer::Missing,
            (false, false) => Answer::Unusable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn an_enrichment_is_read() {
        let wish = Wish::parse("last of headers.xff from a b/geo.store@7 pick country, asn.org as org as client.geo");
        let wish = wish.unwrap();
        assert_eq!((wish.which, wish.store.generation), (Which::Last, Some(7)));
        assert_eq!(wish.from, ["headers", "xff"]);
        assert_eq!(wish.store.path, Path::new("a b/geo.store"));
        assert_eq!(wish.pick, Some(Pick::parse("country, asn.org as org").unwrap()));
        assert_eq!(wish.into, ["client", "geo"]);
        let plain = Wish::parse("ip from geo as geo").unwrap();
        assert_eq!((plain.which, plain.store.generation, plain.pick.is_none()), (Which::Only, None, true));
        let quoted = Wish::parse("\"from\".ip from \"one as two\" pick \"first name\" as n as \"the place\"").unwrap();
        assert_eq!((quoted.from, quoted.into), (vec!["from".into(), "ip".into()], vec!["the place".to_owned()]));
        assert_eq!(quoted.store.path, Path::new("one as two"));
        assert_eq!(quoted.pick, Some(Pick::parse("\"first name\" as n").unwrap()));
    }

    #[test]
    fn a_wrong_enrichment_is_pointed_at() {
        for (text, problem) in [
            ("", "it ends where PATH"),
            ("ip", "it ends where `from`"),
            ("ip form geo as geo", "found `form` (word 2) where `from`"),
            ("client ip from geo as geo", "found `ip` (word 2) where `from`"),
            ("first off ip from geo as geo", "found `off` (word 2) where `from`"),
            ("last of from geo as geo", "found `from` (word 3) where PATH"),
            ("ip from geo", "it ends where `as`"),
            ("ip as geo", "found `as` (word 2) where `from`"),
            ("ip from as geo", "found `as` (word 3) where STORE"),
            ("ip from st as geo pick cc", "found `pick` (word 6) where nothing more"),
            ("ip from st as the geo", "found `geo` (word 6) where nothing more"),
            ("ip from st pick as geo", "found `as` (word 5) where MEMBERS"),
            ("ip from st pick cc", "it ends where `as`"),
            ("ip from st pick cc geo as geo", "found \"geo\" in \"cc geo\""),
            ("ip from geo pick a, as geo", "\"\" is not PATH or PATH as NAME"),
            ("ip:text from geo as geo", "\"ip:text\" is not one path"),
            ("ip from geo as c=geo", "\"c=geo\" is not one path"),
            ("c=ip from geo as geo", "\"c=ip\" is not one path"),
        ] {
            let error = Wish::parse(text).map(drop).unwrap_err();
            assert!(error.starts_with(problem), "{text}: {error}");
        }
    }

    #[test]
    fn a_member_in_the_place_of_the_key_is_refused() {
        let wish = Wish::parse("ip from no-such-store as geo.place").unwrap();
        let args = EnrichArgs { enrich: vec![wish], enrich_missing: Missing::Keep, enrich_existing: Existing::Replace };
        for (key, is_refused) in [("geo.place", true), ("id,g=geo", true), ("geo.place.cc", false), ("geo.id", false)] {
            let failure = args.transforms(&KeyRequest::parse_list(key).unwrap()).unwrap_err().to_string();
            assert_eq!(failure.contains("where the key column"), is_refused, "{key}: {failure}");
        }
    }
}
