//! Pages of a list, and the cursors that lead from one to the next.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gate_core::{IntentId, Page};
use schemars::JsonSchema;
use serde::Serialize;

use crate::intent::IntentView;
use crate::schema;
use crate::surface::SurfaceError;

/// What a cursor starts with, so that another form can be told from this one.
const CURSOR_PREFIX: &str = "v1:";

/// Intents, newest first.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "IntentPage")]
pub struct PageView {
    /// At most as many as were asked for.
    pub data: Vec<IntentView>,
    /// What to pass as `cursor` for older ones; null when there are none.
    #[schemars(schema_with = "schema::nullable_string")]
    pub next_cursor: Option<String>,
}

impl PageView {
    /// `page` for the wire.
    #[must_use]
    pub fn new(page: &Page) -> Self {
        let last = page.intents.last().filter(|_| page.more);
        Self {
            data: page.intents.iter().map(|intent| IntentView::new(intent, false, true)).collect(),
            next_cursor: last.map(|intent| cursor_of(&intent.id)),
        }
    }
}

/// The cursor for what is older than `id`. Its form is nobody's business but [`parse_cursor`]'s.
#[must_use]
pub fn cursor_of(id: &IntentId) -> String {
    URL_SAFE_NO_PAD.encode(format!("{CURSOR_PREFIX}{id}"))
}

/// The intent that a cursor stands at.
///
/// # Errors
///
/// [`SurfaceError::InvalidRequest`] naming `cursor` for whatever [`cursor_of`] did not make.
pub fn parse_cursor(cursor: &str) -> Result<IntentId, SurfaceError> {
    let decoded = URL_SAFE_NO_PAD.decode(cursor).ok();
    decoded
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|text| IntentId::parse(text.strip_prefix(CURSOR_PREFIX)?).ok())
        .ok_or_else(|| {
            SurfaceError::invalid(
                "cursor",
                "must be the `nextCursor` of a page before, unchanged; leave it out to start with \
                 the newest",
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::intent;
    use gate_core::State;
    use proptest::prelude::*;

    #[test]
    fn pages_lead_on_only_where_there_is_more() {
        for (count, more, next) in
            [(0, false, false), (0, true, false), (2, false, false), (2, true, true)]
        {
            let intents = vec![intent(State::Settled); count];
            let view = PageView::new(&Page { intents, more });
            assert_eq!(view.data.len(), count);
            assert_eq!(view.next_cursor.is_some(), next, "{count} {more}");
        }
        let empty = serde_json::to_string(&PageView::new(&Page::default())).unwrap();
        assert_eq!(empty, r#"{"data":[],"nextCursor":null}"#);
    }

    #[test]
    fn what_is_no_cursor_is_refused_by_name() {
        let wrong = |text: &str| URL_SAFE_NO_PAD.encode(text);
        for text in ["", "int_1", "!", &wrong("int_1"), &wrong("v2:int_1"), &wrong("v1:ch_1")] {
            let Err(SurfaceError::InvalidRequest { field, .. }) = parse_cursor(text) else {
                panic!("{text:?} was taken");
            };
            assert_eq!(field.as_deref(), Some("cursor"));
        }
    }

    proptest! {
        #[test]
        fn cursors_come_back(id in "int_[a-zA-Z0-9]{1,60}") {
            let id = IntentId::parse(&id).unwrap();
            prop_assert_eq!(parse_cursor(&cursor_of(&id)).unwrap(), id);
        }

        #[test]
        fn nothing_panics(text in ".*") {
            let _ = parse_cursor(&text);
        }
    }
}
