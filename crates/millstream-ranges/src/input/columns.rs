//! Columns of an input by name: which hold the range, and which become members.

use super::members::{IS_RESERVED, Member, RESERVED};
use crate::column_type::{ColumnType, ColumnTypes};
use crate::error::Error;
use millstream_model::nearest;
use std::collections::HashSet;

/// Names of columns with the first and the last address.
const PAIRS: [(&str, &str); 8] = [
    ("start_ip", "end_ip"),
    ("start", "end"),
    ("first", "last"),
    ("ip_from", "ip_to"),
    ("ip_start", "ip_end"),
    ("range_start", "range_end"),
    ("from", "to"),
    ("low", "high"),
];

/// Names of columns with a whole range.
const SINGLES: [&str; 6] = ["network", "cidr", "prefix", "range", "ip_range", "ip"];

/// The columns that hold the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeColumns {
    /// One column with all of it.
    One(usize),
    /// The columns of the first and the last address.
    Two(usize, usize),
}

impl RangeColumns {
    /// Whether the range is in this column.
    pub(super) fn holds(self, column: usize) -> bool {
        match self {
            Self::One(one) => one == column,
            Self::Two(first, last) => first == column || last == column,
        }
    }
}

/// The columns of an input.
#[derive(Debug)]
pub(super) struct Columns {
    /// Name of the input, for messages.
    pub(super) source: String,
    /// `column` or `member`.
    pub(super) kind: &'static str,
    /// Their names, in order.
    pub(super) names: Vec<String>,
}

impl Columns {
    /// The column of a name. If no name is written exactly so, upper and lower case are the same. `None`: there is no
    /// such column, or several.
    pub(super) fn column(&self, wanted: &str) -> Option<usize> {
        let only = |same: fn(&str, &str) -> bool| {
            let mut found = (0..self.names.len()).filter(|column| same(&self.names[*column], wanted));
            let first = found.next();
            first.filter(|_| found.next().is_none())
        };
        only(|name, wanted| name == wanted).or_else(|| only(|name, wanted| name.eq_ignore_ascii_case(wanted)))
    }

    /// The column that the user named.
    ///
    /// # Errors
    /// There is no such column, or several.
    pub(super) fn named(&self, wanted: &str, choice: &str) -> Result<usize, Error> {
        let problem = || format!("{}: there is no {} {wanted:?}, or several", self.source, self.kind);
        self.column(wanted).ok_or_else(|| self.failed(&problem(), choice))
    }

    /// Where the range is: in the columns that the user named, or in those of well-known names.
    ///
    /// # Errors
    /// There are no such columns, or several.
    pub(super) fn place(&self, range: &[String]) -> Result<RangeColumns, Error> {
        let choice = "--range COLUMN[,COLUMN]";
        check_range(range)?;
        match range {
            [] => {}
            [one] => return Ok(RangeColumns::One(self.named(one, choice)?)),
            [first, last, ..] => return Ok(RangeColumns::Two(self.named(first, choice)?, self.named(last, choice)?)),
        }
        let pair = |(first, last): &(&str, &str)| Some(RangeColumns::Two(self.column(first)?, self.column(last)?));
        let mut places: Vec<RangeColumns> = PAIRS.iter().filter_map(pair).collect();
        places.extend(SINGLES.iter().filter_map(|single| self.column(single)).map(RangeColumns::One));
        let what = match places[..] {
            [place] => return Ok(place),
            [] => format!("no {} has a usual name for a range", self.kind),
            _ => format!("several {}s have a usual name for a range", self.kind),
        };
        Err(self.failed(&format!("{}: {what}", self.source), choice))
    }

    /// The wanted columns as members.
    ///
    /// # Errors
    /// The name of one cannot be that of a member.
    pub(super) fn members(&self, wanted: impl Fn(usize) -> bool) -> Result<Vec<Member>, Error> {
        let mut seen = HashSet::new();
        let mut members = Vec::new();
        for (column, name) in self.names.iter().enumerate().filter(|(column, _)| wanted(*column)) {
            let problem = if name == RESERVED {
                IS_RESERVED.to_owned()
            } else if name.is_empty() {
                format!("the {} number {} has no name", self.kind, column + 1)
            } else if !seen.insert(name) {
                format!("there are two {}s {name:?}", self.kind)
            } else {
                members.push(Member::new(column, name));
                continue;
            };
            return Err(self.failed(&format!("{}: {problem}", self.source), "--keep COLUMN,.."));
        }
        Ok(members)
    }

    /// Gives members their types, and returns these by the names of the members. A name that is not a member's is left
    /// out.
    ///
    /// # Errors
    /// A column gets two types.
    pub(super) fn set_types(
        &self,
        members: &mut [Member],
        types: &[(String, ColumnType)],
    ) -> Result<ColumnTypes, Error> {
        let mut set = ColumnTypes::new();
        for (name, kind) in types {
            let column = self.column(name);
            let Some(member) = members.iter_mut().find(|member| Some(member.column) == column) else { continue };
            member.set_type(*kind);
            let name = &self.names[member.column];
            if set.insert(name.clone(), *kind).is_some() {
                return Err(self.without_type(&format!("the {} {name:?} gets two types", self.kind)));
            }
        }
        Ok(set)
    }

    /// The error of a type that no member got, given the columns of a joined file.
    pub(super) fn untyped(&self, name: &str, joined: &[String]) -> Error {
        if self.column(name).is_some() || joined.iter().any(|one| one == name) {
            return self
                .without_type(&format!("the {} {name:?} is not part of the value, so it has no type", self.kind));
        }
        let known = self.names.iter().chain(joined).map(String::as_str);
        self.without_type(&match nearest(name, known) {
            Some(near) => format!("there is no {} {name:?}: did you mean {near:?}?", self.kind),
            None => format!("there is no {} {name:?}, or several", self.kind),
        })
    }

    fn without_type(&self, problem: &str) -> Error {
        self.failed(&format!("{}: {problem}", self.source), "--types COLUMN=TYPE,..")
    }

    /// An error that lists the columns, and the option to choose among them.
    fn failed(&self, problem: &str, choice: &str) -> Error {
        const SHOWN: usize = 500;
        let mut names = self.names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        if names.chars().count() > SHOWN {
            names = names.chars().take(SHOWN).collect();
            names.push('…');
        }
        let problem = format!("{problem}; its {}s are {names}", self.kind);
        Error::refused(problem, format!("choose with {choice}"))
    }
}

/// Refuses too many columns for a range.
pub(super) fn check_range(range: &[String]) -> Result<(), Error> {
    if range.len() <= 2 {
        return Ok(());
    }
    let problem = format!("a range is in one or two columns, and --range names {}", range.len());
    Err(Error::refused(problem, "name one column, or those of the first and the last address"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_pg::Explained as _;

    fn columns(names: &str) -> Columns {
        let names = names.split(',').map(str::to_owned).collect();
        Columns { source: "here".into(), kind: "column", names }
    }

    fn place(names: &str, range: &[&str]) -> Result<RangeColumns, Error> {
        let range: Vec<String> = range.iter().copied().map(str::to_owned).collect();
        columns(names).place(&range)
    }

    #[test]
    fn well_known_names_are_found() {
        for (first, last) in PAIRS {
            let names = format!("a,{},{}", last.to_uppercase(), first);
            assert_eq!(place(&names, &[]).unwrap(), RangeColumns::Two(2, 1), "{names}");
            let half = place(&format!("a,{first}"), &[]);
            assert!(half.is_err(), "{first}");
        }
        for single in SINGLES {
            assert_eq!(place(&format!("a,{single}"), &[]).unwrap(), RangeColumns::One(1), "{single}");
        }
    }

    #[test]
    fn the_user_can_choose() {
        assert_eq!(place("a,network,b", &["b"]).unwrap(), RangeColumns::One(2));
        assert_eq!(place("a,network,b", &["b", "A"]).unwrap(), RangeColumns::Two(2, 0));
        assert_eq!(place("ip,IP,Ip", &["IP"]).unwrap(), RangeColumns::One(1));
    }

    #[test]
    fn an_unclear_choice_is_an_error_that_names_the_columns() {
        for (names, range, problem) in [
            ("a,b", &[] as &[&str], "here: no column has a usual name for a range"),
            ("ip,network", &[], "here: several columns have a usual name for a range"),
            ("start,end,ip", &[], "here: several columns have a usual name for a range"),
            ("Ip,IP", &[], "here: no column has a usual name for a range"),
            ("a,b", &["c"], "here: there is no column \"c\", or several"),
            ("a,b", &["a", "c"], "here: there is no column \"c\", or several"),
            ("a,a", &["a"], "here: there is no column \"a\", or several"),
        ] {
            let error = place(names, range).unwrap_err();
            let listed = columns(names).names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
            assert_eq!(error.to_string(), format!("{problem}; its columns are {listed}"));
            assert_eq!(error.hint().unwrap(), "choose with --range COLUMN[,COLUMN]");
        }
        let error = place("a,b,c", &["a", "b", "c"]).unwrap_err();
        assert_eq!(error.to_string(), "a range is in one or two columns, and --range names 3");
    }

    #[test]
    fn columns_that_cannot_be_members_are_refused_if_they_are_wanted() {
        for (names, problem) in [
            ("ip,a,end", "here: the member \"end\" is the store's own"),
            ("ip,a,", "here: the column number 3 has no name"),
            ("ip,a,a", "here: there are two columns \"a\""),
        ] {
            let error = columns(names).members(|column| column > 0).unwrap_err();
            assert!(error.to_string().starts_with(problem), "{error}");
            assert_eq!(error.hint().unwrap(), "choose with --keep COLUMN,..");
            let members = columns(names).members(|column| column < 2).unwrap();
            assert_eq!(members.iter().map(|member| member.column).collect::<Vec<_>>(), [0, 1]);
        }
    }

    #[test]
    fn a_long_list_of_columns_is_cut() {
        let names = vec!["a".repeat(100); 1_000].join(",");
        assert!(place(&names, &[]).unwrap_err().to_string().len() < 1_000);
    }
}
