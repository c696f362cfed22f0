//! One suite for all back ends. Each test says what would be wrong; `world.rs` says how a pair of connections comes about.
#![cfg(not(loom))]

mod deputy;
mod far;
mod hostile;
mod peers_regions;
mod processes;
mod shared;
mod suite;
mod world;

use kintsugidb_fabric::{Fabric, OneSided};
use world::World;

macro_rules! suite {
    ($name:ident, $module:ident, $world:expr, $($test:ident)*) => {
        mod $name {
            use super::*;
            $(#[test] fn $test() {
                let world = $world;
                if world.available() {
                    $module::$test(&world);
                }
            })*
        }
    };
}

macro_rules! all {
    ($name:ident, $world:expr) => {
        suite! { $name, suite, $world,
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
            a_sleeper_takes_no_cpu
            a_restarted_listener_is_another_incarnation
        }
    };
}

/// Regions that the connecting side hands out.
macro_rules! all_peers_regions {
    ($name:ident, $world:expr) => {
        suite! { $name, peers_regions, $world,
            the_listening_side_reads_and_writes_what_it_was_handed
            both_sides_hand_out_regions_at_once
            what_their_table_excludes_is_refused_at_once
            a_listener_that_takes_none_refuses_who_has_some
            a_killed_process_ends_what_is_under_way_on_its_regions
        }
    };
}

/// What needs another process.
macro_rules! all_processes {
    ($name:ident, $world:expr) => {
        suite! { $name, processes, $world,
            reads_go_on_while_the_target_is_stopped_or_name_its_agent
            a_killed_target_ends_everything_under_way
            a_client_killed_while_it_sends_leaves_whole_messages_and_an_end
            nothing_is_left_open_after_connections
        }
    };
}

/// Two machines: what the other side does is asked of its deputy.
macro_rules! all_far {
    ($name:ident, $processes:ident, $world:expr) => {
        all!($name, $world);
        suite! { $processes, processes, $world,
            reads_go_on_while_the_target_is_stopped_or_name_its_agent
            a_killed_target_ends_everything_under_way
            a_client_killed_while_it_sends_leaves_whole_messages_and_an_end
        }
    };
}

/// Who does not keep to the handshake.
macro_rules! all_hostile {
    ($name:ident, $world:expr) => {
        suite! { $name, hostile, $world,
            nonsense_is_answered_with_a_refusal_and_an_end
            strangers_who_say_nothing_are_turned_away_and_do_not_stop_others
            nothing_is_served_before_the_password
        }
    };
}

#[test]
fn child() {
    processes::child();
}

all!(shm, World::new(Fabric::Shm));
all!(tcp, World::new(Fabric::Tcp));
all_processes!(shm_processes, World::new(Fabric::Shm));
all_processes!(tcp_processes, World::new(Fabric::Tcp));
all_peers_regions!(shm_peers_regions, World::new(Fabric::Shm));
all_peers_regions!(tcp_peers_regions, World::new(Fabric::Tcp));
all_peers_regions!(verbs_peers_regions, World::new(Fabric::Verbs));
all_peers_regions!(rdma_peers_regions, World::new(Fabric::Rdma));
all_peers_regions!(sim_peers_regions, World::new(Fabric::Sim));
all_far!(tcp_far, tcp_far_processes, World::far(Fabric::Tcp));
all_far!(verbs_far, verbs_far_processes, World::far(Fabric::Verbs));
all_far!(rdma_far, rdma_far_processes, World::far(Fabric::Rdma));
all!(sim, World::new(Fabric::Sim));
all!(sim_emulated, World { one_sided: OneSided::Emulated, ..World::new(Fabric::Sim) });
all!(rdma, World::new(Fabric::Rdma));
all!(verbs, World::new(Fabric::Verbs));
all_processes!(rdma_processes, World::new(Fabric::Rdma));
all_processes!(verbs_processes, World::new(Fabric::Verbs));
all_hostile!(shm_hostile, World::new(Fabric::Shm));
all_hostile!(tcp_hostile, World::new(Fabric::Tcp));
