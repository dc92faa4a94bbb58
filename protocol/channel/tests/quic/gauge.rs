//! What a gauge tells of a connection, and what it changes.

use std::io;

use ketch_channel::{Controller, ControllerError};

use crate::ends::{DIALER, End, Stack, connect, content, receive, send};

#[tokio::test]
async fn a_gauge_tells_what_a_connection_got_and_does() {
    let (mut dialer, mut listener) = (End::new(Stack::Own), End::new(Stack::Own));
    let (_, address) = listener.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let mut connected = connect(&mut dialer, &mut listener, &address, DIALER).await;
    let dialed = dialer.gauges.take_dialed().unwrap().gauge().unwrap();
    let accepted = listener.gauges.take_accepted(&connected.local, &connected.seen).unwrap();

    let mut near = connected.dialer.open().await;
    send(&mut near, &content(200_000)).await;
    receive(&mut connected.listener.accept().await.unwrap()).await;
    for gauge in [&dialed, &accepted] {
        let effective = gauge.effective().unwrap();
        assert_eq!(effective.controller, "cubic");
        assert_eq!(effective.receive_buffer.asked, Some(8 * 1024 * 1024));
        assert!(effective.receive_buffer.effective > 0 && effective.send_buffer.effective > 0);
        let statistics = gauge.statistics().unwrap();
        assert!(statistics.rtt.unwrap().as_nanos() > 0 && statistics.window_bytes.unwrap() > 0);
    }
    assert!(dialed.statistics().unwrap().sent_packets.unwrap() > 30);
}

#[tokio::test]
async fn within_a_machine_packets_carry_more_than_ethernet_does_in_both_directions() {
    let (mut dialer, mut listener) = (End::new(Stack::Own), End::new(Stack::Own));
    let (_, address) = listener.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let mut connected = connect(&mut dialer, &mut listener, &address, DIALER).await;
    let dialed = dialer.gauges.take_dialed().unwrap().gauge().unwrap();
    let accepted = listener.gauges.take_accepted(&connected.local, &connected.seen).unwrap();
    let bytes = content(10_000_000);
    let mut near = connected.dialer.open().await;
    let far = async { receive(&mut connected.listener.accept().await.unwrap()).await };
    futures::join!(send(&mut near, &bytes), far);
    let mut far = connected.listener.open().await;
    let near = async { receive(&mut connected.dialer.accept().await.unwrap()).await };
    futures::join!(send(&mut far, &bytes), near);
    for gauge in [dialed, accepted] {
        let packets = gauge.statistics().unwrap().sent_packets.unwrap();
        assert!(packets < 10_000_000 / 1_452, "{packets}");
    }
}

#[tokio::test]
async fn the_controller_is_exchanged_while_the_connection_lives() {
    let (mut dialer, mut listener) = (End::new(Stack::Own), End::new(Stack::Own));
    let (_, address) = listener.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let mut connected = connect(&mut dialer, &mut listener, &address, DIALER).await;
    let gauge = dialer.gauges.take_dialed().unwrap().gauge().unwrap();
    for controller in [Controller::Bbr, Controller::Cubic] {
        let before = gauge.statistics().unwrap().window_bytes.unwrap();
        gauge.set_controller(controller).unwrap();
        let mut near = connected.dialer.open().await;
        let bytes = content(2_000_000);
        let far = async { receive(&mut connected.listener.accept().await.unwrap()).await };
        futures::join!(send(&mut near, &bytes), far);
        assert_eq!(gauge.effective().unwrap().controller, controller.to_string());
        // Only BBR takes anything for the bandwidth of the path.
        let rate = gauge.statistics().unwrap().rate_bytes_per_s;
        assert_eq!(rate.is_some(), controller == Controller::Bbr);
        let after = gauge.statistics().unwrap().window_bytes.unwrap();
        assert!(after > before / 4, "{before} {after}");
    }
}

#[tokio::test]
async fn a_gauge_outlives_its_connection_and_says_so() {
    let (mut dialer, mut listener) = (End::new(Stack::Own), End::new(Stack::Own));
    let (_, address) = listener.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let mut connected = connect(&mut dialer, &mut listener, &address, DIALER).await;
    let gauge = dialer.gauges.take_dialed().unwrap().gauge().unwrap();
    connected.dialer.close().await;
    assert_eq!(gauge.effective().unwrap_err().kind(), io::ErrorKind::NotConnected);
    assert_eq!(gauge.statistics().unwrap_err().kind(), io::ErrorKind::NotConnected);
    assert!(matches!(gauge.set_controller(Controller::Bbr), Err(ControllerError::Failed { .. })));
}
