//! Lists.
use super::parse::{ONE_KEY, commands};
use crate::{Call, Command, ListEnd, Result};

pub(crate) static TABLE: &[Command] = commands! { List:
    "rpush" -3 (WRITE|DENYOOM|FAST) ONE_KEY Single Rmw "1.0.0" "O(N) where N is the number of elements"
        "key element [element ...]" "Appends elements to the tail of a list." => |c| push(c, ListEnd::Right);
};

fn push(c: &mut Call<'_>, end: ListEnd) -> Result<()> {
    let n = c.shard.list_push(c.args[1], end, &c.args[2..])?;
    c.out.int(n as i64);
    Ok(())
}
