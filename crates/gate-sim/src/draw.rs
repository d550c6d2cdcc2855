//! Chance that can be asked in any order: every draw is a function of the seed and of what it is
//! for, so that leaving one out changes no other.

/// Mixes a seed with up to three numbers that say what the draw is for.
#[must_use]
pub(crate) const fn mixed(seed: u64, a: u64, b: u64, c: u64) -> u64 {
    let mut x = seed ^ 0x9E37_79B9_7F4A_7C15;
    x = scrambled(x.wrapping_add(a.wrapping_mul(0xA24B_AED4_963E_E407)));
    x = scrambled(x.wrapping_add(b.wrapping_mul(0x9FB2_1C65_1E98_DF25)));
    scrambled(x.wrapping_add(c.wrapping_mul(0xD6E8_FEB8_6659_FD93)))
}

const fn scrambled(mut x: u64) -> u64 {
    x ^= x >> 30;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A stream of draws for one purpose.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    seed: u64,
    next: u64,
}

impl Draw {
    /// The stream for the purpose `(a, b)` of a seed.
    pub(crate) const fn of(seed: u64, a: u64, b: u64) -> Self {
        Self { seed: mixed(seed, a, b, 0), next: 0 }
    }

    pub(crate) const fn bits(&mut self) -> u64 {
        self.next += 1;
        mixed(self.seed, self.next, 0, 1)
    }

    /// A number below `bound`, which is at least 1.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// A number in `from..=to`.
    pub(crate) const fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// True `times` times in a thousand.
    pub(crate) const fn permille(&mut self, times: u64) -> bool {
        self.below(1000) < times
    }

    /// One of several words.
    pub(crate) const fn word(&mut self, among: &[&'static str]) -> &'static str {
        among[(self.bits() % among.len() as u64) as usize]
    }

    /// One of several.
    pub(crate) const fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[(self.bits() % among.len() as u64) as usize]
    }
}
