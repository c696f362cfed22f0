//! A request's arguments in one allocation, for when they outlive the buffer that they were read into.

/// Arguments of one request, packed: the bytes one after the other, and where each ends.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OwnedArgs {
    bytes: Box<[u8]>,
    ends: Box<[u32]>,
}

impl OwnedArgs {
    /// Copies `args`.
    ///
    /// # Panics
    /// If they are longer than 4 GiB together; the parser's limits keep requests below that.
    pub fn new<A: AsRef<[u8]>>(args: &[A]) -> Self {
        let mut bytes = Vec::with_capacity(args.iter().map(|a| a.as_ref().len()).sum());
        let mut ends = Vec::with_capacity(args.len());
        for a in args {
            bytes.extend_from_slice(a.as_ref());
            ends.push(u32::try_from(bytes.len()).expect("the parser limits a request to less than 4 GiB"));
        }
        Self { bytes: bytes.into(), ends: ends.into() }
    }

    /// The number of arguments, the command's name included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no argument.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Argument `i`, if there is one.
    pub fn arg(&self, i: usize) -> Option<&[u8]> {
        let end = *self.ends.get(i)? as usize;
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        Some(&self.bytes[start..end])
    }

    /// All arguments in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|i| self.arg(i))
    }

    /// All arguments as a vector of slices, the form that commands take.
    pub fn to_vec(&self) -> Vec<&[u8]> {
        self.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_back_as_they_went_in() {
        let a = OwnedArgs::new(&[&b"SET"[..], b"", b"value"]);
        assert_eq!(a.to_vec(), vec![&b"SET"[..], b"", b"value"]);
        assert_eq!(a.arg(3), None);
    }
}
