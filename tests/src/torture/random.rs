//! Choices that follow from a seed: the same seed and the same place make the same choices.

/// A stream of numbers (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    /// The stream of one place in the run, such as a round or a client of it.
    pub(crate) fn of(seed: u64, place: &[u64]) -> Self {
        let mut random = Self(seed);
        for part in place {
            random.0 = random.number() ^ part;
        }
        random
    }

    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `bound`, which it never is; `bound` is above 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// So many times in a hundred.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of them; there is one at least.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}
