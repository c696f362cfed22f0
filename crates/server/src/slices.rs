//! Vectors of slices whose memory is used again.

/// An empty vector of slices with another lifetime and the same memory.
pub(crate) fn recycle<'a>(mut v: Vec<&[u8]>) -> Vec<&'a [u8]> {
    v.clear();
    v.into_iter().map(|_| -> &'a [u8] { &[] }).collect()
}
