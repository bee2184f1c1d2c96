//! `--exclude` and `--include`, whose order counts.

use clap::builder::OsStringValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};
use millstream_copy::{Pattern, Rule};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// The options, what each says in the help, and whether it includes.
const OPTIONS: [(&str, &str, bool); 2] = [
    ("exclude", "Do not copy what fits this pattern of rsync: *.o, /cache/, tmp/**; can be given several times", false),
    ("include", "Copy what fits this pattern although a later --exclude fits it; can be given several times", true),
];

/// Rules in the order in which they were typed.
#[derive(Debug, Clone)]
pub struct RuleArgs(Vec<(usize, OsString, bool)>);

impl RuleArgs {
    /// The rules. The first one that fits decides.
    pub fn rules(&self) -> Vec<Rule> {
        let rule = |(_, text, includes): &(usize, OsString, bool)| {
            let pattern = Pattern::parse(text.as_bytes());
            Rule { pattern, includes: *includes }
        };
        self.0.iter().map(rule).collect()
    }
}

impl Args for RuleArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        OPTIONS.iter().fold(command, |command, (name, help, _)| {
            let arg = Arg::new(*name).long(*name).value_name("PATTERN").help(*help);
            command
                .arg(arg.action(ArgAction::Append).allow_hyphen_values(true).value_parser(OsStringValueParser::new()))
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RuleArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut typed: Vec<_> = OPTIONS
            .iter()
            .flat_map(|(name, _, includes)| {
                let places = matches.indices_of(name).into_iter().flatten();
                let texts = matches.get_many::<OsString>(name).into_iter().flatten();
                places.zip(texts).map(|(place, text)| (place, text.clone(), *includes))
            })
            .collect();
        typed.sort_by_key(|(place, ..)| *place);
        Ok(Self(typed))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_keep_the_order_in_which_they_are_typed() {
        let command = RuleArgs::augment_args(clap::Command::new("copy"));
        let typed = ["copy", "--exclude", "a", "--include=b", "--exclude", "c"];
        let rules = RuleArgs::from_arg_matches(&command.get_matches_from(typed)).unwrap().rules();
        let expected = [("a", false), ("b", true), ("c", false)];
        let expected = expected.map(|(text, includes)| Rule { pattern: Pattern::parse(text.as_bytes()), includes });
        assert_eq!(rules, expected);
    }
}
