//! The constants of draft-ietf-ccwg-bbr-06, each with its section, and those in which we differ, each with its reason.

use std::time::Duration;

/// Doubles the rate in each round of Startup: 4 ln 2 (§5.3.1.1).
pub(super) const STARTUP_PACING_GAIN: f64 = 2.77;

/// Empties in a round what Startup has queued (§5.3.2).
pub(super) const DRAIN_PACING_GAIN: f64 = 0.5;

/// Room for a round of twice the rate, and for late acknowledgements (§5.3.1.1).
pub(super) const WINDOW_GAIN: f64 = 2.0;

/// What Down and Cruise let in flight: less than Up and Refill ask for, so that a probe moves something where several
/// flows keep a queue standing and windows, not rates, decide who has how much. The draft has 2, with which the queue holds
/// three quarters of what the path does, and a flow that comes later to a long path stays at a quarter of it for a minute.
pub(super) const CRUISE_WINDOW_GAIN: f64 = 1.25;

/// Leaves room for others and for what Up has queued (§5.3.3.1).
pub(super) const DOWN_PACING_GAIN: f64 = 0.9;

/// Asks the path for a quarter more (§5.3.3.5).
pub(super) const UP_PACING_GAIN: f64 = 1.25;

/// The window must not be what holds Up back (§5.3.3.5).
pub(super) const UP_WINDOW_GAIN: f64 = 2.25;

/// Half of what fills the pipe leaves the queue empty (§5.3.4.1).
pub(super) const PROBE_RTT_WINDOW_GAIN: f64 = 0.5;

/// One percent below the estimate keeps a queue from standing (§5.6.2).
pub(super) const PACING_MARGIN: f64 = 0.99;

/// The share of a round that may be lost while we ask for more (§2.14).
pub(super) const LOSS_THRESHOLD: f64 = 0.02;

/// The loss that a path may have by itself: the draft's own goal (§3.1).
pub(super) const BORNE_LOSS: f64 = 0.01;

/// Chance exceeds its mean by so many deviations once in a thousand rounds. Not in the draft.
pub(super) const CHANCE_DEVIATIONS: f64 = 3.0;

/// No bound falls faster than CUBIC's window would (§5.5.10.2).
pub(super) const BETA: f64 = 0.7;

/// The part of a proven bound that is left to others (§5.3.3.1).
pub(super) const HEADROOM: f64 = 0.15;

/// The pipe counts as full when the rate did not grow by a quarter ... (§5.3.1.2)
pub(super) const FULL_PIPE_GROWTH: f64 = 1.25;

/// ... in so many rounds (§5.3.1.2).
pub(super) const FULL_PIPE_ROUNDS: u32 = 3;

/// What counts as growth in a round of Up. It sends 1.2375 times as fast, which never passes for a quarter: by the draft Up
/// ends after three rounds however much the path has to give, and a Startup that chance ended early takes cycles of seconds
/// to mend.
pub(super) const UP_GROWTH: f64 = 1.125;

/// Startup ends by loss when so many ranges of packets are lost in a round (§5.3.1.3).
pub(super) const STARTUP_LOST_RANGES: u32 = 6;

/// ... or at once, when so much of what is in flight is lost: twice the rate of a path loses half, and a probe of another
/// flow makes all lose a fifth, by which no flow that has just come may be stopped. Not in the draft.
pub(super) const STARTUP_OVERFLOW: f64 = 0.3;

/// Drain gives up after so many rounds: the rate was taken for more than it is (§5.3.2).
pub(super) const DRAIN_ROUNDS: u64 = 3;

/// Cycles over which the greatest rate counts (§5.5.6).
pub(super) const RATE_CYCLES: u64 = 2;

/// Rounds over which the most aggregated acknowledgement counts, once the pipe was full (§5.5.9).
pub(super) const AGGREGATION_ROUNDS: u64 = 10;

/// The same during Startup (§5.5.9).
pub(super) const STARTUP_AGGREGATION_ROUNDS: u64 = 1;

/// For how long the least round trip counts (§5.5.7.2).
pub(super) const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);

/// Time without a lower round trip after which the queue is emptied to measure it; all flows have the same (§5.3.4.2).
pub(super) const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);

/// A round trip this little above the least one has found no queue worth the name, and proves the least one anew. The draft
/// wants one that is lower, which never comes on a steady path: it gives four percent of 141 ms away, and eight of 300 ms.
/// Acknowledgements that wait for a second packet, and a receiver that wakes late, add as much.
pub(super) const PROVES_MIN_RTT: f64 = 1.03;

/// For how long at least, so that flows do it together (§5.3.4.2).
pub(super) const PROBE_RTT_TIME: Duration = Duration::from_millis(200);

/// Least time between two bandwidth probes; up to a second is added at random (§5.3.3.8.3).
pub(super) const PROBE_WAIT: Duration = Duration::from_secs(2);

/// Most rounds between two bandwidth probes, so that Reno does not lose ground on short paths (§5.3.3.8.2).
pub(super) const PROBE_ROUNDS: u64 = 63;

/// Upper end of the doubling by which Up raises the proven bound: no shift overflows (§5.3.3.9).
pub(super) const UP_DOUBLINGS: u32 = 30;

/// The part of the least round trip by which Up may lengthen it before one flat round ends it: Up fills the queue by a
/// quarter in a round. Not in the draft.
pub(super) const UP_RTT_GROWTH: f64 = 0.1;

/// While less has left than the pacing rate allowed, packets may leave so many times as fast. Not in the draft, whose pacer is
/// never late.
pub(super) const CATCH_UP_GAIN: f64 = 2.0;

/// How far behind may be caught up with. The QUIC library's pacer forgets what was not sent within 2 ms, while a timer is
/// 1 ms late on any machine and several on a busy one: half of the rate was lost by it at times. The shortest queue worth
/// the name takes as much.
pub(super) const CATCH_UP_TIME: Duration = Duration::from_millis(10);

/// Least window, in packets: two on the way, and acknowledgements of two (§5.6.4.3).
pub(super) const LEAST_WINDOW_PACKETS: u64 = 4;

/// Window before anything is known, in packets: as many as CUBIC has here (`QUIC_FIRST_WINDOW_BYTES`).
pub(super) const INITIAL_WINDOW_PACKETS: u64 = 32;

/// The round trip that the first pacing rate supposes (§5.6.2).
pub(super) const SUPPOSED_RTT: Duration = Duration::from_millis(1);

/// What may leave at once: so much time of the pacing rate ... (§5.6.3)
pub(super) const QUANTUM_TIME: Duration = Duration::from_millis(1);

/// ... no more than one large datagram of the system ... (§5.6.3)
pub(super) const QUANTUM_BYTES: u64 = 64 * 1024;

/// ... and no less than so many packets (§5.6.3).
pub(super) const QUANTUM_PACKETS: u64 = 2;

/// Rounds after which a packet that was neither acknowledged nor lost is forgotten, such as one that tried a larger
/// MTU. QUIC decides after little more than one round; not in the draft.
pub(super) const STALE_ROUNDS: u64 = 10;
