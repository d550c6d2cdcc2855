//! Ids out of a seed.
//!
//! The generator is splitmix64 (Steele, Lea and Flood, 2014): tiny, and the same everywhere. It is
//! not for secrets.

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A seeded source of ids.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// `prefix` followed by `length` letters and digits.
    pub(crate) fn id(&mut self, prefix: &str, length: usize) -> String {
        let mut id = String::from(prefix);
        for _ in 0..length {
            let place = usize::try_from(self.word() % 62).unwrap_or(0);
            id.push(char::from(ALPHABET.get(place).copied().unwrap_or(b'0')));
        }
        id
    }

    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn words_are_those_of_the_published_generator() {
        let mut random = Random::new(1_234_567);
        let words: Vec<u64> = (0..3).map(|_| random.word()).collect();
        assert_eq!(
            words,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
