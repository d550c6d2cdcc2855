//! How a tool is described to its callers: schemas from the wire's own types, made small and
//! plain. `tools/list` is read by a model with every conversation, and some clients refuse whole
//! lists over one construct that they do not know.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use crate::table::{TABLE, Tool};

/// The members whose names are listed in full; of others it is enough that they are text.
const LISTED: [&str; 2] = ["status", "decision"];
/// The members that no next step depends on. They are answered like all others, and left out of
/// the outline, which need not be complete.
const LEFT_OUT: [&str; 14] = [
    "agent",
    "approver",
    "charge",
    "createdAt",
    "dashboardUrl",
    "decidedAt",
    "expiresAt",
    "livemode",
    "message",
    "paymentIntent",
    "policyVersion",
    "replayed",
    "reported",
    "updatedAt",
];

/// The tool as `tools/list` has it. The same bytes each time.
pub(crate) fn describe(tool: &Tool) -> Value {
    json!({
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": (tool.input)(),
        "outputSchema": (tool.output)(),
        "annotations": {
            "readOnlyHint": tool.hints.read_only,
            "destructiveHint": tool.hints.destructive,
            "idempotentHint": tool.hints.idempotent,
            "openWorldHint": tool.hints.open_world,
        },
    })
}

/// The tools that every agent has, as `tools/list` has them.
#[must_use]
pub fn own_tools() -> Vec<Value> {
    TABLE.iter().filter(|tool| !tool.granted).map(describe).collect()
}

/// The schema of the arguments `T`: each with its own words, nothing referred to.
pub(crate) fn input<T: JsonSchema>() -> Value {
    let mut schema = whole::<T>();
    if let Value::Object(schema) = &mut schema {
        schema.remove("title");
        schema.remove("description");
        schema.entry("properties").or_insert_with(|| json!({}));
        let members = schema.get_mut("properties").and_then(Value::as_object_mut);
        for member in members.into_iter().flat_map(Map::values_mut) {
            // Comments in the code are broken into lines; that says nothing.
            if let Some(Value::String(text)) = member.get_mut("description") {
                *text = text.replace('\n', " ");
            }
        }
    }
    schema
}

/// The outline of the answer `T`: which members there are and of which kind, to one level.
pub(crate) fn output<T: JsonSchema>() -> Value {
    let schema = whole::<T>();
    let mut variants: Vec<&Value> = match schema.get("anyOf").and_then(Value::as_array) {
        Some(variants) => variants.iter().collect(),
        None => vec![&schema],
    };
    // The fullest first, so that its order of members is kept.
    variants.sort_by_key(|variant| std::cmp::Reverse(members(variant).map_or(0, Map::len)));
    let mut properties = Map::new();
    let all = variants.iter().filter_map(|variant| members(variant)).flatten();
    for (name, member) in all.filter(|(name, _)| !LEFT_OUT.contains(&name.as_str())) {
        let outline = outline(name, member);
        match properties.get_mut(name) {
            None => drop(properties.insert(name.clone(), outline)),
            Some(known) => join(known, outline),
        }
    }
    let always = |name: &&String| variants.iter().all(|variant| requires(variant, name));
    let required: Vec<&String> = properties.keys().filter(always).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

fn whole<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    Schema::to_value(settings.into_generator().into_root_schema_for::<T>())
}

fn members(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

fn requires(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|required| required.iter().any(|known| known == name))
}

/// A member by its kind alone.
fn outline(name: &str, member: &Value) -> Value {
    if let Some(either) = member.get("anyOf").and_then(Value::as_array) {
        let either: Vec<Value> = either.iter().map(|member| outline(name, member)).collect();
        return json!({ "anyOf": either });
    }
    if let Some(kinds) = member.get("type").and_then(Value::as_array) {
        // Some clients refuse lists of types.
        let kinds: Vec<Value> = kinds.iter().map(|kind| json!({ "type": kind })).collect();
        return json!({ "anyOf": kinds });
    }
    let mut small = Map::new();
    for (word, value) in member.as_object().into_iter().flatten() {
        if word == "type" || (word == "enum" && LISTED.contains(&name)) {
            small.insert(word.clone(), value.clone());
        }
    }
    if small.get("type").is_some_and(|kind| kind == "array") {
        small.insert("items".to_owned(), json!({ "type": "object" }));
    }
    Value::Object(small)
}

/// Lets `known` be what `other` may be as well: where both list names, all of them.
fn join(known: &mut Value, other: Value) {
    let more = other.get("enum").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(names) = known.get_mut("enum").and_then(Value::as_array_mut) {
        names.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tools/list` stays below these, in bytes: with the gateway's own tools, and with all.
    const OWN_BYTES_MAX: usize = 8000;
    const LIST_BYTES_MAX: usize = 20_000;

    fn all_tools() -> Vec<Value> {
        TABLE.iter().map(describe).collect()
    }

    #[test]
    fn the_list_is_small_and_the_same_each_time() {
        for (tools, bytes_max) in
            [(own_tools as fn() -> _, OWN_BYTES_MAX), (all_tools, LIST_BYTES_MAX)]
        {
            let text = json!({ "tools": tools() }).to_string();
            assert_eq!(text, json!({ "tools": tools() }).to_string());
            assert!(text.len() < bytes_max, "{} bytes: {text}", text.len());
        }
    }

    #[test]
    fn names_are_such_as_every_client_takes() {
        for tool in TABLE {
            let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
            assert!((1..=40).contains(&tool.name.len()), "{}", tool.name);
            assert!(tool.name.bytes().all(plain), "{}", tool.name);
            assert!(tool.title.contains('.'), "{}", tool.title);
        }
    }

    #[test]
    fn schemas_are_plain() {
        for tool in all_tools() {
            let name = tool["name"].as_str().unwrap();
            for schema in ["inputSchema", "outputSchema"] {
                assert_eq!(tool[schema]["type"], "object", "{name}");
                let text = tool[schema].to_string();
                for word in ["\"type\":[", "$ref", "$defs", "\"number\"", "\\n"] {
                    assert!(!text.contains(word), "{name}: {word} in {text}");
                }
            }
            assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
            let hints = tool["annotations"].as_object().unwrap();
            assert!(hints.len() == 4 && hints.values().all(Value::is_boolean), "{name}: {hints:?}");
        }
    }

    #[test]
    fn arguments_and_answers() {
        #[rustfmt::skip]
        let table = [
            // tool                arguments, those that are required in front
            "stripe_refund       | target! amountMinor currency reason justification idempotencyKey dryRun",
            "get_intent          | intentId idempotencyKey",
            "list_refunds        | state limit cursor",
            "get_budget          | ",
            "get_approval_status | approvalId! waitSeconds",
            "cancel_refund       | intentId!",
            "finance_payments    | date_from date_to limit cursor",
            "finance_balance     | ",
            "customers_search    | keyword! limit",
            "finance_disputes    | status limit cursor",
            "finance_refund      | payment_intent! amount reason justification idempotencyKey",
        ];
        let found = all_tools().into_iter().map(|tool| {
            let schema = &tool["inputSchema"];
            let mark = |name| if requires(schema, name) { "!" } else { "" };
            let names = members(schema).unwrap().keys();
            let names: Vec<String> = names.map(|name| format!("{name}{}", mark(name))).collect();
            format!("{:<19} | {}", tool["name"].as_str().unwrap(), names.join(" "))
        });
        assert_eq!(found.collect::<Vec<_>>(), table);
    }

    /// A dry run and an intent are both answers of one tool.
    #[test]
    fn an_outline_covers_every_variant() {
        let answer = &own_tools()[0]["outputSchema"];
        let statuses = answer["properties"]["status"]["enum"].as_array().unwrap();
        assert!(statuses.contains(&json!("dry_run")) && statuses.contains(&json!("refunded")));
        assert_eq!(answer["required"], json!(["status", "amount", "reasons", "next"]));
        assert_eq!(
            answer["properties"]["refund"],
            json!({ "anyOf": [{ "type": "object" }, { "type": "null" }] })
        );
    }
}
