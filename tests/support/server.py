"""Servers under test: real processes, each on a free loopback port and a Unix socket.

The same tests run against Debian's redis-server with `--server redis`, which shows whether a
surprise is the server's or the test's.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from resp import Connection

ROOT = pathlib.Path(__file__).resolve().parents[2]
STARTUP_S = 20


def binary():
    """The server that is tested: $KINTSUGI_BIN, or the release build."""
    return os.environ.get("KINTSUGI_BIN") or str(ROOT / "target/release/kintsugi")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server process. `kind` is "kintsugi" or "redis"; the options are Kintsugi's flags."""

    def __init__(self, kind="kintsugi", **options):
        self.kind = kind
        self.options = options
        self.directory = tempfile.mkdtemp(prefix="kintsugi-test-")
        self.unix_path = os.path.join(self.directory, "s.sock")
        self.log_path = os.path.join(self.directory, "log")
        self.host = "127.0.0.1"
        self._start()

    def _command(self):
        if self.kind == "redis":
            known = ["redis-server", "--port", str(self.port), "--bind", self.host]
            known += ["--unixsocket", self.unix_path, "--save", "", "--appendonly", "no"]
            if "maxmemory" in self.options:
                known += ["--maxmemory", str(self.options["maxmemory"])]
            return known
        command = [binary(), "serve", "--port", str(self.port), "--bind", self.host]
        command += ["--unixsocket", self.unix_path]
        for name, value in self.options.items():
            command += ["--" + name.replace("_", "-"), str(value)]
        return command

    def _start(self):
        if self.kind == "kintsugi" and not os.access(binary(), os.X_OK):
            raise RuntimeError(f"{binary()} is missing: run `make build`")
        for _ in range(3):
            self.port = free_port()
            with open(self.log_path, "ab") as log:
                self.process = subprocess.Popen(
                    self._command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.directory
                )
            if self._answers():
                return
            self.process.kill()
            self.process.wait()
        raise RuntimeError(f"{self._command()} does not answer; its log:\n{self.log()}")

    def _answers(self):
        give_up = time.monotonic() + STARTUP_S
        while time.monotonic() < give_up and self.process.poll() is None:
            try:
                with self.connect() as connection:
                    return connection("PING") == "PONG"
            except OSError:
                time.sleep(0.01)
        return False

    def connect(self, timeout=30):
        """A plain RESP connection over TCP."""
        return Connection.tcp(self.host, self.port, timeout)

    def connect_unix(self, timeout=30):
        return Connection.unix(self.unix_path, timeout)

    def alive(self):
        """It runs, it serves, and no thread of it panicked."""
        if self.process.poll() is not None or "panicked at" in self.log():
            return False
        with self.connect(timeout=10) as connection:
            return connection("PING") == "PONG"

    def resident_bytes(self):
        """What the process holds of the machine's memory."""
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def log(self):
        with open(self.log_path, "rb") as log:
            return log.read().decode(errors="replace")[-4000:]

    def terminate(self, timeout=15):
        """SIGTERM; the exit status, or None when it had to be killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

    def close(self):
        if self.process.poll() is None:
            self.terminate()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
