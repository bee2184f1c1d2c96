//! A command line as a shell reads it.

/// The words as one line that a shell takes apart into the same words again.
pub fn command_line<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> String {
    words.into_iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// A word in quotes, unless no shell would read it in another way.
fn quoted(word: &str) -> String {
    let plain = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c));
    match plain(word) && !word.is_empty() {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_shell_reads_the_same_words_again() {
        let words = ["lab", "--a", "sleep 1; exit", "it's \"$HOME\" `x`", "", "a\nb", "*", "~", "#", "!!", "ü=1&2|3>4"];
        assert_eq!(command_line(&words[..3]), "lab --a 'sleep 1; exit'");
        let mut shell = millstream_host::Command::new("/bin/sh");
        shell.args(["-c", &format!("printf '%s\\0' {}", command_line(words))]);
        let read = shell.run(crate::limits::RUN_SLACK).await.unwrap().stdout;
        assert_eq!(read.split_terminator('\0').collect::<Vec<_>>(), words);
    }
}
