#!/usr/bin/env python3
"""Fills the connection table of a host, first with datagrams that nobody answers, then with connections.

As root, with a policy that accepts UDP port 53 and TCP port 5432 (examples/guard/flood.toml):

    python3 examples/guard/flood.py millstream examples/guard/flood.toml

The network is one of its own, with a client and a host; nothing else is touched. Python 3.9 or later is enough.
"""

import ctypes, os, resource, socket, struct, subprocess, sys, time

CLIENT, HOST, PORT = "198.18.0.1", "198.18.0.2", 5432
ADDRESSES = 30   # of the client: a few have too few ports to fill the table
PROCESSES = 15   # on each side: each may have only some of the files open


def run(command, **options):
    return subprocess.run(command, shell=True, check=True, text=True, capture_output=True, **options).stdout


def setting(name):
    return int(open(f"/proc/sys/net/netfilter/{name}").read())


def enter(name):
    with open(f"/run/netns/{name}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"cannot enter the network {name}")


def evicted():
    """Entries that the kernel has thrown out because the table was full."""
    rows = [line.split() for line in open("/proc/net/stat/nf_conntrack")]
    return sum(int(row[rows[0].index("early_drop")], 16) for row in rows[1:])


def connect(source, wait=1.0):
    one = socket.socket()
    one.settimeout(wait)
    try:
        # IP_BIND_ADDRESS_NO_PORT: connect() chooses the port, which is faster.
        one.setsockopt(socket.IPPROTO_IP, 24, 1)
        one.bind((source, 0))
        one.connect((HOST, PORT))
        return one
    except OSError:
        one.close()
        return None


def serve(ready):
    """Accepts connections, and answers each byte."""
    import selectors
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind((HOST, PORT))
    server.listen(4096)
    server.setblocking(False)
    chosen = selectors.DefaultSelector()
    chosen.register(server, selectors.EVENT_READ)
    os.write(ready, b"x")
    while True:
        for key, _ in chosen.select():
            if key.fileobj is server:
                one, _ = server.accept()
                chosen.register(one, selectors.EVENT_READ)
            elif data := key.fileobj.recv(16):
                key.fileobj.send(data)
            else:
                chosen.unregister(key.fileobj)
                key.fileobj.close()


def child(work, *args):
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            work(write, *args)
        finally:
            os._exit(0)
    os.close(write)
    return pid, read


def hold(done, sources, count):
    """Opens connections and keeps them, until one fails."""
    kept = []
    while len(kept) < count and (one := connect(sources[len(kept) % len(sources)])):
        kept.append(one)
    os.write(done, struct.pack("i", len(kept)))
    time.sleep(600)


def flood(count):
    sender = [socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP) for _ in range(ADDRESSES)]
    for n, one in enumerate(sender):
        one.bind((f"198.18.1.{n + 1}", 0))
    for n in range(count):
        sender[n % ADDRESSES].sendto(struct.pack("!HHHH", 1024 + n // ADDRESSES, 53, 8, 0), (HOST, 53))


def attack_by_datagrams(most, _children):
    flood(most + 13_000)
    return "after datagrams without answers"


def attack_by_connections(most, children):
    ends = []
    for n in range(PROCESSES):
        pid, done = child(hold, [f"198.18.1.{2 * n + 1}", f"198.18.1.{2 * n + 2}"], most // PROCESSES + 20)
        children.append(pid)
        ends.append(done)
    held = sum(struct.unpack("i", os.read(done, 4))[0] for done in ends)
    return f"with {held:,} open connections"


def drill(rules, attack):
    children = []
    for name in ["flood-client", "flood-host"]:
        run(f"ip netns add {name}")
    try:
        run("ip link add near netns flood-client type veth peer name near netns flood-host")
        for name, address in [("flood-client", CLIENT), ("flood-host", HOST)]:
            run(f"ip -n {name} address add {address}/24 dev near")
            run(f"ip -n {name} link set near up; ip -n {name} link set lo up")
        for n in range(ADDRESSES):
            run(f"ip -n flood-client address add 198.18.1.{n + 1}/32 dev lo")
        run("ip -n flood-host route add 198.18.1.0/24 via 198.18.0.1")
        run("ip netns exec flood-host nft -f -", input=rules)
        enter("flood-host")
        most = setting("nf_conntrack_max")
        for _ in range(PROCESSES):
            pid, ready = child(serve)
            children.append(pid)
            os.read(ready, 1)
        enter("flood-client")
        old = connect(CLIENT)
        what = attack(most, children)
        enter("flood-host")
        count, thrown = setting("nf_conntrack_count"), evicted()
        enter("flood-client")
        old.send(b"x")
        old.settimeout(3)
        try:
            stays = "works" if old.recv(1) == b"x" else "is closed"
        except OSError:
            stays = "is dead"
        fresh = sum(connect(CLIENT) is not None for _ in range(20))
        print(f"{what}: {count:,} of {most:,} entries, {thrown:,} evicted; "
              f"the old connection {stays}, {fresh} of 20 new ones succeed", flush=True)
    finally:
        for pid in children:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        for name in ["flood-client", "flood-host"]:
            run(f"ip netns delete {name}")


def main(program, policy):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    rules = run(f"{program} guard show {policy} --as nft")
    for attack in [attack_by_datagrams, attack_by_connections]:
        drill(rules, attack)


if __name__ == "__main__":
    main(*sys.argv[1:])
