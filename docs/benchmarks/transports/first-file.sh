#!/usr/bin/env bash
# When the first file can be read: first-file.sh BIN tcp|quic FILES BYTES RTT_MS. BIN is the folder of a release build. Needs
# root, /dev/net/tun and Python 3. The receiver dials with --yes over 200 Mbit/s; its target is looked at every
# millisecond, from the start of the command on. Prints a row of first-file.csv.
set -euo pipefail
bin=$1 transport=$2 files=$3 bytes=$4 rtt=$5
place=$(mktemp -d /dev/shm/first-file.XXXXXX)
trap 'rm -rf "$place"' EXIT
mkdir "$place/tree"
export bin transport files bytes rtt place
python3 -c '
import os
for number in range(int(os.environ["files"])):
    with open("%s/tree/%06d" % (os.environ["place"], number), "wb") as file:
        file.write(os.urandom(int(os.environ["bytes"])))
'
cat > "$place/receive.py" <<'P'
import os, subprocess, sys, time
place, rtt = os.environ["place"], float(os.environ["rtt"]) / 1000
ticket = place + "/ticket"
while not os.path.exists(ticket) or os.path.getsize(ticket) < 40:
    time.sleep(0.02)
time.sleep(0.7)
began = time.perf_counter()
receive = subprocess.Popen(
    [os.environ["bin"] + "/ketch", "receive", "--state", place + "/receiver", "--yes",
     "--transport", os.environ["transport"], open(ticket).read().split()[-1], place + "/target"],
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
first = None
while first is None and receive.poll() is None:
    try:
        if any(name.isdigit() for name in os.listdir(place + "/target/tree")):
            first = time.perf_counter() - began
    except FileNotFoundError:
        pass
    time.sleep(0.001)
status, whole = receive.wait(), time.perf_counter() - began
if status or first is None:
    sys.exit("receive ended with %d" % status)
print("%s,%s,%s,%s,%.2f,%.2f" % (os.environ["transport"], os.environ["files"], os.environ["bytes"],
                               os.environ["rtt"], first / rtt, whole / rtt))
P
"$bin/bench-factor" link run --rate 200mbit --rtt "${rtt}ms" \
    --b "$bin/ketch send --state $place/sender --ticket-file $place/ticket $place/tree > $place/sent 2>&1" \
    --a "python3 $place/receive.py" 2>"$place/link" || { cat "$place/link" >&2; exit 1; }
