//! The command line: one flag a setting, from the list of settings.
use clap::{Arg, ArgAction, ArgMatches, Args, Command, CommandFactory as _};
use kintsugidb_server::{
    Config,
    config::{SETTINGS, variable},
};
use std::{io::ErrorKind, path::Path};

/// The variable that names the settings file.
const FILE_VARIABLE: &str = "KINTSUGI_CONFIG";
/// The settings file if none is named.
const FILE: &str = "kintsugi.toml";

/// The whole command line.
pub fn command() -> Command {
    let top = Command::new("kintsugi")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A server for Redis clients whose multi-key reads and writes are atomically visible across shards")
        .args_conflicts_with_subcommands(true)
        .after_help("Without a command, `kintsugi` serves. `kintsugi demo` shows what it is good for.");
    let demo = Command::new("demo")
        .about("Shows fractured reads without isolation, and none with it, in under a minute");
    settings(top)
        .subcommand(settings(Command::new("serve").about("Serves Redis clients (the default)")))
        .subcommand(crate::demo::Options::augment_args(demo))
        .subcommand(crate::target::Options::augment_args(
            Command::new("target").about("Exports files and block devices by remote I/O"),
        ))
        .subcommand(crate::io::Options::augment_args(
            Command::new("io").about("Looks at, copies, checks and replays volumes of a target"),
        ))
        .subcommand(kintsugidb_bench::Bench::command().name("bench"))
}

fn settings(mut command: Command) -> Command {
    command = command
        .arg(Arg::new("config").long("config").value_name("FILE").help("Reads settings from this file"))
        .arg(
            Arg::new("print-config")
                .long("print-config")
                .action(ArgAction::SetTrue)
                .help("Writes all settings with their comments, as a kintsugi.toml, and ends"),
        );
    let defaults = Config::default();
    for s in SETTINGS {
        let text: Vec<_> = s.doc.lines().map(str::trim).collect();
        let default = (s.show)(&defaults);
        let default = if default.is_empty() { String::new() } else { format!(" [default: {default}]") };
        let help = format!("{}{default}", text.join(" "));
        command = command.arg(
            Arg::new(s.name).long(s.name).value_name("VALUE").allow_hyphen_values(true).help(help).action(
                // One address each; the setting has them all.
                if s.name == "fabric" { ArgAction::Append } else { ArgAction::Set },
            ),
        );
    }
    command
}

/// The settings: default, file, environment, flags, each winning over the one before.
pub fn config(flags: &ArgMatches) -> Result<Config, String> {
    let mut config = Config::default();
    let named = flags.get_one::<String>("config").cloned().or_else(|| std::env::var(FILE_VARIABLE).ok());
    let path = named.as_deref().unwrap_or(FILE);
    match std::fs::read_to_string(Path::new(path)) {
        Ok(text) => config.merge_toml(&text).map_err(|why| format!("{path}: {why}"))?,
        Err(e) if e.kind() == ErrorKind::NotFound && named.is_none() => {}
        Err(e) => return Err(format!("{path}: {e}")),
    }
    for s in SETTINGS {
        if let Ok(value) = std::env::var(variable(s.name)) {
            config.set(s.name, &value).map_err(|why| format!("variable {}: {why}", variable(s.name)))?;
        }
    }
    for s in SETTINGS {
        if let Some(values) = flags.get_many::<String>(s.name) {
            let value = values.map(String::as_str).collect::<Vec<_>>().join(" ");
            config.set(s.name, &value).map_err(|why| format!("flag --{why}"))?;
        }
    }
    Ok(config)
}
