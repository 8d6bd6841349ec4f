"""A terminal for tests: a pty, and a screen that understands what sagactl sends to one."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
import unicodedata


class Screen:
    """Rows of characters, with scrollback. Fails on a sequence it does not know."""

    SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines = [[]]
        self.top = 0  # index of the first row that is on the screen
        self.row = self.column = 0
        self.cursor_hidden = False
        self.colors = set()

    def resize(self, columns, rows):
        """As terminals that reflow do it: lines that are too long take more rows."""
        at = self.row
        fresh = []
        for index, line in enumerate(self.lines):
            if index == at:
                self.row = len(fresh)
            pieces = [line[i:i + columns] for i in range(0, len(line), columns)] or [[]]
            fresh += pieces
        self.lines = fresh
        self.columns, self.rows = columns, rows
        self.top = max(0, len(self.lines) - rows)

    def feed(self, text):
        at = 0
        while at < len(text):
            match = self.SEQUENCE.match(text, at)
            if match:
                self.sequence(*match.groups())
                at = match.end()
                continue
            self.put(text[at])
            at += 1

    def sequence(self, private, numbers, letter):
        if private:
            assert numbers == "25", numbers
            self.cursor_hidden = letter == "l"
        elif letter == "A":
            self.row = max(self.top, self.row - int(numbers or 1))
        elif letter == "K":
            self.lines[self.row] = self.lines[self.row][:self.column]
        elif letter == "J":
            self.lines[self.row] = self.lines[self.row][:self.column]
            del self.lines[self.row + 1:]
        elif letter == "m":
            self.colors.add(numbers)
        else:
            raise AssertionError("unknown sequence %r" % letter)

    def put(self, char):
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self.newline()
        else:
            assert char != "\x1b" and ord(char) >= 32, "control character %r" % char
            if self.column >= self.columns:
                self.newline()
                self.column = 0
            line = self.lines[self.row]
            line += [" "] * (self.column - len(line))
            width = 2 if unicodedata.east_asian_width(char) in "WF" else 1
            line[self.column:self.column + width] = [char] + [""] * (width - 1)
            self.column += width

    def newline(self):
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])
        self.top = max(self.top, self.row - self.rows + 1)

    @property
    def text(self):
        """Everything that was ever on the screen and is still in its scrollback."""
        return "\n".join("".join(line).rstrip() for line in self.lines).rstrip("\n")

    @property
    def visible(self):
        return "\n".join("".join(line).rstrip() for line in self.lines[self.top:]).rstrip("\n")


class Terminal:
    """A program on a pty whose output goes to a Screen."""

    def __init__(self, argv, env, cwd, columns=80, rows=24):
        self.screen = Screen(columns, rows)
        self.raw = b""
        self.rest = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execve(argv[0], argv, env)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.code = None

    def resize(self, columns, rows):
        self.screen.resize(columns, rows)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds=0.05):
        """Takes what comes within that time; False at the end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.raw += data
        self.rest += data
        # Whole characters and sequences only: the rest comes with the next read.
        cut = len(self.rest)
        escape = self.rest.rfind(b"\x1b")
        if escape >= 0 and not re.match(rb"\x1b\[\??[0-9;]*[A-Za-z]", self.rest[escape:]):
            cut = escape
        while cut:
            try:
                text = self.rest[:cut].decode()
                break
            except UnicodeDecodeError:
                cut -= 1
        if cut:
            self.screen.feed(text)
            self.rest = self.rest[cut:]
        return bool(data)

    def until(self, true, seconds=10):
        """Waits for a whole picture of which that is true: a pty hands over one in pieces."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if true(self.screen):
                while select.select([self.fd], [], [], 0.03)[0] and self.read():
                    pass
                if true(self.screen):
                    return True
            if not self.read():
                return true(self.screen)
        return False

    def keys(self, data):
        os.write(self.fd, data)

    def end(self, seconds=20):
        """Waits for the program to end; returns its exit code."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.read():
            pass
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        while not pid and time.monotonic() < end:
            time.sleep(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
            raise AssertionError("it did not end:\n" + self.screen.text)
        os.close(self.fd)
        self.code = os.waitstatus_to_exitcode(status)
        return self.code
