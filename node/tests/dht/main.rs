//! The DHT: a few peers that talk to each other, and the routing of many.

mod network;
mod routing;

use std::{env, fmt::Write as _, fs};

use network::Network;
use routing::{Lookup, Routing};

#[tokio::test]
async fn peers_that_joined_through_one_of_them_find_each_other() {
    let network = Network::joined(8).await;
    network.publish_all().await;
    network.assert_each_finds_the_next().await;
    network.assert_unknown_is_not_found().await;
}

/// `docs/benchmarks/dht` says what was seen with 10,000 of them: `KETCH_DHT_PEERS` says how many there are here, and
/// `KETCH_DHT_ROWS` names a file for the rows.
#[test]
fn a_lookup_takes_few_steps_among_many_peers_and_outlives_the_loss_of_a_third() {
    let peers = env::var("KETCH_DHT_PEERS").map_or(500, |text| text.parse().unwrap());
    let lookups = peers / 10;
    let mut routing = Routing::new(peers);
    let all: Vec<_> = (0..lookups).map(|number| routing.publish_and_find(number)).collect();
    routing.lose_every(3);
    let fewer: Vec<_> = (0..lookups).filter_map(|number| routing.find_again(number)).collect();

    write_rows(peers, &[("all", &all), ("a third gone", &fewer)]);
    for lookup in all.iter().chain(&fewer) {
        assert!(lookup.found && lookup.steps <= peers.ilog2(), "{lookup:?}");
    }
    assert!(fewer.len() > lookups / 5, "{} lookups by peers that stayed", fewer.len());
}

fn write_rows(peers: usize, phases: &[(&str, &[Lookup])]) {
    let Ok(path) = env::var("KETCH_DHT_ROWS") else { return };
    let mut text = String::from("peers,phase,found,steps,questions,unanswered\n");
    for (phase, lookups) in phases {
        for Lookup { found, steps, questions, unanswered } in *lookups {
            writeln!(text, "{peers},{phase},{found},{steps},{questions},{unanswered}").unwrap();
        }
    }
    fs::write(path, text).unwrap();
}
