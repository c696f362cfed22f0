//! CLIENT.
use super::{answer, help, integer, text, unknown_subcommand, wrong_number};
use crate::{
    clients::ClientCard,
    conn::{Conn, ReplyMode},
    dispatch::Flow,
    letter::Letter,
    registry,
    worker::Worker,
};
use kintsugidb_engine::Error;
use std::sync::atomic::Ordering::Relaxed;

/// A name that CLIENT LIST can show in one word.
pub(super) fn check_name(name: &[u8]) -> Result<String, Error> {
    if name.iter().all(|b| (b'!'..=b'~').contains(b)) {
        Ok(text(name))
    } else {
        Err(Error::other("ERR Client names cannot contain spaces, newlines or special characters."))
    }
}

pub(super) fn client(w: &mut Worker, c: &mut Conn, args: &[&[u8]]) -> Flow {
    let Some(sub) = args.get(1) else { return answer(c, Err(wrong_number("client"))) };
    let sub = text(sub).to_ascii_lowercase();
    // CLIENT REPLY answers by itself.
    if sub == "reply" && args.len() == 3 {
        let done = reply(c, args[2]);
        return answer(c, done);
    }
    let done = run(w, c, &sub, args);
    answer(c, done)
}

fn run(w: &mut Worker, c: &mut Conn, sub: &str, args: &[&[u8]]) -> Result<(), Error> {
    match (sub, &args[2..]) {
        ("id", []) => c.out.int(c.card.id as i64),
        ("getname", []) => match c.card.name() {
            name if name.is_empty() => c.out.null(),
            name => c.out.bulk(name.as_bytes()),
        },
        ("setname", [name]) => {
            c.card.set_name(&check_name(name)?);
            c.out.ok();
        }
        ("setinfo", [what, value]) => {
            let mut library = c.card.library.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let value = check_name(value).map_err(|_| {
                Error::other(format!(
                    "ERR {} cannot contain spaces, newlines or special characters.",
                    text(what)
                ))
            })?;
            match &*text(what).to_ascii_lowercase() {
                "lib-name" => library.0 = value,
                "lib-ver" => library.1 = value,
                _ => return Err(Error::other(format!("ERR Unrecognized option '{}'", text(what)))),
            }
            c.out.ok();
        }
        ("info", []) => {
            let line = line(w, &c.card) + "\n";
            c.out.verbatim(&line);
        }
        ("list", filter) => list(w, c, filter)?,
        ("kill", filter @ [_, ..]) => kill(w, c, filter)?,
        ("no-evict" | "no-touch", [mode]) => {
            let on = match &*text(mode).to_ascii_lowercase() {
                "on" => true,
                "off" => false,
                _ => return Err(Error::Syntax),
            };
            if sub == "no-evict" {
                c.card.no_evict.store(on, Relaxed);
            }
            c.out.ok();
        }
        ("pause", [ms, mode @ ..]) => {
            let writes_only = match mode {
                [] => false,
                [m] if m.eq_ignore_ascii_case(b"all") => false,
                [m] if m.eq_ignore_ascii_case(b"write") => true,
                _ => return Err(Error::other("ERR CLIENT PAUSE mode must be WRITE or ALL")),
            };
            let ms =
                integer(ms).map_err(|_| Error::other("ERR timeout is not an integer or out of range"))?;
            let ms = u64::try_from(ms).map_err(|_| Error::other("ERR timeout is negative"))?;
            w.shared.paused_writes_only.store(writes_only, Relaxed);
            w.shared.paused_until_ms.store(w.now_ms.saturating_add(ms), Relaxed);
            c.out.ok();
        }
        ("unpause", []) => {
            w.shared.paused_until_ms.store(1, Relaxed);
            c.out.ok();
        }
        ("unblock", [id, ..]) => {
            integer(id)?;
            c.out.int(0);
        }
        ("tracking", [mode, ..]) if mode.eq_ignore_ascii_case(b"off") => c.out.ok(),
        ("tracking", [mode, ..]) if mode.eq_ignore_ascii_case(b"on") => {
            return Err(Error::other("ERR client tracking is not supported"));
        }
        ("trackinginfo", []) => {
            c.out.map(3);
            c.out.bulk(b"flags");
            c.out.set(1);
            c.out.bulk(b"off");
            c.out.bulk(b"redirect");
            c.out.int(-1);
            c.out.bulk(b"prefixes");
            c.out.array(0);
        }
        ("getredir", []) => c.out.int(-1),
        ("caching", [_]) => {
            return Err(Error::other(
                "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
            ));
        }
        ("help", []) => help(
            c,
            "CLIENT",
            &[
                "ID",
                "GETNAME",
                "SETNAME <name>",
                "SETINFO <option> <value>",
                "INFO",
                "LIST [TYPE type | ID id ...]",
                "KILL <ip:port> | [ID id] [ADDR a] [LADDR a] [TYPE t] [USER u] [SKIPME yes|no]",
                "NO-EVICT (ON|OFF)",
                "PAUSE <ms> [WRITE|ALL]",
                "UNPAUSE",
                "REPLY (ON|OFF|SKIP)",
                "TRACKING OFF",
                "HELP",
            ],
        ),
        (
            "id" | "getname" | "setname" | "setinfo" | "info" | "kill" | "no-evict" | "no-touch" | "pause"
            | "unpause" | "unblock" | "tracking" | "trackinginfo" | "getredir" | "caching" | "reply" | "help",
            _,
        ) => return Err(wrong_number(&format!("client|{sub}"))),
        _ => return Err(unknown_subcommand("CLIENT", args)),
    }
    Ok(())
}

fn reply(c: &mut Conn, mode: &[u8]) -> Result<(), Error> {
    match &*text(mode).to_ascii_lowercase() {
        "on" => {
            c.reply_mode = ReplyMode::On;
            c.out.ok();
        }
        "off" => c.reply_mode = ReplyMode::Off,
        "skip" if c.reply_mode == ReplyMode::On => c.reply_mode = ReplyMode::SkipNext,
        "skip" => {}
        _ => return Err(Error::Syntax),
    }
    Ok(())
}

fn line(w: &Worker, card: &ClientCard) -> String {
    let command = registry::by_index(card.last_command.load(Relaxed)).map_or("NULL", |e| e.command.name);
    card.line(w.now_ms, command)
}

fn list(w: &mut Worker, c: &mut Conn, filter: &[&[u8]]) -> Result<(), Error> {
    let mut ids = None;
    match filter {
        [] => {}
        [option, kind] if option.eq_ignore_ascii_case(b"type") => match &*text(kind).to_ascii_lowercase() {
            "normal" => {}
            "master" | "replica" | "slave" | "pubsub" => ids = Some(Vec::new()),
            other => return Err(Error::other(format!("ERR Unknown client type '{other}'"))),
        },
        [option, rest @ ..] if option.eq_ignore_ascii_case(b"id") && !rest.is_empty() => {
            let parsed: Result<Vec<i64>, Error> = rest.iter().map(|a| integer(a)).collect();
            ids = Some(parsed.map_err(|_| Error::other("ERR Invalid client ID"))?);
        }
        _ => return Err(Error::Syntax),
    }
    let mut all = String::new();
    for card in w.shared.clients.all() {
        if ids.as_ref().is_none_or(|ids| ids.contains(&(card.id as i64))) {
            all += &line(w, &card);
            all.push('\n');
        }
    }
    c.out.verbatim(&all);
    Ok(())
}

fn kill(w: &mut Worker, c: &mut Conn, filter: &[&[u8]]) -> Result<(), Error> {
    let (mut id, mut addr, mut laddr, mut kind, mut skip_me) = (None, None, None, true, true);
    let old_form = filter.len() == 1;
    if let [address] = filter {
        addr = Some(text(address));
        skip_me = false;
    } else {
        let (pairs, rest) = filter.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(Error::Syntax);
        }
        for [option, value] in pairs {
            let value = text(value);
            match &*text(option).to_ascii_lowercase() {
                "id" => {
                    let n: i64 =
                        value.parse().map_err(|_| Error::other("ERR client-id should be greater than 0"))?;
                    if n < 1 {
                        return Err(Error::other("ERR client-id should be greater than 0"));
                    }
                    id = Some(n as u64);
                }
                "addr" => addr = Some(value),
                "laddr" => laddr = Some(value),
                "user" if value == "default" => {}
                "user" => return Err(Error::other(format!("ERR No such user '{value}'"))),
                "type" => match &*value.to_ascii_lowercase() {
                    "normal" => {}
                    "master" | "replica" | "slave" | "pubsub" => kind = false,
                    _ => return Err(Error::other(format!("ERR Unknown client type '{value}'"))),
                },
                "skipme" => match &*value.to_ascii_lowercase() {
                    "yes" => skip_me = true,
                    "no" => skip_me = false,
                    _ => return Err(Error::Syntax),
                },
                _ => return Err(Error::Syntax),
            }
        }
    }
    let mut killed = 0;
    for card in w.shared.clients.all() {
        let me = card.id == c.card.id;
        if kind
            && !(me && skip_me)
            && id.is_none_or(|id| id == card.id)
            && addr.as_ref().is_none_or(|a| *a == card.addr)
            && laddr.as_ref().is_none_or(|a| *a == card.laddr)
        {
            killed += 1;
            if me {
                c.closing = true;
            } else {
                card.kill.store(true, Relaxed);
                w.post(card.thread, Letter::Kill);
            }
        }
    }
    match (old_form, killed) {
        (true, 0) => return Err(Error::other("ERR No such client")),
        (true, _) => c.out.ok(),
        (false, n) => c.out.int(n),
    }
    Ok(())
}
