//! CONFIG: our own settings, and the names of other servers' settings that clients read and set.
use super::{answer, help, text, unknown_subcommand, wrong_number};
use crate::{
    config::{SETTINGS, setting},
    conn::Conn,
    dispatch::Flow,
    worker::Worker,
};
use kintsugidb_engine::{Error, glob_match};
use std::sync::PoisonError;

/// Settings of Redis that tools ask for. They can be set, and do nothing here.
const FOREIGN: &[(&str, &str)] = &[
    ("appendfsync", "everysec"),
    ("appendonly", "no"),
    ("databases", "1"),
    ("dir", "/"),
    ("hash-max-listpack-entries", "128"),
    ("hash-max-listpack-value", "64"),
    ("hash-max-ziplist-entries", "128"),
    ("hash-max-ziplist-value", "64"),
    ("hz", "10"),
    ("list-compress-depth", "0"),
    ("list-max-listpack-size", "-2"),
    ("list-max-ziplist-size", "-2"),
    ("lua-time-limit", "5000"),
    ("maxmemory-policy", "noeviction"),
    ("min-replicas-to-write", "0"),
    ("notify-keyspace-events", ""),
    ("rdb-key-save-delay", "0"),
    ("replica-read-only", "yes"),
    ("replica-serve-stale-data", "yes"),
    ("requirepass", ""),
    ("sanitize-dump-payload", "no"),
    ("save", ""),
    ("set-max-intset-entries", "512"),
    ("slowlog-log-slower-than", "-1"),
    ("zset-max-listpack-entries", "128"),
    ("zset-max-listpack-value", "64"),
    ("zset-max-ziplist-entries", "128"),
    ("zset-max-ziplist-value", "64"),
];

pub(super) fn config(w: &mut Worker, c: &mut Conn, args: &[&[u8]]) -> Flow {
    let done = run(w, c, args);
    answer(c, done)
}

fn run(w: &mut Worker, c: &mut Conn, args: &[&[u8]]) -> Result<(), Error> {
    let Some(sub) = args.get(1) else { return Err(wrong_number("config")) };
    let sub = text(sub).to_ascii_lowercase();
    match (&*sub, &args[2..]) {
        ("get", patterns @ [_, ..]) => {
            let found = find(w, patterns);
            c.out.map(found.len());
            for (name, value) in found {
                c.out.bulk(name.as_bytes());
                c.out.bulk(value.as_bytes());
            }
        }
        ("set", pairs @ [_, _, ..]) if pairs.len().is_multiple_of(2) => {
            set(w, pairs)?;
            c.out.ok();
        }
        ("resetstat", []) => {
            w.shared.stats.iter().for_each(|s| s.reset());
            c.out.ok();
        }
        ("rewrite", []) => return Err(Error::other("ERR The server is running without a config file")),
        ("help", []) => help(c, "CONFIG", &["GET <pattern>", "SET <directive> <value>", "RESETSTAT", "HELP"]),
        ("get" | "set" | "resetstat" | "rewrite" | "help", _) => {
            return Err(wrong_number(&format!("config|{sub}")));
        }
        _ => return Err(unknown_subcommand("CONFIG", args)),
    }
    Ok(())
}

/// Settings whose names match one of the patterns.
fn find(w: &Worker, patterns: &[&[u8]]) -> Vec<(String, String)> {
    let patterns: Vec<_> = patterns.iter().map(|p| p.to_ascii_lowercase()).collect();
    let matches = |name: &str| patterns.iter().any(|p| glob_match(p, name.as_bytes()));
    let config = w.shared.config();
    let mut found: Vec<_> =
        SETTINGS.iter().filter(|s| matches(s.name)).map(|s| (s.name.to_owned(), (s.show)(&config))).collect();
    let changed = w.shared.foreign_settings.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, default) in FOREIGN.iter().filter(|(n, _)| matches(n)) {
        let value = changed.get(*name).map_or(*default, String::as_str);
        found.push(((*name).to_owned(), value.to_owned()));
    }
    found
}

fn set(w: &mut Worker, pairs: &[&[u8]]) -> Result<(), Error> {
    let (pairs, _) = pairs.as_chunks::<2>();
    let pairs: Vec<_> = pairs.iter().map(|[n, v]| (text(n).to_ascii_lowercase(), text(v))).collect();
    for (i, (name, _)) in pairs.iter().enumerate() {
        let failed = |why: &str| {
            Err(Error::other(format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
            )))
        };
        if pairs[..i].iter().any(|(n, _)| n == name) {
            return failed("duplicate parameter");
        }
        match setting(name) {
            Some(s) if !s.runtime => return failed("can't set immutable config"),
            None if !FOREIGN.iter().any(|(n, _)| n == name) => {
                return Err(Error::other(format!(
                    "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
                )));
            }
            _ => {}
        }
    }
    w.shared
        .change_config(|config| {
            for (name, value) in &pairs {
                if let Some(s) = setting(name) {
                    (s.parse)(config, value).and_then(|()| config.check()).map_err(|why| {
                        format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
                    })?;
                }
            }
            Ok(())
        })
        .map_err(Error::other)?;
    let mut foreign = w.shared.foreign_settings.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, value) in pairs.into_iter().filter(|(n, _)| setting(n).is_none()) {
        foreign.insert(name, value);
    }
    Ok(())
}
