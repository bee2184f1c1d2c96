//! Templates of SQL: texts of ours with places for names, conditions and numbers.

use std::fmt::Display;

/// Fills a template. A place is a name in braces, as in `select {key} from {table}`. The values are written as they
/// are, so quote names and literals before. The template is read once: braces in a value stay as they are. If a value
/// holds a dollar quote of the template, such as `$body$`, the template gets another one.
///
/// The template is a constant. The build fails if a place has no value, or a value no place.
///
/// ```
/// let table = millstream_pg::quote_identifier("{key}");
/// let sql = millstream_pg::fill!("select {key} from {table} limit {rows}", table, key = "id", rows = 3);
/// assert_eq!(sql, r#"select id from "{key}" limit 3"#);
/// ```
///
/// ```compile_fail
/// millstream_pg::fill!("select {key} from {table}", key = "id");
/// ```
///
/// ```compile_fail
/// millstream_pg::fill!("select {key}", key = "id", table = "t");
/// ```
#[macro_export]
macro_rules! fill {
    ($template:expr, $($name:ident $(= $value:expr)?),+ $(,)?) => {{
        const TEMPLATE: &str = $template;
        const NAMES: &[&str] = &[$(stringify!($name)),+];
        const { $crate::template::check(TEMPLATE, NAMES) };
        $crate::template::filled(TEMPLATE, NAMES, &[$($crate::fill!(@value $name $(= $value)?)),+])
    }};
    (@value $name:ident) => { &$name };
    (@value $name:ident = $value:expr) => { &$value };
}

/// Fails if the places of a template are not those of `names`. [`fill!`] calls it when it is built.
///
/// # Panics
/// If a place has no name, or a name no place.
pub const fn check(template: &str, names: &[&str]) {
    let (text, mut seen, mut at) = (template.as_bytes(), 0u64, 0);
    while let Some((begin, end)) = place(text, at) {
        let mut n = 0;
        while n < names.len() && !equal(text, begin, end, names[n].as_bytes()) {
            n += 1;
        }
        assert!(n < names.len(), "a place of the template has no value");
        seen |= 1 << n;
        at = end;
    }
    assert!(seen.count_ones() as usize == names.len(), "a value has no place in the template, or comes twice");
}

/// The filled template. The value of a name is at the same index as the name.
///
/// # Panics
/// If a place has no name.
pub fn filled(template: &'static str, names: &[&str], values: &[&dyn Display]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    let more = more_of_tags(template, &values);
    let (mut filled, mut at) = (String::with_capacity(2 * template.len()), 0);
    while let Some((begin, end)) = place(template.as_bytes(), at) {
        let name = &template[begin..end];
        let value = names.iter().position(|known| *known == name).map(|n| &values[n]);
        let value = value.unwrap_or_else(|| panic!("the template has a value for {name}: {template}"));
        push(&mut filled, &template[at..begin - 1], &more);
        filled.push_str(value);
        at = end + 1;
    }
    push(&mut filled, &template[at..], &more);
    filled
}

/// What makes the tags of the template's dollar quotes differ from everything in the values.
fn more_of_tags(template: &str, values: &[String]) -> String {
    let mut more = String::new();
    if values.iter().any(|value| value.contains('$')) {
        let tags: Vec<&str> = tags(template).map(|(begin, end)| &template[begin..end]).collect();
        let is_in = |tag: &str| values.iter().any(|value| value.contains(tag));
        while tags.iter().any(|tag| is_in(&format!("${tag}{more}$"))) {
            more.push('_');
        }
    }
    more
}

/// Appends a piece of a template, with more in each tag of a dollar quote.
fn push(filled: &mut String, piece: &str, more: &str) {
    let mut at = 0;
    if !more.is_empty() {
        for (_, end) in tags(piece) {
            filled.push_str(&piece[at..end]);
            filled.push_str(more);
            at = end;
        }
    }
    filled.push_str(&piece[at..]);
}

/// Where the tags of dollar quotes begin and end, without their dollar signs.
fn tags(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let begin = at + 1;
            let named =
                |n: usize| bytes[n] == b'_' || bytes[n].is_ascii_alphabetic() || n > begin && bytes[n].is_ascii_digit();
            let end = (begin..bytes.len()).find(|&n| !named(n)).unwrap_or(bytes.len());
            if bytes[at] == b'$' && bytes.get(end) == Some(&b'$') {
                at = end + 1;
                return Some((begin, end));
            }
            at = begin;
        }
        None
    })
}

/// The next name in braces from `at` on: where it begins and ends. Other braces, as in `'{}'`, are part of the text.
const fn place(text: &[u8], mut at: usize) -> Option<(usize, usize)> {
    while at < text.len() {
        let begin = at + 1;
        if text[at] == b'{' {
            let mut end = begin;
            while end < text.len()
                && (text[end].is_ascii_lowercase() || text[end].is_ascii_digit() || text[end] == b'_')
            {
                end += 1;
            }
            if end > begin && end < text.len() && text[end] == b'}' {
                return Some((begin, end));
            }
        }
        at = begin;
    }
    None
}

const fn equal(text: &[u8], begin: usize, end: usize, name: &[u8]) -> bool {
    let mut n = 0;
    while n < name.len() && begin + n < end && text[begin + n] == name[n] {
        n += 1;
    }
    n == name.len() && begin + n == end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quote_identifier;

    #[test]
    fn a_value_is_never_read_as_a_template() {
        let table = quote_identifier("{key} {table}");
        let key = quote_identifier("{table}");
        assert_eq!(
            crate::fill!("{key} from {table}, {key}", table, key),
            r#""{table}" from "{key} {table}", "{table}""#
        );
    }

    #[test]
    fn only_names_in_braces_are_places() {
        let sql = crate::fill!("'{}' {a, b} {A} ${n} {", n = 1);
        assert_eq!(sql, "'{}' {a, b} {A} $1 {");
    }

    #[test]
    fn a_value_never_ends_a_dollar_quote() {
        let filled = |body: &str| crate::fill!("do $body$ $x$ {body} $x$ $1 $body$ '%1$I' $2", body);
        assert_eq!(filled("a$b"), "do $body$ $x$ a$b $x$ $1 $body$ '%1$I' $2");
        assert_eq!(filled("$x$"), "do $body_$ $x_$ $x$ $x_$ $1 $body_$ '%1$I' $2");
        assert_eq!(filled("$x$body_$"), "do $body__$ $x__$ $x$body_$ $x__$ $1 $body__$ '%1$I' $2");
        assert_eq!(crate::fill!("$${name}$$", name = "$$ $_$"), "$__$$$ $_$$__$");
    }

    #[test]
    #[should_panic(expected = "a place of the template has no value")]
    fn a_place_without_value_is_found() {
        check("{key} {table}", &["key"]);
    }

    #[test]
    #[should_panic(expected = "a value has no place")]
    fn a_value_without_place_is_found() {
        check("{key}", &["key", "keys"]);
    }
}
