"""A RESP2 client as lean as can be: what the checks send and receive is exactly what they say.

Errors in replies are values (`Error`), not exceptions, so that a reply inside a transaction or a
pipeline is looked at like any other.
"""

import socket


class Error(str):
    """An error reply: its text, code included."""


class Closed(OSError):
    """The server closed the connection."""


def encode(*arguments):
    """One command as an array of bulk strings."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        if not isinstance(argument, (bytes, bytearray)):
            argument = str(argument).encode()
        parts.append(b"$%d\r\n" % len(argument))
        parts.append(bytes(argument))
        parts.append(b"\r\n")
    return b"".join(parts)


class Connection:
    def __init__(self, sock):
        self.sock = sock
        self.stream = sock.makefile("rb", buffering=1 << 16)

    @classmethod
    def tcp(cls, host, port, timeout=30):
        sock = socket.create_connection((host, port), timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(sock)

    @classmethod
    def unix(cls, path, timeout=30):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(timeout)
        sock.connect(path)
        return cls(sock)

    def send(self, data):
        self.sock.sendall(data)

    def read(self):
        """The next reply: str (status), Error, int, bytes, None or list."""
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise Closed("the connection was closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            length = int(rest)
            if length < 0:
                return None
            body = self.stream.read(length + 2)
            if len(body) != length + 2:
                raise Closed("the connection was closed inside a reply")
            return body[:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"*":
            length = int(rest)
            return None if length < 0 else [self.read() for _ in range(length)]
        if kind == b"-":
            return Error(rest.decode(errors="replace"))
        raise ValueError(f"not RESP2: {line!r}")

    def __call__(self, *arguments):
        """Send one command, return its reply."""
        self.send(encode(*arguments))
        return self.read()

    def pipeline(self, commands):
        """Send all commands at once, return all replies."""
        self.send(b"".join(encode(*command) for command in commands))
        return [self.read() for _ in commands]

    def close(self):
        try:
            self.stream.close()
        finally:
            self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
