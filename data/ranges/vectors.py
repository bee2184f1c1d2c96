"""Writes ranges.csv and questions.csv beside this file: what every reader of a store must answer.

The answers are found by comparing each question with every range, so that they depend on no search."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

LAST = {4: 2**32 - 1, 6: 2**128 - 1}

RANGES = [
    # Ends in an octet above 127 and is not met directly by most questions.
    ("1.0.0.0", "1.0.129.0", "end above 127"),
    ("127.0.0.1", "127.1.2.3", "no prefix"),
    ("192.0.2.0", "192.0.2.127", "lower half"),
    ("192.0.2.128", "192.0.2.255", "upper half"),
    ("198.51.100.7", "198.51.100.7", "one address"),
    ("203.0.113.5", "203.0.113.200", "Zürich"),
    ("203.0.113.201", "203.0.113.202", "back\\slash"),
    # More than one string of a TXT record holds.
    ("203.0.113.203", "203.0.113.240", "long-" * 60),
    # Its bytes begin 2001:db8::, too. With all keys in one database, those of IPv6 lie between this key and the end.
    ("32.1.13.184", "32.1.13.190", "bytes of 2001:db8"),
    ("2001:db8::", "2001:db8:0:ffff:ffff:ffff:ffff:ffff", "prefix"),
    ("2001:db8:1::5", "2001:db8:1::1:0", "no prefix of IPv6"),
    ("2001:db8:2::1", "2001:db8:2::1", "one address of IPv6"),
    ("ffff::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "to the very last"),
]

QUESTIONS = [
    # Before the first range, after the last, and in gaps.
    "0.0.0.0", "0.254.255.255", "255.0.255.1", "255.255.255.255", "1.0.129.128", "2.0.0.0", "126.255.255.255",
    "::", "::1", "::ffff:1.0.0.0", "0:ffff::", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8:3::", "fffe::",
    # A reader that takes the bytes of the end for characters gets these wrong.
    "1.0.0.1", "1.0.127.255", "1.0.128.0", "1.0.128.255",
]


def octets(family, octet):
    """A range whose end has an octet in every other place, and its complement between: over all octets, each place of
    the end has each value once."""
    size, address = (4, IPv4Address) if family == 4 else (16, IPv6Address)
    pair = bytes([octet, 255 - octet])
    return address(pair + bytes(size - 2)), address(pair * (size // 2)), f"v{family} octet {octet}"


def main():
    ranges = [(ip_address(first), ip_address(last), name) for first, last, name in RANGES]
    ranges += [octets(family, octet) for family in (4, 6) for octet in range(256)]
    asked = {}
    for question in map(ip_address, QUESTIONS):
        asked[question] = True
    for first, last, _ in ranges:
        inner = type(first)((int(first) + int(last)) // 2)
        for question in (first, inner, last):
            asked[question] = True
        if int(last) < LAST[last.version]:
            asked[last + 1] = True
    here = Path(__file__).parent
    with open(here / "ranges.csv", "w", encoding="utf-8") as file:
        print("first,last,name", file=file)
        for first, last, name in ranges:
            print(first, last, name, sep=",", file=file)
    with open(here / "questions.csv", "w", encoding="utf-8") as file:
        print("address,name", file=file)
        for question in asked:
            same = [range for range in ranges if range[0].version == question.version]
            found = [name for first, last, name in same if first <= question <= last]
            assert len(found) < 2, f"{question} lies in two ranges"
            print(question, *found or [""], sep=",", file=file)


main()
