//! Settings as the configuration files have them, and as the server has them: the same value has many spellings.

use tokio_postgres::Row;

/// A line of the configuration files that sets something, or says what is wrong with the files.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    /// Without a name, the error is not that of one setting.
    pub(super) name: Option<String>,
    pub(super) written: String,
    /// The server would use the value if it loaded the files now.
    pub(super) applied: bool,
    pub(super) error: Option<String>,
    file: Option<String>,
    number: Option<i32>,
}

impl Line {
    /// A row of `pg_file_settings`.
    pub(super) fn of(row: &Row) -> Self {
        Self {
            name: row.get("name"),
            written: row.get::<_, Option<String>>("setting").unwrap_or_default(),
            applied: row.get("applied"),
            error: row.get("error"),
            file: row.get("sourcefile"),
            number: row.get("sourceline"),
        }
    }

    /// Where it is, for a sentence.
    pub(super) fn place(&self) -> String {
        match (self.number, &self.file) {
            (Some(number), Some(file)) => format!("line {number} of {file}"),
            (None, Some(file)) => file.clone(),
            (_, None) => "the configuration files".to_owned(),
        }
    }

    /// Whether it sets this setting. The server keeps some names of older versions.
    pub(super) fn sets(&self, setting: &Setting) -> bool {
        let Some(name) = &self.name else { return false };
        let renamed = |(old, new): &(&str, &str)| name.eq_ignore_ascii_case(old) && *new == setting.name;
        name.eq_ignore_ascii_case(&setting.name) || OLD_NAMES.iter().any(renamed)
    }
}

/// Old names of settings, and the present ones: `map_old_guc_names` in PostgreSQL's `guc.c`.
const OLD_NAMES: &[(&str, &str)] =
    &[("sort_mem", "work_mem"), ("vacuum_mem", "maintenance_work_mem"), ("ssl_ecdh_curve", "ssl_groups")];

/// A setting of the server.
#[derive(Debug, Clone, Default)]
pub(super) struct Setting {
    pub(super) name: String,
    /// What new sessions have, in its unit.
    pub(super) now: String,
    /// What a new server has.
    usual: Option<String>,
    kind: String,
    unit: Option<String>,
    /// The values that an enumeration shows. It may take others that mean the same.
    words: Vec<String>,
    pub(super) source: String,
    pub(super) needs_restart: bool,
    /// It waits for a restart.
    pub(super) waits: bool,
}

/// Settings whose values the server spells in its own way.
const RESPELLED: &[&str] = &["client_encoding", "DateStyle", "default_text_search_config"];

/// Settings that `initdb` writes into `postgresql.conf` as the machine has them.
const OF_INITDB: &[&str] = &["lc_messages", "lc_monetary", "lc_numeric", "lc_time", "log_timezone", "TimeZone"];

impl Setting {
    /// A row of `pg_settings`.
    pub(super) fn of(row: &Row) -> Self {
        Self {
            name: row.get("name"),
            now: row.get::<_, Option<String>>("reset_val").unwrap_or_default(),
            usual: row.get("boot_val"),
            kind: row.get("vartype"),
            unit: row.get("unit"),
            words: row.get::<_, Option<Vec<String>>>("enumvals").unwrap_or_default(),
            source: row.get("source"),
            needs_restart: row.get::<_, &str>("context") == "postmaster",
            waits: row.get("pending_restart"),
        }
    }

    /// Whether two values differ, also if they are spelled alike: `8MB`, `8192kB` and `1024` pages are the same. What cannot
    /// be compared does not differ.
    pub(super) fn differ(&self, one: &str, other: &str) -> bool {
        self.value(one).zip(self.value(other)).is_some_and(|(one, other)| one != other)
    }

    /// Whether somebody has chosen the value: a new server has another one.
    pub(super) fn is_chosen(&self, written: &str) -> bool {
        !OF_INITDB.contains(&self.name.as_str()) && self.usual.as_ref().is_some_and(|usual| self.differ(written, usual))
    }

    /// A value as a report shows it. Commands and the like may hold a password.
    pub(super) fn shown(&self, value: &str) -> String {
        let is_secret = ["command", "conninfo"].iter().any(|end| self.name.ends_with(end)) || self.name.contains('.');
        if is_secret && self.kind == "string" { "not shown".to_owned() } else { value.to_owned() }
    }

    /// A value in the one spelling that can be compared.
    fn value(&self, text: &str) -> Option<String> {
        if RESPELLED.contains(&self.name.as_str()) {
            return None;
        }
        let text = text.trim().to_lowercase();
        match self.kind.as_str() {
            "bool" => switch(&text).map(str::to_owned),
            "enum" => {
                let known = self.words.iter().any(|word| word.eq_ignore_ascii_case(&text));
                if known { Some(text) } else { self.switch_word(&text) }
            }
            "integer" => Some(format!("{:.0}", self.number(&text)?)),
            // The server shows six digits.
            "real" => Some(format!("{:.5e}", self.number(&text)?)),
            _ => Some(text.trim_end_matches('/').split_whitespace().collect()),
        }
    }

    /// The word of an enumeration that an `on` or `off` in another spelling means.
    fn switch_word(&self, text: &str) -> Option<String> {
        let switch = switch(text)?;
        self.words.iter().any(|word| word == switch).then(|| switch.to_owned())
    }

    /// A number in the setting's unit.
    fn number(&self, text: &str) -> Option<f64> {
        let end = text.find(|c: char| !(c.is_ascii_digit() || "+-.".contains(c))).unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        // The server reads `010` as an octal number.
        if digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.") {
            return None;
        }
        let number: f64 = digits.parse().ok()?;
        match (unit.trim(), &self.unit) {
            ("", _) => Some(number),
            (unit, Some(own)) => Some(number * size(unit)? / size(&own.to_lowercase())?),
            (_, None) => None,
        }
    }
}

/// `on` or `off`, however it is spelled: the server takes any beginning of a word that is not a beginning of another
/// one.
fn switch(text: &str) -> Option<&'static str> {
    let begins = |word: &str| !text.is_empty() && word.starts_with(text);
    match text {
        "1" | "on" => Some("on"),
        "0" | "of" | "off" => Some("off"),
        _ if begins("true") || begins("yes") => Some("on"),
        _ if begins("false") || begins("no") => Some("off"),
        _ => None,
    }
}

/// A unit in bytes or microseconds. That of a setting may be several, such as `8kB`.
fn size(unit: &str) -> Option<f64> {
    let (times, unit) = unit.split_at(unit.find(|c: char| !c.is_ascii_digit())?);
    let times = if times.is_empty() { 1.0 } else { times.parse().ok()? };
    let of_one = match unit {
        "b" | "us" => 1.0,
        "kb" => 1024.0,
        "mb" => 1_048_576.0,
        "gb" => 1_073_741_824.0,
        "tb" => 1_099_511_627_776.0,
        "ms" => 1e3,
        "s" => 1e6,
        "min" => 60e6,
        "h" => 3_600e6,
        "d" => 86_400e6,
        _ => return None,
    };
    Some(times * of_one)
}

#[cfg(test)]
impl Line {
    /// A line that the server would use.
    pub(super) fn good(name: &str, written: &str, number: i32) -> Self {
        let (name, file) = (Some(name.to_owned()), Some("/c".to_owned()));
        Self { name, written: written.to_owned(), applied: true, error: None, file, number: Some(number) }
    }
}

#[cfg(test)]
impl Setting {
    /// A size in pages of 8 kB.
    pub(super) fn pages(name: &str, now: &str, source: &str) -> Self {
        let (name, now, usual) = (name.to_owned(), now.to_owned(), Some("512".to_owned()));
        let (kind, unit, source) = ("integer".to_owned(), Some("8kB".to_owned()), source.to_owned());
        Self { name, now, usual, kind, unit, source, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, kind: &str, unit: Option<&str>, words: &[&str]) -> Setting {
        let (name, kind, unit) = (name.to_owned(), kind.to_owned(), unit.map(str::to_owned));
        Setting { name, kind, unit, words: words.iter().map(|word| (*word).to_owned()).collect(), ..Setting::default() }
    }

    #[test]
    fn a_value_has_many_spellings() {
        let commit = ["local", "remote_write", "on", "off"];
        for (kind, unit, words, one, other, differs) in [
            ("bool", None, &[][..], "TRUE", "on", false),
            ("bool", None, &[], "n", "off", false),
            ("bool", None, &[], "yes", "off", true),
            ("bool", None, &[], "o", "off", false),
            ("enum", None, &commit, "Local", "local", false),
            ("enum", None, &commit, "true", "on", false),
            ("enum", None, &commit, "true", "local", true),
            ("enum", None, &["replica", "logical"], "hot_standby", "logical", false),
            ("integer", Some("8kB"), &[], "128 MB", "16384", false),
            ("integer", Some("8kB"), &[], "1.5GB", "196608", false),
            ("integer", Some("8kB"), &[], "128MB", "16385", true),
            ("integer", Some("ms"), &[], "1min", "60000", false),
            ("integer", None, &[], "0x10", "16", false),
            ("integer", None, &[], "010", "10", false),
            ("integer", None, &[], "-1", "-1", false),
            ("real", None, &[], "1.10", "1.1", false),
            ("real", None, &[], "1.1", "4", true),
            ("real", Some("ms"), &[], "2ms", "2", false),
            ("string", None, &[], "a, b", "A,b", false),
            ("string", None, &[], "a", "b", true),
        ] {
            assert_eq!(setting("x", kind, unit, words).differ(one, other), differs, "{kind}: {one} and {other}");
        }
        assert!(!setting("DateStyle", "string", None, &[]).differ("iso", "ISO, MDY"));
    }

    #[test]
    fn what_may_hold_a_password_is_not_shown() {
        assert_eq!(setting("primary_conninfo", "string", None, &[]).shown("password=x"), "not shown");
        assert_eq!(setting("my.key", "string", None, &[]).shown("x"), "not shown");
        assert_eq!(setting("search_path", "string", None, &[]).shown("x"), "x");
    }

    #[test]
    fn an_old_name_is_known() {
        let line = Line::good("Sort_Mem", "1MB", 1);
        assert!(line.sets(&setting("work_mem", "integer", None, &[])));
        assert!(!line.sets(&setting("maintenance_work_mem", "integer", None, &[])));
        // Its new name came with PostgreSQL 18.
        let line = Line::good("ssl_ecdh_curve", "secp384r1", 1);
        assert!(["ssl_ecdh_curve", "ssl_groups"].iter().all(|name| line.sets(&setting(name, "string", None, &[]))));
    }
}
