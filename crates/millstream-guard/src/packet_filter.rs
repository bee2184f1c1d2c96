//! The rules of this host as a change that can be taken back.

use crate::connection::is_newer;
use crate::netlink;
use crate::nft::{asked, load};
use crate::rules::{TABLE, digest, digest_of, name, removal};
use millstream_change::{Answer, Kind, Large, Lasting, Lasts, Place};
use millstream_host::in_path;
use millstream_model::Refusal;
use millstream_model::range::FAMILIES;
use std::fs;
use std::path::{Path, PathBuf};

/// The one target: our table.
pub const TARGET: &str = "packet filter";

/// The rules, as they are loaded when the machine starts.
const RULES: &str = "/etc/millstream/guard.nft";

/// The unit that loads them, and what starts it with the machine.
const UNIT_FILES: [&str; 2] =
    ["/etc/systemd/system/millstream-guard.service", "/etc/systemd/system/sysinit.target.d/millstream-guard.conf"];

/// Where an administrator's units are. A machine without this directory starts in another way.
const UNITS: &str = "/etc/systemd/system";

/// What loads the rules, before there is a network. It never removes them, so stopping it does not open the host.
const UNIT: &str = "\
[Unit]
Description=Packet filter of this host
DefaultDependencies=no
# These may begin with removing all rules.
After=nftables.service netfilter-persistent.service
Before=network-pre.target shutdown.target
Wants=network-pre.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={nft} -f {rules}
";

/// What starts that unit with the machine. A plain file does it: the usual link would not be one.
const WANTED: &str = "\
[Unit]
Wants=millstream-guard.service
";

/// The table `inet millstream`. A value is a script for nft that replaces it; a digest of it stands in the table.
#[derive(Debug)]
pub struct PacketFilter;

/// The file of the rules that were confirmed last, if it is there.
pub fn confirmed_rules() -> Option<&'static Path> {
    Some(Path::new(RULES)).filter(|file| file.exists())
}

/// How the names of sets begin to which elements are added while the rules are in effect.
const GROWING: [&str; 2] = ["denied.", "limits."];

/// Rules as nft lists them, without what was added to their sets meanwhile: it is true for a time only.
fn without_added(listed: &str) -> String {
    let mut kept = String::with_capacity(listed.len());
    let (mut grows, mut is_left_out) = (false, false);
    for line in listed.lines() {
        let text = line.trim();
        if let Some(name) = text.strip_prefix("set ") {
            grows = GROWING.iter().any(|beginning| name.starts_with(beginning));
        }
        is_left_out |= grows && text.starts_with("elements = {");
        if !is_left_out {
            kept.push_str(line);
            kept.push('\n');
        }
        is_left_out &= !text.ends_with('}');
    }
    kept
}

/// Commands that deny again what is denied for a time: the rules that come know nothing of it.
async fn denied_again() -> Result<String, Refusal> {
    let mut commands = String::new();
    for set in FAMILIES.map(|family| name("denied", family)) {
        // nft would read the elements of all other sets, too.
        if !netlink::has_elements(TABLE, &set)? {
            continue;
        }
        let Some(text) = asked(&["list", "set", "inet", TABLE, &set]).await? else { continue };
        if let Some((_, elements)) = text.split_once("elements = {")
            && let Some((elements, _)) = elements.split_once('}')
        {
            commands += &format!("add element inet {TABLE} {set} {{ {} }}\n", elements.trim());
        }
    }
    Ok(commands)
}

impl Kind for PacketFilter {
    fn name(&self) -> &'static str {
        "packet-filter"
    }

    fn commands(&self) -> &'static str {
        "guard"
    }

    fn read<'a>(&'a self, _: &'a Place, _: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async { Ok(netlink::comment(TABLE)?.map(|comment| digest_of(&comment))) })
    }

    fn write<'a>(&'a self, _: &'a Place, _: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let Some(rules) = value else { return load(removal()).await };
            if !is_of_our_table(rules) {
                return Err(Refusal::new("the rules of the change are not for the table of this program alone")
                    .hint("it is not as this program wrote it; find out who can write to the journal of changes"));
            }
            let denied = denied_again().await.unwrap_or_default();
            match load(format!("{rules}{denied}")).await {
                // Rules that come back matter more than what is denied for a time.
                Err(_) if !denied.is_empty() => load(rules.to_owned()).await,
                done => done,
            }
        })
    }

    fn overwrites(&self, _: bool) -> bool {
        true
    }

    fn may_confirm(&self, since: u64) -> Result<(), Refusal> {
        is_newer(since)
    }

    fn large(&self) -> Option<&dyn Large> {
        Some(self)
    }

    fn lasts(&self) -> Option<&dyn Lasts> {
        Some(self)
    }
}

impl Large for PacketFilter {
    fn whole<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            // What was confirmed is kept. nft would print it in another order.
            let kept = fs::read_to_string(place.path(Path::new(RULES))).ok();
            let Some(now) = self.read(place, target).await? else { return Ok(None) };
            if let Some(kept) = kept.filter(|kept| digest(kept) == now) {
                return Ok(Some(kept));
            }
            let text = asked(&["--stateless", "list", "table", "inet", TABLE]).await?;
            Ok(text.map(|text| removal() + &without_added(&text)))
        })
    }

    fn digest(&self, whole: &str) -> Option<String> {
        Some(digest(whole))
    }
}

impl Lasts for PacketFilter {
    fn lasting(&self, place: &Place, _: &str, value: Option<&str>) -> Result<Lasting, Refusal> {
        if !place.path(Path::new(UNITS)).is_dir() {
            return Ok(Lasting::UntilRestart(
                "this machine has no units of systemd that could load the rules".to_owned(),
            ));
        }
        let Some(rules) = value else { return Ok(Lasting::Always) };
        let path = |name: &str| place.path(Path::new(name));
        let unit = UNIT.replace("{nft}", &program().display().to_string()).replace("{rules}", RULES);
        Ok(Lasting::Files(vec![
            (path(RULES), rules.to_owned()),
            (path(UNIT_FILES[0]), unit),
            (path(UNIT_FILES[1]), WANTED.to_owned()),
        ]))
    }

    fn files(&self, place: &Place, _: &str) -> Vec<PathBuf> {
        [RULES].into_iter().chain(UNIT_FILES).map(|file| place.path(Path::new(file))).collect()
    }
}

/// Whether a script for nft changes no table but ours and reads no file. A value comes from the journal, and no change of this
/// kind writes another one.
fn is_of_our_table(script: &str) -> bool {
    let heads =
        [format!("add table inet {TABLE}"), format!("delete table inet {TABLE}"), format!("table inet {TABLE} {{")];
    let mut depth = 0_u32;
    script.lines().map(str::trim).all(|line| {
        let is_known = if depth == 0 {
            line.is_empty() || heads.iter().any(|head| head == line)
        } else {
            !line.starts_with("include")
        };
        let mut is_quoted = false;
        let mut rest = line.chars();
        while let Some(c) = rest.next() {
            match c {
                '"' => is_quoted = !is_quoted,
                _ if is_quoted => {}
                // What nft takes for a comment would hide braces from it.
                '#' => return false,
                '{' => depth += 1,
                // Behind the end of the table another one could begin.
                '}' if depth <= 1 && (depth == 0 || !rest.as_str().is_empty()) => return false,
                '}' => depth -= 1,
                _ => {}
            }
        }
        is_known && !is_quoted
    })
}

/// nft with its directory, which a unit wants.
fn program() -> PathBuf {
    in_path("nft").unwrap_or_else(|| "/usr/sbin/nft".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_while_rules_were_in_effect_is_not_saved() {
        let listed = "table inet millstream {\n\tset denied.4 {\n\t\tflags interval,timeout\n\t\telements = { 10.0.0.5 timeout 2s,\n\
                      \t\t\t     10.0.0.9 timeout 1h }\n\t}\n\tset deny.4 {\n\t\telements = { 10.1.0.0/16 }\n\t}\n\tset limits.ssh.4 {\n\
                      \t\telements = { 10.0.0.5 limit rate over 1/hour burst 5 packets }\n\t}\n}\n";
        let kept = "table inet millstream {\n\tset denied.4 {\n\t\tflags interval,timeout\n\t}\n\tset deny.4 {\n\
                    \t\telements = { 10.1.0.0/16 }\n\t}\n\tset limits.ssh.4 {\n\t}\n}\n";
        assert_eq!(without_added(listed), kept);
    }

    #[test]
    fn only_a_script_for_our_table_is_loaded() {
        let table = "table inet millstream {\n\tcomment \"rules 7\"\n\tset deny.4 {\n\t\telements = { 10.1.0.0/16,\n\
                     \t\t\t     10.2.0.0/16 }\n\t}\n\tchain incoming {\n\t\ttype filter hook input priority filter; policy drop;\n\
                     \t\tlog prefix \"a } # {\" counter drop\n\t}\n}\n";
        assert!(is_of_our_table(&(removal() + table)) && is_of_our_table(table) && is_of_our_table(&removal()));
        for other in [
            "flush ruleset\n".to_owned(),
            format!("{table}flush ruleset\n"),
            format!("include \"/etc/other\"\n{table}"),
            table.replace("counter drop", "counter drop\n\t\tinclude \"/etc/other\""),
            table.replace("\t}\n}\n", "\t}\n} flush ruleset\n"),
            table.replace("\t}\n}\n", "\t} }; flush ruleset\n"),
            table.replace("\t}\n}\n", "\t}\n# {\n}\nflush ruleset\n"),
            table.replace("\t}\n}\n", "\t}\n}\n}\n"),
            table.replace("millstream", "theirs"),
        ] {
            assert!(!is_of_our_table(&other), "{other}");
        }
    }
}
