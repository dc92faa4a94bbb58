#!/usr/bin/env bash
# One observation of node.csv: observe.sh BIN node|seed|tuned small|large|large8 BYTES tcp|quic cubic|bbr LINK...
#
# BIN is the folder of a release build, LINK what `bench-factor link run` takes, such as `--profile de-us-200`. Copies BYTES in
# files of 4 KiB, in one file or in eight, in the layout bundle on one connection, by `ketch` or by the channel alone with one of the
# profiles of `bench-factor cell`, and prints a row.
# Needs root, /dev/net/tun and Python 3.
set -euo pipefail
export bin=$1 carrier=$2 work=$3 bytes=$4 transport=$5 controller=$6
shift 6
export link="$*" place
place=$(mktemp -d /dev/shm/node.XXXXXX)
trap 'rm -rf "$place"' EXIT
case $work in
small) "$bin/bench-factor" fixture small --files $((bytes / 4096)) --out "$place/tree" >"$place/made" ;;
large8) "$bin/bench-factor" fixture large8 --bytes $((bytes / 8)) --out "$place/tree" >"$place/made" ;;
large) "$bin/bench-factor" fixture large --bytes "$bytes" --out "$place/tree" >"$place/made" ;;
esac
case $carrier in
node)
    listen=/ip4/0.0.0.0/$([ "$transport" = tcp ] && echo tcp/0 || echo udp/0/quic-v1)
    serve="$bin/ketch --state $place/s send --new --json --controller $controller --listen $listen \
        --ticket-file $place/ticket $place/tree"
    fetch="until grep -qs counted $place/served; do sleep 0.05; done; sleep 0.3; $bin/ketch --state $place/r receive --yes \
        --json --durability none --connections 1 --controller $controller @$place/ticket $place/copy > $place/said"
    ;;
seed | tuned)
    # What the node calls bbr over QUIC is bbr3 there.
    asked=$controller
    [ "$transport $controller" != "quic bbr" ] || asked=bbr3
    serve="$bin/bench-factor serve --data $place/tree --once"
    # The source reads everything before it listens.
    fetch="for try in \$(seq 100); do $bin/bench-factor cell --target $place/copy --peer \$PEER_IP --layout bundle \
        --transport $transport --controller $asked --connections 1 --profile $carrier --json > $place/said 2>$place/errors; \
        status=\$?; [ -s $place/said ] && exit \$status; sleep 0.2; done; exit 1"
    ;;
esac
"$bin/bench-factor" link run $link --report "$place/link.json" --a "$fetch" --b "$serve > $place/served 2>&1" 2>"$place/path" ||
    { cat "$place"/{path,served,said,errors} >&2 2>/dev/null; exit 1; }
copy=$place/copy
[ "$carrier" != node ] || copy=$copy/tree
[ "$("$bin/bench-factor" digest "$place/tree")" = "$("$bin/bench-factor" digest "$copy")" ] || { echo "the copy differs" >&2; exit 1; }
python3 - <<'P'
import json, os
place = os.environ["place"]
said = [json.loads(line) for line in open(place + "/said")]
if os.environ["carrier"] == "node":
    events = {event["event"]: event for event in said}
    dial = events["connected"]["dial_s"]
    ready = dial + events["done"]["ready_s"]
    dial = "%.3f" % dial
else:
    ready, dial = said[0]["ready_s"], ""
path = json.load(open(place + "/link.json"))
content = int(os.environ["bytes"])
names = ["carrier", "work", "bytes", "transport", "controller", "link"]
row = [os.environ[name] for name in names]
row += [dial, "%.3f" % ready, "%.2f" % (content / ready / 1e6), "yes" if path["valid"] else "no"]
print(",".join(row))
P
