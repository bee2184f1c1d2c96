//! What a collection stores of its documents.

use crate::KeyColumn;
use serde::{Deserialize, Serialize};

/// What the column `doc` of a collection holds of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DocumentForm {
    /// All of it.
    #[default]
    Whole,
    /// All but the members that the key's columns give back. A document keeps such a member if its column would give back
    /// another value, such as the string `"7"` for the number `7`.
    WithoutKey,
}

impl DocumentForm {
    /// Each with its name and its meaning.
    pub const ALL: [(Self, &'static str, &'static str); 2] = [
        (Self::Whole, "whole", "all of the document"),
        (Self::WithoutKey, "without-key", "the document without the members that the key's columns have"),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        let [(whole, whole_name, _), (_, other_name, _)] = Self::ALL;
        if self == whole { whole_name } else { other_name }
    }

    /// The form of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(form, ..)| *form)
    }

    /// The columns of a key that give back the members which documents leave out. If several columns have one member, it
    /// is the first that can.
    pub fn left_out(self, key: &[KeyColumn]) -> Vec<&KeyColumn> {
        let mut columns: Vec<&KeyColumn> = Vec::new();
        for column in key.iter().filter(|column| self == Self::WithoutKey && column.gives_back()) {
            if columns.iter().all(|known| known.path != column.path) {
                columns.push(column);
            }
        }
        columns
    }
}

impl KeyColumn {
    /// Whether its value is a member at the top level of documents, and the column can give back that member exactly.
    fn gives_back(&self) -> bool {
        self.path.len() == 1 && self.key_type.can_give_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyRequest, KeySpec};

    #[test]
    fn names_round_trip() {
        for (form, name, _) in DocumentForm::ALL {
            assert_eq!((form.name(), DocumentForm::by_name(name)), (name, Some(form)));
            assert_eq!(serde_json::to_string(&form).unwrap(), format!("\"{name}\""));
        }
        assert_eq!(DocumentForm::by_name("all"), None);
    }

    #[test]
    fn only_members_at_the_top_level_that_a_column_gives_back_are_left_out() {
        for (key, names) in [
            ("id:text", &["id"][..]),
            ("user=id:bigint", &["user"]),
            ("meta.id:text", &[]),
            ("device:varchar(9),at:timestamptz", &["device"]),
            ("at:timestamp", &[]),
            ("n:numeric", &[]),
            ("a:date,b:boolean,c:uuid,d:smallint,e:integer", &["a", "b", "c", "d", "e"]),
            ("a=x:numeric,b=x:text,c=x:bigint", &["b"]),
            ("a=x.y:text,b=x:text", &["b"]),
        ] {
            let key = KeySpec::from_requests(&KeyRequest::parse_list(key).unwrap()).unwrap();
            let left_out = DocumentForm::WithoutKey.left_out(&key.columns);
            assert_eq!(left_out.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(), names, "{key:?}");
            assert!(DocumentForm::Whole.left_out(&key.columns).is_empty());
        }
    }
}
