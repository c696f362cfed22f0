//! Items and the five data structures of one shard, and the table of commands over them
