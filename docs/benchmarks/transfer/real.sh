#!/usr/bin/env bash
# Sends real trees of at least 20,000 files, with symlinks and executables, and one file of 2 GiB, over both
# transports, and compares full digests (paths, sizes, hashes, modes, times, link targets).
#
#   docs/benchmarks/transfer/real.sh TREE...      for instance an unpacked source cache
#
# Prints one row a transfer: what, transport, entries, bytes, seconds, digests equal or not.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
ketch=$root/target/release/ketch
bench=$root/target/release/bench-factor
scratch=$(mktemp -d /dev/shm/ketch-real.XXXXXX)
sender=
trap '[ -z "$sender" ] || kill "$sender" 2>/dev/null || true; rm -rf "$scratch"' EXIT

mkdir "$scratch/trees" "$scratch/file"
cp -a "$@" "$scratch/trees/"
openssl enc -aes-128-ctr -pass pass:42 -nosalt </dev/zero 2>/dev/null | head -c 2147483648 >"$scratch/file/2GiB" || true
echo "what,transport,files,symlinks,executables,bytes,ready_s,durable_s,full_digests"
for what in trees file; do
    source=$scratch/$what
    expected=$("$bench" digest --full "$source" | cut -d' ' -f1)
    files=$(find "$source" -type f | wc -l)
    links=$(find "$source" -type l | wc -l)
    executables=$(find "$source" -type f -perm -100 | wc -l)
    for transport in tcp quic; do
        "$ketch" --state "$scratch/s" send --new --json --listen "$([ $transport = tcp ] && echo /ip4/127.0.0.1/tcp/0 || echo /ip4/127.0.0.1/udp/0/quic-v1)" \
            --ticket-file "$scratch/ticket" "$source" >"$scratch/sender.json" &
        sender=$!
        until [ -s "$scratch/ticket" ]; do sleep 0.05; done
        "$ketch" --state "$scratch/r" receive "@$scratch/ticket" "$scratch/target" --yes --json >"$scratch/receiver.json"
        wait "$sender"
        sender=
        copy=$("$bench" digest --full "$scratch/target/$what" | cut -d' ' -f1)
        python3 - "$scratch/receiver.json" "$what,$transport,$files,$links,$executables" "$([ "$expected" = "$copy" ] && echo equal || echo DIFFER)" <<'PY'
import json, sys
done = [event for event in map(json.loads, open(sys.argv[1])) if event["event"] == "done"][0]
print(f'{sys.argv[2]},{done["moved_bytes"]},{done["ready_s"]:.2f},{done["durable_s"]:.2f},{sys.argv[3]}')
PY
        rm -rf "$scratch/target" "$scratch/ticket"
    done
done
