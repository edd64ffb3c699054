"""Why and when, asked of an `rltune serve`: no right on the cluster is needed, nor a journal."""

import json
import os
from http import HTTPStatus
from http.client import HTTPException
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from rltune.errors import InputError

if TYPE_CHECKING:
    from rltune.explain import Explanation
    from rltune.forecast import Forecast
    from rltune.whatif import WhatIf

TOKEN = "RLTUNE_TOKEN"  # noqa: S105  the name of a variable
PATIENCE_S = 60.0
MOST_PATIENCE_S = 180.0  # with a service that says when to ask again: it has not made its first forecast yet
_WEB = ("http://", "https://")


def require_alone(given: dict[str, object]) -> None:
    """Refuse options that a service does not take: it answers from the cluster that it watches, as it watches it."""
    told = [name for name, value in given.items() if value not in (None, 0, False)]
    if told:
        raise InputError(f"--service answers from the cluster that it watches: leave out {', '.join(told)}")


def explanation(service: str, job: str, *, changes: bool) -> "Explanation":
    """Ask why a job waits."""
    from rltune.explain import Explanation

    if not job.isdecimal():
        raise InputError(f"a service explains one job at a time, by its number; {job!r} is none")
    return Explanation.of_plain(_ask(service, f"jobs/{quote(job, safe='')}/explanation?changes={str(changes).lower()}"))


def forecast(service: str, job: str | None) -> "Forecast":
    """Ask when waiting jobs will start, or one of them."""
    from rltune.forecast import Forecast

    told = Forecast.of_plain(_ask(service, f"forecast?{urlencode({'job': job})}" if job else "forecast"))
    return told if job is None else told.only(job)


def what_if(service: str, changes: list[str]) -> "WhatIf":
    """Ask what changes of the queue of now would come to; it takes an operator's token."""
    from rltune.whatif import WhatIf

    return WhatIf.of_plain(_ask(service, "whatif", {"changes": changes}))


def _ask(service: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Get a path, or post to it."""
    if not service.startswith(_WEB):
        raise InputError(f"--service {service}: give an address such as http://head:8080")
    url = f"{service.rstrip('/')}/api/v1/{path}"
    token = os.environ.get(TOKEN, "")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        headers["Content-Type"] = "application/json"
    asked = Request(url, data, headers)  # noqa: S310  checked above
    until_s = monotonic() + MOST_PATIENCE_S
    try:
        while True:
            try:
                with urlopen(asked, timeout=PATIENCE_S) as answer:  # noqa: S310
                    told: dict[str, Any] = json.load(answer)
                    return told
            except HTTPError as error:
                again_s = _again_in(error)
                if again_s is None or monotonic() + again_s > until_s:
                    raise
                sleep(again_s)
    except HTTPError as error:
        raise InputError(f"{url}: {_why(error)}") from None
    except (URLError, HTTPException, OSError, ValueError) as error:
        raise InputError(f"{url}: no service answers as expected ({error})") from None


def _again_in(error: HTTPError) -> float | None:
    """Return after how many seconds a service that is not ready wants to be asked again; None if it does not say."""
    told = error.headers.get("Retry-After", "") if error.code == HTTPStatus.SERVICE_UNAVAILABLE else ""
    return float(told) if told.isdecimal() else None


def _why(error: HTTPError) -> str:
    """Return what the service says is wrong."""
    try:
        detail = json.load(error)["detail"]
    except (ValueError, KeyError, TypeError):
        detail = error.reason
    hint = f"; set {TOKEN} to your token" if error.code in {401, 403} else ""
    return f"refused with {error.code}, {detail}{hint}"
