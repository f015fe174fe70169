"""The small world both services are asked about: few things, so that requests often meet."""

from typing import Any

from hypothesis import strategies as st

from tests.system.differential.asking import ABSENT

PROVIDERS = tuple(f"p{number}" for number in range(8))
CONSUMERS = tuple(f"c{number}" for number in range(4))
AGGREGATES = ("a0", "a1", "a2")
NOBODY = "5e1f5e1f-0000-4000-8000-00000000dead"

SHARES = "MISC_SHARES_VIA_AGGREGATE"
TRAITS = (SHARES, "HW_CPU_X86_VMX", "CUSTOM_GOLD", "CUSTOM_SSD", "CUSTOM_RARE")
CUSTOM_TRAITS = tuple(name for name in TRAITS if name.startswith("CUSTOM_"))
CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB", "VGPU", "CUSTOM_LAMP", "CUSTOM_RARE")
CUSTOM_CLASSES = tuple(name for name in CLASSES if name.startswith("CUSTOM_"))
ALWAYS_THERE = ("CUSTOM_GOLD", "CUSTOM_SSD", "CUSTOM_LAMP")  # made at the start of every history
PROJECTS = ("project-a", "project-b")
USERS = ("user-a", "user-b")
TYPES = ("INSTANCE", "MIGRATION", "ALL")

slots = st.sampled_from(PROVIDERS)
providers = st.one_of(
    st.integers(0, 7).map(lambda number: f"e{number}"), st.integers(0, 7).map(lambda number: f"e{number}"), slots
)
consumers = st.sampled_from(CONSUMERS)
aggregates = st.sampled_from(AGGREGATES)
traits = st.sampled_from(TRAITS[:-1] * 4 + TRAITS[-1:])
classes = st.sampled_from(("VCPU",) * 4 + ("DISK_GB",) * 3 + CLASSES + ("MEMORY_MB", "CUSTOM_LAMP"))


def rarely(strange: st.SearchStrategy[Any], usual: st.SearchStrategy[Any], one_in: int = 10) -> st.SearchStrategy[Any]:
    """Mostly *usual*, else *strange*."""
    return st.integers(0, one_in - 1).flatmap(lambda drawn: strange if drawn == one_in - 1 else usual)


def once_in(draw: st.DrawFn, times: int) -> bool:
    """Rarely true, and false where a history is made simpler."""
    return draw(st.integers(0, times - 1)) == times - 1


def versions(first: int = 0) -> st.SearchStrategy[int]:
    """Minor numbers from *first* on: half of them the newest, a few older than *first*."""
    return rarely(st.integers(0, 39), st.one_of(st.just(39), st.integers(first, 39)), 12)


def uuid_token(names: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Of one of *names*; rarely of nobody, or spelled otherwise than it is stored."""
    otherwise = st.tuples(names, st.sampled_from("~^")).map(lambda drawn: f"<{drawn[0]}{drawn[1]}>")
    return rarely(st.one_of(st.just(NOBODY), otherwise), names.map(lambda name: f"<{name}>"), 16)


provider_uuids = uuid_token(providers)

odd_values: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "x", "VCPU", 0, -1, 1, 1.5, 10.0, True, [], {}, ["x"], {"x": 1}, 2147483647, 2147483648, ABSENT]
)


@st.composite
def spoiled(draw: st.DrawFn, body: Any) -> Any:
    """*body* with one odd value, one thing missing or one thing too many somewhere in it."""
    if isinstance(body, dict) and body and draw(st.integers(0, 2)):
        key = draw(st.sampled_from(sorted(body)))
        return {**body, key: draw(spoiled(body[key]))}
    if isinstance(body, dict) and draw(st.booleans()):
        return {**body, draw(st.sampled_from(["colour", "VCPU", "uuid", "x"])): draw(odd_values)}
    if isinstance(body, list) and body and draw(st.booleans()):
        return [draw(spoiled(body[0])), *body[1:]]
    return draw(odd_values)


def mostly_sound(bodies: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly one of *bodies*, sometimes a spoiled one."""
    return rarely(bodies.flatmap(spoiled), bodies, 12)
