//! Where requests may come from: ranges of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A range of IPv4 or IPv6 addresses, such as `10.1.0.0/16`, `2001:db8::/32` or `192.0.2.7`.
///
/// An IPv4 address that comes in IPv6 form (`::ffff:192.0.2.7`) is the IPv4 address.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Source {
    network: IpAddr,
    /// How many leading bits count: at most 32 or 128.
    bits: u8,
}

impl Source {
    /// Reads an address, or a range in CIDR notation; none is silently widened or cut.
    ///
    /// # Errors
    ///
    /// What is wrong and how to write it, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            |why: &str| Err(format!("`{text}` {why}, such as 10.1.0.0/16 or 2001:db8::/32"));
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let Ok(network) = address.parse::<IpAddr>() else {
            return wrong("is no range of addresses: write one");
        };
        if network.to_canonical() != network {
            return wrong("is an IPv4 address in IPv6 form: write it as IPv4");
        }
        let most: u8 = if network.is_ipv4() { 32 } else { 128 };
        let plain =
            |bits: &&str| !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = match bits {
            None => Some(most),
            Some(bits) => Some(bits).filter(plain).and_then(|bits| bits.parse::<u8>().ok()),
        };
        let Some(bits) = bits.filter(|bits| *bits <= most) else {
            return wrong(&format!("needs from 0 to {most} bits behind the slash"));
        };
        let source = Self { network, bits };
        if significant(network, bits) != significant(network, most) {
            return wrong("has bits set behind its length: write the range's first address");
        }
        Ok(source)
    }

    /// Whether `address` is in this range.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.network.is_ipv4()
            && significant(address, self.bits) == significant(self.network, self.bits)
    }
}

/// The first `bits` bits, all others 0; an IPv4 address stands at the front.
fn significant(address: IpAddr, bits: u8) -> u128 {
    let (number, width) = match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32_u32),
        IpAddr::V6(address) => (u128::from(Ipv6Addr::from(address.octets())), 128),
    };
    let dropped = width.saturating_sub(u32::from(bits));
    number.checked_shr(dropped).and_then(|kept| kept.checked_shl(dropped)).unwrap_or(0)
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inside() {
        #[rustfmt::skip]
        let table = [
            // range             address                inside
            ("10.1.0.0/16",      "10.1.255.255",        true),
            ("10.1.0.0/16",      "10.2.0.0",            false),
            ("10.1.0.0/16",      "::ffff:10.1.2.3",     true),
            ("10.1.0.0/16",      "::ffff:10.2.2.3",     false),
            ("192.0.2.7",        "192.0.2.7",           true),
            ("192.0.2.7",        "192.0.2.8",           false),
            ("192.0.2.7/32",     "192.0.2.7",           true),
            ("0.0.0.0/0",        "203.0.113.9",         true),
            ("0.0.0.0/0",        "2001:db8::1",         false),
            ("::/0",             "2001:db8::1",         true),
            ("::/0",             "203.0.113.9",         false),
            ("::/0",             "::ffff:203.0.113.9",  false),
            ("2001:db8::/32",    "2001:db8:ffff::1",    true),
            ("2001:db8::/32",    "2001:db9::1",         false),
            ("2001:db8::1",      "2001:db8::1",         true),
            ("2001:db8::1",      "2001:db8::2",         false),
            ("128.0.0.0/1",      "255.0.0.1",           true),
            ("128.0.0.0/1",      "127.255.255.255",     false),
        ];
        for (range, address, inside) in table {
            let source = Source::parse(range).unwrap();
            assert_eq!(source.contains(address.parse().unwrap()), inside, "{range} {address}");
            assert_eq!(Source::parse(&source.to_string()), Ok(source), "{range}");
        }
    }

    #[test]
    fn what_is_no_range() {
        #[rustfmt::skip]
        let table = [
            ("",                    "is no range"),
            ("office",              "is no range"),
            ("10.1.0/16",           "is no range"),
            ("010.1.0.0/16",        "is no range"),
            ("10.1.0.0 /16",        "is no range"),
            ("10.1.0.0/33",         "needs from 0 to 32 bits"),
            ("10.1.0.0/",           "needs from 0 to 32 bits"),
            ("10.1.0.0/+8",         "needs from 0 to 32 bits"),
            ("10.1.0.0/8/8",        "needs from 0 to 32 bits"),
            ("2001:db8::/129",      "needs from 0 to 128 bits"),
            ("10.1.2.3/16",         "has bits set"),
            ("2001:db8::1/32",      "has bits set"),
            ("::ffff:10.1.0.0/112", "is an IPv4 address"),
        ];
        for (text, why) in table {
            let found = Source::parse(text).expect_err(text);
            assert!(found.starts_with(&format!("`{text}` {why}")), "{text}: {found}");
        }
    }
}
