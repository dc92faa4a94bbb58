//! How numbers and findings are put in words: the same ones in every form of the report, no stronger than what was
//! measured.

use std::collections::BTreeSet;

use super::analysis::{
    Analysis,
    comparison::{Comparison, Verdict},
    condition::Condition,
    noise::Noise,
};
use crate::statistics::{
    Bounds, CONFIDENCE, SIGNIFICANCE,
    bootstrap::LEAST_ROUNDS,
    median::{MedianInterval, coverage},
    sign,
};

/// What the figures are of, and what they do not say.
pub(crate) const SCOPE: [&str; 7] = [
    "Scope: paths and bytes of regular files. Owners, modes, times, access control lists and extended attributes are \
     not part of it, nor is what survives a power cut, a resumed copy or an incremental one.",
    "A speed is useful file bytes / ready_s / 1,000,000, in decimal MB/s. ready_s ends when every target file is closed \
     and usable; syncing and the comparison of file set, lengths and SHA-256 come after it, and only a copy that passed \
     that comparison has a speed.",
    "A ratio compares two cells of the same shuffled round, not two transfers at the same time: what varies within a \
     round is in it.",
    "Gains overlap. The ratio of one factor was measured with all others held as named; ratios of several factors are \
     neither added nor multiplied here, and should not be elsewhere.",
    "What is found holds for these builds and settings on this path in these hours. It does not carry over to other \
     paths, and says nothing of a protocol as such: controllers of one name in a kernel and in a library are different \
     programs, and transports differ in more than their wire format.",
    "Counters are those of the whole host. That one rose while a transfer was slow does not make it the cause.",
    "Every row is shown, the slow ones too. A cell that was stopped at its limit has an upper bound of its speed, useful \
     bytes / limit, rounded up; that is no measured partial speed, and nothing is filled in for it.",
];

/// What a share of the large-file reference supports.
pub(crate) const FRACTION_NOTE: &str = "The speed of packed small files as a share of the matching large-file speed in \
     the same round. A share near 1 supports that nothing beyond packing was needed to approach this stack's large-file \
     rate; it does not show that block or snapshot techniques are of no use.";

/// Whether a number stands for itself or for what lies beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Nearest,
    /// The printed number may only be lower.
    Down,
    /// The printed number may only be higher.
    Up,
}

/// MB/s.
pub(crate) fn speed(value: Bounds) -> String {
    bounds(value, number)
}

/// A ratio, of its logarithm.
pub(crate) fn ratio(logarithm: Bounds) -> String {
    bounds(logarithm.map(f64::exp), number)
}

/// A share in percent.
pub(crate) fn share(value: Bounds) -> String {
    bounds(value, |value, side| format!("{} %", rounded(value * 100.0, 1, side)))
}

/// A share in percent, of the logarithm of a ratio.
pub(crate) fn fraction(logarithm: Bounds) -> String {
    share(logarithm.map(f64::exp))
}

/// An interval with what it covers, its ends rounded outwards.
pub(crate) fn interval(interval: MedianInterval, map: impl Fn(f64) -> f64) -> String {
    let ends = interval.ends.map(map);
    let ends = format!("{} to {}", number(ends.low(), Side::Down), number(ends.high(), Side::Up));
    format!("{ends} ({})", covered(interval.coverage))
}

/// What an interval covers.
pub(crate) fn covered(coverage: f64) -> String {
    format!("{} %", rounded(coverage * 100.0, 2, Side::Nearest))
}

/// A probability, which is never printed as zero.
pub(crate) fn chance(chance: f64) -> String {
    if chance < 0.0001 { "< 0.0001".into() } else { rounded(chance, 4, Side::Up) }
}

/// Seconds.
pub(crate) fn seconds(seconds: f64) -> String {
    rounded(seconds, 3, Side::Nearest)
}

/// What may be said of a declared contrast.
pub(crate) fn verdict(comparison: &Comparison) -> String {
    let margin = comparison.question.margin_percent.map(|percent| format!("{percent} %")).unwrap_or_default();
    match comparison.verdict {
        Verdict::Differs { faster, within_margin } => {
            let direction = if faster { "faster" } else { "slower" };
            let by = if within_margin { format!(", by less than {margin}") } else { String::new() };
            format!("{direction}{by}")
        }
        Verdict::Equivalent => format!("no difference of {margin} or more"),
        Verdict::Open => "open: no difference shown, none excluded".into(),
        Verdict::TooFewRounds => "too few rounds to show a difference".into(),
    }
}

/// What a control came out as; good is when the same is the same.
pub(crate) fn control_verdict(comparison: &Comparison) -> String {
    match comparison.verdict {
        Verdict::Differs { within_margin: false, .. } => {
            "differs: figures of this run are in doubt by as much".into()
        }
        Verdict::Differs { within_margin: true, .. }
        | Verdict::Equivalent
        | Verdict::Open
        | Verdict::TooFewRounds => verdict(comparison),
    }
}

/// How much of what rounds scatter by comes with the path, and with what emulates it.
pub(crate) fn noise(noise: &Noise<'_>) -> String {
    let Noise { over_path, without, over_path_s, without_s } = noise;
    let [over_path_s, without_s] = [over_path_s, without_s].map(|deviation| seconds(*deviation));
    let share = rounded(noise.share_of_path() * 100.0, 0, Side::Up);
    format!(
        "ready_s of {over_path} scatters by {over_path_s} s between rounds, and by {without_s} s without a path \
         ({without}). If the ends scatter alike in both, the path, with what emulates it, has {share} % of the variance."
    )
}

/// What as many rounds can show and what they cannot, a sentence each.
pub(crate) fn what_rounds_can_show(analysis: &Analysis<'_>) -> Vec<String> {
    let rounds = analysis.rounds as usize;
    let questions = analysis.contrasts.len();
    let mut sentences = vec![intervals_of(rounds)];
    if questions > 0 {
        sentences.push(findings_of(rounds, questions));
    }
    if rounds < LEAST_ROUNDS {
        sentences.push(format!(
            "Means have no interval here: resampled ones miss too often below {LEAST_ROUNDS} rounds."
        ));
    }
    sentences.extend(analysis.controls.iter().filter_map(|control| power_by(control, questions)));
    sentences
}

/// That a condition's rounds are no repetitions of one thing, where they are not.
pub(crate) fn mixture(condition: &Condition<'_>) -> Option<String> {
    let made =
        condition.cells.values().map(|row| (&row.made_of.build, &row.made_of.lock, &row.made_of.method));
    let kinds = made.collect::<BTreeSet<_>>().len();
    (kinds > 1).then(|| {
        format!(
            "{}: its rounds come from {kinds} builds, lock files or methods, so they do not repeat one thing.",
            condition.name
        )
    })
}

fn intervals_of(rounds: usize) -> String {
    let widest = coverage(rounds, 1);
    let count = if rounds == 1 { "1 round".to_owned() } else { format!("{rounds} rounds") };
    if widest < CONFIDENCE {
        let enough = (rounds..).find(|&more| coverage(more, 1) >= CONFIDENCE).unwrap_or(rounds);
        let covered = covered(widest);
        return format!(
            "{count}: an interval from the least to the greatest holds the median in {covered} of such runs and none \
             covers more; 95 % takes {enough} rounds."
        );
    }
    format!("{count}: intervals are exact and say what they cover, at least 95 %.")
}

fn findings_of(rounds: usize, questions: usize) -> String {
    let least = |rounds: usize| (sign::least_difference(rounds) * questions as f64).min(1.0);
    let asked = if questions == 1 { "1 contrast was".into() } else { format!("{questions} contrasts were") };
    if least(rounds) > SIGNIFICANCE {
        let enough = (rounds..).find(|&more| least(more) <= SIGNIFICANCE).unwrap_or(rounds);
        let (least, level) = (chance(least(rounds)), SIGNIFICANCE);
        return format!(
            "{asked} declared. Rounds that all agree have a corrected chance of {least} without any difference, so \
             {rounds} of them cannot show one at the level of {level}, however large it is; that takes {enough}. \
             The ratios and their intervals stand for themselves."
        );
    }
    format!(
        "{asked} declared and corrected for their number (Holm), so that a false finding among them is at most as likely \
         as {SIGNIFICANCE}. All other ratios are exploratory."
    )
}

fn power_by(control: &Comparison, questions: usize) -> Option<String> {
    let alone = control.power(0.1, SIGNIFICANCE)?;
    let among = control.power(0.1, SIGNIFICANCE / questions.max(1) as f64)?;
    let percent = |power: f64| format!("{} %", rounded(power * 100.0, 0, Side::Down));
    let (scatter, name) = (rounded(control.deviation? * 100.0, 1, Side::Nearest), &control.question.name);
    let (rounds, alone, among) = (control.ratios.len(), percent(alone), percent(among));
    Some(format!(
        "Rounds of the control \"{name}\" scatter by {scatter} %. With normal noise like that, {rounds} rounds find a \
         speed lower by 10 % in {alone} of runs as the only question, and in {among} as the first of those declared."
    ))
}

/// A number to three or four digits.
fn number(value: f64, side: Side) -> String {
    if value.is_infinite() || value == 0.0 {
        return if value > 0.0 { "no limit" } else { "0" }.into();
    }
    let digits = match value.abs() {
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    rounded(value, digits, side)
}

fn bounds(value: Bounds, shown: impl Fn(f64, Side) -> String) -> String {
    let (low, high) = (value.low(), value.high());
    match (low > 0.0, high.is_finite()) {
        _ if low == high => shown(low, Side::Nearest),
        (false, true) => format!("≤ {}", shown(high, Side::Up)),
        (true, false) => format!("≥ {}", shown(low, Side::Down)),
        (true, true) => format!("{} to {}", shown(low, Side::Down), shown(high, Side::Up)),
        (false, false) => "not known".into(),
    }
}

fn rounded(value: f64, digits: usize, side: Side) -> String {
    let scale = 10_f64.powi(digits as i32);
    let steps = value * scale;
    // What is a whole number of steps but for the last bits of the product is not moved a step further.
    let is_whole = (steps - steps.round()).abs() < 1e-9 * steps.abs().max(1.0);
    let steps = match side {
        Side::Nearest => steps.round(),
        Side::Down | Side::Up if is_whole => steps.round(),
        Side::Down => steps.floor(),
        Side::Up => steps.ceil(),
    };
    format!("{:.digits$}", steps / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_or_four_digits() {
        let shown = [0.2986, 1.0, 9.87654, 12.3456, 123.456].map(|value| speed(Bounds::exactly(value)));
        assert_eq!(shown, ["0.299", "1.000", "9.877", "12.35", "123.5"]);
    }

    #[test]
    fn bounds_are_rounded_to_their_open_side() {
        assert_eq!(speed(Bounds::between(0.0, 0.299)), "≤ 0.299");
        assert_eq!(speed(Bounds::between(0.0, 0.2981)), "≤ 0.299");
        assert_eq!(ratio(Bounds::at_least(2.0_f64.ln())), "≥ 2.000");
        assert_eq!(ratio(Bounds::at_least(33.4567_f64.ln())), "≥ 33.45");
        assert_eq!(ratio(Bounds::UNKNOWN), "not known");
        assert_eq!(share(Bounds::between(0.0, 0.2514)), "≤ 25.2 %");
        assert_eq!(speed(Bounds::between(1.0, 2.0)), "1.000 to 2.000");
    }

    #[test]
    fn intervals_are_rounded_outwards_and_say_what_they_cover() {
        let five = MedianInterval { ends: Bounds::between(1.23456, 2.34567), coverage: 0.9375 };
        assert_eq!(interval(five, |value| value), "1.234 to 2.346 (93.75 %)");
        let open = MedianInterval { ends: Bounds::at_least(0.5), coverage: 0.9375 };
        assert_eq!(interval(open, |value| value), "0.500 to no limit (93.75 %)");
    }

    #[test]
    fn the_path_s_share_of_the_noise_is_said() {
        let found = Noise { over_path: "a", without: "b", over_path_s: 0.2, without_s: 0.1 };
        let sentence = noise(&found);
        assert!(
            sentence.contains("a scatters by 0.200 s") && sentence.ends_with("has 75 % of the variance."),
            "{sentence}"
        );
    }

    #[test]
    fn no_chance_is_nothing() {
        assert_eq!(chance(0.0625), "0.0625");
        assert_eq!(chance(0.00001), "< 0.0001");
    }

    #[test]
    fn five_rounds_are_said_to_cover_less_than_95_percent() {
        let sentence = intervals_of(5);
        assert!(
            sentence.contains("in 93.75 % of such runs") && sentence.contains("takes 6 rounds"),
            "{sentence}"
        );
        assert!(intervals_of(16).contains("at least 95 %"));
    }

    #[test]
    fn how_many_rounds_a_family_takes_is_said() {
        let sentence = findings_of(5, 12);
        assert!(sentence.contains("5 of them cannot") && sentence.contains("that takes 9"), "{sentence}");
        assert!(findings_of(9, 12).contains("corrected for their number"));
    }
}
