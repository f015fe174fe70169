"""Options of the HTTP server of ``stead serve``, in ``[stead]``. Other WSGI servers have their own equivalents."""

from __future__ import annotations

from oslo_config import cfg

HTTP_OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "max_connections",
        default=10_000,
        min=1,
        help="Maximum number of open connections per worker of `stead serve`. Default 10000, or 128 less than the "
        "limit of open files. At the limit, the longest idle connection is closed for a new one.",
    ),
    cfg.IntOpt(
        "max_head_size",
        default=128 * 1024,
        min=1024,
        help="Maximum size in bytes of a request line and its headers. Default 131072. Larger heads return 414 or 431.",
    ),
    cfg.FloatOpt(
        "head_timeout",
        default=10.0,
        min=0.1,
        help="Seconds from a new connection, or from the first byte of a later request, until the head of the request "
        "is complete. Default 10. Then the connection is closed.",
    ),
    cfg.FloatOpt(
        "idle_timeout",
        default=120.0,
        min=1.0,
        help="Seconds for which a connection is kept between two requests. Default 120. Set it higher than the same "
        "timeout of a proxy in front.",
    ),
    cfg.FloatOpt(
        "body_timeout",
        default=15.0,
        min=0.1,
        help="Seconds between two pieces of a request body. Default 15. The whole body may take this time, plus "
        "one second for each 64 KiB. Slower bodies return 408.",
    ),
    cfg.IntOpt(
        "max_bodies_size",
        default=64 * 1024 * 1024,
        min=1024 * 1024,
        help="Maximum memory in bytes of all requests of a worker that are received or wait: heads, bodies and "
        "pipelined requests. Default 67108864. The first 16 KiB of each request do not count. Requests beyond it "
        "return 503.",
    ),
    cfg.FloatOpt(
        "send_timeout",
        default=30.0,
        min=0.1,
        help="Seconds for which a client may read nothing of its response. Default 30. The whole response may "
        "take this time, plus one second for each 64 KiB. Then the connection is closed.",
    ),
    cfg.IntOpt(
        "max_unsent_size",
        default=64 * 1024 * 1024,
        min=1024 * 1024,
        help="Maximum size in bytes of all responses of a worker that clients have not read yet. Default "
        "67108864. Above it, large reads wait. Above twice this size, GET responses of more than 1 MiB become 503.",
    ),
    cfg.IntOpt(
        "max_queue",
        default=2048,
        min=1,
        help="Maximum number of requests per worker that wait for a thread. Default 2048. More return 503, at most "
        "400 a second. Meanwhile their connections are not read.",
    ),
    cfg.IntOpt(
        "max_queue_per_client",
        default=1024,
        min=1,
        help="Maximum number of requests of one client that wait for a thread of a worker. A client is a credential "
        "that was accepted before, or all other requests of an address. Default 1024. More return 503.",
    ),
    cfg.FloatOpt(
        "queue_timeout",
        default=30.0,
        min=0.1,
        help="Seconds for which a request waits for a thread. Default 30. Then it returns 503.",
    ),
    cfg.ListOpt(
        "proxy_protocol_from",
        default=[],
        help="Addresses and networks of proxies, separated by commas. Their TCP connections begin with a header of the "
        "PROXY protocol, version 1 or 2, which names the client for logs and for fairness. Connections without a "
        "valid header are closed. Default: none.",
    ),
    cfg.FloatOpt(
        "worker_timeout",
        default=30.0,
        min=0.0,
        help="Seconds after which a worker that does not answer its own health check is replaced. The stacks of its "
        "threads are logged. Default 30; 0 never replaces a worker.",
    ),
]
