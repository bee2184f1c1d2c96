//! Whether JSON is as a published schema says.

use serde_json::Value;

/// The first place at which a value is not as a JSON schema says. A member that the schema does not have is wrong, too:
/// then the schema is behind. Knows the keywords that our schemas use.
///
/// # Panics
/// If the schema refers to a definition that it does not have.
pub fn misfit(value: &Value, schema: &Value) -> Option<String> {
    fault(value, schema, schema, "")
}

fn fault(value: &Value, schema: &Value, root: &Value, at: &str) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let named = root.pointer(name.trim_start_matches('#')).expect("the schema has what it refers to");
        return fault(value, named, root, at);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let faults: Option<Vec<String>> = any.iter().map(|one| fault(value, one, root, at)).collect();
        return faults.map(|faults| faults.join("; or "));
    }
    if let Some(values) = schema["enum"].as_array() {
        return (!values.contains(value)).then(|| format!("{at}: {value} is not one of {values:?}"));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let whole = is == "integer" && types.contains(&"number");
    if !whole && !types.contains(&is) {
        return Some(format!("{at}: {is} instead of {types:?}"));
    }
    if let Some(items) = value.as_array() {
        return items.iter().find_map(|item| fault(item, &schema["items"], root, at));
    }
    let members = value.as_object()?;
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for name in required {
        if !members.contains_key(name) {
            return Some(format!("{at}: {name} is missing"));
        }
    }
    members.iter().find_map(|(name, value)| {
        let known = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
        match known {
            Some(known) => fault(value, known, root, &format!("{at}.{name}")),
            None => Some(format!("{at}: nothing is called {name}")),
        }
    })
}
