//! What a request has to pass before anybody looks at it: host, origin, and how many there were.

use std::net::IpAddr;
use std::num::NonZeroU32;

use gate_api::SurfaceError;
use gate_core::AgentId;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, NotUntil, Quota, RateLimiter};
use hyper::HeaderMap;
use hyper::header;

type Now = <DefaultClock as governor::clock::Clock>::Instant;

/// Most failed keys from one address in a minute; then it is told to wait.
const FAILED_KEYS_PER_MINUTE: NonZeroU32 = NonZeroU32::MIN.saturating_add(29);

/// The hosts that requests may come for: a page of another site that has our address under its own
/// name (DNS rebinding) comes for that name.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// Loopback names, and `more`, in lower case and without port.
    #[must_use]
    pub fn new(more: Vec<String>) -> Self {
        Self(more)
    }

    fn allows(&self, authority: &str) -> bool {
        let host = without_port(authority).to_ascii_lowercase();
        is_loopback(&host) || self.0.contains(&host)
    }

    /// Checks `Host` and `Origin`.
    pub(super) fn check(&self, uri: &hyper::Uri, headers: &HeaderMap) -> Result<(), SurfaceError> {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        // HTTP/2 carries the host in the request's own address.
        let host = header(header::HOST).or(uri.authority().map(|authority| authority.as_str()));
        let host = host.unwrap_or_default();
        if !self.allows(host) {
            return Err(SurfaceError::HostRefused { host: host.to_owned() });
        }
        if !headers.contains_key(header::ORIGIN) {
            return Ok(());
        }
        let origin = header(header::ORIGIN).unwrap_or_default();
        let site = origin.split_once("://").map(|(_, site)| site);
        if site.is_some_and(|site| self.allows(site)) {
            return Ok(());
        }
        Err(SurfaceError::OriginRefused { origin: origin.to_owned() })
    }
}

fn without_port(authority: &str) -> &str {
    if let Some(bracketed) = authority.strip_prefix('[') {
        return bracketed.split(']').next().unwrap_or_default();
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// How many requests an agent may make, and how many failed keys an address.
pub struct Limits {
    agents: DefaultKeyedRateLimiter<AgentId>,
    strangers: DefaultKeyedRateLimiter<IpAddr>,
}

impl Limits {
    /// `per_second` for as long as an agent likes, `burst` at once after a pause.
    #[must_use]
    pub fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let strangers = Quota::per_minute(FAILED_KEYS_PER_MINUTE);
        Self {
            agents: RateLimiter::keyed(Quota::per_second(per_second).allow_burst(burst)),
            strangers: RateLimiter::keyed(strangers),
        }
    }

    /// Counts a request of an agent.
    pub(super) fn agent(&self, agent: &AgentId) -> Result<(), SurfaceError> {
        self.agents.check_key(agent).map_err(|until| limited(&until))
    }

    /// Counts a failed key from an address, and forgets addresses that are quiet again.
    pub(super) fn failed_key(&self, from: IpAddr) -> Result<(), SurfaceError> {
        self.strangers.retain_recent();
        self.strangers.check_key(&from).map_err(|until| limited(&until))
    }
}

fn limited(until: &NotUntil<Now>) -> SurfaceError {
    SurfaceError::RateLimited { after: until.wait_time_from(DefaultClock::default().now()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_let_in() {
        let hosts = Hosts::new(vec!["gate.example.com".to_owned()]);
        let ours = Some("http://gate.example.com");
        #[rustfmt::skip]
        let table: [(&str, Option<&str>, &str); 16] = [
            // host                    origin                              refused with
            ("localhost:8787",         None,                               ""),
            ("127.0.0.1:8787",         None,                               ""),
            ("127.9.9.9",              None,                               ""),
            ("[::1]:8787",             None,                               ""),
            ("LOCALHOST",              None,                               ""),
            ("gate.example.com",       None,                               ""),
            ("gate.example.com:443",   ours,                               ""),
            ("localhost",              Some("http://localhost:3000"),      ""),
            ("evil.example",           None,                               "host_refused"),
            ("evil.example:8787",      None,                               "host_refused"),
            ("localhost.evil.example", None,                               "host_refused"),
            ("10.0.0.1",               None,                               "host_refused"),
            ("",                       None,                               "host_refused"),
            ("localhost",              Some("https://evil.example"),       "origin_refused"),
            ("localhost",              Some("null"),                       "origin_refused"),
            ("localhost",              Some("http://localhost.evil.example"), "origin_refused"),
        ];
        for (host, origin, refused) in table {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            let found = hosts.check(&"/".parse().unwrap(), &headers);
            let code = found.err().map_or("", |error| error.code().as_str());
            assert_eq!(code, refused, "{host} {origin:?}");
        }
    }
}
