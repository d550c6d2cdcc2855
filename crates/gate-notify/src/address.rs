//! Which addresses are anybody's to be reached.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What of IPv4 is not anybody's: network and length of the prefix.
const NOT_PUBLIC_V4: [(Ipv4Addr, u32); 17] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),       // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // carriers' NAT
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local, and clouds' metadata
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocol assignments, and a cloud's metadata
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 31, 196, 0), 24), // AS112
    (Ipv4Addr::new(192, 52, 193, 0), 24), // AMT
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(192, 175, 48, 0), 24), // AS112
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 3),     // multicast, reserved, broadcast
];

/// The one part of IPv6 that is given out.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
/// What of that is not anybody's, or has another address inside. A tunnel's end is nobody's server.
const NOT_PUBLIC_V6: [(Ipv6Addr, u32); 5] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments, Teredo, ORCHID
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48), // AS112
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// Whether anybody on the internet may be reached there. What stands for an address of another kind
/// (IPv4-mapped, 6to4, NAT64) never counts as public, whatever it stands for.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NOT_PUBLIC_V4.iter().any(|(net, length)| {
            prefix(address.to_bits().into(), 32, *length)
                == prefix(net.to_bits().into(), 32, *length)
        }),
        IpAddr::V6(address) => {
            let is_in = |(net, length): &(Ipv6Addr, u32)| {
                prefix(address.to_bits(), 128, *length) == prefix(net.to_bits(), 128, *length)
            };
            is_in(&GLOBAL_V6) && !NOT_PUBLIC_V6.iter().any(is_in)
        }
    }
}

/// The first `length` of an address's bits.
fn prefix(bits: u128, size: u32, length: u32) -> u128 {
    bits.checked_shr(size.saturating_sub(length)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_anybody_may_reach() {
        #[rustfmt::skip]
        let table = [
            // public
            ("1.1.1.1",                     true),
            ("8.8.8.8",                     true),
            ("9.255.255.255",               true),
            ("11.0.0.0",                    true),
            ("100.63.255.255",              true),
            ("100.128.0.0",                 true),
            ("126.255.255.255",             true),
            ("128.0.0.0",                   true),
            ("169.253.255.255",             true),
            ("169.255.0.0",                 true),
            ("172.15.255.255",              true),
            ("172.32.0.0",                  true),
            ("192.0.1.0",                   true),
            ("192.0.3.0",                   true),
            ("192.167.255.255",             true),
            ("192.169.0.0",                 true),
            ("198.17.255.255",              true),
            ("198.20.0.0",                  true),
            ("223.255.255.255",             true),
            ("2001:200::1",                 true),
            ("2001:4860:4860::8888",        true),
            ("2606:4700::1111",             true),
            ("2a00:1450:4001::1",           true),
            ("3ffe::1",                     true),
            // this host and network
            ("0.0.0.0",                     false),
            ("0.1.2.3",                     false),
            ("127.0.0.1",                   false),
            ("127.255.255.255",             false),
            ("::",                          false),
            ("::1",                         false),
            // private, link-local, unique-local, carriers' NAT
            ("10.0.0.1",                    false),
            ("10.255.255.255",              false),
            ("100.64.0.0",                  false),
            ("100.100.100.200",             false),
            ("100.127.255.255",             false),
            ("169.254.0.1",                 false),
            ("172.16.0.0",                  false),
            ("172.31.255.255",              false),
            ("192.168.0.0",                 false),
            ("192.168.255.255",             false),
            ("fe80::1",                     false),
            ("febf::1",                     false),
            ("fec0::1",                     false),
            ("fc00::1",                     false),
            ("fdff::1",                     false),
            // metadata
            ("169.254.169.254",             false),
            ("169.254.170.2",               false),
            ("192.0.0.192",                 false),
            ("fd00:ec2::254",               false),
            ("fd20:ce::254",                false),
            // documentation, benchmarks, protocols
            ("192.0.0.0",                   false),
            ("192.0.2.1",                   false),
            ("192.88.99.1",                 false),
            ("192.31.196.1",                false),
            ("192.52.193.1",                false),
            ("192.175.48.1",                false),
            ("198.18.0.0",                  false),
            ("198.19.255.255",              false),
            ("198.51.100.7",                false),
            ("203.0.113.255",               false),
            ("2001:db8::1",                 false),
            ("2001:2::1",                   false),
            ("2001:20::1",                  false),
            ("2620:4f:8000::1",             false),
            ("3fff:fff::1",                 false),
            ("100::1",                      false),
            ("5f00::1",                     false),
            // multicast, reserved, broadcast
            ("224.0.0.1",                   false),
            ("239.255.255.255",             false),
            ("240.0.0.1",                   false),
            ("255.255.255.255",             false),
            ("ff02::1",                     false),
            ("4000::1",                     false),
            ("e000::1",                     false),
            // what stands for another address, public or not
            ("::ffff:127.0.0.1",            false),
            ("::ffff:8.8.8.8",              false),
            ("::ffff:0:10.0.0.1",           false),
            ("::127.0.0.1",                 false),
            ("::8.8.8.8",                   false),
            ("2002:7f00:1::",               false),
            ("2002:808:808::",              false),
            ("64:ff9b::7f00:1",             false),
            ("64:ff9b::808:808",            false),
            ("64:ff9b:1::a00:1",            false),
            ("2001::7f00:1",                false),
        ];
        for (address, public) in table {
            assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
        }
    }
}
