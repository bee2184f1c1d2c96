//! The text that `nft list ruleset` prints.

use super::nft_rule::Statement;
use super::nft_set::Set;
use super::nft_word::Words;
use super::ruleset::{Base, Chain, Hook, Ruleset};
use millstream_model::Refusal;
use millstream_model::range::{FAMILIES, Family};
use std::collections::BTreeMap;

/// Reads a text into the rules that are there.
///
/// # Errors
/// It is no such text. The message names the line.
pub(super) fn read(file: &str, text: &str, rules: &mut Ruleset) -> Result<(), Refusal> {
    let mut words = Words::of(file, text)?;
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "\n" => {}
            // It stands at the beginning of files that are loaded at once.
            "flush" => words.skip_line(),
            "table" => table(&mut words, rules)?,
            other => return Err(words.refused(&format!("{other:?} is no table"))),
        }
    }
    Ok(())
}

fn table(words: &mut Words, rules: &mut Ruleset) -> Result<(), Refusal> {
    let (family, name) = (words.need()?, words.need()?);
    let families = match family.text.as_str() {
        "ip" => vec![Family::V4],
        "ip6" => vec![Family::V6],
        "inet" => FAMILIES.to_vec(),
        // Those of bridges and devices, and what is no family.
        _ => Vec::new(),
    };
    let table = format!("{} {}", family.text, name.text);
    if rules.chains.iter().any(|chain| chain.table == table) {
        return Err(words.refused(&format!("the table {table} is in the text twice")));
    }
    words.open()?;
    let mut sets = BTreeMap::new();
    loop {
        let word = words.need()?;
        match word.text.as_str() {
            "}" => return Ok(()),
            "\n" | ";" => {}
            "set" => {
                let name = words.need()?;
                words.open()?;
                sets.insert(name.text, Set::read(words)?);
            }
            "chain" => {
                let chain = chain(words, &table, &families, &sets)?;
                rules.chains.push(chain);
            }
            // Maps, counters and other objects, which rules ask by their names.
            _ => words.skip_object(),
        }
    }
}

fn chain(words: &mut Words, table: &str, families: &[Family], sets: &BTreeMap<String, Set>) -> Result<Chain, Refusal> {
    let name = words.need()?.text;
    let place = words.place();
    words.open()?;
    let (table, families) = (table.to_owned(), families.to_vec());
    let mut chain = Chain { table, name, families, base: None, place, rules: Vec::new() };
    loop {
        let line = words.statement()?;
        let texts: Vec<&str> = line.words.iter().map(|word| word.text.as_str()).collect();
        match texts.as_slice() {
            [] => {}
            ["type", kind, "hook", hook, ..] => {
                let hook = hook_of(kind, hook, &chain);
                chain.base = Some(Base { hook, accepts: true });
            }
            ["policy", verdict, ..] => {
                if let Some(base) = &mut chain.base {
                    base.accepts = *verdict != "drop";
                }
            }
            ["comment", _] => {}
            _ => chain.rules.extend(Statement { line: &line, sets, table: &chain.table }.rules()),
        }
        if line.ends_block {
            return Ok(chain);
        }
    }
}

fn hook_of(kind: &str, hook: &str, chain: &Chain) -> Hook {
    let elsewhere = |why: String| Hook::Elsewhere {
        why,
        is_arriving: matches!(hook, "ingress" | "prerouting" | "input") && kind != "nat",
    };
    match (kind, hook) {
        _ if chain.families.is_empty() => elsewhere(format!("a policy has nothing of the table {}", chain.table)),
        ("filter", "input") => Hook::In,
        ("filter", "output") => Hook::Out,
        ("filter", "forward") => elsewhere("a policy does not filter forwarded packets".to_owned()),
        _ => elsewhere(format!("a policy has nothing of chains of type {kind} at the hook {hook}")),
    }
}
