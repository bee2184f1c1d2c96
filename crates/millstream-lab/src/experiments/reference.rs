//! `docs/reference/experiments.md` has every word of an experiment's file.

use super::{Arm, Article, Conclusion, Data, Equal, Experiment, GuestNeeds, Setup, Split, Step, Takes};
use serde::de::DeserializeOwned;
use std::path::Path;

/// The keys of a table: an error about another one lists them.
fn keys<T: DeserializeOwned>() -> Vec<String> {
    let refused = toml::from_str::<T>("no_such_key = 1\n").err().expect("the key is refused");
    let known = refused.message().split_once("expected ").expect("the error lists the keys").1;
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_word_of_an_experiment_is_in_the_reference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/experiments.md");
    let page = std::fs::read_to_string(path).unwrap();
    let tables = [
        keys::<Experiment>(),
        keys::<Arm>(),
        keys::<Setup>(),
        keys::<Data>(),
        keys::<Equal>(),
        keys::<GuestNeeds>(),
        keys::<Split>(),
        keys::<Article>(),
        keys::<Step>(),
        keys::<Conclusion>(),
        keys::<Takes>(),
    ];
    let mut words = tables.concat();
    assert!(words.len() > 50, "{words:?}");
    words.retain(|word| {
        ![format!("`{word}`"), format!("`[{word}]`"), format!("`[[{word}]]`")]
            .iter()
            .any(|spelled| page.contains(spelled))
    });
    assert!(words.is_empty(), "docs/reference/experiments.md does not say what these words mean: {words:?}");
}
