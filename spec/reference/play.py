#!/usr/bin/env python3
"""Plays golden vectors over UDP against anything that answers the protocol: the server, the appliance in simulation, a board.

    play.py ADDRESS:PORT FILE…       steps one after the other; traces with some requests on the way at a time, not at their times

The other side should be empty at first. Files of one call share it, so give traces calls of their own. Exit status 0: all answers were allowed ones.
"""

import json
import pathlib
import socket
import sys

import wire

WINDOW = 16


class Wrong(Exception):
    """An answer that the reference does not allow, or none."""


class Player:
    def __init__(self, address, timeout_s=30.0):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(timeout_s)
        self.socket.connect(address)

    def receive(self):
        try:
            return self.socket.recv(2048)
        except TimeoutError as e:
            raise Wrong("no answer") from e

    def ask(self, datagram):
        self.socket.send(datagram)
        return self.receive()

    def play(self, path):
        """(answered, dropped)"""
        doc = json.loads(pathlib.Path(path).read_text())
        steps = [(bytes.fromhex(s["send"]), [bytes.fromhex(a) for a in s["answers"]]) for s in doc["steps"]]
        return (self.play_trace if "at_ns" in doc["steps"][0] else self.play_steps)(steps)

    def play_steps(self, steps):
        answered = dropped = 0
        for send, answers in steps:
            if answers:
                got = self.ask(send)
                if got not in answers:
                    raise Wrong(f"{send.hex()} was answered {got.hex()}, not {answers[0].hex()}")
                answered += 1
            else:
                # Nothing comes back: what comes next is the answer to what is asked next.
                self.socket.send(send)
                marker = wire.request("PING", id=0xBEEF)
                if (got := self.ask(marker)) != wire.answer(0, wire.OK, 0xBEEF):
                    raise Wrong(f"{send.hex()} was answered {got.hex()}, not dropped")
                dropped += 1
        return answered, dropped

    def play_trace(self, steps):
        due, waiting = {}, list(reversed(steps))
        while due or waiting:
            while waiting and len(due) < WINDOW:
                send, answers = waiting.pop()
                self.socket.send(send)
                due[send[6:8]] = (send, answers)
            got = self.receive()
            send, answers = due.pop(got[6:8], (b"", []))
            if got not in answers:
                raise Wrong(f"{send.hex()} was answered {got.hex()}")
        return len(steps), 0


def main(where, files):
    host, port = where.rsplit(":", 1)
    player = Player((host, int(port)))
    for file in files:
        answered, dropped = player.play(file)
        print(f"{pathlib.Path(file).name}: {answered} answered and {dropped} dropped, as the reference says")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        main(sys.argv[1], sys.argv[2:])
    except Wrong as e:
        sys.exit(f"play: {e}")
