//! One suite for all back ends. Each test says what would be wrong; `world.rs` says how a pair of connections comes about.

mod suite;
mod world;

use kintsugidb_fabric::Fabric;
use world::World;

macro_rules! suite {
    ($name:ident, $world:expr, $($test:ident)*) => {
        mod $name {
            use super::*;
            $(#[test] fn $test() {
                let world = $world;
                if world.available() {
                    suite::$test(&world);
                }
            })*
        }
    };
}

macro_rules! all {
    ($name:ident, $world:expr) => {
        suite! { $name, $world,
            reads_see_what_the_owner_stored
            what_the_region_table_excludes_is_refused_at_once
            messages_arrive_whole_and_in_order_both_ways
            large_messages_arrive_whole
            a_slow_receiver_stops_the_sender_and_nothing_is_lost
            a_peer_that_goes_is_noticed_after_its_last_message
            a_sleeper_is_woken_by_a_message_and_by_the_end
            a_deregistered_buffer_is_refused_and_not_written
            writes_reach_the_region_where_they_are_granted
            completions_are_bounded_and_none_is_lost
            wrong_credentials_are_refused_with_the_reason
        }
    };
}

all!(shm, World::new(Fabric::Shm));
all!(rdma, World::new(Fabric::Rdma));
all!(tcp, World::new(Fabric::Tcp));
