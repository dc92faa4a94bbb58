#!/usr/bin/env python3
"""Times ketch beside rsync on the same work, on loopback, and writes one row a run.

Usage (as root, on Debian with rsync, openssh-server and e2fsprogs):

    cargo build --release --locked
    docs/benchmarks/transfer/run.py [--rounds 5] [--work small,large] [--out rows.csv]

Every run gets a freshly made ext4 image on tmpfs. The server of each tool (`ketch send`, the rsync daemon,
sshd) is up before the clock starts; the clock runs from the start of the receiving command until it has
exited. The copy is then checked with `bench-factor digest`. Rounds are interleaved: each tool once a round,
in an order shuffled from a fixed seed. Wire bytes are those that crossed `lo` in both directions, headers
included. Peak memory is the largest resident set of each end's process (rsync and sshd: of the largest
process of that end).
"""

import argparse, csv, json, os, pathlib, random, shutil, signal, statistics, subprocess, sys, tempfile, threading, time

ROOT = pathlib.Path(__file__).resolve().parents[3]
KETCH = ROOT / "target/release/ketch"
BENCH = ROOT / "target/release/bench-factor"
IMAGE_BYTES = 2 * 1024**3
FIELDS = ["work", "tool", "round", "wall_s", "wire_bytes", "content_bytes", "sender_rss_kib", "receiver_rss_kib", "sender_cpu_s", "receiver_cpu_s", "verified"]


def sh(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, **options)


def wire_bytes():
    for line in open("/proc/net/dev"):
        name, _, rest = line.partition(":")
        if name.strip() == "lo":
            return int(rest.split()[8])
    raise RuntimeError("no lo")


def digest(path):
    return sh(BENCH, "digest", path).stdout.split()[0]


class Target:
    """A new ext4 file system in an image on tmpfs."""

    def __init__(self, scratch):
        self.image, self.mount = scratch / "image", scratch / "target"
        self.mount.mkdir(exist_ok=True)
        with open(self.image, "wb") as image:
            image.truncate(IMAGE_BYTES)
        sh("mkfs.ext4", "-q", "-F", "-N", "1200000" if LARGE_INODES else "200000", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.image)
        sh("mount", "-o", "loop", self.image, self.mount)

    def __enter__(self):
        return self.mount

    def __exit__(self, *_):
        subprocess.run(["umount", str(self.mount)], check=True)
        self.image.unlink()


LARGE_INODES = False


class Peak:
    """The largest resident set of a process, sampled until it ends. `ru_maxrss` will not do: it begins with
    the resident set of whoever started the process."""

    def __init__(self, pid):
        self.kib, self.pid = 0, pid
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        try:
            while True:
                status = open(f"/proc/{self.pid}/status").read()
                if "VmHWM" not in status:
                    return
                self.kib = max(self.kib, int(status.split("VmHWM:")[1].split()[0]))
                time.sleep(0.01)
        except (FileNotFoundError, ProcessLookupError):
            pass


class Server:
    """A process that is ended with its group."""

    def __init__(self, command, stdout=subprocess.DEVNULL, env=None):
        self.process = subprocess.Popen([str(part) for part in command], stdout=stdout, stderr=subprocess.DEVNULL, start_new_session=True, text=True, env=env)
        self.usage = None
        self.peak = Peak(self.process.pid)

    def wait(self, timeout_s=20):
        end = time.monotonic() + timeout_s
        while self.usage is None and time.monotonic() < end:
            pid, _, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.usage = usage
                self.process.returncode = 0
            else:
                time.sleep(0.005)
        return self.usage

    def end(self):
        if self.usage is None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.wait(5)
            if self.usage is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.wait(5)


def timed(command, env=None):
    """Wall seconds and resource usage of a command that must succeed."""
    began = time.monotonic()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
    peak = Peak(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    if status:
        raise RuntimeError(f"{command}: status {status}: {process.stderr.read().decode()}")
    return wall, usage, peak


def ketch(transport, layout="bundle"):
    def run(source, target, scratch):
        state = scratch / "state"
        listen = {"tcp": "/ip4/127.0.0.1/tcp/0", "quic": "/ip4/127.0.0.1/udp/0/quic-v1"}[transport]
        sender = Server([KETCH, "--state", state / "s", "send", "--new", "--layout", layout, "--json", "--listen", listen, source], stdout=subprocess.PIPE)
        try:
            ticket = json.loads(sender.process.stdout.readline())["ticket"]
            threading.Thread(target=sender.process.stdout.read, daemon=True).start()
            wall, usage, peak = timed([KETCH, "--state", state / "r", "receive", ticket, target, "--yes", "--durability", "none"])
            sender_usage = sender.wait()
        finally:
            sender.end()
        return wall, (sender_usage, sender.peak), (usage, peak)

    return run


def rsync_daemon(source, target, scratch):
    configuration = scratch / "rsyncd.conf"
    configuration.write_text(f"use chroot = no\nport = 18730\naddress = 127.0.0.1\nlog file = /dev/null\n[source]\npath = {source.parent}\nuid = root\ngid = root\n")
    daemon = Server(["rsync", "--daemon", "--no-detach", f"--config={configuration}"])
    try:
        time.sleep(0.3)
        wall, usage, peak = timed(["rsync", "-a", f"rsync://127.0.0.1:18730/source/{source.name}", f"{target}/"])
    finally:
        daemon.end()
    return wall, (daemon.usage, daemon.peak), (usage, peak)


def rsync_ssh(source, target, scratch):
    keys = scratch / "ssh"
    if not keys.exists():
        keys.mkdir(mode=0o700)
        for name in ("host", "user"):
            sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / name)
        (keys / "authorized").write_text((keys / "user.pub").read_text())
        (keys / "config").write_text(f"Port 18022\nListenAddress 127.0.0.1\nHostKey {keys}/host\nAuthorizedKeysFile {keys}/authorized\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n")
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
    daemon = Server(["/usr/sbin/sshd", "-D", "-f", keys / "config"])
    try:
        time.sleep(0.3)
        shell = f"ssh -p 18022 -i {keys}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        wall, usage, peak = timed(["rsync", "-a", "-e", shell, f"root@127.0.0.1:{source}", f"{target}/"])
    finally:
        daemon.end()
    return wall, (daemon.usage, daemon.peak), (usage, peak)


TOOLS = {
    "ketch-tcp": ketch("tcp"),
    "ketch-quic": ketch("quic"),
    "ketch-quic-files": ketch("quic", "files"),
    "rsync-daemon": rsync_daemon,
    "rsync-ssh": rsync_ssh,
}


def cpu_s(usage):
    return f"{usage.ru_utime + usage.ru_stime:.3f}" if usage else ""


def make_source(work, folder):
    source = folder / work
    if work == "small":
        sh(BENCH, "fixture", "small", "--out", source)
    elif work == "large":
        source.mkdir()
        with open(source / "file", "wb") as file:
            generator = random.Random(7)
            for _ in range(256):
                file.write(generator.randbytes(1024 * 1024))
    elif work == "million":
        for directory in range(1000):
            path = source / f"{directory:04}"
            path.mkdir(parents=True)
            for name in range(1000):
                open(path / f"{name:04}", "wb").close()
    else:
        raise SystemExit(f"unknown work {work}")
    return source


def main():
    global LARGE_INODES
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", default="small,large")
    parser.add_argument("--tools", default="ketch-tcp,ketch-quic,rsync-daemon,rsync-ssh")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--out", default=str(pathlib.Path(__file__).parent / "rows.csv"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, open(arguments.out, "w", newline="") as out:
        scratch = pathlib.Path(folder)
        rows = csv.DictWriter(out, FIELDS)
        rows.writeheader()
        order = random.Random(arguments.seed)
        for work in arguments.work.split(","):
            LARGE_INODES = work == "million"
            source = make_source(work, scratch)
            expected = digest(source)
            content = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
            walls = {}
            for round_number in range(1, arguments.rounds + 1):
                tools = arguments.tools.split(",")
                order.shuffle(tools)
                for tool in tools:
                    with Target(scratch) as target:
                        before = wire_bytes()
                        wall, sender, receiver = TOOLS[tool](source, target, scratch)
                        wire = wire_bytes() - before
                        verified = digest(target / source.name) == expected
                    row = {
                        "work": work, "tool": tool, "round": round_number, "wall_s": f"{wall:.3f}", "wire_bytes": wire, "content_bytes": content,
                        "sender_rss_kib": sender[1].kib, "receiver_rss_kib": receiver[1].kib,
                        "sender_cpu_s": cpu_s(sender[0]), "receiver_cpu_s": cpu_s(receiver[0]),
                        "verified": verified,
                    }
                    rows.writerow(row)
                    out.flush()
                    print(row, file=sys.stderr)
                    walls.setdefault(tool, []).append(wall)
                    if not verified:
                        raise SystemExit(f"{tool}: the copy differs")
            shutil.rmtree(source)
            for tool, times in sorted(walls.items(), key=lambda item: statistics.median(item[1])):
                print(f"{work:8} {tool:18} median {statistics.median(times):.3f} s  ({min(times):.3f}-{max(times):.3f})")


main()
