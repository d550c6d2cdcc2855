//! No member is given twice. Readers of JSON differ in which of two they take, so whoever looked
//! at a call before us may have seen another amount than we would.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Sees that no object in a JSON text has a member twice.
///
/// # Errors
///
/// serde_json's, of the kind `data` when a member is there twice.
pub(crate) fn distinct(text: &[u8]) -> Result<(), serde_json::Error> {
    serde_json::from_slice::<Distinct>(text).map(|_| ())
}

struct Distinct;

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Look)
    }
}

struct Look;

impl<'de> Visitor<'de> for Look {
    type Value = Distinct;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_str<E>(self, _: &str) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_unit<E>(self) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Distinct, A::Error> {
        while items.next_element::<Distinct>()?.is_some() {}
        Ok(Distinct)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Distinct, A::Error> {
        let mut seen = BTreeSet::new();
        while let Some((name, Distinct)) = members.next_entry::<String, Distinct>()? {
            if !seen.insert(name) {
                return Err(A::Error::custom("a member is given twice"));
            }
        }
        Ok(Distinct)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_is_seen_at_every_depth() {
        #[rustfmt::skip]
        let table = [
            (r#"{"a":1,"b":[true,null,1.5,-1,"x"],"c":{"a":1}}"#, true),
            (r"[]",                                               true),
            (r#"{"a":1,"a":1}"#,                                  false),
            (r#"{"a":1,"\u0061":2}"#,                             false),
            (r#"{"params":{"arguments":{"n":1,"n":2}}}"#,         false),
            (r#"[{"a":[{"b":1,"b":2}]}]"#,                        false),
            (r#"{"a":"#,                                          false),
        ];
        for (text, expected) in table {
            assert_eq!(distinct(text.as_bytes()).is_ok(), expected, "{text}");
        }
    }
}
