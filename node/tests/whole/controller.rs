//! `--controller`: what both ends of a session then have, and what a plain user hears who may not choose.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::chown,
};

use ketch::swarm::{
    Controller,
    TransportKind::{Quic, Tcp},
};
use ketch_protocol::message::{Ask, Connections, Message, TargetView};
use serde_json::{Value, json};

use crate::{
    joining::join,
    peer::PlayedReceiver,
    place::{Place, parse},
    process::{Ketch, ketch},
    serving::{Serving, write},
};

/// An account that is nobody's.
const NOBODY: u32 = 65_534;

/// Whether the machine has both controllers, and the test may choose.
fn can_choose() -> bool {
    let has = |name: &str| {
        let list = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        list.is_ok_and(|list| list.split_whitespace().any(|listed| listed == name))
    };
    let can = rustix::process::geteuid().is_root() && has("cubic") && has("bbr");
    if !can {
        let _ = writeln!(io::stderr(), "skipped: it takes root, and a system with cubic and bbr");
    }
    can
}

fn controllers(done: &Value) -> [Value; 3] {
    let channel = &done["channel"];
    [&channel["controller"]["asked"], &channel["controller"]["got"], &channel["peer_controller"]["got"]]
        .map(Value::clone)
}

#[tokio::test]
async fn the_side_that_is_dialed_gets_the_controller_that_the_other_one_wishes_for() {
    if !can_choose() {
        return;
    }
    for controller in ["cubic", "bbr"] {
        // given a sender that asks for nothing
        let place = Place::new();
        let file = place.write("file", "content");
        // when a receiver asks for a controller
        let (sender, receiver) = place.cross(Tcp, &[&file], &[], &["--controller", controller]).await;
        // then both have it, and say so
        assert_eq!(
            controllers(&receiver.expect(0).event("done")),
            [json!(controller), json!(controller), json!(controller)]
        );
        let sent = sender.expect(0).event("done");
        assert_eq!(controllers(&sent)[..2], [Value::Null, json!(controller)]);
        assert!(sent["channel"]["path"]["rtt_s"].as_f64() > Some(0.0), "{sent}");
        assert!(sent["channel"]["buffers"]["send"]["effective"].as_u64() > Some(0), "{sent}");
    }
}

/// The words that the system says of the sockets of a port; `None` where nobody can ask it.
fn words_of(port: &str) -> Option<Vec<String>> {
    let filter = format!("sport = :{port}");
    let asked = std::process::Command::new("ss").args(["-Htin", "state", "established", &filter]).output();
    let said = String::from_utf8(asked.ok()?.stdout).ok()?;
    Some(said.split_whitespace().map(Into::into).collect())
}

#[tokio::test]
async fn connections_that_join_get_it_too() {
    if !can_choose() {
        return;
    }
    for (controller, name) in [(Controller::Cubic, "cubic"), (Controller::Bbr, "bbr")] {
        // given a sender that asks for nothing, and a receiver that asks for a controller
        let place = Place::new();
        let file = place.write("file", "content");
        let (_sender, ticket) = place.send(Tcp, &[&file], &[]).await;
        let ticket = parse(&ticket);
        let receiver = PlayedReceiver::dial(&ticket).await;
        let plain = receiver.ask(TargetView::Occupied);
        let ask = Ask { connections: Connections::MOST, controller: Some(controller), ..plain };
        let mut control = receiver.control().await;
        control.say(&Message::Ask(ask.clone())).await;
        control.hear_until(|message| matches!(message, Message::Offer(_)).then_some(())).await;

        // when more connections join
        let (second, third) = (receiver.another().await, receiver.another().await);
        let _joined = [join(&second, ask.session).await.unwrap(), join(&third, ask.session).await.unwrap()];

        // then all have it at the side that was dialed
        let address = ticket.addresses()[0].to_string();
        let Some(words) = words_of(address.rsplit('/').next().unwrap()) else {
            let _ = writeln!(io::stderr(), "skipped: ss is missing");
            return;
        };
        let having = words.iter().filter(|word| *word == name).count();
        assert_eq!(having, 3, "{name}: {words:?}");
    }
}

#[tokio::test]
async fn a_push_asks_the_node_that_serves() {
    if !can_choose() {
        return;
    }
    let serving = Serving::with(Tcp, "mirror").await;
    write(&serving.place.source(), "file", "content");
    let pushed = serving.push(&["--controller", "cubic"]).await.expect(0);
    assert_eq!(controllers(&pushed.event("done")), [json!("cubic"), json!("cubic"), json!("cubic")]);
}

#[tokio::test]
async fn over_quic_everybody_may_choose() {
    for controller in ["cubic", "bbr"] {
        let place = Place::new();
        let file = place.write("file", "content");
        let (sender, receiver) = place.cross(Quic, &[&file], &[], &["--controller", controller]).await;
        sender.expect(0);
        assert_eq!(
            controllers(&receiver.expect(0).event("done")),
            [json!(controller), json!(controller), json!(controller)]
        );
        place.assert_equal();
    }
}

#[tokio::test]
async fn a_plain_user_who_may_not_choose_hears_what_would_change_that_before_anything_is_offered() {
    let allowed = fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control").unwrap_or_default();
    let forbidden =
        ["cubic", "bbr"].into_iter().find(|name| !allowed.split_whitespace().any(|word| word == *name));
    let (true, Some(controller)) = (can_choose(), forbidden) else {
        let _ = writeln!(io::stderr(), "skipped: the system lets everybody choose");
        return;
    };
    // given a plain user
    let place = Place::new();
    let file = place.write("file", "content");
    let state = place.path("sender");
    for path in [state.parent().unwrap(), &place.source(), &file] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let mut command = ketch(&state, &[&"send", &file, &"--controller", &controller]);
    command.uid(NOBODY).gid(NOBODY);
    // when it asks for what it may not have
    let ended = Ketch::start(command).end().await.expect(1);
    // then it hears how that would change
    assert!(ended.stderr.contains("does not let a plain user choose"), "{ended:#?}");
    assert!(
        ended.stderr.contains("hint: as root: `sysctl -w net.ipv4.tcp_allowed_congestion_control="),
        "{ended:#?}"
    );
    assert!(ended.stdout.is_empty(), "{ended:#?}");
}
