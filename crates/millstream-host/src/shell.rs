//! Lines as a shell reads them.

pub use millstream_model::shell_word;

use std::fmt::Display;

/// The words as one line that a shell takes apart into the same words again.
pub fn shell_line<W: Display>(words: impl IntoIterator<Item = W>) -> String {
    words.into_iter().map(|word| shell_word(&word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_same_words_again() {
        let words =
            ["lab", "--a", "sleep 1; exit", "it's \"$HOME\" `x`", "it's", "", "a\nb", "*", "~", "#", "!!", "ü=1&2|3>4"];
        assert_eq!(shell_line(&words[..3]), "lab --a 'sleep 1; exit'");
        let mut shell = crate::Command::new("/bin/sh");
        shell.args(["-c", &format!("printf '%s\\0' {}", shell_line(words))]);
        let read = shell.run_blocking().unwrap().stdout;
        assert_eq!(read.split_terminator('\0').collect::<Vec<_>>(), words);
    }
}
