//! Strings.
use crate::{Call, Class, Command, Expire, Flags, Group, KeySpec, Result, Route};

const ONE_KEY: KeySpec = KeySpec::Range { first: 1, last: 1, step: 1 };

pub(crate) static TABLE: &[Command] = &[
    Command {
        name: "get",
        arity: 2,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: ONE_KEY,
        route: Route::Single,
        class: Class::Read,
        group: Group::String,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the string value of a key.",
        run: get,
    },
    Command {
        name: "set",
        arity: -3,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: ONE_KEY,
        route: Route::Single,
        class: Class::Blind,
        group: Group::String,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Sets the string value of a key, whatever its type was.",
        run: set,
    },
];

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
