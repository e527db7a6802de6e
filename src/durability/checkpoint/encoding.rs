//! Fields of checkpoint files, one after the other, little-endian.

/// Takes fields from the front of some bytes; `None` when there are too few.
pub(crate) struct Fields<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_order_and_end() {
        let mut fields = Fields { rest: &[1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 7, 8, 9] };
        assert_eq!((fields.u32(), fields.u64()), (Some(1), Some(2)));
        assert_eq!(fields.take(2), Some(&[7, 8][..]));
        assert_eq!((fields.u32(), fields.array::<1>(), fields.array::<1>()), (None, Some([9]), None));
    }
}
