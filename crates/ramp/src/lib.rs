//! Read Atomic transactions over shards: coordinator, participant, five isolation algorithms, and the simulator
