//! In which order a run observes its conditions. Pure: the same plan gives the same order everywhere, so that a run
//! which is resumed knows what is left.

use serde::Deserialize;

/// How the conditions of a round are ordered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    /// Anew by chance in each round.
    #[default]
    Shuffled,
    /// By a Williams design (E. J. Williams 1949, Experimental designs balanced for the estimation of residual effects of
    /// treatments): over a whole number of squares every condition has every position and every other condition right
    /// before it equally often, so that what one leaves behind falls on all alike.
    Williams,
}

/// When a condition has its turn; both count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) round: u32,
    pub(crate) position: u32,
    /// Which of the conditions.
    pub(crate) condition: usize,
}

/// All turns of `rounds` rounds of so many conditions, in order.
pub(crate) fn turns(order: Order, conditions: usize, rounds: u32, seed: u64) -> Vec<Turn> {
    let mut random = fastrand::Rng::with_seed(seed);
    let shuffled = |random: &mut fastrand::Rng| {
        let mut all: Vec<usize> = (0..conditions).collect();
        random.shuffle(&mut all);
        all
    };
    let orders: Vec<Vec<usize>> = match order {
        Order::Shuffled => (0..rounds).map(|_| shuffled(&mut random)).collect(),
        Order::Williams => {
            let (names, square) = (shuffled(&mut random), square(conditions));
            let mut rows: Vec<usize> = (0..square.len()).collect();
            random.shuffle(&mut rows);
            let row = |row: usize| square[row].iter().map(|&symbol| names[symbol]).collect();
            rows.into_iter().cycle().take(rounds as usize).map(row).collect()
        }
    };
    (1..).zip(orders).flat_map(|(round, order)| in_round(round, order)).collect()
}

/// Rounds of one whole square: as many as conditions, or twice as many where their number is odd.
pub(crate) fn square_rounds(conditions: usize) -> usize {
    if conditions.is_multiple_of(2) { conditions } else { 2 * conditions }
}

fn in_round(round: u32, order: Vec<usize>) -> impl Iterator<Item = Turn> {
    (1..).zip(order).map(move |(position, condition)| Turn { round, position, condition })
}

/// The first row goes 0, 1, n-1, 2, n-2 and so on, so that its neighbours differ by every number once; each further row
/// adds one to all. An odd number needs the rows backwards too.
fn square(n: usize) -> Vec<Vec<usize>> {
    let first: Vec<usize> =
        (0..n).map(|index| if index % 2 == 1 { index.div_ceil(2) } else { (n - index / 2) % n }).collect();
    let forwards = (0..n).map(|add| first.iter().map(|symbol| (symbol + add) % n).collect());
    let mut rows: Vec<Vec<usize>> = forwards.collect();
    if n % 2 == 1 {
        let backwards: Vec<Vec<usize>> = rows.iter().map(|row| row.iter().rev().copied().collect()).collect();
        rows.extend(backwards);
    }
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The conditions of each round, in order.
    fn rounds(turns: &[Turn], conditions: usize) -> Vec<Vec<usize>> {
        turns.chunks(conditions).map(|round| round.iter().map(|turn| turn.condition).collect()).collect()
    }

    #[test]
    fn every_round_has_every_condition_once_in_positions_from_1() {
        for order in [Order::Shuffled, Order::Williams] {
            for conditions in 1..20 {
                let turns = turns(order, conditions, 7, 42);
                assert_eq!(turns.len(), 7 * conditions);
                for (round, chunk) in (1..).zip(turns.chunks(conditions)) {
                    assert!(chunk.iter().all(|turn| turn.round == round));
                    assert!(chunk.iter().map(|turn| turn.position).eq(1..=conditions as u32));
                    let mut all: Vec<_> = chunk.iter().map(|turn| turn.condition).collect();
                    all.sort_unstable();
                    assert!(all.into_iter().eq(0..conditions));
                }
            }
        }
    }

    #[test]
    fn in_whole_squares_each_follows_and_stands_everywhere_equally_often() {
        for conditions in 2..=17 {
            let count = square_rounds(conditions);
            let turns = turns(Order::Williams, conditions, count as u32, 7);
            let (mut follows, mut places) = (BTreeMap::new(), BTreeMap::new());
            for round in rounds(&turns, conditions) {
                for pair in round.windows(2) {
                    *follows.entry((pair[0], pair[1])).or_insert(0_usize) += 1;
                }
                for (position, condition) in round.into_iter().enumerate() {
                    *places.entry((position, condition)).or_insert(0_usize) += 1;
                }
            }
            let each = count / conditions;
            assert_eq!(follows.len(), conditions * (conditions - 1));
            assert!(follows.values().all(|&times| times == each), "{conditions}: {follows:?}");
            assert_eq!(places.len(), conditions * conditions);
            assert!(places.values().all(|&times| times == each), "{conditions}: {places:?}");
        }
    }

    #[test]
    fn the_seed_decides_and_more_rounds_leave_the_first_as_they_are() {
        for order in [Order::Shuffled, Order::Williams] {
            let of = |rounds, seed| turns(order, 16, rounds, seed);
            assert_eq!(of(5, 7), of(5, 7));
            assert_ne!(of(5, 7), of(5, 8));
            assert_eq!(of(5, 7), of(9, 7)[..5 * 16]);
        }
    }

    #[test]
    fn nothing_to_observe_gives_no_turns() {
        for order in [Order::Shuffled, Order::Williams] {
            assert!(turns(order, 0, 3, 7).is_empty());
            assert!(turns(order, 3, 0, 7).is_empty());
        }
    }
}
