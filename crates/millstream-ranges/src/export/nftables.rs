//! A script of nftables that fills a set of each family.

use super::{Export, ExportOptions, failed};
use crate::diff::answers;
use crate::error::Error;
use crate::limits::NFT_NAME_BYTES;
use crate::store::Generation;
use millstream_model::range::{FAMILIES, Family, Range};
use std::io::{self, Write};

pub(super) const EXPORT: Export = Export {
    name: "nftables",
    about: "a script for nft that fills the sets v4 and v6 of a table; members are left out",
    needs: "nft loads it in one transaction",
    write,
};

/// Words of nft's language, which cannot be names. All are in lower case and without `_`.
///
/// Source: nftables 1.0.6, by trying every word of its manual page and library, and the words of later versions.
const KEYWORDS: &str = "\
    accept add ah all and arp bridge cgroup chain comment comp constant continue counter cpu create ct day dccp \
    define delete describe destroy device devices dnat drop dst dup dynamic ecn element elements eq esp ether exists \
    expires export exthdr fib flags flow flowtable flowtables flush frag fwd ge geneve get goto gre gretap gt handle \
    hbh hook hour ibriport ibrname icmp icmpv6 igmp iif iifgroup iifname iiftype import in include index inet inner \
    insert interval ip ip6 ipsec jhash jump last le limit list log lshift lt map mark masquerade meta meter mh \
    missing monitor ne netdev nftrace not notrack numgen obriport obrname offload oif oifgroup oifname oiftype or \
    osf pkttype policy position priority queue quota random redefine redirect reject rename replace reset return \
    rshift rt rt0 rt2 rtclassid rule ruleset sctp secmark set size skgid skuid snat socket srh symhash synproxy \
    table tcp th time timeout tproxy type typeof udp udplite undefine update vlan vmap vxlan xor xt";

fn write(generation: &Generation, out: &mut dyn Write, options: &ExportOptions) -> Result<u64, Error> {
    let name = table(&options.name)?;
    begin(out, name).map_err(failed)?;
    let (mut ranges, mut family) = (0, None);
    for answer in answers(generation)? {
        let (range, _) = answer?;
        element(out, name, range, family).map_err(failed)?;
        family = Some(range.family);
        ranges += 1;
    }
    if family.is_some() {
        writeln!(out, "\n}}").map_err(failed)?;
    }
    Ok(ranges)
}

/// The name, if nft takes it without quotes.
fn table(name: &str) -> Result<&str, Error> {
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let plain = first && name.len() < NFT_NAME_BYTES && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if plain && !KEYWORDS.split(' ').any(|word| word == name) {
        return Ok(name);
    }
    let problem = format!("{name:?} is not a name for a table of nftables");
    let hint = "use letters, digits and _, a letter first, and no word of nft such as set; set_ is possible";
    Err(Error::refused(problem, hint))
}

/// The table with its sets. They are emptied, so that the script can be loaded again; the rest of the table stays.
fn begin(out: &mut dyn Write, name: &str) -> io::Result<()> {
    writeln!(out, "# IP ranges, exported by Millstream. Load it: nft -f FILE")?;
    writeln!(out, "table inet {name} {{")?;
    for family in FAMILIES {
        let kind = match family {
            Family::V4 => "ipv4_addr",
            Family::V6 => "ipv6_addr",
        };
        writeln!(out, "\tset {} {{\n\t\ttype {kind}\n\t\tflags interval\n\t}}", family.name())?;
    }
    writeln!(out, "}}")?;
    for family in FAMILIES {
        writeln!(out, "flush set inet {name} {}", family.name())?;
    }
    Ok(())
}

/// One range on a line. `before` is the family of the range before it.
fn element(out: &mut dyn Write, name: &str, range: Range, before: Option<Family>) -> io::Result<()> {
    if before == Some(range.family) {
        writeln!(out, ",")?;
    } else {
        if before.is_some() {
            writeln!(out, "\n}}")?;
        }
        writeln!(out, "add element inet {name} {} {{", range.family.name())?;
    }
    if range.start == range.end {
        return write!(out, "\t{}", range.first());
    }
    write!(out, "\t{range}")
}

#[cfg(test)]
mod tests {
    use super::super::ExportOptions;
    use super::super::tests::{exported, text};

    const BEGIN: &str = "\
# IP ranges, exported by Millstream. Load it: nft -f FILE
table inet ip_ranges {
	set v4 {
		type ipv4_addr
		flags interval
	}
	set v6 {
		type ipv6_addr
		flags interval
	}
}
flush set inet ip_ranges v4
flush set inet ip_ranges v6
";

    #[test]
    fn each_family_has_a_set() {
        let both = text("nftables", &[("1.0.0.0-1.0.129.0", "\"a\":1"), ("1.2.3.4", ""), ("2001:db8::/32", "")]);
        let elements = "\
add element inet ip_ranges v4 {
	1.0.0.0-1.0.129.0,
	1.2.3.4
}
add element inet ip_ranges v6 {
	2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff
}
";
        assert_eq!(both, format!("{BEGIN}{elements}"));
    }

    #[test]
    fn a_set_without_elements_is_only_emptied() {
        let one = text("nftables", &[("::1", "")]);
        assert_eq!(one, format!("{BEGIN}add element inet ip_ranges v6 {{\n\t::1\n}}\n"));
    }

    #[test]
    fn names_that_nft_does_not_take_are_refused() {
        for name in
            ["", "1a", "a b", "a;flush", "a\nb", "set", "table", "inet", "xt", "accept", "a".repeat(256).as_str()]
        {
            let options = ExportOptions { name: name.into(), ..ExportOptions::default() };
            assert!(exported("nftables", &options, &[("::1", "")]).is_err(), "{name:?}");
        }
    }
}
