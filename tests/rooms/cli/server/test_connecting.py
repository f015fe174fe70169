import pytest

from stead.cli.arguments import Options, use_options
from stead.cli.errors import CommandError
from stead.cli.server import connect
from stead.client.errors import Stale
from tests.system.api.client import NEWEST


def reach(url, token=None):
    """What a command with these options calls."""
    use_options(Options(url=url, token=token))
    return connect()


def test_every_call_names_the_microversion_the_token_and_what_it_accepts(server):
    server.can("POST /things", {"made": 1})
    with reach(server.url, "secret") as api:
        assert api.request("POST", "/things", {"a": 1}) == {"made": 1}
    sent = server.asked[0]
    assert sent.headers["openstack-api-version"] == f"placement {NEWEST}"
    assert sent.headers["x-auth-token"] == "secret"
    assert sent.headers["accept"] == "application/json"
    assert sent.headers["content-type"] == "application/json"
    assert sent.body == {"a": 1}


def test_a_put_without_body_sends_none_and_an_answer_without_body_is_none(server):
    server.can("PUT /traits/CUSTOM_A", None, 201)
    with reach(server.url) as api:
        assert api.request("PUT", "/traits/CUSTOM_A") is None
    assert server.asked[0].body is None
    assert "content-type" not in server.asked[0].headers


def test_parameters_are_added_lists_repeat_and_none_is_left_out(server):
    server.can("GET /x?name=é&required=A&required=B", [])
    with reach(server.url) as api:
        assert api.request("GET", "/x", name="é", required=["A", "B"], uuid=None) == []


def test_a_query_string_in_the_path_is_sent_as_it_stands(server):
    server.can("GET /x?resources=VCPU:1&required=!A,in:B", [])
    with reach(server.url) as api:
        assert api.request("GET", "/x?resources=VCPU:1&required=!A,in:B") == []


def test_a_prefix_in_the_url_is_kept(server):
    server.can("GET /placement/traits", {})
    with reach(server.url + "/placement/") as api:
        assert api.request("GET", "/traits") == {}


def test_a_refusal_carries_status_code_and_the_last_line_of_the_detail(server):
    server.refuse("GET /x", 409, "two came at once", "placement.concurrent_update")
    with pytest.raises(CommandError) as refused, reach(server.url) as api:
        api.request("GET", "/x")
    cause = refused.value.__cause__
    assert isinstance(cause, Stale)
    assert (cause.status, cause.code) == (409, "placement.concurrent_update")
    assert (str(refused.value), refused.value.exit_code) == ("two came at once (409)", 1)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"errors": []}', b'{"errors": [1]}', b'{"errors": null}', b""])
def test_a_refusal_in_another_form_has_the_words_of_its_status(server, body):
    server.can("GET /x", body, 502)
    with pytest.raises(CommandError, match="Bad Gateway"), reach(server.url) as api:
        api.request("GET", "/x")


@pytest.mark.parametrize(("token", "words"), [(None, "wants a token"), ("secret", "does not accept the token")])
def test_an_unauthorized_call_says_how_to_give_a_token_and_never_which(server, token, words):
    server.can("GET /x", {"message": "no", "code": "401 Unauthorized"}, 401)
    with pytest.raises(CommandError, match=words) as refused, reach(server.url, token) as api:
        api.request("GET", "/x")
    assert "STEAD_TOKEN" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_an_older_server_is_named_with_what_it_speaks(server):
    server.can("GET /x", {"errors": [{"detail": "Unacceptable version", "max_version": "1.36"}]}, 406)
    words = r"the server has 1\.36 at most, and placement 1\.39 is"
    with pytest.raises(CommandError, match=words), reach(server.url) as api:
        api.request("GET", "/x")


def test_a_redirect_is_not_followed_with_the_token(server):
    server.can("GET /x", None, 302)
    server.can("GET /elsewhere", {})
    with pytest.raises(CommandError, match="redirected to /elsewhere"), reach(server.url, "secret") as api:
        api.request("GET", "/x")
    assert server.calls() == ["GET /x"]


def test_something_that_is_not_a_placement_service_is_told_apart(server):
    server.can("GET /x", b"<html>It works!</html>")
    with pytest.raises(CommandError, match="not JSON, so this is not the Placement API"), reach(server.url) as api:
        api.request("GET", "/x")


def test_a_server_that_hangs_up_is_an_error_in_words(server):
    server.can("GET /x", status=0)
    words = r"the connection to http://127\.0\.0\.1:\d+ failed"
    with pytest.raises(CommandError, match=words), reach(server.url) as api:
        api.request("GET", "/x")


def test_no_server_is_an_error_with_the_next_step():
    with pytest.raises(CommandError, match=r"connection refused \(`stead serve`"), reach("http://127.0.0.1:1") as api:
        api.request("GET", "/x")


@pytest.mark.parametrize("url", ["localhost:8778", "ftp://host", "http://", "", "http://host:port", "http://[::1"])
def test_a_url_that_cannot_be_used_is_refused_in_words(url):
    with pytest.raises(CommandError), reach(url) as api:
        api.request("GET", "/x")


@pytest.mark.parametrize("token", ["se\ncret", "secré", "se\x00cret"])
def test_a_token_that_no_header_can_carry_is_refused_without_being_shown(server, token):
    with pytest.raises(CommandError) as refused, reach(server.url, token) as api:
        api.request("GET", "/x")
    assert "se" not in str(refused.value).split()
    assert token not in repr(refused.value)


def test_neither_the_token_nor_a_password_in_the_url_is_ever_shown():
    with pytest.raises(CommandError) as failed, reach("http://me:hidden@127.0.0.1:1", "secret") as api:
        api.request("GET", "/x")
    for text in (repr(api), str(failed.value), repr(Options(token="secret"))):
        assert "secret" not in text
        assert "hidden" not in text
