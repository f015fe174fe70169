"""Claims that a process holds: renewed in the background, lost in time, released at the end of the block."""

import pickle
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext as does_not_raise
from datetime import UTC, datetime, timedelta

import pytest

import stead
from stead import Drain, Group, Node, Request, testing
from stead.client.blocking import renewing
from stead.client.blocking.transport import Calling, Tokens
from stead.client.calls import Reply
from stead.client.errors import Unreachable
from tests.waiting import wait_until

JOB = Request(Group(VCPU=1))
RENEWAL = ("PUT", "/leases")


@pytest.fixture
def host(site):
    """Its site has a host with 64 cores."""
    site.apply(Node("host", VCPU=64))


def test_a_hold_outlives_its_lease_and_is_released_at_the_end(site, host):
    with site.hold(JOB, "train", lease=1) as claim:
        first = claim.expires_at
        wait_until(lambda: (site.find("train").expires_at - first).total_seconds() > 3)
        claim.check()
        assert (claim.name, claim.on_expiry, claim.lost.is_set()) == ("train", "release", False)
    assert site.find("train") is None


def released_by_another_client(site, error=None):
    with site.hold(JOB, "train", lease=1) as claim:
        claim.check()
        site.release("train")
        wait_until(claim.lost.is_set)
        with pytest.raises(stead.LeaseLost):
            claim.check()
        if error is not None:
            raise error


def test_a_claim_that_another_client_releases_is_lost(site, host):
    with pytest.raises(stead.LeaseLost, match=r"of train was lost: .* released"):
        released_by_another_client(site)


def test_the_loss_of_a_lease_hides_no_other_error(site, host):
    with pytest.raises(ZeroDivisionError):
        released_by_another_client(site, ZeroDivisionError())


def away_in_the_block(site):
    with site.hold(JOB, "train", lease=1) as claim:
        site.faults.fail_next(503, times=1000)
        wait_until(claim.lost.is_set)
        assert site.faults.requests.count(RENEWAL) > 1, "it was tried again"
        site.faults.clear()


def test_a_lease_that_cannot_be_renewed_is_lost_at_its_end(site, host):
    with pytest.raises(stead.LeaseLost, match=r"not be renewed for 1 s: .*test ordered"):
        away_in_the_block(site)


def test_a_claim_of_an_earlier_process_is_renewed_before_the_block(site, host):
    site.claim(JOB, "train", lease=3600)
    with site.hold(JOB, "train", lease=7200) as claim:
        assert claim.tries == 0
        assert site.faults.requests.count(RENEWAL) == 1
    assert site.find("train") is None


def test_a_claim_that_an_operator_moved_is_still_held_and_is_released(site, host):
    with site.hold(JOB, "train", lease=3600) as claim:
        site.find("train").move(Request(Group(VCPU=2)))
        claim.check()
    assert site.find("train") is None


def leaves(site, claim):
    with claim:
        pass


REFUSED = pytest.raises(stead.Stale, match="was changed by another client")


@pytest.mark.parametrize(
    ("use", "is_refused"),
    [
        (lambda site, claim: claim.release(), REFUSED),
        (lambda site, claim: claim.move(JOB), REFUSED),
        (leaves, REFUSED),
        (lambda site, claim: site.claim(JOB, claim, lease=7200), REFUSED),
        (lambda site, claim: site.renew([getattr(claim, "subject", claim)], 7200), does_not_raise()),
    ],
    ids=["release", "move", "block", "claim", "renew"],
)
def test_an_old_claim_changes_no_new_one_of_its_consumer(site, host, use, is_refused):
    """The first one ended, or was released, and another process claims under the same name."""
    old = site.claim(JOB, "train", lease=3600)
    site.release("train")
    new = site.claim(JOB, "train", lease=3600)
    with is_refused:
        use(site, old)
    now = site.find("train")
    assert (now.allocations, now.expires_at, now.generation) == (new.allocations, new.expires_at, new.generation)


def replaced_in_the_block(site, waits):
    with site.hold(JOB, "train", lease=1 if waits else 3600) as claim:
        site.release("train")
        site.claim(JOB, "train", lease=7200)
        if waits:
            wait_until(claim.lost.is_set)


@pytest.mark.parametrize("waits", [False, True], ids=["at the end", "at a renewal"])
def test_a_hold_whose_consumer_has_another_claim_is_lost_and_leaves_that_alone(site, host, waits):
    with pytest.raises(stead.LeaseLost):
        replaced_in_the_block(site, waits)
    assert site.find("train").allocations
    assert (site.find("train").expires_at - datetime.now(UTC)).total_seconds() > 3600, "nobody renewed it for less"


def test_a_repeated_claim_gets_the_generation_of_the_first_one(site, host):
    first = site.claim(JOB, "train", lease=3600)
    again = site.claim(JOB, "train", lease=3600)
    assert (again.tries, again.generation) == (0, first.generation)
    again.release()
    candidate = site.candidates(JOB)[0]
    chosen = site.allocate(candidate, "train", lease=3600)
    assert site.allocate(candidate, "train", lease=3600).generation == chosen.generation


def test_a_claim_released_in_the_block_is_no_loss(site, host):
    with site.hold(JOB, "train", lease=1) as claim:
        claim.release()
    assert site.find("train") is None


def test_a_pickled_claim_is_not_held(site, host):
    with site.hold(JOB, "train", lease=3600) as claim:
        again = pickle.loads(pickle.dumps(getattr(claim, "subject", claim)))
        assert type(again) in (stead.Claim, stead.aio.Claim)
        assert again.allocations == claim.allocations


def test_a_site_that_is_closed_holds_nothing():
    with testing.placement() as url:
        site = url.site()
        site.apply(Node("host", VCPU=1))
        with pytest.raises(stead.LeaseLost, match="the site was closed"), site.hold(JOB, "train", lease=3600):
            site.close()


@pytest.mark.parametrize("lease", [0, -1, float("inf"), float("nan")])
def test_a_lease_of_no_time_is_no_request(site, host, lease):
    for call in (site.hold, site.claim):
        with pytest.raises(stead.InvalidRequest, match="1 s or more"):
            call(JOB, "train", lease=lease)


@pytest.mark.parametrize(
    ("on_expiry", "fails"), [("release", does_not_raise()), ("mark", pytest.raises(stead.Unavailable))]
)
def test_a_server_that_is_away_at_the_end_fails_no_block_whose_claim_ends_by_itself(on_expiry, fails):
    with testing.placement() as url:
        site = url.site(timeout=5)
        site.apply(Node("host", VCPU=2))
        with fails, site.hold(JOB, "train", lease=3, on_expiry=on_expiry):
            url.faults.fail_next(503, times=1000)


def test_moves_and_plans_keep_the_ends_of_claims():
    """Of a gang, each member has an end of its own."""
    with testing.site(project="lab") as site:
        site.apply([Node(f"host{number}", VCPU=4) for number in range(3)])
        gang = site.claim_all([JOB] * 4, "gang", lease=3600, on_expiry="mark", distinct_hosts=False)
        assert site.renew(gang[:1], 7200) == ([], [])
        site.claim(JOB, "alone", lease=timedelta(hours=3))
        site.claim(JOB, "forever")

        def ends():
            return {claim.consumer: (claim.expires_at, claim.on_expiry) for claim in site.claims()}

        before = ends()
        assert sorted(Counter(kind for _, kind in before.values()).items(), key=str) == [
            ("mark", 4),
            ("release", 1),
            (None, 1),
        ]
        assert before[gang[0].consumer][0] - before[gang[1].consumer][0] > timedelta(minutes=50)
        drained = 0
        for number in range(3):
            for move in site.what_if(Drain(f"host{number}")).moves:
                site.move(move)
                drained += 1
        assert drained
        assert ends() == before
        advice = site.advice("resources=VCPU:4", 2)
        for move in advice.moves:
            site.move(move)
        site.find("alone").move(Request(Group(VCPU=2)))
        assert ends() == before


FORKING = """
import os, stead
with stead.open("data", project="lab") as site:
    site.apply(stead.Node("host", VCPU=1))
    hold = site.hold(stead.Request(stead.Group(VCPU=1)), "train", lease=3600)
    with hold:
        child = os.fork()
        if child == 0:
            hold.__exit__(None, None, None)
            os._exit(0)
        os.waitpid(child, 0)
        assert site.find("train")
"""


def test_a_process_that_was_forked_in_the_block_releases_nothing(tmp_path):
    """It would release what its parent still uses."""
    command = [sys.executable, "-W", "ignore", "-c", FORKING]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert ran.returncode == 0, ran.stderr


class Server:
    """Answers renewals, or refuses them: a transport that renews in no time."""

    shown = "nowhere"
    longest_wait = 1

    def __init__(self):
        self.batches = []
        self.refused = ()
        self.is_away = False

    def send(self, call, _headers, _timeout):
        if self.is_away:
            raise Unreachable(0, "away")
        batch = [each["consumer_uuid"] for each in call.body["leases"]]
        if set(batch) & set(self.refused):
            return Reply(400, {}, b'{"errors": [{"detail": "too long"}]}')
        self.batches.append(batch)
        return Reply(200, {}, b'{"gone": [], "without_lease": []}')

    def close(self):
        pass


class TestKeeper:
    """Its steps, with a clock that the test moves."""

    @pytest.fixture
    def clock(self, monkeypatch):
        clock = [1000.0]
        monkeypatch.setattr(renewing, "elapsed", lambda: clock[0])
        return clock

    @pytest.fixture
    def server(self):
        return Server()

    @pytest.fixture
    def keeper(self, server, monkeypatch):
        keeper = renewing.Keeper(Calling(server, Tokens(None), 30.0, retry=False))
        monkeypatch.setattr(keeper._background, "wake", lambda: None)  # the test calls the steps
        return keeper

    def held(self, keeper, clock, count, seconds=30):
        renewals = [renewing.Renewal(f"consumer-{number}", 1, seconds, clock[0]) for number in range(count)]
        for renewal in renewals:
            keeper.add(renewal)
        return renewals

    def test_many_leases_are_renewed_in_few_requests_and_in_time(self, keeper, clock, server):
        renewals = self.held(keeper, clock, 2_000)
        end = clock[0] + 300
        while clock[0] < end:
            clock[0] += keeper._step() + 0.001
        assert not any(renewal.lost.is_set() for renewal in renewals)
        assert 30 <= len(server.batches) <= 45, "about one or two for each 8 to 10 s"
        assert all(
            sum(consumer in batch for batch in map(set, server.batches)) >= 300 / 10 - 2 for consumer in ("consumer-0",)
        )

    def test_a_lease_is_lost_neither_before_its_end_nor_after_it(self, keeper, clock, server):
        (renewal,) = self.held(keeper, clock, 1)
        end, server.is_away = clock[0] + 30, True
        while (pause := keeper._step()) is not None:
            assert not renewal.lost.is_set()
            clock[0] += pause
            assert clock[0] <= end + 0.001
        assert renewal.lost.is_set()
        assert end <= clock[0] <= end + 0.001
        assert renewal.reason == "it could not be renewed for 30 s: away"

    def test_a_renewal_that_is_refused_stops_no_other(self, keeper, clock, server):
        renewals = self.held(keeper, clock, 9)
        server.refused = ("consumer-4",)
        while not all(renewal.lost.is_set() for renewal in renewals[4:5]):
            clock[0] += keeper._step()
        assert [renewal.lost.is_set() for renewal in renewals] == [number == 4 for number in range(9)]

    def test_the_end_counts_from_the_moment_at_which_a_renewal_was_sent(self, keeper, clock, server):
        (renewal,) = self.held(keeper, clock, 1)
        clock[0] = sent = renewal.due
        answer = server.send
        server.send = lambda *arguments: (clock.__setitem__(0, clock[0] + 3), answer(*arguments))[1]
        keeper._step()
        assert renewal.end == sent + 30

    def test_two_claims_of_one_consumer_are_renewed_one_by_one(self, keeper, clock, server):
        """One of them is lost, and this process cannot know which."""
        for generation in (1, 5000):
            keeper.add(renewing.Renewal("consumer", generation, 30, clock[0]))
        clock[0] += 15
        keeper._step()
        assert server.batches == [["consumer"], ["consumer"]]

    def test_an_error_of_the_source_of_tokens_is_one_that_may_pass(self, clock, server, monkeypatch):
        def token():
            raise RuntimeError("no ticket")

        keeper = renewing.Keeper(Calling(server, Tokens(token), 30.0, retry=False))
        monkeypatch.setattr(keeper._background, "wake", lambda: None)
        (renewal,) = self.held(keeper, clock, 1)
        clock[0] = renewal.due
        keeper._step()
        assert (renewal.lost.is_set(), renewal.reason) == (False, "no ticket")
