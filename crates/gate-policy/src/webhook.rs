//! Where an agent hears what became of its requests.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::fault::echo;

/// Longest URL of a webhook, in bytes.
const URL_BYTES_MAX: usize = 1024;

/// The URL of a webhook: `https`, a host that reads one way only, no name or password, no fragment.
///
/// What its host resolves to is looked at with each delivery, by whoever delivers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WebhookUrl(String);

impl WebhookUrl {
    /// Takes a URL as it is written.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            let example = "write one like \"https://bot.example.com/hooks/refunds\"";
            format!("{} will not do: {what}; {example}", echo(text))
        };
        if text.len() > URL_BYTES_MAX {
            return Err(wrong(&format!("it is longer than {URL_BYTES_MAX} bytes")));
        }
        let rest = text.strip_prefix("https://").ok_or_else(|| wrong("it is not https"))?;
        if !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte)) {
            return Err(wrong("it has characters that a URL writes as %XX"));
        }
        if rest.contains('#') {
            return Err(wrong("it has a fragment (#), which is never sent"));
        }
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(wrong("it has a name or password in it"));
        }
        if !is_host(host_of(authority).ok_or_else(|| wrong("its port is none"))?) {
            return Err(wrong("its host is neither a name nor a plain address"));
        }
        Ok(Self(text.to_owned()))
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The host before a port of 1 to 65535, or without a port.
fn host_of(authority: &str) -> Option<&str> {
    let after_brackets = authority.rfind(']').map_or(0, |at| at.saturating_add(1));
    let Some((_, port)) = authority.get(after_brackets..)?.split_once(':') else {
        return Some(authority);
    };
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    port.parse::<u16>().ok().filter(|number| digits && *number > 0)?;
    authority.strip_suffix(port)?.strip_suffix(':')
}

/// Whether it is a name, or an address in the one form that nobody reads differently: a last label
/// that is a number makes it an IPv4 address, and that has four decimal parts.
fn is_host(host: &str) -> bool {
    if let Some(inside) = host.strip_prefix('[') {
        return inside.strip_suffix(']').is_some_and(|text| text.parse::<Ipv6Addr>().is_ok());
    }
    let is_label = |label: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(known)
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last
            .to_ascii_lowercase()
            .strip_prefix("0x")
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_address = host.parse::<Ipv4Addr>().is_ok();
    host.len() <= 253 && host.split('.').all(is_label) && (!is_number || is_address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_webhook() {
        let long = format!("https://a.example/{}", "x".repeat(URL_BYTES_MAX));
        let fits = format!("https://a.example/{}", "x".repeat(URL_BYTES_MAX - 18));
        let label = format!("https://{}.example/", "a".repeat(64));
        #[rustfmt::skip]
        let table = [
            ("https://bot.example.com/hooks/refunds",   ""),
            ("https://bot.example.com",                 ""),
            ("https://bot.example.com:8443/a?b=c&d=%20",""),
            ("https://bot.example.com?q",               ""),
            ("https://Bot_1.Example-2.com/",            ""),
            ("https://localhost/",                      ""),
            ("https://8.8.8.8:443/",                    ""),
            ("https://[2001:4860:4860::8888]:8443/",    ""),
            ("https://a.example/@me",                   ""),
            (&fits,                                     ""),
            (&long,                                     "longer than 1024 bytes"),
            ("http://bot.example.com/",                 "not https"),
            ("HTTPS://bot.example.com/",                "not https"),
            ("bot.example.com",                         "not https"),
            ("",                                        "not https"),
            ("https://bot.example.com/#a",              "fragment"),
            ("https://me:pw@bot.example.com/",          "name or password"),
            ("https://8.8.8.8@127.0.0.1/",              "name or password"),
            ("https://bot.example.com\\@127.0.0.1/",    "characters"),
            ("https://bot.example.com/a b",             "characters"),
            ("https://bücher.example/",                 "characters"),
            ("https://bot.example.com/\n",              "characters"),
            ("https://bot.example.com:0/",              "port"),
            ("https://bot.example.com:65536/",          "port"),
            ("https://bot.example.com:/",               "port"),
            ("https://bot.example.com:+80/",            "port"),
            ("https:///hooks",                          "host"),
            ("https://?q",                              "host"),
            ("https://.example.com/",                   "host"),
            ("https://a..example/",                     "host"),
            ("https://example.com./",                   "host"),
            (&label,                                    "host"),
            ("https://a%2eb/",                          "host"),
            ("https://2130706433/",                     "host"),
            ("https://0x7f000001/",                     "host"),
            ("https://0x7f.1/",                         "host"),
            ("https://0177.0.0.1/",                     "host"),
            ("https://127.1/",                          "host"),
            ("https://127.0.0.0x1/",                    "host"),
            ("https://1.2.3.4.5/",                      "host"),
            ("https://127.0.0.1./",                     "host"),
            ("https://[::1/",                           "port"),
            ("https://[fe80::1%25eth0]/",               "host"),
            ("https://[127.0.0.1]/",                    "host"),
        ];
        for (url, wrong) in table {
            match WebhookUrl::parse(url) {
                Ok(parsed) => assert_eq!((parsed.as_str(), wrong), (url, ""), "{url}"),
                Err(fault) => assert!(!wrong.is_empty() && fault.contains(wrong), "{url}: {fault}"),
            }
        }
    }
}
