//! Requests and answers as plain data. Neither prints what may be secret: of bodies only the
//! length is shown, of URLs nothing after the path, of secret headers only the name.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

/// What is asked of the other host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Method {
    /// Read; sends no body.
    Get,
    /// Do.
    Post,
}

/// A header's value.
#[derive(Clone, Debug)]
pub enum HeaderText {
    /// One that anybody may see.
    Plain(String),
    /// A credential; never printed.
    Secret(SecretString),
}

impl HeaderText {
    /// The value as it goes over the wire.
    #[must_use]
    pub fn expose(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Secret(text) => text.expose_secret(),
        }
    }

    /// Whether it is a credential.
    #[must_use]
    pub const fn is_secret(&self) -> bool {
        matches!(self, Self::Secret(_))
    }
}

impl From<&str> for HeaderText {
    fn from(text: &str) -> Self {
        Self::Plain(text.to_owned())
    }
}

/// One request.
#[derive(Clone)]
pub struct Request {
    /// What is asked.
    pub method: Method,
    /// The whole URL; see [`check_url`](crate::check_url) for where requests may go.
    pub url: String,
    /// Names and values; `Host` and `Content-Length` are added.
    pub headers: Vec<(&'static str, HeaderText)>,
    /// Sent byte for byte.
    pub body: Vec<u8>,
}

impl Request {
    /// The first value of a header, whatever the case of its name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&HeaderText> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.url.split_once('?').map_or(&*self.url, |(path, _)| path);
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("url", &path)
            .field("headers", &self.headers)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// One answer, whatever its status.
#[derive(Clone, Default)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// Names, in lower case, and values; a value that is not UTF-8 is made so, lossily.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Response {
    /// The first value of a header, whatever the case of its name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_print_and_are_found() {
        let request = Request {
            method: Method::Post,
            url: "https://host/path?email=canary".to_owned(),
            headers: vec![
                ("accept", "text/plain".into()),
                ("Authorization", HeaderText::Secret("canary".into())),
            ],
            body: b"canary".to_vec(),
        };
        let response = Response {
            status: 200,
            headers: vec![("set-cookie".to_owned(), "canary".to_owned())],
            body: b"canary".to_vec(),
        };
        let printed = format!("{request:?} {:#?} {response:?}", request.headers);
        assert!(!printed.contains("canary"), "{printed}");
        assert!(printed.contains("text/plain"), "{printed}");
        let secret = request.header("authorization").unwrap();
        assert_eq!((secret.expose(), secret.is_secret()), ("canary", true));
        assert_eq!(response.header("Set-Cookie"), Some("canary"));
    }
}
