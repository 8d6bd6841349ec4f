#!/usr/bin/env python3
"""A TLS server for tests: answers each request, then resets the connection in the middle of the
client's farewell. Prints its port; ends when its standard input does."""
import socket
import ssl
import struct
import sys
import threading

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
listener = socket.create_server(("127.0.0.1", 0), backlog=128)


def serve(plain):
    try:
        tls = context.wrap_socket(plain, server_side=True)
        data = b""
        while b"\r\n\r\n" not in data:
            part = tls.recv(65536)
            if not part:
                return
            data += part
        tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        tls.close()
    except OSError:
        pass


def accept():
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


threading.Thread(target=accept, daemon=True).start()
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
