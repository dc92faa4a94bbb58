//! What is asked of a connection, what it gets, and what is told of it.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use ketch_channel::{ChannelSettings, Controller, check_controller};

use crate::pair::pair;

fn asking(controller: Controller) -> ChannelSettings {
    ChannelSettings { controller: Some(controller), ..ChannelSettings::default() }
}

/// Whether this system lets the test choose both controllers.
fn can_choose() -> bool {
    for controller in [Controller::Cubic, Controller::Bbr] {
        if let Err(error) = check_controller(controller) {
            let _ = writeln!(io::stderr(), "skipped: {error}");
            return false;
        }
    }
    true
}

#[tokio::test]
async fn each_side_has_the_controller_that_it_asked_for() {
    if !can_choose() {
        return;
    }
    // when the two sides ask for different ones
    let (dialed, accepted) = pair(&asking(Controller::Cubic), &asking(Controller::Bbr)).await;
    // then each has its own
    let names = [&dialed, &accepted].map(|end| end.gauge.as_ref().unwrap().effective().unwrap().controller);
    assert_eq!(names, ["cubic", "bbr"]);
}

#[tokio::test]
async fn a_controller_can_be_changed_while_the_connection_lives() {
    if !can_choose() {
        return;
    }
    let (_dialed, accepted) = pair(&asking(Controller::Cubic), &asking(Controller::Cubic)).await;
    let gauge = accepted.gauge.as_ref().unwrap();
    gauge.set_controller(Controller::Bbr).unwrap();
    assert_eq!(gauge.effective().unwrap().controller, "bbr");
}

#[tokio::test]
async fn buffers_are_asked_for_or_left_to_the_system() {
    // given a side that asks for buffers, and one that does not
    let asking = ChannelSettings { tcp_buffer_bytes: Some(65_536), ..ChannelSettings::default() };
    let (dialed, accepted) = pair(&asking, &ChannelSettings::default()).await;
    // when they are read back
    let asked = dialed.gauge.as_ref().unwrap().effective().unwrap();
    let left = accepted.gauge.as_ref().unwrap().effective().unwrap();
    // then the system has given what was asked for, and for its own use as much again
    for buffer in [asked.send_buffer, asked.receive_buffer] {
        assert_eq!((buffer.asked, buffer.effective), (Some(65_536), 131_072));
        assert!(buffer.limit >= Some(65_536), "{buffer:?}");
    }
    assert_eq!((left.send_buffer.asked, left.receive_buffer.asked), (None, None));
    assert!(left.receive_buffer.limit > Some(131_072), "{left:?}");
}

#[tokio::test]
async fn the_path_is_known_while_the_connection_lives_and_no_longer() {
    let (dialed, accepted) = pair(&ChannelSettings::default(), &ChannelSettings::default()).await;
    let gauge = dialed.gauge.clone().unwrap();
    let statistics = gauge.statistics().unwrap();
    assert!(statistics.rtt > Some(Duration::ZERO), "{statistics:?}");
    dialed.cut().await;
    drop(accepted);
    assert_eq!(gauge.statistics().unwrap_err().kind(), io::ErrorKind::NotConnected);
    assert_eq!(gauge.effective().unwrap_err().kind(), io::ErrorKind::NotConnected);
}
