#!/usr/bin/env bash
# How soon two peers behind routers have a direct connection: run.sh BIN ROUNDS. BIN is the folder of a release build. Needs
# root, /dev/net/tun, nft and Python 3. Each pair has a new network, 141 ms between any two, with a public relay, and a
# sender with a reservation there. Prints a row for each round: `connected_s` is the time from the start of `receive` to
# its event `connected`, `whole_s` to its end.
set -euo pipefail
bin=$1 rounds=$2
here=$(mktemp -d /dev/shm/nat.XXXXXX)
trap 'rm -rf "$here"' EXIT

# What the sender does: it reserves where the relay says, and offers.
cat > "$here/send.py" <<'P'
import json, os, sys, time
bin, place, transport = sys.argv[1:]
def relaying():
    try:
        return json.loads(open(place + "/relay").readline())["addresses"]
    except (OSError, ValueError, KeyError):
        return None
while not (addresses := relaying()):
    time.sleep(0.02)
command = [bin + "/ketch", "send", "--state", place + "/sender", "--ticket-file", place + "/ticket", place + "/tree"]
command += [] if transport == "either" else ["--transport", transport]
command += [word for address in addresses for word in ("--relay-at", address)]
os.execv(command[0], command)
P

# What the receiver does: it fetches once there is a ticket, and prints the rest of the row.
cat > "$here/receive.py" <<'P'
import json, os, subprocess, sys, time
bin, place, transport = sys.argv[1:]
ticket = place + "/ticket"
for _ in range(1500):
    if os.path.exists(ticket):
        break
    time.sleep(0.02)
else:
    sys.exit("there is no ticket")
command = [bin + "/ketch", "receive", "--state", place + "/receiver", "--yes", "--json", "@" + ticket, place + "/target"]
command += [] if transport == "either" else ["--transport", transport]
began, connected, over, relayed = time.perf_counter(), "", "", ""
receive = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
for line in receive.stdout:
    event = json.loads(line)
    if event.get("event") == "connected" and not connected:
        connected = "%.3f" % (time.perf_counter() - began)
        over, relayed = event["transport"], "yes" if event["relay"] else "no"
print("%s,%s,%s,%.3f,%d" % (over, relayed, connected, time.perf_counter() - began, receive.wait()))
P

# run_pair RECEIVER SENDER TRANSPORT ROUND
run_pair() {
    local place; place=$(mktemp -d "$here/round.XXXXXX")
    mkdir "$place/tree"
    head -c 65536 /dev/urandom > "$place/tree/file"
    printf '%s,%s,%s,%s,' "$1" "$2" "$3" "$4"
    "$bin/bench-factor" link nat --a "$1" --b "$2" --rtt 141ms \
        --run-relay "$bin/ketch relay --state $place/relay-state --json > $place/relay" \
        --run-b "python3 $here/send.py $bin $place $3 > $place/sent 2>&1" \
        --run-a "python3 $here/receive.py $bin $place $3" 2> "$place/link" || { cat "$place/link" >&2; echo ",,,,"; }
    rm -rf "$place"
}

echo receiver,sender,asked,round,transport,relayed,connected_s,whole_s,exit
for round in $(seq "$rounds"); do
    for transport in quic tcp; do
        for receiver in cone full-cone; do
            for sender in cone full-cone; do
                run_pair "$receiver" "$sender" "$transport" "$round"
            done
        done
    done
    run_pair udp-blocked cone either "$round"
    run_pair cone udp-blocked either "$round"
    run_pair ipv6-only ipv6-only either "$round"
    run_pair symmetric symmetric either "$round"
done
