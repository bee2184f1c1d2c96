//! SQL as the server prints it, split into tokens: enough to compare, split and replace, but not a parser.

use millstream_pg::unquoted;
use std::ops::Range;

/// A piece of SQL and its tokens.
#[derive(Debug, Clone)]
pub(super) struct Sql {
    text: String,
    tokens: Vec<Token>,
}

#[derive(Debug, Clone)]
struct Token {
    kind: PieceKind,
    span: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PieceKind {
    /// A name, a key word or a number.
    Word,
    /// A name in quotes.
    Quoted,
    /// A string literal.
    Literal,
    /// `$1`
    Parameter,
    Operator,
    /// `::`
    Cast,
    /// A bracket, a comma, a dot, a semicolon, ..
    Mark,
}

/// Words that continue the name of a type.
const TYPE_WORDS: &[&str] = &["precision", "varying", "with", "without", "time", "zone"];

const OPERATOR_CHARS: &str = "+-*/<>=~!@#%^&|`?";

impl Sql {
    pub(super) fn new(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(first) = text[at..].chars().next() {
            let (kind, len) = token(&text[at..], first);
            if let Some(kind) = kind {
                tokens.push(Token { kind, span: at..at + len });
            }
            at += len;
        }
        Self { text: text.to_owned(), tokens }
    }

    pub(super) fn text(&self) -> &str {
        self.text.trim()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The texts of its tokens.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &str> {
        (0..self.tokens.len()).map(|n| self.piece(n))
    }

    fn piece(&self, n: usize) -> &str {
        self.tokens.get(n).map_or("", |token| &self.text[token.span.clone()])
    }

    fn kind(&self, n: usize) -> Option<PieceKind> {
        self.tokens.get(n).map(|token| token.kind)
    }

    /// The tokens of a range, with the spaces between them.
    fn slice(&self, range: Range<usize>) -> Self {
        let span = match (self.tokens.get(range.start), self.tokens.get(range.end.wrapping_sub(1))) {
            (Some(first), Some(last)) if range.start < range.end => first.span.start..last.span.end,
            _ => 0..0,
        };
        Self::new(&self.text[span])
    }

    /// The same without brackets around the whole.
    pub(super) fn bare(&self) -> Self {
        let mut range = 0..self.tokens.len();
        while range.len() >= 2 && self.piece(range.start) == "(" && self.closing(range.start) == Some(range.end - 1) {
            range = range.start + 1..range.end - 1;
        }
        self.slice(range)
    }

    /// The bracket that closes the one at `open`.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for n in open..self.tokens.len() {
            match self.piece(n) {
                "(" | "[" => depth += 1,
                ")" | "]" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return Some(n);
            }
        }
        None
    }

    /// Places of the tokens outside of all brackets.
    fn outer(&self) -> Vec<usize> {
        let mut places = Vec::new();
        let mut n = 0;
        while n < self.tokens.len() {
            match self.piece(n) {
                "(" | "[" => n = self.closing(n).unwrap_or(n),
                _ => places.push(n),
            }
            n += 1;
        }
        places
    }

    /// The parts between a key word, without brackets around the whole and around each part.
    pub(super) fn split(&self, word: &str) -> Vec<Self> {
        let whole = self.bare();
        let parts = whole.parts(|n| whole.kind(n) == Some(PieceKind::Word) && whole.piece(n) == word);
        parts.iter().map(Self::bare).collect()
    }

    /// The text from a key word on.
    pub(super) fn since_word(&self, word: &str) -> Option<String> {
        let place = (0..self.tokens.len()).find(|&n| self.kind(n) == Some(PieceKind::Word) && self.piece(n) == word)?;
        Some(self.slice(place..self.tokens.len()).text)
    }

    /// Left side, operator and right side, if exactly one operator is outside of all brackets.
    pub(super) fn comparison(&self) -> Option<(Self, String, Self)> {
        let whole = self.bare();
        let is_operator = |n: &usize| {
            whole.kind(*n) == Some(PieceKind::Operator)
                || (whole.kind(*n) == Some(PieceKind::Word) && whole.piece(*n) == "IS")
        };
        let found: Vec<usize> = whole.outer().into_iter().filter(is_operator).collect();
        let [n] = found[..] else { return None };
        let (left, right) = (whole.slice(0..n).bare(), whole.slice(n + 1..whole.tokens.len()).bare());
        (n > 0 && !right.is_empty()).then(|| (left, whole.piece(n).to_owned(), right))
    }

    /// Whether an operator is outside of all brackets. Then it needs brackets to become the side of another operator.
    pub(super) fn has_operator(&self) -> bool {
        self.outer().into_iter().any(|n| self.kind(n) == Some(PieceKind::Operator))
    }

    /// As one side of an operator.
    pub(super) fn as_operand(&self) -> String {
        if self.has_operator() { format!("({})", self.text()) } else { self.text().to_owned() }
    }

    /// What its outermost cast casts, and to which type. `None` if the whole is not a cast.
    pub(super) fn without_last_cast(&self) -> Option<(Self, String)> {
        let whole = self.bare();
        let n = whole.outer().into_iter().rfind(|&n| whole.kind(n) == Some(PieceKind::Cast))?;
        let end = whole.tokens.len();
        let is_whole = n > 0 && n + 1 + whole.type_len(n + 1) == end && whole.comparison().is_none();
        (is_whole && !whole.has_operator())
            .then(|| (whole.slice(0..n).bare(), whole.slice(n + 1..end).text().to_owned()))
    }

    /// The collation of its `COLLATE` clause, as SQL.
    pub(super) fn collation(&self) -> Option<String> {
        let n = self.pieces().position(|piece| piece == "COLLATE")? + 1;
        let len = if self.piece(n + 1) == "." { 3 } else { 1 };
        Some(self.slice(n..n + len).text)
    }

    /// Whether the tokens are the same, apart from brackets around the whole.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.bare().pieces().eq(other.bare().pieces())
    }

    /// Whether the tokens are the same, apart from casts and brackets.
    pub(super) fn same_uncast(&self, other: &Self) -> bool {
        let core = |sql: &Self| {
            let uncast = sql.without_casts();
            uncast.pieces().filter(|piece| !matches!(*piece, "(" | ")")).map(str::to_owned).collect::<Vec<_>>()
        };
        core(self) == core(other)
    }

    /// Where the tokens of `part` are in this. A single name does not match the name of a function.
    fn find(&self, part: &Self) -> Option<Range<usize>> {
        let part: Vec<&str> = part.pieces().collect();
        let pieces: Vec<&str> = self.pieces().collect();
        let found = (0..=pieces.len().checked_sub(part.len())?)
            .find(|&n| pieces[n..n + part.len()] == part[..] && (part.len() > 1 || pieces.get(n + 1) != Some(&"(")))?;
        (!part.is_empty()).then_some(found..found + part.len())
    }

    pub(super) fn contains(&self, part: &Self) -> bool {
        self.find(&part.bare()).is_some()
    }

    /// The same with `by` in place of `part`.
    pub(super) fn replaced(&self, part: &Self, by: &str) -> Option<Self> {
        let range = self.find(&part.bare())?;
        let (first, last) = (self.tokens.get(range.start)?, self.tokens.get(range.end - 1)?);
        let (before, after) = (&self.text[..first.span.start], &self.text[last.span.end..]);
        Some(Self::new(&format!("{before}{by}{after}")))
    }

    /// The names in it, unquoted, including those of functions, types and key words.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        (0..self.tokens.len()).filter_map(|n| match self.kind(n)? {
            PieceKind::Word => Some(self.piece(n).to_owned()),
            PieceKind::Quoted => Some(unquoted(self.piece(n))),
            _ => None,
        })
    }

    /// Replaces each `a.b` for which `change` returns a text.
    pub(super) fn map_qualified(&self, mut change: impl FnMut(&str, &str) -> Option<String>) -> Self {
        let is_name = |n: usize| matches!(self.kind(n), Some(PieceKind::Word | PieceKind::Quoted));
        self.edited(|n| {
            let qualified = is_name(n) && self.piece(n + 1) == "." && is_name(n + 2) && self.piece(n + 3) != "(";
            let first = n == 0 || self.piece(n - 1) != ".";
            if !(qualified && first && self.kind(n.wrapping_sub(1)) != Some(PieceKind::Cast)) {
                return None;
            }
            change(&unquoted(self.piece(n)), self.piece(n + 2)).map(|text| (3, text))
        })
    }

    /// Replaces each parameter by what `change` returns for its number.
    pub(super) fn map_parameters(&self, mut change: impl FnMut(usize) -> String) -> Self {
        self.edited(|n| {
            let number = self.piece(n).strip_prefix('$').filter(|_| self.kind(n) == Some(PieceKind::Parameter))?;
            Some((1, change(number.parse().ok()?)))
        })
    }

    /// Replaces each `(InitPlan 1).col1` (since PostgreSQL 17) by what `change` returns.
    pub(super) fn map_subqueries(&self, mut change: impl FnMut(&str) -> String) -> Self {
        self.edited(|n| {
            let found = self.piece(n) == "(" && self.piece(n + 1) == "InitPlan" && self.piece(n + 3) == ")";
            let len = if self.piece(n + 4) == "." { 6 } else { 4 };
            found.then(|| (len, change(self.slice(n..n + len).text())))
        })
    }

    pub(super) fn without_casts(&self) -> Self {
        self.edited(|n| (self.kind(n) == Some(PieceKind::Cast)).then(|| (1 + self.type_len(n + 1), String::new())))
    }

    /// As a person would write it: without doubled brackets, and without `::text` after a literal.
    pub(super) fn tidy(&self) -> Self {
        let closings: Vec<usize> = (0..self.tokens.len())
            .filter(|&n| self.piece(n) == "(" && self.piece(n + 1) == "(")
            .filter_map(|n| self.closing(n + 1).filter(|end| self.closing(n) == Some(end + 1)))
            .collect();
        let is_inner = |n: usize| n > 0 && self.piece(n) == "(" && self.piece(n - 1) == "(";
        self.edited(|n| {
            let doubled =
                closings.contains(&n) || (is_inner(n) && self.closing(n).is_some_and(|end| closings.contains(&end)));
            if doubled {
                return Some((1, String::new()));
            }
            let cast = self.kind(n) == Some(PieceKind::Cast) && self.piece(n + 1) == "text" && self.piece(n + 2) != "[";
            (cast && n > 0 && self.kind(n - 1) == Some(PieceKind::Literal)).then(|| (2, String::new()))
        })
    }

    /// The same without `COLLATE x`.
    pub(super) fn without_collation(&self) -> Self {
        self.edited(|n| {
            let named = self.kind(n) == Some(PieceKind::Word) && self.piece(n).eq_ignore_ascii_case("collate");
            named.then(|| (if self.piece(n + 2) == "." { 4 } else { 2 }, String::new()))
        })
        .bare()
    }

    /// Whether it is `name(..)` and nothing else.
    pub(super) fn is_one_call(&self) -> bool {
        self.kind(0) == Some(PieceKind::Word) && self.piece(1) == "(" && self.closing(1) == Some(self.tokens.len() - 1)
    }

    /// As a key of an index: in brackets, unless it is a column or a call of a function.
    pub(super) fn as_key(&self) -> String {
        let sql = self.bare().tidy();
        let text = sql.text();
        if sql.pieces().count() == 1 || sql.is_one_call() { text.to_owned() } else { format!("({text})") }
    }

    /// The parts between commas that are outside of all brackets.
    pub(super) fn listed(&self) -> Vec<Self> {
        self.parts(|n| self.piece(n) == ",")
    }

    /// The parts between the tokens outside of all brackets that end one.
    fn parts(&self, ends: impl Fn(usize) -> bool) -> Vec<Self> {
        let mut parts = Vec::new();
        let mut start = 0;
        for n in self.outer().into_iter().filter(|&n| ends(n)) {
            parts.push(self.slice(start..n));
            start = n + 1;
        }
        parts.push(self.slice(start..self.tokens.len()));
        parts
    }

    /// What stands in its first brackets.
    pub(super) fn bracketed(&self) -> Option<Self> {
        let open = self.pieces().position(|piece| piece == "(")?;
        Some(self.slice(open + 1..self.closing(open)?))
    }

    /// Number of tokens of the type that begins at `start`.
    fn type_len(&self, start: usize) -> usize {
        let mut n = start + 1;
        while self.piece(n) == "." {
            n += 2;
        }
        loop {
            match self.piece(n) {
                "(" | "[" => n = self.closing(n).unwrap_or(n) + 1,
                word if TYPE_WORDS.contains(&word) => n += 1,
                _ => return n - start,
            }
        }
    }

    /// The value of a literal, without its casts.
    pub(super) fn literal(&self) -> Option<String> {
        let uncast = self.without_casts().bare();
        let [Token { kind: PieceKind::Literal, .. }] = uncast.tokens[..] else { return None };
        let text = uncast.text().strip_prefix('\'')?.strip_suffix('\'')?;
        Some(text.replace("''", "'"))
    }

    /// Edits the text: for the token at each place, `edit` says how many tokens to replace and by what.
    fn edited(&self, mut edit: impl FnMut(usize) -> Option<(usize, String)>) -> Self {
        let mut text = String::with_capacity(self.text.len());
        let (mut n, mut copied) = (0, 0);
        while n < self.tokens.len() {
            let Some((len, by)) = edit(n) else {
                n += 1;
                continue;
            };
            let last = (n + len.max(1) - 1).min(self.tokens.len() - 1);
            text.push_str(&self.text[copied..self.tokens[n].span.start]);
            text.push_str(&by);
            copied = self.tokens[last].span.end;
            n = last + 1;
        }
        text.push_str(&self.text[copied..]);
        Self::new(&text)
    }
}

/// Kind and length of the first token. Space and comments have no kind.
fn token(text: &str, first: char) -> (Option<PieceKind>, usize) {
    let run = |wanted: &dyn Fn(char) -> bool| text.find(|c| !wanted(c)).unwrap_or(text.len());
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    match first {
        _ if first.is_whitespace() => (None, first.len_utf8()),
        '\'' => (Some(PieceKind::Literal), quoted_len(text, '\'', false)),
        'E' | 'e' if text[1..].starts_with('\'') => (Some(PieceKind::Literal), 1 + quoted_len(&text[1..], '\'', true)),
        '"' => (Some(PieceKind::Quoted), quoted_len(text, '"', false)),
        '$' if dollar_quoted_len(text).is_some() => (Some(PieceKind::Literal), dollar_quoted_len(text).unwrap_or(1)),
        '$' => {
            (Some(PieceKind::Parameter), 1 + text[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len() - 1))
        }
        _ if text.starts_with("::") => (Some(PieceKind::Cast), 2),
        _ if first.is_ascii_digit() => (Some(PieceKind::Word), run(&|c| is_word(c) || c == '.')),
        _ if is_word(first) => (Some(PieceKind::Word), run(&is_word)),
        _ if text.starts_with("--") => (None, text.find('\n').unwrap_or(text.len())),
        _ if text.starts_with("/*") => (None, comment_len(text)),
        _ if OPERATOR_CHARS.contains(first) => (Some(PieceKind::Operator), run(&|c| OPERATOR_CHARS.contains(c))),
        _ => (Some(PieceKind::Mark), first.len_utf8()),
    }
}

/// Bytes of a quoted text; all bytes if no quote closes it.
fn quoted_len(text: &str, quote: char, escapes: bool) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if escapes && c == '\\' {
            chars.next();
        } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return at + quote.len_utf8();
        }
    }
    text.len()
}

/// Bytes of `$tag$ .. $tag$`; `None` if this is something else.
fn dollar_quoted_len(text: &str) -> Option<usize> {
    let tag_len = text[1..].find('$')? + 2;
    let tag = &text[..tag_len];
    let is_tag = |(n, c): (usize, char)| c == '_' || c.is_alphabetic() || (n > 0 && c.is_alphanumeric());
    if !tag[1..tag_len - 1].chars().enumerate().all(is_tag) {
        return None;
    }
    Some(text[tag_len..].find(tag).map_or(text.len(), |end| tag_len + end + tag_len))
}

/// Bytes of a comment, which may contain other comments.
fn comment_len(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        let step = if rest.starts_with(b"/*") || rest.starts_with(b"*/") { 2 } else { 1 };
        match (rest.starts_with(b"/*"), step) {
            (true, _) => depth += 1,
            (false, 2) => depth -= 1,
            _ => {}
        }
        at += step;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(parts: &[Sql]) -> Vec<&str> {
        parts.iter().map(Sql::text).collect()
    }

    #[test]
    fn conditions_are_split_outside_brackets_and_quotes() {
        let sql = Sql::new("((a = 'x AND y'::text) AND (\"AND\" = 1) AND ((b = 1) OR (c = 2)))");
        assert_eq!(texts(&sql.split("AND")), ["a = 'x AND y'::text", "\"AND\" = 1", "(b = 1) OR (c = 2)"]);
        assert_eq!(texts(&Sql::new("(a)").split("AND")), ["a"]);
        assert_eq!(texts(&Sql::new("(a) + (b)").split("AND")), ["(a) + (b)"]);
    }

    #[test]
    fn a_comparison_has_one_outermost_operator() {
        let sides = |text| Sql::new(text).comparison().map(|(l, op, r)| format!("{} {op} {}", l.text(), r.text()));
        for (text, found) in [
            ("((doc ->> 'p'::text) = 'x'::text)", Some("doc ->> 'p'::text = 'x'::text")),
            ("(((doc ->> 'p'::text))::numeric > '3'::numeric)", Some("((doc ->> 'p'::text))::numeric > '3'::numeric")),
            ("(a IS NOT NULL)", Some("a IS NOT NULL")),
            ("(a = ANY ('{x,y}'::text[]))", Some("a = ANY ('{x,y}'::text[])")),
            ("active", None),
            ("(- 5)", None),
            ("a = b = c", None),
        ] {
            assert_eq!(sides(text).as_deref(), found, "{text}");
        }
    }

    #[test]
    fn casts_are_removed_with_their_types() {
        for (text, bare) in [
            ("('x'::text = a)", "('x' = a)"),
            ("a::double precision > '3'::numeric(10,2)", "a > '3'"),
            ("x::timestamp with time zone", "x"),
            ("x::text[] = y::\"S\".\"T\"", "x = y"),
        ] {
            assert_eq!(Sql::new(text).without_casts().text(), bare);
        }
        assert_eq!(Sql::new("'it''s'::text").literal().as_deref(), Some("it's"));
        assert!(Sql::new("lower('a')").literal().is_none());
        for (text, tidy) in [
            ("lower((doc ->> 'p'::text)) = lower(('A'::text))", "lower(doc ->> 'p') = lower('A')"),
            ("(((a)) = 1) AND ((b) OR (c))", "((a) = 1) AND ((b) OR (c))"),
            ("a = ANY ('{x}'::text[])", "a = ANY ('{x}'::text[])"),
        ] {
            assert_eq!(Sql::new(text).tidy().text(), tidy);
        }
        assert!(Sql::new("((doc ->> 'p'::text))::integer").same_uncast(&Sql::new("(doc ->> 'p'::text)")));
    }

    #[test]
    fn the_outermost_cast_is_taken_off() {
        let cast = |text| Sql::new(text).without_last_cast().map(|(core, name)| format!("{} as {name}", core.text()));
        for (text, found) in [
            ("(at)::date", Some("at as date")),
            ("((n)::bigint)::numeric(10,2)", Some("(n)::bigint as numeric(10,2)")),
            ("(t)::timestamp with time zone", Some("t as timestamp with time zone")),
            ("((doc ->> 'p'::text))::integer", Some("doc ->> 'p'::text as integer")),
            ("(doc ->> 'p'::text)", None),
            ("lower((mac)::text)", None),
            ("n", None),
        ] {
            assert_eq!(cast(text).as_deref(), found, "{text}");
        }
    }

    #[test]
    fn parts_are_found_and_replaced() {
        let lower = Sql::new("lower(mac)");
        assert_eq!(lower.replaced(&Sql::new("mac"), "'A'").unwrap().text(), "lower('A')");
        assert!(!lower.contains(&Sql::new("lower")), "the name of a function is not a column");
        assert!(!Sql::new("'mac'").contains(&Sql::new("mac")));
        assert!(Sql::new("(a)").contains(&Sql::new("a")) && !Sql::new("a").contains(&Sql::new("")));
    }

    #[test]
    fn qualified_names_and_parameters_are_mapped() {
        let sql = Sql::new("((\"O\".mac = t.\"m.c\") AND (f.g(1) > $2) AND (x = 'o.mac'))");
        let own = sql.map_qualified(|left, right| (left == "O").then(|| right.to_owned()));
        assert_eq!(own.text(), "((mac = t.\"m.c\") AND (f.g(1) > $2) AND (x = 'o.mac'))");
        assert_eq!(own.map_parameters(|n| format!("${}", n + 1)).pieces().filter(|p| *p == "$3").count(), 1);
        let later = Sql::new("(a = (InitPlan 1).col1)").map_subqueries(|text| format!("[{text}]"));
        assert_eq!(later.text(), "(a = [(InitPlan 1).col1])");
    }

    #[test]
    fn keys_of_an_index_are_read_and_written() {
        for (text, key) in [("(a)", "a"), ("lower((a))", "lower(a)"), ("((d ->> 'p'::text))", "(d ->> 'p')")] {
            assert_eq!(Sql::new(text).as_key(), key);
        }
        let keys = |text| Sql::new(text).bracketed().map(|keys| keys.text().to_owned());
        let clause = "USING btree (lower(a) DESC, b) INCLUDE (c) WHERE (d > 1)";
        assert_eq!(keys(clause).as_deref(), Some("lower(a) DESC, b"));
        assert_eq!(texts(&Sql::new("f(a, b) DESC, (c), \"d,e\"").listed()), ["f(a, b) DESC", "(c)", "\"d,e\""]);
        assert_eq!((keys("a"), keys("(a")), (None, None));
    }

    #[test]
    fn odd_text_does_not_panic() {
        for text in
            ["", "'", "\"", "E'\\", "/* /*", "--", "$", "$x", "(", ")", "((", "a::", "é'é", "::", "a.", "1.", "e"]
        {
            let sql = Sql::new(text);
            let _ = (sql.bare(), sql.split("AND"), sql.comparison(), sql.without_casts(), sql.literal());
            let _ = (sql.as_key(), sql.bracketed());
            let _ =
                (sql.map_qualified(|_, _| None), sql.map_subqueries(str::to_owned), sql.same_uncast(&sql), sql.tidy());
        }
    }
}
