//! A foreign key that never dangles: orders, and the customers they belong to.
//!
//! ```text
//!   order:12            string  the customer's name          on one shard
//!   customer:ada        hash    exists as long as an order   on another
//!   orders:ada          set     the customer's orders        on a third
//! ```
//! Placing a customer's first order makes the customer; deleting the last order deletes the customer; each in one transaction. Whoever
//! reads an order and its customer together finds both, or neither. One thread places and deletes orders, this one checks.
//!
//! ```text
//! kintsugi serve --port 0 --fabric shm:/tmp/k.sock &
//! cargo run --release -p kintsugidb-client --example foreign_key -- shm:/tmp/k.sock 5
//! ```
use kintsugidb_client::{Client, Error, Result};
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

const CUSTOMERS: u64 = 8;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("an address, as in shm:/tmp/k.sock")?;
    let seconds: u64 = std::env::args().nth(2).map_or(Ok(3), |n| n.parse())?;
    let mut reader = Client::connect(&address)?;
    let (stop, changes) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut checks, mut found) = (0u64, 0u64);
    std::thread::scope(|scope| -> Result<()> {
        let shop = scope.spawn(|| trade(&address, &stop, &changes));
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut checked = Ok(());
        while Instant::now() < end && checked.is_ok() {
            checked = check(&mut reader, checks % CUSTOMERS).map(|there| found += u64::from(there));
            checks += 1;
        }
        stop.store(true, Ordering::Relaxed);
        shop.join().expect("the shop does not panic")?;
        checked
    })?;
    let changes = changes.load(Ordering::Relaxed);
    println!(
        "{checks} checks, {found} of an order that was there, during {changes} changes: no order without its customer"
    );
    println!("{:?}", reader.counters());
    Ok(())
}

fn trade(address: &str, stop: &AtomicBool, changes: &AtomicU64) -> Result<()> {
    let mut c = Client::connect(address)?;
    for n in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let who = n % CUSTOMERS;
        let (order, customer, orders) =
            (format!("order:{who}"), format!("customer:{who}"), format!("orders:{who}"));
        let t = c.transaction().set(&order, &customer).hset(&customer, "since", n.to_string());
        t.sadd(&orders, [&order]).exec()?;
        c.transaction().del(&order).del(&customer).del(&orders).exec()?;
        changes.fetch_add(2, Ordering::Relaxed);
    }
    Ok(())
}

/// Reads an order, its customer and the customer's orders at once; whether they were there.
fn check(c: &mut Client, who: u64) -> Result<bool> {
    let (order, customer) = (format!("order:{who}"), format!("customer:{who}"));
    let t = c.transaction().get(&order).command(&["EXISTS", &customer]);
    let replies =
        t.command(&["SISMEMBER", &format!("orders:{who}"), &order]).exec()?.expect("nothing is watched");
    let order_there = replies[0].bytes().is_some();
    let (customer_there, listed) = (replies[1].int() == Some(1), replies[2].int() == Some(1));
    if order_there == customer_there && order_there == listed {
        return Ok(order_there);
    }
    let what = format!("{order} there: {order_there}, its customer: {customer_there}, in the list: {listed}");
    Err(Error::Unexpected(what))
}
