//! RESP2 and RESP3: parsing requests, writing replies.
mod args;
mod reply;

pub use args::OwnedArgs;
pub use reply::{Proto, Reply, format_double};
