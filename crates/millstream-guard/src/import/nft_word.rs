//! The words of a text of nft.

use millstream_model::Refusal;

const HINT: &str = "it must be what nft list ruleset prints; a script becomes that in a network of its own: \
                    unshare --map-root-user --net sh -ec 'nft -f FILE; nft list ruleset'";

/// A word, or a sign that stands alone. The end of a line is one, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) is_quoted: bool,
}

/// What stands before the end of a line or a semicolon.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) place: String,
    pub(super) words: Vec<Word>,
    /// Whether the block ends here.
    pub(super) ends_block: bool,
}

/// The words that were not read yet.
#[derive(Debug)]
pub(super) struct Words {
    file: String,
    words: std::vec::IntoIter<Word>,
    line: usize,
}

impl Words {
    /// The words of a text.
    ///
    /// # Errors
    /// A quotation mark has no second one.
    pub(super) fn of(file: &str, text: &str) -> Result<Self, Refusal> {
        let mut words = Vec::new();
        for (line, of_line) in (1..).zip(text.lines()) {
            if !split(of_line, line, &mut words) {
                return Err(Refusal::new(format!("{file}:{line}: a quotation mark has no second one")).hint(HINT));
            }
            words.push(Word { line, text: "\n".to_owned(), is_quoted: false });
        }
        Ok(Self { file: file.to_owned(), words: words.into_iter(), line: 1 })
    }

    pub(super) fn next(&mut self) -> Option<Word> {
        let word = self.words.next()?;
        self.line = word.line;
        Some(word)
    }

    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    /// A refusal of what was read last.
    pub(super) fn refused(&self, problem: &str) -> Refusal {
        Refusal::new(format!("{}: {problem}", self.place())).hint(HINT)
    }

    /// The next word, which must be there.
    pub(super) fn need(&mut self) -> Result<Word, Refusal> {
        self.next().ok_or_else(|| self.refused("the text ends before its last block does"))
    }

    /// The bracket that opens a block.
    pub(super) fn open(&mut self) -> Result<(), Refusal> {
        let word = self.need()?;
        if word.text == "{" { Ok(()) } else { Err(self.refused(&format!("{:?} stands where {{ must be", word.text))) }
    }

    /// Leaves out the rest of a line.
    pub(super) fn skip_line(&mut self) {
        while self.next().is_some_and(|word| word.text != "\n") {}
    }

    /// Leaves out the rest of a line, and a block that begins in it.
    pub(super) fn skip_object(&mut self) {
        let mut depth = 0_usize;
        while let Some(word) = self.next() {
            match word.text.as_str() {
                "{" => depth += 1,
                "}" if depth <= 1 => return,
                "}" => depth -= 1,
                "\n" | ";" if depth == 0 => return,
                _ => {}
            }
        }
    }

    /// The words up to the end of a line, or of the block.
    pub(super) fn statement(&mut self) -> Result<Line, Refusal> {
        let (mut words, mut depth) = (Vec::new(), 0_usize);
        loop {
            let word = self.need()?;
            let ends_block = word.text == "}" && depth == 0;
            let is_end = matches!(word.text.as_str(), "\n" | ";") && depth == 0;
            if ends_block || is_end {
                let line = words.first().map_or(self.line, |word: &Word| word.line);
                return Ok(Line { place: format!("{}:{line}", self.file), words, ends_block });
            }
            match word.text.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            // A list may have several lines.
            if word.text != "\n" {
                words.push(word);
            }
        }
    }
}

/// Adds the words of a line. Returns whether each quotation mark has a second one.
fn split(text: &str, line: usize, words: &mut Vec<Word>) -> bool {
    let begun = words.len();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let mut push = |text: &str, is_quoted| words.push(Word { line, text: text.to_owned(), is_quoted });
        if let Some(quoted) = rest.strip_prefix('"') {
            let Some((word, after)) = quoted.split_once('"') else { return false };
            push(word, true);
            rest = after;
        } else if let Some(comment) = rest.strip_prefix('#') {
            // What nft cannot print as words stands there, such as a test of iptables. The numbers of rules do, too.
            if words.len() > begun && !comment.trim().starts_with("handle ") {
                words.push(Word { line, text: rest.to_owned(), is_quoted: false });
            }
            return true;
        } else if matches!(first, '{' | '}' | ',' | ';' | '(' | ')' | '|') {
            let (sign, after) = rest.split_at(1);
            push(sign, false);
            rest = after;
        } else {
            let ends = |letter: char| {
                letter.is_whitespace() || matches!(letter, '{' | '}' | ',' | ';' | '(' | ')' | '|' | '"' | '#')
            };
            let (word, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
            push(word, false);
            rest = after;
        }
        rest = rest.trim_start();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_and_comments_that_stand_for_tests_are_kept() {
        let text = "# Warning: not ours\nct state {new,established} log prefix \"a;b \" # handle 7\ntcp dport 22 # recent: SET\n";
        let mut words = Words::of("f", text).unwrap();
        let mut lines = Vec::new();
        for _ in 0..3 {
            let line = words.statement().unwrap();
            lines.push(line.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join("_"));
        }
        assert_eq!(lines, ["", "ct_state_{_new_,_established_}_log_prefix_a;b ", "tcp_dport_22_# recent: SET"]);
        assert!(Words::of("f", "log prefix \"a\nb").unwrap_err().problem.starts_with("f:1: "));
    }
}
