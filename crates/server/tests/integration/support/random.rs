//! Random input for the fuzz tests, repeated from a seed.

/// xorshift64*
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        let extreme = [0, 1, 0x7f, 0x80, 0xff];
        let length = self.below(most);
        let is_extreme = self.below(2) == 0;
        (0..length).map(|_| if is_extreme { *self.one(&extreme) } else { self.next() as u8 }).collect()
    }
}

/// The number that an environment variable gives.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
