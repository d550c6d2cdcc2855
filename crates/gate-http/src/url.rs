//! Where requests may go: `https` anywhere, plain `http` only to this machine.

use std::fmt;
use std::net::IpAddr;

use hyper::Uri;

/// A URL that nothing is sent to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UrlRefused {
    /// It cannot be read as an absolute `http` or `https` URL.
    Malformed,
    /// It is plain `http` to another machine, where anybody on the way could read and change it.
    PlainHttp,
    /// It carries a name or password before its host.
    UserInfo,
}

impl fmt::Display for UrlRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the URL is not a whole one; write it like https://host/path",
            Self::PlainHttp => {
                "plain http is only spoken to this machine (localhost, 127.0.0.1, [::1]); use https"
            }
            Self::UserInfo => "the URL has a name or password in it; take them out",
        })
    }
}

impl std::error::Error for UrlRefused {}

/// Says whether requests may go to `url`, for a configuration that is checked before it is used.
///
/// # Errors
///
/// [`UrlRefused`]; every request to such a URL is refused as well.
pub fn check_url(url: &str) -> Result<(), UrlRefused> {
    checked(url).map(|_| ())
}

pub(crate) fn checked(url: &str) -> Result<Uri, UrlRefused> {
    let uri: Uri = url.parse().map_err(|_| UrlRefused::Malformed)?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(UrlRefused::Malformed);
    };
    if authority.as_str().contains('@') {
        return Err(UrlRefused::UserInfo);
    }
    match scheme {
        "https" => Ok(uri),
        "http" if is_loopback(authority.host()) => Ok(uri),
        "http" => Err(UrlRefused::PlainHttp),
        _ => Err(UrlRefused::Malformed),
    }
}

/// The address that a URL has in the place of a host's name.
pub(crate) fn literal_address(uri: &Uri) -> Option<IpAddr> {
    address(uri.host()?)
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || address(host).is_some_and(|at| at.is_loopback())
}

fn address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_requests_may_go() {
        #[rustfmt::skip]
        let table = [
            // URL                                  what is said
            ("https://api.stripe.com/v1/refunds",   Ok(())),
            ("https://api.stripe.com:8443",         Ok(())),
            ("http://127.0.0.1:8080/v1",            Ok(())),
            ("http://127.9.9.9",                    Ok(())),
            ("http://[::1]:8080",                   Ok(())),
            ("http://LocalHost:1",                  Ok(())),
            ("http://api.stripe.com/v1",            Err(UrlRefused::PlainHttp)),
            ("http://localhost.evil.example",       Err(UrlRefused::PlainHttp)),
            ("http://127.0.0.1.evil.example",       Err(UrlRefused::PlainHttp)),
            ("http://10.0.0.1",                     Err(UrlRefused::PlainHttp)),
            ("http://user:pass@127.0.0.1",          Err(UrlRefused::UserInfo)),
            ("https://127.0.0.1@evil.example",      Err(UrlRefused::UserInfo)),
            ("ftp://127.0.0.1",                     Err(UrlRefused::Malformed)),
            ("/v1/refunds",                         Err(UrlRefused::Malformed)),
            ("api.stripe.com",                      Err(UrlRefused::Malformed)),
            ("https://a b",                         Err(UrlRefused::Malformed)),
            ("",                                    Err(UrlRefused::Malformed)),
        ];
        for (url, expected) in table {
            assert_eq!(check_url(url), expected, "{url}");
        }
    }
}
