//! One call as it came and its answer as it goes, whatever carries them.

use gate_burnbound::RequestParts;

/// A call as it came, whole.
#[derive(Clone)]
pub struct Call {
    /// `GET` or `POST`.
    pub method: String,
    /// Host, and port unless it is the scheme's own, in lower case.
    pub authority: String,
    /// The path.
    pub path: String,
    /// What follows the question mark, if there is one.
    pub query: Option<String>,
    /// Every header by its name in lower case, in the order in which they came, repeated ones too.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The whole body. How large one may be is looked after before.
    pub body: Vec<u8>,
}

impl Call {
    /// What is signed of it.
    pub(crate) fn with<T>(&self, this: impl FnOnce(&RequestParts<'_>) -> T) -> T {
        let headers: Vec<(&str, &[u8])> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        this(&RequestParts {
            method: &self.method,
            authority: &self.authority,
            path: &self.path,
            query: self.query.as_deref(),
            headers: &headers,
            body: &self.body,
        })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| std::str::from_utf8(value).ok())
    }
}

/// The answer to a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Headers by their names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// JSON.
    pub body: Vec<u8>,
}

impl Answer {
    /// An answer that nobody has signed yet.
    pub(crate) fn unsigned(status: u16, body: Vec<u8>) -> Self {
        let media_type =
            if status == 200 { "application/json" } else { gate_api::Problem::MEDIA_TYPE };
        let headers =
            vec![("content-type", media_type.to_owned()), ("cache-control", "no-store".to_owned())];
        Self { status, headers, body }
    }
}
