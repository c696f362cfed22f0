//! A secondary index next to its data: people, and which of them live where.
//!
//! ```text
//!   person:7        hash   name, city                 on one shard
//!   city:Lisbon     set    the people who live there  on another
//! ```
//! A person moves: the hash and both sets change in one transaction, whatever shards they are on. A reader who reads a person and the
//! cities together never finds somebody in two cities, in none, or in another one than the person's own record says. One thread moves
//! people, this one checks, for the seconds that are given.
//!
//! ```text
//! kintsugi serve --port 0 --fabric shm:/tmp/k.sock &
//! cargo run --release -p kintsugidb-client --example secondary_index -- shm:/tmp/k.sock 5
//! ```
use kintsugidb_client::{Client, Error, Result, Value};
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

const PEOPLE: u64 = 100;
const CITIES: [&str; 4] = ["Lisbon", "Kyoto", "Accra", "Quito"];

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("an address, as in shm:/tmp/k.sock")?;
    let seconds: u64 = std::env::args().nth(2).map_or(Ok(3), |n| n.parse())?;
    let mut reader = Client::connect(&address)?;
    for p in 0..PEOPLE {
        let (person, city) = (format!("person:{p}"), CITIES[p as usize % 4]);
        let t = reader.transaction().hset(&person, "name", format!("P{p}")).hset(&person, "city", city);
        t.sadd(format!("city:{city}"), [&person]).exec()?;
    }
    let (stop, moves) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut checks, mut state) = (0u64, 2_463_534_242);
    std::thread::scope(|scope| -> Result<()> {
        let mover = scope.spawn(|| move_people(&address, &stop, &moves));
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut checked = Ok(());
        while Instant::now() < end && checked.is_ok() {
            checked = check(&mut reader, random(&mut state) % PEOPLE);
            checks += 1;
        }
        stop.store(true, Ordering::Relaxed);
        mover.join().expect("the mover does not panic")?;
        checked
    })?;
    let moves = moves.load(Ordering::Relaxed);
    println!("{checks} checks while people moved {moves} times: the index always agreed with the data");
    println!("{:?}", reader.counters());
    Ok(())
}

fn move_people(address: &str, stop: &AtomicBool, moves: &AtomicU64) -> Result<()> {
    let mut c = Client::connect(address)?;
    let mut state = 88_172_645_463_325_252;
    while !stop.load(Ordering::Relaxed) {
        let person = format!("person:{}", random(&mut state) % PEOPLE);
        let Some(from) = c.hget(&person, "city")? else { continue };
        let to = CITIES[random(&mut state) as usize % 4];
        if from == to.as_bytes() {
            continue;
        }
        let from = [b"city:", from.as_slice()].concat();
        let t = c.transaction().hset(&person, "city", to).srem(from, [&person]);
        t.sadd(format!("city:{to}"), [&person]).exec()?;
        moves.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Reads a person and all cities at once.
fn check(c: &mut Client, p: u64) -> Result<()> {
    let person = format!("person:{p}");
    let mut t = c.transaction().hget(&person, "city");
    for city in CITIES {
        t = t.command(&["SISMEMBER", &format!("city:{city}"), &person]);
    }
    let replies = t.exec()?.expect("nothing is watched");
    let said = replies[0].bytes().map(|b| String::from_utf8_lossy(b).into_owned());
    let found: Vec<_> =
        CITIES.iter().zip(&replies[1..]).filter(|(_, r)| **r == Value::Int(1)).map(|(c, _)| *c).collect();
    if found == [said.as_deref().unwrap_or("nowhere")] {
        return Ok(());
    }
    Err(Error::Unexpected(format!("{person} lives in {said:?} by its record, in {found:?} by the index")))
}
