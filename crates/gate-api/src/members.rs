//! The members of a JSON object, each with its value's own text: so that a number is judged by its
//! digits and never passes through a float, and that a key given twice is seen.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::surface::SurfaceError;

/// An object's members in the order in which they came; each key is there once.
#[derive(Debug)]
pub(crate) struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads a body that must be an object with no other members than `known`.
    ///
    /// # Errors
    ///
    /// [`SurfaceError::InvalidRequest`], with the place where the body stops being JSON or with the
    /// name of the member that is unknown or given twice.
    pub(crate) fn parse(body: &'a [u8], known: &[&'static str]) -> Result<Self, SurfaceError> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(SurfaceError::malformed("the body is empty; send a JSON object"));
        }
        let members: Self = serde_json::from_slice(body).map_err(|error| not_an_object(&error))?;
        let mut seen = Vec::new();
        for (name, _) in &members.0 {
            let Some(known) = known.iter().find(|known| *known == name) else {
                return Err(SurfaceError::unknown(name, known));
            };
            if seen.contains(known) {
                return Err(SurfaceError::invalid(known, "is given twice; give it once"));
            }
            seen.push(known);
        }
        Ok(members)
    }

    /// The text of a member's value, exactly as it came.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(member, _)| member == name).map(|(_, value)| value.get())
    }

    /// A member that must be a string.
    pub(crate) fn string(&self, name: &'static str) -> Result<Option<String>, SurfaceError> {
        self.typed(name, "a string")
    }

    /// A member that must be `true` or `false`.
    pub(crate) fn boolean(&self, name: &'static str) -> Result<Option<bool>, SurfaceError> {
        self.typed(name, "true or false")
    }

    fn typed<T: Deserialize<'a>>(
        &self,
        name: &'static str,
        what: &str,
    ) -> Result<Option<T>, SurfaceError> {
        let Some(raw) = self.raw(name) else {
            return Ok(None);
        };
        serde_json::from_str(raw).map(Some).map_err(|_| {
            let advice = if raw == "null" { "; leave it out instead of sending null" } else { "" };
            SurfaceError::invalid(name, &format!("must be {what}{advice}"))
        })
    }
}

fn not_an_object(error: &serde_json::Error) -> SurfaceError {
    match error.classify() {
        Category::Data => SurfaceError::malformed("the body must be a JSON object"),
        // Neither repeats what was sent; both name the line and the column.
        Category::Eof | Category::Io | Category::Syntax => {
            SurfaceError::malformed(&format!("the body is not JSON: {error}"))
        }
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}
