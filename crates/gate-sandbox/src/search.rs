//! Stripe's search: its query language, what of it an object matches, and its pages.
//!
//! A query is up to ten clauses, `field:"value"`, joined by spaces or `AND`, or all by `OR`; a
//! clause may be negated by `-`. Unlike on Stripe, what was just made is found at once. Stripe says
//! that it takes up to a minute, and longer on a bad day.

use serde_json::Value;

use crate::failure::Failure;

/// How many clauses a query may have.
const CLAUSES_MAX: usize = 10;
/// How many characters a query may have.
const QUERY_CHARS_MAX: usize = 5000;
/// How many characters a part of a text must have to be searched for.
const PART_CHARS_MIN: usize = 3;

/// What a field holds, which decides how it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A whole number.
    Number,
    /// A text that is matched as a whole or in part.
    Text,
    /// A text that is matched as a whole only.
    Token,
    /// A text that is matched by words next to each other, or in part.
    Words,
}

/// Fields of a resource that can be searched, but for metadata.
pub(crate) type Fields = &'static [(&'static str, Kind)];

/// A query that can be put to objects.
#[derive(Debug)]
pub(crate) struct Query {
    clauses: Vec<Clause>,
    /// Whether one clause is enough.
    any: bool,
}

#[derive(Debug)]
struct Clause {
    negated: bool,
    field: String,
    /// The key within `metadata`.
    key: Option<String>,
    kind: Kind,
    operator: Operator,
    /// None for `null`.
    value: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Above,
    AtLeast,
    AtMost,
    Below,
    Contains,
    Is,
}

/// The longer ones first, so that none is taken for its own beginning.
const OPERATORS: [(&str, Operator); 6] = [
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    (">", Operator::Above),
    ("<", Operator::Below),
    ("~", Operator::Contains),
    (":", Operator::Is),
];

impl Query {
    /// Reads a query over `fields` of `resource`, whose name is for errors.
    pub(crate) fn parse(text: &str, resource: &str, fields: Fields) -> Result<Self, Failure> {
        if text.chars().count() > QUERY_CHARS_MAX {
            return Err(unreadable("It is longer than 5000 characters."));
        }
        let mut rest = text.trim();
        let mut clauses = Vec::new();
        let mut joined = None;
        while !rest.is_empty() {
            if !clauses.is_empty() {
                let (any, after) = join(rest);
                if joined.is_some_and(|before| before != any) {
                    return Err(unreadable("AND and OR cannot be combined in one query."));
                }
                joined = Some(any);
                rest = after;
            }
            let (clause, after) = clause(rest, resource, fields)?;
            if !after.is_empty() && !after.starts_with(char::is_whitespace) {
                return Err(unreadable("A clause must be followed by a space."));
            }
            clauses.push(clause);
            rest = after.trim_start();
        }
        match clauses.len() {
            0 => Err(unreadable("It has no clause.")),
            1..=CLAUSES_MAX => Ok(Self { clauses, any: joined.unwrap_or(false) }),
            _ => Err(unreadable("It has more than 10 clauses.")),
        }
    }

    /// Whether an object matches, as it is rendered.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let mut met = self.clauses.iter().map(|clause| clause.matches(object));
        if self.any { met.any(|met| met) } else { met.all(|met| met) }
    }
}

impl Clause {
    fn matches(&self, object: &Value) -> bool {
        let held = object.get(&self.field);
        let held = match &self.key {
            Some(key) => held.and_then(|metadata| metadata.get(key)),
            None => held,
        };
        let held = match held {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => Some(other.to_string()),
        };
        let met = match (&self.value, held) {
            (None, held) => held.is_none(),
            (Some(_), None) => false,
            (Some(wanted), Some(held)) => self.compares(&held, wanted),
        };
        met != self.negated
    }

    fn compares(&self, held: &str, wanted: &str) -> bool {
        let (low_held, low_wanted) = (held.to_lowercase(), wanted.to_lowercase());
        match (self.operator, self.kind) {
            (Operator::Contains, _) => low_held.contains(&low_wanted),
            (Operator::Is, Kind::Text) => low_held == low_wanted,
            (Operator::Is, Kind::Token) => held == wanted,
            (Operator::Is, Kind::Words) => {
                low_held == low_wanted || has_phrase(&words(&low_held), &words(&low_wanted))
            }
            (operator, _) => match (held.parse::<i64>(), wanted.parse::<i64>()) {
                (Ok(held), Ok(wanted)) => match operator {
                    Operator::Above => held > wanted,
                    Operator::AtLeast => held >= wanted,
                    Operator::AtMost => held <= wanted,
                    Operator::Below => held < wanted,
                    Operator::Contains | Operator::Is => held == wanted,
                },
                _ => false,
            },
        }
    }
}

/// What joins the next clause to the one before, and what follows: `OR` says true, `AND` and
/// nothing at all say false.
fn join(text: &str) -> (bool, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match word.to_ascii_uppercase().as_str() {
        "AND" => (false, rest.trim_start()),
        "OR" => (true, rest.trim_start()),
        _ => (false, text),
    }
}

/// Reads one clause and answers what follows it.
fn clause<'a>(text: &'a str, resource: &str, fields: Fields) -> Result<(Clause, &'a str), Failure> {
    let (negated, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
    let (field, rest) = text.split_at(text.find(|letter| !is_part(letter)).unwrap_or(text.len()));
    let (key, rest) = match rest.strip_prefix('[') {
        None => (None, rest),
        Some(rest) => {
            let (key, rest) = quoted(rest)?;
            let rest = rest.strip_prefix(']').ok_or_else(|| unreadable("A ] is missing."))?;
            (Some(key), rest)
        }
    };
    let found = OPERATORS.iter().find_map(|(sign, it)| Some((*it, rest.strip_prefix(sign)?)));
    let Some((operator, rest)) = found.filter(|_| !field.is_empty()) else {
        return Err(unreadable(""));
    };
    let kind = match (field, &key) {
        ("metadata", Some(_)) => Some(Kind::Token),
        (_, None) => fields.iter().find(|(name, _)| *name == field).map(|(_, kind)| *kind),
        (_, Some(_)) => None,
    };
    let kind = kind.ok_or_else(|| {
        Failure::invalid(format!(
            "Field `{field}` is an unsupported search field for resource `{resource}`. See \
             http://stripe.com/docs/search#query-fields-for-{resource} for a list of supported \
             fields."
        ))
    })?;
    let (value, rest) = value(rest, kind)?;
    let fits = match (operator, kind) {
        (Operator::Is, _) => true,
        (Operator::Contains, Kind::Text | Kind::Words) => true,
        (Operator::Contains, Kind::Number | Kind::Token) => false,
        (_, kind) => kind == Kind::Number && value.is_some(),
    };
    if !fits {
        return Err(unreadable(&format!("Field `{field}` does not take this operator.")));
    }
    let short = value.as_ref().is_none_or(|part| part.chars().count() < PART_CHARS_MIN);
    if operator == Operator::Contains && short {
        return Err(unreadable("A substring must have at least 3 characters."));
    }
    Ok((Clause { negated, field: field.to_owned(), key, kind, operator, value }, rest))
}

/// The value of a clause and what follows it: a quoted text, a number, or `null`, which is none.
fn value(text: &str, kind: Kind) -> Result<(Option<String>, &str), Failure> {
    if text.starts_with(['"', '\'']) {
        let (value, rest) = quoted(text)?;
        return Ok((Some(value), rest));
    }
    let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    if word.eq_ignore_ascii_case("null") {
        return Ok((None, rest));
    }
    match word.parse::<i64>() {
        Ok(number) if kind == Kind::Number => Ok((Some(number.to_string()), rest)),
        Ok(_) | Err(_) => Err(unreadable("Texts must stand in quotes.")),
    }
}

/// A text in single or double quotes, in which a backslash makes the next character plain, and
/// what follows it.
fn quoted(text: &str) -> Result<(String, &str), Failure> {
    let mut letters = text.char_indices();
    let Some((_, quote @ ('"' | '\''))) = letters.next() else {
        return Err(unreadable("A quote is missing."));
    };
    let mut value = String::new();
    while let Some((_, letter)) = letters.next() {
        match letter {
            '\\' => value.extend(letters.next().map(|(_, plain)| plain)),
            letter if letter == quote => return Ok((value, letters.as_str())),
            letter => value.push(letter),
        }
    }
    Err(unreadable("A quote is not closed."))
}

fn words(text: &str) -> Vec<&str> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).collect()
}

fn has_phrase(held: &[&str], wanted: &[&str]) -> bool {
    !wanted.is_empty() && held.windows(wanted.len()).any(|some| some == wanted)
}

/// Stripe's error for a query that it cannot read. Its first two sentences are Stripe's own.
fn unreadable(why: &str) -> Failure {
    let text = format!(
        "We were unable to parse your search query. Try using the format \
         `metadata[\"key\"]:\"value\"` to query for metadata or key:\"value\" to query for other \
         fields. {why}"
    );
    Failure::invalid(text.trim_end()).param("query")
}
