//! The shared-memory region of a shard: index, cells and slab, with an owner's side and a reader's side
