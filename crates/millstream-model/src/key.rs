//! The key of a collection: typed values found in a document by path.

use crate::key_error::{KeyError, check_columns};
use crate::path_text::path_text;
use crate::{KeyRequest, KeyType};
use serde::{Deserialize, Serialize};

/// A column of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyColumn {
    /// Column name.
    pub name: String,
    /// Path from the document's root, as for `#>>`.
    pub path: Vec<String>,
    /// Column type.
    #[serde(rename = "type")]
    pub key_type: KeyType,
}

/// A whole key: columns in index order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeySpec {
    /// The columns, at least one.
    pub columns: Vec<KeyColumn>,
}

impl KeySpec {
    /// The requested key, if every type is known.
    ///
    /// # Errors
    /// Names the first column whose type is not known, or a column name that cannot be used.
    pub fn from_requests(requests: &[KeyRequest]) -> Result<Self, KeyError> {
        let columns = requests
            .iter()
            .map(|request| {
                Ok(KeyColumn {
                    name: request.column.clone(),
                    path: request.path.clone(),
                    key_type: request.key_type.ok_or_else(|| KeyError::Open(request.column.clone()))?,
                })
            })
            .collect::<Result<Vec<_>, KeyError>>()?;
        check_columns(columns.iter().map(|c| c.name.as_str()))?;
        Ok(Self { columns })
    }

    /// The types of the columns, in order.
    pub fn types(&self) -> Vec<KeyType> {
        self.columns.iter().map(|c| c.key_type).collect()
    }
}

impl KeyColumn {
    /// The path as you would type it: dotted, or a JSON Pointer if a name needs it.
    pub fn path_text(&self) -> String {
        path_text(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_needs_every_type() {
        let open = KeyRequest::parse_list("a:text,b").unwrap();
        assert_eq!(KeySpec::from_requests(&open), Err(KeyError::Open("b".to_owned())));
        let spec = KeySpec::from_requests(&KeyRequest::parse_list("a:text,b:date").unwrap());
        let spec = spec.unwrap();
        assert_eq!(spec.types(), [KeyType::Text, KeyType::Date]);
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<KeySpec>(&json).unwrap(), spec);
        assert_eq!(KeySpec::from_requests(&[]), Err(KeyError::Columns(0)));
    }
}
