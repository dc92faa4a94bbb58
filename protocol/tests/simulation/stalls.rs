//! Peers, people and links that take their time.

use std::time::Duration;

use ketch_protocol::{
    limits::{CONSENT_TIMEOUT_S, HELLO_TIMEOUT_S, SILENCE_TIMEOUT_S},
    message::{Consent, TargetView},
    problem::{Blame, Reason},
    session::{Ending, SessionError, Stop, receiver::Answer, receiver::Input},
};

use super::{
    Side,
    link::{Break, Cut},
    tree::small_files,
    world::{LATENCY, World},
};

fn failures(world: &World) -> (&SessionError, &SessionError) {
    match world.endings() {
        (Ending::Failed(sender), Ending::Failed(receiver)) => (sender, receiver),
        endings => panic!("{endings:?}"),
    }
}

#[test]
fn a_sender_that_never_answers_is_given_up_after_the_hello_timeout() {
    let mut world = World::fresh(small_files(1));
    world.link.cut = Some(Cut { said_by: Side::Sender, after_bytes: 0, kind: Break::DeadAir });
    world.run();
    let (_, receiver) = failures(&world);
    assert_eq!(*receiver, SessionError::Timeout { awaited: "offer", seconds: HELLO_TIMEOUT_S });
}

#[test]
fn a_person_who_never_answers_declines_on_both_sides() {
    let mut world = World::new(small_files(3), Consent::Pending, TargetView::Empty);
    world.target.answer = None;
    world.run();
    let (sender, receiver) = failures(&world);
    assert_eq!((sender.reason(), sender.blame()), (Some(Reason::Declined), Blame::Operator));
    assert_eq!((receiver.reason(), receiver.blame()), (Some(Reason::Declined), Blame::Operator));
    assert!(world.now >= Duration::from_secs(CONSENT_TIMEOUT_S));
    assert_eq!(world.source.content_bytes, 0);
}

#[test]
fn a_person_who_says_no_gets_nothing() {
    let mut world = World::new(small_files(3), Consent::Pending, TargetView::Empty);
    world.target.answer = Some(Answer::No);
    world.run();
    let (sender, receiver) = failures(&world);
    assert_eq!((sender.reason(), receiver.reason()), (Some(Reason::Declined), Some(Reason::Declined)));
    assert!(world.target.tree.is_empty());
    assert_eq!(world.source.content_bytes, 0);
}

#[test]
fn a_target_that_hangs_keeps_the_session_until_its_user_ends_it() {
    let mut world = World::fresh(small_files(3));
    world.target.stalled = true;
    world.run_until(Duration::from_secs(10 * SILENCE_TIMEOUT_S));
    assert_eq!((&world.source.ending, &world.target.ending), (&None, &None));
    let stop = Stop::new(Reason::Interrupted, "");
    world.target.handle(Input::Stop(stop.clone()), world.now, &mut world.link);
    let stopped = world.now;
    world.run();
    assert_eq!(failures(&world), (&SessionError::Refused(stop.clone()), &SessionError::Stopped(stop)));
    assert_eq!(world.now - stopped, LATENCY);
}

#[test]
fn a_slow_link_takes_as_long_as_its_bytes() {
    let mut world = World::fresh(small_files(2_000));
    world.link.bytes_per_second = Some(10_000);
    world.run_to_completion();
    let bytes = world.link.carried(Side::Sender).max(world.link.carried(Side::Receiver));
    let least = Duration::from_secs_f64(bytes as f64 / 10_000.0);
    assert!(world.now > least && world.now < least + 6 * LATENCY, "{:?} for {least:?}", world.now);
}
