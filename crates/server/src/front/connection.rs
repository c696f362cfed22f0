//! PING, ECHO, HELLO, SELECT, QUIT, RESET, TIME; MULTI and kin.
use super::{answer, integer, text, unknown_subcommand, wrong_number};
use crate::{
    REDIS_VERSION,
    conn::{Conn, ReplyMode},
    dispatch::Flow,
    worker::Worker,
};
use kintsugidb_engine::Error;
use kintsugidb_wire::Proto;
use std::{
    sync::atomic::Ordering,
    time::{SystemTime, UNIX_EPOCH},
};

pub(super) fn ping(_: &mut Worker, c: &mut Conn, args: &[&[u8]]) -> Flow {
    match args {
        [_] => c.out.simple("PONG"),
        [_, text] => c.out.bulk(text),
        _ => return answer(c, Err(wrong_number("ping"))),
    }
    Flow::Taken
}

pub(super) fn echo(_: &mut Worker, c: &mut Conn, args: &[&[u8]]) -> Flow {
    c.out.bulk(args[1]);
    Flow::Taken
}

pub(super) fn hello(w: &mut Worker, c: &mut Conn, args: &[&[u8]]) -> Flow {
    let done = try_hello(w, c, args);
    answer(c, done)
}

fn try_hello(_: &mut Worker, c: &mut Conn, args: &[&[u8]]) -> Result<(), Error> {
    let mut proto = c.out.proto();
    if let Some(version) = args.get(1) {
        let version = integer(version)
            .map_err(|_| Error::other("ERR Protocol version is not an integer or out of range"))?;
        proto = match version {
            2 => Proto::Resp2,
            3 => Proto::Resp3,
            _ => return Err(Error::other("NOPROTO unsupported protocol version")),
        };
    }
    let mut rest = args.get(2..).unwrap_or_default();
    let mut name = None;
    loop {
        rest = match rest {
            [] => break,
            [option, user, _, rest @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                log_in(user)?;
                rest
            }
            [option, n, rest @ ..] if option.eq_ignore_ascii_case(b"setname") => {
                name = Some(super::client::check_name(n)?);
                rest
            }
            [option, ..] => {
                return Err(Error::other(format!("ERR Syntax error in HELLO option '{}'", text(option))));
            }
        };
    }
    if let Some(name) = name {
        c.card.set_name(&name);
    }
    c.out.set_proto(proto);
    c.card.resp.store(if proto == Proto::Resp3 { 3 } else { 2 }, Ordering::Relaxed);
    c.out.map(7);
    for (k, v) in [("server", "redis"), ("version", REDIS_VERSION)] {
        c.out.bulk(k.as_bytes());
        c.out.bulk(v.as_bytes());
    }
    c.out.bulk(b"proto");
    c.out.int(if proto == Proto::Resp3 { 3 } else { 2 });
    c.out.bulk(b"id");
    c.out.int(c.card.id as i64);
    for (k, v) in [("mode", "standalone"), ("role", "master")] {
        c.out.bulk(k.as_bytes());
        c.out.bulk(v.as_bytes());
    }
    c.out.bulk(b"modules");
    c.out.array(0);
    Ok(())
}

/// The one user there is has no password: as in Redis, any will do.
fn log_in(user: &[u8]) -> Result<(), Error> {
    if user == b"default" {
        Ok(())
    } else {
        Err(Error::other("WRONGPASS invalid username-password pair or user is disabled."))
    }
}

pub(super) fn auth(_: &mut Worker, c: &mut Conn, args: &[&[u8]]) -> Flow {
    let done = match args {
        [_, _] => Err(Error::other(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        )),
        [_, user, _] => log_in(user),
        _ => Err(Error::Syntax),
    };
    if done.is_ok() {
        c.out.ok();
    }
    answer(c, done)
}

pub(super) fn select(_: &mut Worker, c: &mut Conn, args: &[&[u8]]) -> Flow {
    let done = integer(args[1])
        .and_then(|n| if n == 0 { Ok(()) } else { Err(Error::other("ERR DB index is out of range")) });
    if done.is_ok() {
        c.out.ok();
    }
    answer(c, done)
}

pub(super) fn quit(_: &mut Worker, c: &mut Conn, _: &[&[u8]]) -> Flow {
    c.out.ok();
    c.closing = true;
    Flow::Taken
}

pub(super) fn reset(_: &mut Worker, c: &mut Conn, _: &[&[u8]]) -> Flow {
    if c.is_waiting() {
        return Flow::Later;
    }
    c.end_multi();
    c.reply_mode = ReplyMode::On;
    c.card.set_name("");
    c.card.no_evict.store(false, Ordering::Relaxed);
    c.card.resp.store(2, Ordering::Relaxed);
    c.out.set_proto(Proto::Resp2);
    c.out.simple("RESET");
    Flow::Taken
}

pub(super) fn time(_: &mut Worker, c: &mut Conn, _: &[&[u8]]) -> Flow {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    c.out.array(2);
    c.out.bulk(now.as_secs().to_string().as_bytes());
    c.out.bulk(now.subsec_micros().to_string().as_bytes());
    Flow::Taken
}

/// There are no functions: nothing to flush, which test suites do first of all.
pub(super) fn function(_: &mut Worker, c: &mut Conn, args: &[&[u8]]) -> Flow {
    if args.get(1).is_some_and(|s| s.eq_ignore_ascii_case(b"flush")) {
        c.out.ok();
        return Flow::Taken;
    }
    answer(c, Err(unknown_subcommand("FUNCTION", args)))
}

pub(super) fn multi(_: &mut Worker, c: &mut Conn, _: &[&[u8]]) -> Flow {
    if c.multi.is_open {
        c.out.error("ERR MULTI calls can not be nested");
    } else {
        c.multi.is_open = true;
        c.card.queued.store(1, Ordering::Relaxed);
        c.out.ok();
    }
    Flow::Taken
}

pub(super) fn discard(_: &mut Worker, c: &mut Conn, _: &[&[u8]]) -> Flow {
    if c.multi.is_open {
        c.end_multi();
        c.out.ok();
    } else {
        c.out.error("ERR DISCARD without MULTI");
    }
    Flow::Taken
}

pub(super) fn watch(w: &mut Worker, c: &mut Conn, args: &[&[u8]]) -> Flow {
    if c.multi.is_open {
        c.out.error("ERR WATCH inside MULTI is not allowed");
        return Flow::Taken;
    }
    w.watch(c, &args[1..])
}

pub(super) fn unwatch(_: &mut Worker, c: &mut Conn, _: &[&[u8]]) -> Flow {
    c.unwatch();
    c.out.ok();
    Flow::Taken
}
