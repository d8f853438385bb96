"""Who is let in, and what is done about those who are not."""

import asyncio
import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import WSCloseCode
from structlog.testing import capture_logs

from rota.model.types import IntentId
from rota.ports import Unavailable
from rota.rpc.credentials import (
    DELAYED_MAX,
    EVERY_ROLE,
    PASSWORD_CHECKS_MAX,
    Credential,
    Doorkeeper,
    FailedAttempts,
    Refused,
    Role,
    make_token,
    password_credential,
    token_credential,
)
from rota.server.settings import Bind, Limits, Settings
from rota.service.interface import ReceiptView, Submission
from rota.service.operations.self_view import DatabaseView, SettingView
from tests.server.kit import LOCAL, TRANSFER, UNKNOWN_ID, Clock, Served, asynchronous, served
from tests.server.memory_node import MemoryNode

READER, READER_CREDENTIAL = make_token("reader", frozenset({Role.READ}))
SUBMITTER, SUBMITTER_CREDENTIAL = make_token("submitter", frozenset({Role.SUBMIT}))
PASSWORD = "correct horse: battery"
LOOPBACK = Settings(http=LOCAL, websocket=LOCAL)
PERSON = password_credential("anna", EVERY_ROLE, PASSWORD)


def guarded(*credentials: Credential, limits: Limits | None = None) -> Settings:
    return Settings(http=LOCAL, websocket=LOCAL, credentials=credentials, limits=limits or Limits())


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


async def refusal(to: Served, method: str, *params: object, **headers: str) -> str:
    error = await to.call(method, *params, **headers)
    assert error["code"] == -32000, error
    return str(error["message"])


@asynchronous
async def test_trouble_names_folders_only_to_those_who_run_the_node() -> None:
    class Troubled(MemoryNode):
        async def receipt(self, intent: IntentId) -> ReceiptView | None:
            raise Unavailable("/var/lib/rota/alice/rota.db: disk full")

        async def submit(self, submission: Submission) -> IntentId:
            raise Unavailable("/var/lib/rota/alice/rota.db: disk full")

    operator, credential = make_token("operator", frozenset(Role))
    async with served(Troubled(), settings=guarded(READER_CREDENTIAL, SUBMITTER_CREDENTIAL, credential)) as to:
        for token, method, given in (
            (READER, "ptx_getTransactionReceipt", UNKNOWN_ID),
            (SUBMITTER, "ptx_sendTransaction", TRANSFER),
            (SUBMITTER, "ptx_sendTransactions", [TRANSFER]),
        ):
            for shown, folder in ((token, "try again: "), (operator, "try again: /var/lib/rota/alice/")):
                error = await to.call(method, given, Authorization=f"Bearer {shown}")
                assert f"{folder}rota.db: disk full" in error["message"]


class OnDisk:
    """`service.operations.self_view.Itself` of a node whose disk is full."""

    version = "1"
    started_at_ms = 0

    def memory_bytes(self) -> int:
        return 1

    def database(self) -> DatabaseView:
        return DatabaseView("SQLite", "/var/lib/rota/alice/rota.db", 1, "/var/lib/rota/alice/rota.db: disk full")

    def settings(self) -> tuple[SettingView, ...]:
        return ()


@asynchronous
async def test_status_names_folders_only_to_those_who_run_the_node() -> None:
    class Troubled(MemoryNode):
        def readiness(self) -> tuple[str, ...]:
            return (self.itself.database().trouble,)

        def warnings(self) -> tuple[str, ...]:
            return ("/etc/rota/node.pem: ends within 30 days",)

    operator, credential = make_token("operator", frozenset(Role))
    async with served(Troubled(itself=OnDisk()), settings=guarded(READER_CREDENTIAL, credential)) as to:
        seen = await to.call("node_status", Authorization=f"Bearer {READER}")
        assert "/var/lib" not in json.dumps(seen)
        assert "/etc" not in json.dumps(seen)
        assert seen["database"]["trouble"] == "rota.db: disk full"
        shown = await to.call("node_status", Authorization=f"Bearer {operator}")
        assert shown["database"]["place"] == "/var/lib/rota/alice/rota.db"


@asynchronous
async def test_a_token_allows_what_its_roles_allow() -> None:
    async with served(settings=guarded(READER_CREDENTIAL, SUBMITTER_CREDENTIAL)) as to:
        bearer = {"Authorization": f"Bearer {READER}"}
        assert await to.call("transport_nodeName", **bearer) == "node1"
        assert await refusal(to, "ptx_sendTransaction", TRANSFER, **bearer) == (
            "ptx_sendTransaction needs the role 'submit', which you lack"
        )
        assert to.node.kept == {}
        bearer = {"Authorization": f"bearer {SUBMITTER}"}
        sent = await to.call("ptx_sendTransaction", TRANSFER, **bearer)
        assert await refusal(to, "ptx_getTransactionReceipt", sent, **bearer) == (
            "ptx_getTransactionReceipt needs the role 'read', which you lack"
        )


@asynchronous
async def test_roles_are_judged_for_each_entry_of_a_batch() -> None:
    async with served(settings=guarded(READER_CREDENTIAL)) as to:
        batch = [
            {"id": 1, "method": "transport_nodeName"},
            {"id": 2, "method": "ptx_cancelTransaction", "params": [UNKNOWN_ID]},
        ]
        _, (read, cancelled) = await to.post(batch, Authorization=f"Bearer {READER}")
        assert read["result"] == "node1"
        assert cancelled["error"]["code"] == -32000


@asynchronous
async def test_without_credentials_nobody_is_let_in() -> None:
    async with served(settings=guarded(READER_CREDENTIAL)) as to:
        assert await refusal(to, "transport_nodeName") == (
            "credentials are needed: an Authorization header with Bearer or Basic"
        )


@asynchronous
async def test_a_password_is_known_again_and_may_hold_a_colon() -> None:
    async with served(settings=guarded(PERSON)) as to:
        for _ in range(3):
            assert await to.call("transport_nodeName", Authorization=basic("anna", PASSWORD)) == "node1"
        for name, password in (("anna", "wrong"), ("anna", ""), ("nobody", ""), ("", PASSWORD), ("Anna", PASSWORD)):
            assert await refusal(to, "transport_nodeName", Authorization=basic(name, password)) == (
                "these credentials are not known here"
            )


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"\xff\xfe").decode(),
        "Basic " + base64.b64encode(b"anna").decode(),
        "Digest anna",
        "Bearer " + "x" * 5_000,
    ],
)
@asynchronous
async def test_malformed_credentials_are_refused(header: str) -> None:
    async with served(settings=guarded(PERSON, READER_CREDENTIAL)) as to:
        await refusal(to, "transport_nodeName", Authorization=header)


class Slept:
    """Notes for how long it was to sleep, and does not."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def doorkeeper(slept: Slept, clock: Clock, *credentials: Credential) -> Doorkeeper:
    attempts = FailedAttempts(clock, attempts_max=2, window_ms=60_000, addresses_max=100, delay_max_ms=1_000)
    return Doorkeeper(credentials, attempts, slept)


async def is_admitted(keeper: Doorkeeper, header: str, address: str = "10.0.0.1") -> bool:
    try:
        await keeper.admit(header, address)
    except Refused:
        return False
    return True


@asynchronous
async def test_right_token_is_admitted_at_once_whatever_others_tried() -> None:
    slept, clock = Slept(), Clock()
    keeper = doorkeeper(slept, clock, READER_CREDENTIAL)
    for _ in range(20):
        assert not await is_admitted(keeper, "Bearer guess")
    # The first two are not delayed, then longer and longer.
    assert slept.seconds[:6] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    count = len(slept.seconds)
    assert await is_admitted(keeper, f"Bearer {READER}")
    assert len(slept.seconds) == count
    clock.now_ms += 60_000
    assert not await is_admitted(keeper, "Bearer guess")
    assert len(slept.seconds) == count


@asynchronous
async def test_passwords_are_delayed_by_address_and_user_name_before_they_are_checked() -> None:
    slept, clock = Slept(), Clock()
    keeper = doorkeeper(slept, clock, PERSON)
    for _ in range(3):
        assert not await is_admitted(keeper, basic("anna", "guess"))
    assert slept.seconds == [0.1]
    # Another address, and another name at the same address, are not concerned.
    assert await is_admitted(keeper, basic("anna", PASSWORD), "10.0.0.2")
    assert not await is_admitted(keeper, basic("bob", "guess"))
    assert slept.seconds == [0.1]
    # The right one waits once, and then is known.
    other = password_credential("anna", EVERY_ROLE, "new")
    keeper.use([other])
    assert await is_admitted(keeper, basic("anna", "new"))
    assert slept.seconds == [0.1, 0.2]
    assert await is_admitted(keeper, basic("anna", "new"))
    assert slept.seconds == [0.1, 0.2]


@asynchronous
async def test_guesses_from_one_address_do_not_hold_up_passwords_from_another() -> None:
    attempts = FailedAttempts(Clock(), attempts_max=100, window_ms=60_000, addresses_max=100, delay_max_ms=1_000)
    keeper = Doorkeeper([PERSON], attempts)
    guesses = [asyncio.create_task(is_admitted(keeper, basic(f"guess {n}", "x"))) for n in range(12)]
    await asyncio.sleep(0)
    assert await is_admitted(keeper, basic("anna", PASSWORD), "10.0.0.2")
    assert sum(guess.done() for guess in guesses) <= 2 * PASSWORD_CHECKS_MAX
    assert not any(await asyncio.gather(*guesses))


@asynchronous
async def test_delayed_attempts_are_bounded_and_a_right_token_is_admitted_beside_them() -> None:
    waiting, going_on = 0, asyncio.Event()

    async def sleep(_: float) -> None:
        nonlocal waiting
        waiting += 1
        await going_on.wait()

    attempts = FailedAttempts(Clock(), attempts_max=1, window_ms=60_000, addresses_max=100, delay_max_ms=1_000)
    keeper = Doorkeeper([READER_CREDENTIAL, PERSON], attempts, sleep)
    guesses = [asyncio.create_task(is_admitted(keeper, "Bearer guess")) for _ in range(2 * DELAYED_MAX)]
    while waiting < DELAYED_MAX:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert waiting == DELAYED_MAX
    assert sum(guess.done() for guess in guesses) == DELAYED_MAX
    assert await is_admitted(keeper, f"Bearer {READER}")
    going_on.set()
    assert not any(await asyncio.gather(*guesses))


def test_addresses_of_failed_attempts_are_bounded() -> None:
    attempts = FailedAttempts(Clock(), attempts_max=1, window_ms=1_000, addresses_max=3, delay_max_ms=1_000)
    for number in range(10):
        attempts.note((f"10.0.0.{number}", ""))
    assert len(attempts) == 3
    assert attempts.delay_s(("10.0.0.9", "")) == 0.1
    assert attempts.delay_s(("10.0.0.0", "")) == 0


@pytest.mark.parametrize(
    ("proxies", "path", "counted"),
    [
        ((), "203.0.113.9", "127.0.0.1"),
        (("127.0.0.1",), "203.0.113.9", "203.0.113.9"),
        (("127.0.0.0/8",), "6.6.6.6, 203.0.113.9", "203.0.113.9"),
        (("127.0.0.1", "10.0.0.0/8"), "6.6.6.6, 203.0.113.9, 10.1.1.1", "203.0.113.9"),
        (("127.0.0.1",), "", "127.0.0.1"),
        (("127.0.0.1",), "no address", "no address"),
    ],
)
@asynchronous
async def test_attempts_are_counted_by_the_address_that_a_trusted_proxy_names(
    proxies: tuple[str, ...], path: str, counted: str
) -> None:
    settings = replace(guarded(READER_CREDENTIAL), proxies=proxies)
    async with served(settings=settings) as to:
        with capture_logs() as logs:
            await refusal(to, "transport_nodeName", Authorization="Bearer guess", **{"X-Forwarded-For": path})
    assert [each["address"] for each in logs] == [counted]


@asynchronous
async def test_header_that_a_trusted_proxy_adds_counts_before_the_one_that_its_client_sent() -> None:
    settings = replace(guarded(READER_CREDENTIAL), proxies=("127.0.0.1",))
    async with served(settings=settings) as to:
        path = [("X-Forwarded-For", each) for each in ("6.6.6.6", "203.0.113.9")]
        headers = [("Authorization", "Bearer guess"), *path]
        with capture_logs() as logs:
            async with to.session.post(to.entrance.http_url, data=b"{}", headers=headers) as answer:
                assert answer.status == 401
    assert [each["address"] for each in logs] == ["203.0.113.9"]


def test_proxy_that_is_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match=r"proxies: must be addresses or networks, such as 10\.0\.0\.0/8, not 'x'"):
        Settings(proxies=("x",))


@asynchronous
async def test_missing_or_wrong_credentials_are_401_and_a_missing_role_is_403() -> None:
    async with served(settings=guarded(READER_CREDENTIAL)) as to:
        call = json.dumps({"id": 1, "method": "ptx_sendTransaction", "params": [TRANSFER]}).encode()
        for header, status in (({}, 401), ({"Authorization": "Bearer x"}, 401)):
            async with to.session.post(to.entrance.http_url, data=call, headers=header) as answer:
                assert answer.status == status
                assert answer.headers["WWW-Authenticate"] == 'Bearer realm="rota"'
                assert (await answer.json())["error"]["code"] == -32000
        assert (await to.post(call, Authorization=f"Bearer {READER}"))[0] == 403
        # A batch has an error for each entry.
        assert (await to.post(b"[" + call + b"]", Authorization=f"Bearer {READER}"))[0] == 200


@asynchronous
async def test_body_of_a_stranger_is_not_read() -> None:
    async with served(settings=guarded(READER_CREDENTIAL)) as to:
        port = int(to.entrance.http_url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n")
        # Nothing of the body is ever sent.
        assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 401 Unauthorized\r\n"
        writer.close()


@asynchronous
async def test_failed_attempts_are_logged_without_what_was_presented() -> None:
    async with served(settings=guarded(READER_CREDENTIAL, PERSON)) as to:
        with capture_logs() as logs:
            await refusal(to, "transport_nodeName", Authorization="Bearer my-secret-token")
            await refusal(to, "transport_nodeName", Authorization=basic("my-secret-name", "my-secret-password"))
            await refusal(to, "transport_nodeName", Authorization="my-secret-scheme x")
            await to.call("transport_nodeName", Authorization=f"Bearer {READER}")
        assert logs == [
            {
                "event": "rpc.authentication_failed",
                "message": "Authentication failed",
                "log_level": "warning",
                "address": "127.0.0.1",
                "scheme": scheme,
                "failed_attempts": count,
            }
            for count, scheme in enumerate(("bearer", "basic", "other"), start=1)
        ]
        assert "secret" not in json.dumps(logs)


def test_what_is_kept_of_credentials_does_not_tell_them() -> None:
    kept = repr((token_credential("t", EVERY_ROLE, "my-token"), password_credential("p", EVERY_ROLE, "my-password")))
    assert "my-" not in kept


@asynchronous
async def test_websockets_and_figures_need_credentials_too_and_health_does_not() -> None:
    async with served(settings=guarded(READER_CREDENTIAL, SUBMITTER_CREDENTIAL)) as to:
        async with to.session.get(to.entrance.websocket_url.replace("ws", "http")) as answer:
            assert answer.status == 401
            assert (await answer.json())["error"]["code"] == -32000
        assert (await to.get("/metrics"))[0] == 401
        assert (await to.get("/metrics", Authorization=f"Bearer {SUBMITTER}"))[0] == 403
        assert (await to.get("/metrics", Authorization=f"Bearer {READER}"))[0] == 200
        assert (await to.get("/livez"))[0] == 200
        assert (await to.get("/readyz"))[0] == 200
        async with to.session.ws_connect(
            to.entrance.websocket_url, headers={"Authorization": f"Bearer {SUBMITTER}"}
        ) as socket:
            await socket.send_json({"id": 1, "method": "transport_nodeName"})
            assert (await socket.receive_json())["error"]["code"] == -32000


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "node1.example", "localhost.example", "128.0.0.1"])
@pytest.mark.parametrize("field", ["http", "websocket", "operations"])
def test_without_credentials_only_loopback_is_listened_on(field: str, host: str) -> None:
    bind: dict[str, Any] = {field: Bind(host)}
    with pytest.raises(ValueError, match=f"{field}: {host} is reached from other machines, so credentials must be"):
        replace(LOOPBACK, **bind)
    replace(LOOPBACK, credentials=(PERSON,), **bind)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_loopback_needs_no_credentials(host: str) -> None:
    Settings(http=Bind(host), websocket=Bind(host), operations=Bind(host))


def test_a_user_name_has_no_colon() -> None:
    with pytest.raises(ValueError, match="name: must be a user name without a colon"):
        password_credential("a:b", EVERY_ROLE, "x")


def test_two_credentials_do_not_have_one_name() -> None:
    with pytest.raises(ValueError, match="credentials: names must be distinct, and 'anna' is there twice"):
        Settings(credentials=(PERSON, token_credential("anna", EVERY_ROLE, "x")))


@asynchronous
async def test_a_browser_may_call_only_for_pages_that_are_welcome() -> None:
    async with served() as to:
        status, answer = await to.post({"id": 1, "method": "transport_nodeName"}, Origin="https://stranger.example")
        assert status == 403
        assert answer["error"]["message"] == "pages of this origin may not call this node"
        async with to.session.get(
            to.entrance.websocket_url.replace("ws", "http"), headers={"Origin": "https://stranger.example"}
        ) as refused:
            assert refused.status == 403
        async with to.session.options(to.entrance.http_url, headers={"Origin": "https://stranger.example"}) as refused:
            assert refused.status == 403
    welcome = Settings(http=LOCAL, websocket=None, origins=("https://app.example",))
    async with served(settings=welcome) as to:
        headers = {"Origin": "https://app.example"}
        assert (await to.post({"id": 1, "method": "transport_nodeName"}, **headers))[0] == 200
        async with to.session.options(to.entrance.http_url, headers=headers) as preflight:
            assert preflight.status == 204
            assert preflight.headers["Access-Control-Allow-Origin"] == "https://app.example"
            assert preflight.headers["Access-Control-Allow-Headers"] == "Authorization, Content-Type"
        assert (await to.post({"id": 1}, Origin="https://stranger.example"))[0] == 403


@asynchronous
async def test_credentials_of_some_families_are_for_those_alone() -> None:
    token, credential = make_token("grafana", EVERY_ROLE, frozenset({"seq", "rpc"}))
    settings = Settings(http=LOCAL, websocket=LOCAL, credentials=(credential,))
    async with served(settings=settings) as to:
        bearer = {"Authorization": f"Bearer {token}"}
        assert isinstance(await to.call("seq_list", **bearer), list)
        error = await to.call("ptx_getTransaction", UNKNOWN_ID, **bearer)
        assert error["code"] == -32000
        assert "the family 'ptx', and your credentials are for rpc, seq" in error["message"]


@asynchronous
async def test_credentials_change_while_the_node_runs() -> None:
    (old, first), (new, second) = make_token("one", EVERY_ROLE), make_token("two", EVERY_ROLE)
    settings = Settings(http=LOCAL, websocket=LOCAL, credentials=(first,))
    async with served(settings=settings) as to:
        assert await to.call("transport_nodeName", Authorization=f"Bearer {old}") == "node1"
        socket = await to.session.ws_connect(to.entrance.websocket_url, headers={"Authorization": f"Bearer {old}"})
        to.entrance.use_credentials((second,))
        await socket.receive()
        assert socket.close_code == WSCloseCode.POLICY_VIOLATION
        assert (await to.call("transport_nodeName", Authorization=f"Bearer {old}"))["code"] == -32000
        assert await to.call("transport_nodeName", Authorization=f"Bearer {new}") == "node1"
