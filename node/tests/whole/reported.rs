//! Faults that somebody met at the command line, each kept from coming back.

use std::{path::Path, time::Duration};

use tokio::process::Command;

use crate::{
    mounts::skip,
    place::{Place, offering},
    process::with_arguments,
};

/// Far above what starting takes; a sender that waits for what never comes is past it.
const STARTED: Duration = Duration::from_secs(20);

/// Runs its arguments on a machine of its own whose only interface speaks no IPv6.
const WITHOUT_IPV6: &str =
    "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && ip link set lo up && exec \"$@\"";

fn without_ipv6(program: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-rn", "sh", "-c", WITHOUT_IPV6, "sh"]).arg(program);
    command
}

#[tokio::test]
async fn a_machine_without_ipv6_can_offer() {
    let probe = without_ipv6(Path::new("true")).output().await;
    if !probe.is_ok_and(|output| output.status.success()) {
        let _ = skip::<()>("no network namespace can be made here");
        return;
    }
    let place = Place::new();
    let file = place.write("f", "x");
    let program = without_ipv6(Path::new(env!("CARGO_BIN_EXE_ketch")));
    let command = with_arguments(program, &place.path("sender"), &[&"send", &"--json", &file]);
    let (_sender, _ticket) = tokio::time::timeout(STARTED, offering(command)).await.unwrap();
}
