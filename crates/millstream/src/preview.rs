//! What a dry run found, as text.

use crate::screen::{indented, visible};
use crate::{quantity, receipt};
use millstream_engine::{DryRun, LoadRequest};
use millstream_model::DocumentForm;

/// Bytes of a rejected document that are shown.
const SHOWN_BYTES: usize = 60;

/// Key, table, counts and the first rejects.
pub fn text(dry: &DryRun, request: &LoadRequest) -> String {
    let mut lines: Vec<String> = dry.reasons.iter().map(|reason| format!("key: {reason}")).collect();
    lines.extend(dry.columns.iter().map(|column| format!("column: {column}")));
    lines.extend(dry.version.iter().map(|version| format!("version: {version}")));
    if dry.doc != DocumentForm::Whole {
        lines.push(format!("doc: {}", dry.doc.name()));
    }
    match &dry.ddl {
        Some(ddl) => lines.push(format!("would create:\n{ddl};")),
        None => {
            lines.push(format!("{} exists and fits", request.collection));
            lines.extend(dry.checks.iter().map(|check| format!("would check: {check}")));
        }
    }
    lines.extend(dry.warnings.iter().map(|warning| format!("warning: {}", indented(warning))));
    lines.push(format!(
        "{} read, {} of them would be rejected",
        quantity::things(dry.read, "document"),
        quantity::count(dry.rejected)
    ));
    lines.extend(receipt::transforms(&dry.transforms));
    for reject in &dry.first_rejects {
        let source = request.sources.get(reject.position.source as usize).map_or("-", String::as_str);
        lines.push(visible(&format!("{source}:{}: {}: {}", reject.line, reject.reason, reject.detail)));
        lines.push(format!("    {}", shown(&reject.document)));
    }
    lines.join("\n")
}

/// The beginning of a document on one line.
fn shown(document: &str) -> String {
    let cut = document.floor_char_boundary(SHOWN_BYTES);
    let more = if cut < document.len() { ".." } else { "" };
    format!("{}{more}", visible(&document[..cut]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previews_are_short_and_on_one_line() {
        assert_eq!(shown("{\u{1b}[2J\n}"), "{\\u001b[2J\\n}");
        assert!(shown(&"é".repeat(100)).len() <= SHOWN_BYTES + 2);
    }
}
