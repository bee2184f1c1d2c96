//! The path of a value as you would type it.

/// Dotted, or a JSON Pointer if a name needs it.
pub fn path_text(path: &[String]) -> String {
    let separating = |s: &str| s.contains(['"', ',', ':', '=']);
    let odd = |s: &String| s.is_empty() || s.contains(['.', '/', '~']) || separating(s);
    if !path.iter().any(odd) {
        return path.join(".");
    }
    path.iter()
        .map(|segment| {
            let name = segment.replace('~', "~0").replace('/', "~1");
            match separating(&name) {
                true => format!("/\"{}\"", name.replace('"', "\"\"")),
                false => format!("/{name}"),
            }
        })
        .collect()
}
