"""A WSGI server: one event loop owns the connections, and a bounded number of threads runs the application.

A request passes these stations, in this order. Each stands before the next one because it costs less, or because it
keeps something from all that follow.

1. `server.Server._accept` accepts a connection. If there are too many, it ends the ones that have waited longest.
2. `proxy_protocol.client_address` reads the address of the client, if the peer is a trusted proxy. TLS or HTTP follows
   that header, so nothing may read before it.
3. `server.Server._first_byte` sees whether the client speaks TLS, so that plain HTTP gets an answer it can read.
4. `reader.Reader` parses the head and the body. A request holds no thread while it arrives, so slow clients hold none.
   It counts what requests allocate, and refuses what two readers could read in two ways.
5. `connection.Connection` begins one request at a time, so that answers have the order of the requests. It checks the
   deadlines of everything that a client may delay (`connection.overdue`).
6. `requests.Routes.lane` classifies the request. What needs no thread is answered here, and what must not wait for
   other requests has threads of its own.
7. `requests.Routes.credential` names the client, before a client can be refused for having too many requests.
8. `admission.Admission.put` queues the request, or refuses it. A refusal is delayed (`server.Server._refuse_next`), so
   that clients that ask again at once take little time.
9. `admission.Admission.take` gives it to a thread: claims before reads, and all clients in turn.
10. `wsgi.Application.answer` calls the application, which may accept the credential meanwhile.
11. `connection.Connection.deliver` writes the answer to the socket in the same thread. The event loop sends what the
    client does not read at once, so no client holds a thread by reading slowly.

README.md has the names that a program imports.
"""
