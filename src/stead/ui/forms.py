"""The fields of a submitted form."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from stead.api.errors import Refused
from stead.api.request import BodyIncomplete, BodyTooLong
from stead.ui.guard import CSRF_FIELD, is_own_write
from stead.ui.sessions import SESSION_KEY

if TYPE_CHECKING:
    from stead.api.request import Request

_LONGEST = 64 * 1024
_MOST_FIELDS = 200


def read_form(req: Request) -> dict[str, str]:
    """The fields of the form in the body; the last of several with one name.

    Raises:
        Refused: 400 or 413 if the body is not a form of reasonable size.
    """
    req.longest_body = _LONGEST
    if (req.content_length or 0) > _LONGEST:
        raise Refused(413, f"A form may have {_LONGEST} bytes.")
    try:
        text = req.read_all().decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except BodyTooLong:
        raise Refused(413, f"A form may have {_LONGEST} bytes.") from None
    except (BodyIncomplete, ValueError):
        raise Refused(400, "The body is not a form.") from None


def read_own_form(req: Request) -> dict[str, str]:
    """The fields of a form that changes something.

    Raises:
        Refused: 403 if the form does not come from a page of this session.
    """
    form = read_form(req)
    if not is_own_write(req.env, req.env.get(SESSION_KEY, ""), form.get(CSRF_FIELD, "")):
        raise Refused(403, "The form is not from a page of this session. Load the page again, and repeat.")
    return form
