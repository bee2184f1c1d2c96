//! Which members of a range's value are wanted, and under which names.

use crate::value::{braced, member, object};
use millstream_model::{KeyRequest, path_text};
use millstream_pg::unquoted;

/// Some members of a value, as in `country, asn.org as org`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pick {
    members: Vec<Picked>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Picked {
    path: Vec<String>,
    name: String,
}

impl Pick {
    /// Reads `PATH [as NAME], ..`. Without a name, the last segment of the path is the name. A space or a comma in a path
    /// or a name needs double quotes around it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut members: Vec<Picked> = Vec::new();
        for item in outside_quotes(text, |c| c == ',') {
            let words: Vec<&str> = words(item).into_iter().map(|(_, word)| word).collect();
            let (path, name) = match words[..] {
                [path] => (path, None),
                [path, "as", name] => (path, Some(name)),
                [_, "as", _, more, ..] | [_, more, ..] if more != "as" => {
                    return Err(format!("found {more:?} in {:?}, which is PATH or PATH as NAME", item.trim()));
                }
                _ => return Err(format!("{:?} is not PATH or PATH as NAME", item.trim())),
            };
            let name = name.map(unquoted);
            let path = match KeyRequest::parse_paths(path) {
                Ok(mut paths) if paths.len() == 1 && paths[0].is_path() => paths.remove(0).path,
                _ => return Err(format!("{:?} is not PATH or PATH as NAME", item.trim())),
            };
            let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
            if members.iter().any(|other| other.name == name) {
                return Err(format!("two members would be named {name}; give one another name with \"as\""));
            }
            members.push(Picked { path, name });
        }
        Ok(Self { members })
    }

    /// A JSON object with the picked members, from members as a store keeps them: JSON without the braces. Members that
    /// are not there are left out; `None` if none is there. Notes in `seen` which were there, by their place in the pick.
    ///
    /// # Errors
    /// The members are not JSON.
    pub(crate) fn object(&self, members: &str, seen: &mut [bool]) -> Result<Option<String>, String> {
        let text = braced(members);
        let mut found = Vec::new();
        for (Picked { path, name }, seen) in self.members.iter().zip(seen) {
            if let Some(value) = value_at(&text, path)? {
                *seen = true;
                found.push(member(name, value));
            }
        }
        Ok((!found.is_empty()).then(|| braced(&found.join(","))))
    }

    /// How many members are picked.
    pub(crate) fn count(&self) -> usize {
        self.members.len()
    }

    /// The paths of the picked members that were never there, as they are typed.
    pub(crate) fn unseen(&self, seen: &[bool]) -> Vec<String> {
        let unseen = self.members.iter().zip(seen).filter(|(_, seen)| !**seen);
        unseen.map(|(picked, _)| path_text(&picked.path)).collect()
    }
}

/// The words of a text, with their places. White space in double quotes separates none.
pub fn words(text: &str) -> Vec<(usize, &str)> {
    let words = outside_quotes(text, char::is_whitespace).into_iter().filter(|word| !word.is_empty());
    // Each word is a part of the text.
    words.map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word)).collect()
}

/// The parts of a text between these characters, unless they are in double quotes.
fn outside_quotes(text: &str, separates: impl Fn(char) -> bool) -> Vec<&str> {
    let mut quoted = false;
    text.split(|c| {
        quoted ^= c == '"';
        !quoted && separates(c)
    })
    .collect()
}

/// The value at a path of a JSON object, as it is written.
fn value_at<'t>(text: &'t str, path: &[String]) -> Result<Option<&'t str>, String> {
    let mut value = text;
    for segment in path {
        if !value.trim_start().starts_with('{') {
            return Ok(None);
        }
        // Of several members of one name, the last counts, as in jsonb.
        let Some((_, inner)) = object(value)?.into_iter().rfind(|(name, _)| name == segment) else { return Ok(None) };
        value = inner.get();
    }
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picked_members_keep_their_spelling() {
        let members = r#""country":"AU","asn":{"org":"Caf\u00e9","no":1.50},"end":7,"x":[1, 2]"#;
        for (pick, object) in [
            ("country", r#"{"country":"AU"}"#),
            ("asn.org as org, country as \"c, \"\"c\"", r#"{"org":"Caf\u00e9","c, \"c":"AU"}"#),
            ("asn.no,x , none, country.none as nothing", r#"{"no":1.50,"x":[1, 2]}"#),
            ("none", "{}"),
        ] {
            let pick = Pick::parse(pick).unwrap();
            let mut seen = vec![false; pick.count()];
            let found = pick.object(members, &mut seen).unwrap();
            assert_eq!(found.as_deref(), (object != "{}").then_some(object), "{pick:?}");
            assert_eq!(pick.unseen(&seen).is_empty(), !format!("{pick:?}").contains("none"));
        }
    }

    #[test]
    fn a_bad_pick_is_explained() {
        for (pick, problem) in [
            ("", "\"\" is not PATH or PATH as NAME"),
            ("a,", "\"\" is not PATH or PATH as NAME"),
            ("b=a", "\"b=a\" is not PATH or PATH as NAME"),
            ("a:text", "\"a:text\" is not PATH or PATH as NAME"),
            ("a.", "\"a.\" is not PATH or PATH as NAME"),
            ("a b", "found \"b\" in \"a b\", which is PATH or PATH as NAME"),
            ("x, a as b c", "found \"c\" in \"a as b c\", which is PATH or PATH as NAME"),
            ("a as", "\"a as\" is not PATH or PATH as NAME"),
            ("a.x, b.x", "two members would be named x; give one another name with \"as\""),
        ] {
            assert_eq!(Pick::parse(pick), Err(problem.into()), "{pick}");
        }
    }
}
