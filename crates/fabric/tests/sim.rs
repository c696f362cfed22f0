//! The simulated network: it tears, reorders, delays and cuts, and does it again for the same seed.
#![cfg(not(loom))]

use kintsugidb_fabric::handshake::Hello;
use kintsugidb_fabric::sim::{Config, Network};
use kintsugidb_fabric::{
    Accepted, Access, ConnectOptions, Connected, Error, Export, Failure, Grant, Mapping, OneSided, Peer,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);
const WORDS: u64 = 16;

fn pair(config: Config) -> (Network, Connected, Accepted, Arc<Mapping>) {
    let region = Arc::new(Mapping::create(1 << 16).unwrap());
    let network = Network::new(config);
    let exports = vec![Export { id: 0, access: Access::ReadWrite, memory: region.clone() }];
    let mut gate = |_: &Hello, _: &Peer| Ok(Grant { exports: exports.clone(), info: Vec::new() });
    let (client, server) = network.connect(&ConnectOptions::default(), &mut gate).unwrap();
    (network, client, server, region)
}

/// Reads while the owner overwrites all words with the next number; what each read saw.
fn reads_under_writes(config: Config) -> Vec<Vec<u64>> {
    let (_, mut client, _server, region) = pair(config);
    let connection = &mut client.connection;
    let buffer = connection.register(4096).unwrap();
    let mut seen = Vec::new();
    for round in 0..200 {
        connection.read(0, 0, buffer.span(0, 8 * WORDS), round).unwrap();
        let mut done = Vec::new();
        while connection.poll(&mut done).unwrap() == 0 {
            let words = region.range(0, 8 * WORDS).unwrap();
            let next = words[0].load(Ordering::Relaxed) + 1;
            words.iter().for_each(|word| word.store(next, Ordering::Relaxed));
        }
        assert_eq!(done[0].result, Ok(()));
        let words = buffer.memory().range(0, 8 * WORDS).unwrap();
        seen.push(words.iter().map(|word| word.load(Ordering::Relaxed)).collect());
    }
    seen
}

#[test]
fn reads_are_torn_at_eight_bytes_and_in_any_order() {
    let torn = |seen: &[Vec<u64>]| seen.iter().filter(|words| words.iter().any(|w| *w != words[0])).count();
    let seen = reads_under_writes(Config::default());
    assert!(torn(&seen) > 100, "{} of 200", torn(&seen));
    let backwards = seen.iter().filter(|words| words.windows(2).any(|w| w[0] > w[1])).count();
    assert!(backwards > 50, "later words older than earlier ones: {backwards} of 200");
    // The canary of whoever relies on it: without tearing there is nothing to see.
    assert_eq!(torn(&reads_under_writes(Config { steps: 1, ..Config::default() })), 0);
}

#[test]
fn the_same_seed_is_the_same_run_and_another_is_another() {
    let run = |seed| reads_under_writes(Config { seed, ..Config::default() });
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn operations_overtake_each_other_and_messages_do_not() {
    let (_, mut client, mut server, _) = pair(Config::default());
    let connection = &mut client.connection;
    let buffer = connection.register(4096).unwrap();
    for token in 0..100 {
        connection.read(0, token * 8, buffer.span(token * 8, 8), token).unwrap();
        connection.send(&token.to_le_bytes()).unwrap();
    }
    let mut done = Vec::new();
    while done.len() < 100 {
        assert!(connection.poll(&mut done).unwrap() > 0 || connection.wait(LONG).unwrap());
    }
    let tokens: Vec<u64> = done.iter().map(|c| c.token).collect();
    assert!(!tokens.is_sorted());
    for token in 0..100u64 {
        let mut message = Vec::new();
        while server.connection.receive(&mut message).unwrap().is_none() {
            assert!(server.connection.wait(LONG).unwrap());
        }
        assert_eq!(message, token.to_le_bytes());
    }
}

#[test]
fn a_cut_completes_everything_once_and_ends_both_sides() {
    let mut failed = 0;
    for seed in 0..100 {
        let (_, mut client, mut server, _) = pair(Config { seed, cut_one_in: 50, ..Config::default() });
        let connection = &mut client.connection;
        let buffer = connection.register(4096).unwrap();
        let (mut posted, mut sent, mut done) = (0, 0u64, Vec::new());
        let end = loop {
            match connection.read(0, 0, buffer.span(0, 64), posted) {
                Ok(()) => posted += 1,
                Err(error) => break error,
            }
            if connection.send(&sent.to_le_bytes()).is_ok() {
                sent += 1;
            }
            let _ = connection.poll(&mut done);
        };
        assert!(matches!(end, Error::PeerDead), "seed {seed}: {end}");
        while connection.poll(&mut done).is_ok() {}
        let mut tokens: Vec<u64> = done.iter().map(|c| c.token).collect();
        tokens.sort_unstable();
        assert!(tokens.iter().copied().eq(0..posted), "seed {seed}: one completion for each");
        failed += done.iter().filter(|c| c.result == Err(Failure::PeerDead)).count();
        let (mut received, mut message) = (0u64, Vec::new());
        while let Ok(Some(_)) = server.connection.receive(&mut message) {
            assert_eq!(
                message,
                received.to_le_bytes(),
                "seed {seed}: what arrives is a beginning of what was sent"
            );
            received += 1;
            message.clear();
        }
        assert!(received <= sent);
        assert!(matches!(server.connection.receive(&mut message), Err(Error::PeerDead)));
    }
    assert!(failed > 20, "cuts hit operations under way: {failed}");
}

#[test]
fn a_stopped_target_serves_one_sided_reads_and_an_emulated_one_does_not() {
    let read = |one_sided| {
        let (network, mut client, _server, _) = pair(Config { one_sided, ..Config::default() });
        network.stop(client.id, true);
        let connection = &mut client.connection;
        let buffer = connection.register(64).unwrap();
        connection.read(0, 0, buffer.span(0, 64), 1).unwrap();
        let mut done = Vec::new();
        while connection.poll(&mut done).unwrap() == 0 {
            connection.wait(LONG).unwrap();
        }
        (done.remove(0).result, network.now())
    };
    assert_eq!(read(OneSided::Truly).0, Ok(()));
    let (result, now) = read(OneSided::Emulated);
    assert!(
        matches!(result, Err(Failure::TimedOut { ref agent, limit_ms: 2000 }) if agent.contains("region 0"))
    );
    assert!(now >= Duration::from_secs(2) && now < Duration::from_secs(3), "{now:?}");
}
