//! JSON objects taken apart: the range in one or two members, the others as they are written.

use super::InputOptions;
use super::columns::{Columns, RangeColumns, check_range};
use super::members::{IS_RESERVED, RESERVED, fitting, is_kept, put, unseen};
use super::repeated::repeated;
use crate::error::Error;
use crate::value;
use millstream_model::range::{AddressReading, Range};
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// Takes objects apart.
#[derive(Debug)]
pub(super) struct Objects {
    /// Name of the input, for messages.
    source: String,
    /// Names of the one or two members that hold the range. Empty until an object decides, unless the user named them.
    range: Vec<String>,
    keep: Vec<String>,
    /// Which of the members to keep were there.
    seen: Vec<bool>,
    reading: AddressReading,
    /// Objects that may still leave open which members hold the range.
    undecided_left: usize,
    /// Why the first of them left it open.
    undecided: Option<Error>,
}

impl Objects {
    /// For an input with a name, of whose first objects so many may leave open which members hold the range.
    ///
    /// # Errors
    /// An option is of no use.
    pub(super) fn new(source: &str, options: &InputOptions, undecided_max: usize) -> Result<Self, Error> {
        check_range(&options.range)?;
        if options.keep.iter().any(|name| name == RESERVED) {
            let hint = "leave it out of --keep; the range brings it";
            return Err(Error::refused(format!("{source}: {IS_RESERVED}"), hint));
        }
        Ok(Self {
            source: source.to_owned(),
            range: options.range.clone(),
            keep: options.keep.clone(),
            seen: vec![false; options.keep.len()],
            reading: options.reading,
            undecided_left: undecided_max,
            undecided: None,
        })
    }

    /// The range of an object, or what is wrong with it. Its other members are appended to `members`.
    ///
    /// # Errors
    /// Too many objects have no member whose name is usual for a range, or several.
    pub(super) fn range(&mut self, object: &[u8], members: &mut String) -> Result<Result<Range, String>, Error> {
        let Ok(object) = std::str::from_utf8(object) else { return Ok(Err("it is not UTF-8".into())) };
        if self.range.is_empty()
            && let Ok(first) = value::object(object)
        {
            let names = first.into_iter().map(|(name, _)| name).collect();
            let columns = Columns { source: self.source.clone(), kind: "member", names };
            let place = match columns.place(&[]) {
                Ok(RangeColumns::One(one)) => vec![one],
                Ok(RangeColumns::Two(first, last)) => vec![first, last],
                Err(error) => {
                    // The reject names the input already.
                    let reason = error.to_string().replacen(&format!("{}: ", self.source), "", 1);
                    let first = self.undecided.take().unwrap_or(error);
                    if self.undecided_left == 0 {
                        return Err(first);
                    }
                    self.undecided_left -= 1;
                    self.undecided = Some(first);
                    return Ok(Err(reason));
                }
            };
            self.range = place.into_iter().map(|member| columns.names[member].clone()).collect();
        }
        let range = self.take_apart(object, members);
        Ok(range.and_then(|range| fitting(range, members)))
    }

    /// Ends the input.
    ///
    /// # Errors
    /// Objects were there, and none decided which members hold the range.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        self.undecided.take().filter(|_| self.range.is_empty()).map_or(Ok(()), Err)
    }

    /// Members to keep that no object had.
    pub(super) fn unseen(&self) -> Vec<String> {
        unseen(&self.keep, &self.seen)
    }

    fn take_apart(&mut self, object: &str, members: &mut String) -> Result<Range, String> {
        let mut json = serde_json::Deserializer::from_str(object);
        let visitor = Members { range: &self.range, keep: &self.keep, seen: &mut self.seen, members };
        let taken = serde::Deserializer::deserialize_map(&mut json, visitor);
        let taken = taken.and_then(|taken| json.end().map(|()| taken));
        let taken = taken.map_err(|error| {
            // The reject has the line's number already.
            format!("it is not a JSON object: {}", error.to_string().replace(" at line 1 column ", " at byte "))
        })?;
        let [first, last] = taken?;
        match self.range.as_slice() {
            [name] => Range::parse(&address(name, first)?, self.reading),
            [name, last_name] => Range::parse_pair(&address(name, first)?, &address(last_name, last)?, self.reading),
            _ => Err("the names of its members cannot be read".into()),
        }
    }
}

/// The text of a member that holds an address: a string, or a number.
fn address<'a>(name: &str, json: Option<&'a str>) -> Result<Cow<'a, str>, String> {
    let json = json.ok_or_else(|| format!("the member {name:?} is missing"))?;
    match json.as_bytes() {
        [b'"', ..] => Ok(unquoted(json)),
        [b'0'..=b'9', ..] => Ok(Cow::Borrowed(json)),
        _ => Err(format!("the member {name:?} is neither a string nor a number")),
    }
}

/// What a JSON string stands for; the JSON itself if it stands for nothing, as with half of a surrogate pair.
fn unquoted(json: &str) -> Cow<'_, str> {
    if json.contains('\\') {
        return serde_json::from_str(json).map_or(Cow::Borrowed(json), Cow::Owned);
    }
    Cow::Borrowed(json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(json))
}

/// Appends the members that are kept, and returns those that hold the range.
struct Members<'a> {
    range: &'a [String],
    keep: &'a [String],
    seen: &'a mut [bool],
    members: &'a mut String,
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Result<[Option<&'de str>; 2], String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut range: [Option<&'de str>; 2] = [None; 2];
        let (mut names, mut problem) = (HashSet::new(), None);
        let is_twice = |name: &str| format!("the member {name:?} is there twice");
        while let Some((key, value)) = map.next_entry::<&'de RawValue, &'de RawValue>()? {
            let name = unquoted(key.get());
            let place = self.range.iter().position(|known| *known == *name);
            if let Some(place) = place
                && range[place].replace(value.get()).is_some()
            {
                problem = Some(is_twice(&name));
            }
            if !is_kept(self.keep, &name, self.seen).unwrap_or(place.is_none()) {
                continue;
            }
            if name == RESERVED {
                problem = Some(IS_RESERVED.to_owned());
            }
            // Readers of the store would not agree on which of the two counts.
            if let Some(within) = repeated(value.get()) {
                problem = Some(is_twice(&within));
            }
            put(key.get(), value.get(), self.members);
            if names.contains(&name) {
                problem = Some(is_twice(&name));
            } else {
                names.insert(name);
            }
        }
        Ok(problem.map_or(Ok(range), Err))
    }
}
