//! Strings.
use super::parse::{ONE_KEY, commands};
use crate::{Call, Command, Expire, Result};

pub(crate) static TABLE: &[Command] = commands! { String:
    "get" 2 (READONLY|FAST) ONE_KEY Single Read "1.0.0" "O(1)"
        "key" "Returns the string value of a key." => get;
    "set" -3 (WRITE|DENYOOM) ONE_KEY Single Blind "1.0.0" "O(1)"
        "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT seconds | PXAT milliseconds | KEEPTTL]"
        "Sets the string value of a key, whatever its type was." => set;
};

fn get(c: &mut Call<'_>) -> Result<()> {
    match c.shard.string(c.args[1])? {
        Some(v) => c.out.bulk(v),
        None => c.out.null(),
    }
    Ok(())
}

fn set(c: &mut Call<'_>) -> Result<()> {
    c.shard.set_string(c.args[1], &[c.args[2]], Expire::Clear)?;
    c.out.ok();
    Ok(())
}
