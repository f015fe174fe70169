"""Requests that only wait, and what tests of the queue do with them."""

from wsgi_lanes.requests import Lane, Peers, Request


class Nowhere:
    """Answers go here."""

    def deliver(self, answer):
        raise AssertionError

    def refuse(self, refusal):
        raise AssertionError


def request(address="192.0.2.1", token=None, lane=Lane.READ, arrived=0.0):
    return Request(
        method="GET",
        path="/",
        query="",
        fields={},
        is_1_0=False,
        body=b"",
        declared=0,
        keeps_connection=True,
        peers=Peers(address, False, {}),
        receiver=Nowhere(),
        arrived=arrived,
        lane=lane,
        credential=token,
    )


def put(queue, *requests):
    for each in requests:
        assert queue.put(each) is None


def accept(queue, *tokens, address="192.0.2.1"):
    """Have the application accept tokens."""
    for token in tokens:
        put(queue, request(address, token))
        queue.accept(taken := queue.take())
        assert queue.done(taken) is None
