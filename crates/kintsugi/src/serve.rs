//! `kintsugi serve`.
use crate::cli;
use clap::ArgMatches;
use kintsugidb_server::{Listeners, Server, config::SettingValue as _};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

/// Serves until a signal says to stop.
pub fn run(flags: &ArgMatches) -> Result<(), String> {
    let config = cli::config(flags)?;
    if flags.get_flag("print-config") {
        print!("{}", config.to_toml());
        return Ok(());
    }
    // Before anyone can know that we run: a signal from now on means an orderly stop.
    let signals = Signals::new([SIGTERM, SIGINT]).map_err(|e| e.to_string())?;
    let listeners = Listeners::bind(&config).map_err(|e| e.to_string())?;
    let (shards, isolation, socket) = (config.shards, config.isolation.show(), config.unixsocket.clone());
    let server = Server::start(config, listeners).map_err(|e| e.to_string())?;
    println!(
        "kintsugi {} serves {shards} shards on {} threads, isolation {isolation}",
        env!("CARGO_PKG_VERSION"),
        server.thread_count()
    );
    if server.addresses().is_empty() && server.udp_address().is_none() {
        return Err("there is nothing to listen on: set port, unixsocket, udp or fabric".into());
    }
    for address in server.addresses() {
        println!("  listening on {address}");
    }
    if let Some(address) = server.udp_address() {
        println!("  datagrams at {address}");
    }
    if let Some(port) = server.tcp_port() {
        println!("  connect:  redis-cli -p {port}");
    }
    let native = |a: &&String| ["shm:", "tcp:", "verbs:", "rdma:"].iter().any(|f| a.starts_with(f));
    for address in server.addresses().iter().filter(native) {
        println!("  native clients:  kintsugidb_client::Client::connect({address:?})");
    }
    if !socket.is_empty() {
        println!("  connect:  redis-cli -s {socket}");
    }
    wait(signals, server)
}

/// Waits for a signal, then stops the server.
pub fn wait(mut signals: Signals, server: Server) -> Result<(), String> {
    if signals.forever().next().is_some() {
        println!("kintsugi: stopping");
        server.stop();
    }
    if server.join() { Ok(()) } else { Err("a thread ended in a panic".into()) }
}
