//! In which order to run: all conditions once a round, shuffled anew in each, so that no tool always
//! follows the same other one and slow drift of the machine falls on all alike.

use super::{
    adapter::Tool,
    plan::{Plan, Scenario, Work},
    target::FileSystem,
};

/// One cell of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) work: Work,
    pub(crate) scenario: Scenario,
    pub(crate) target: FileSystem,
    pub(crate) tool: Tool,
}

/// A condition and when its turn is; rounds count from 1, positions within a round too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) round: u32,
    pub(crate) position: usize,
    pub(crate) condition: Condition,
}

/// Every condition of `plan`.
pub(crate) fn conditions(plan: &Plan) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for &work in &plan.work {
        for &target in &plan.targets {
            for &scenario in &plan.scenarios {
                let cell = |&tool: &Tool| Condition { work, scenario, target, tool };
                conditions.extend(plan.tools.iter().map(cell));
            }
        }
    }
    conditions
}

/// All turns of all rounds, in order; a pure function of its arguments.
pub(crate) fn turns(conditions: &[Condition], rounds: u32, seed: u64) -> Vec<Turn> {
    let mut random = fastrand::Rng::with_seed(seed);
    let round = |round: u32| {
        let mut order = conditions.to_vec();
        random.shuffle(&mut order);
        order.into_iter().enumerate().map(move |(index, condition)| Turn {
            round,
            position: index + 1,
            condition,
        })
    };
    (1..=rounds).flat_map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::adapter;

    fn eight() -> Vec<Condition> {
        let cell = |tool| Condition {
            work: Work::Source { files: 9 },
            scenario: Scenario::Fresh,
            target: FileSystem::Tmpfs,
            tool,
        };
        adapter::all().take(8).map(cell).collect()
    }

    #[test]
    fn every_round_holds_every_condition_once() {
        let conditions = eight();
        let turns = turns(&conditions, 3, 7);
        assert_eq!(turns.len(), 24);
        for (index, round) in turns.chunks(8).enumerate() {
            assert!(round.iter().all(|turn| turn.round as usize == index + 1));
            assert!(round.iter().map(|turn| turn.position).eq(1..=8));
            let once =
                |condition: &Condition| round.iter().filter(|turn| turn.condition == *condition).count() == 1;
            assert!(conditions.iter().all(once));
        }
    }

    #[test]
    fn the_seed_decides_the_order_and_rounds_differ() {
        let conditions = eight();
        let order = |seed| turns(&conditions, 2, seed);
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        let tools = |turns: &[Turn]| turns.iter().map(|turn| turn.condition.tool).collect::<Vec<_>>();
        assert_ne!(tools(&order(7)[..8]), tools(&order(7)[8..]));
    }

    #[test]
    fn nothing_to_run_gives_no_turns() {
        assert!(turns(&[], 3, 7).is_empty());
        assert!(turns(&eight(), 0, 7).is_empty());
    }
}
