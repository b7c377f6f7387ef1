"""lm-eval's model of a completions server, as one that keeps what lm-eval drops.

Contract: every question is asked until it has a reply or its tries are used up, a bounded number at a time;
`keep` is called once for each, before the next question takes its place. Replies that are kept already are
given back to lm-eval without a request. A request that fails never becomes an empty answer, and a server
that is gone ends the sample instead of failing every question left.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import aiohttp

from harness.exits import CannotRun
from harness.legs import credentials, masked
from harness.legs import sections as asked
from harness.legs.evaluation.library import LocalCompletionsAPI, register_model
from harness.legs.evaluation.replies import (
    Reply,
    Seen,
    ServerGone,
    Unusable,
    parsed,
    printable,
    understand,
)

LONGEST_WAIT = 60.0
"""Seconds between two tries at most."""

AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""HTTP statuses after which another try makes sense."""

HOPELESS = frozenset({401, 403, 404, 405})
"""HTTP statuses that every other question would get too: address, model name or key are wrong."""


@dataclass(frozen=True)
class Server:
    """Whom to ask. ``ended``: how the server ended, None while it runs. ``healthy``: does it answer?

    ``login``: name and password that it wants, empty for none.
    """

    url: str
    model: str
    ended: Callable[[], str | None]
    healthy: Callable[[], bool]
    login: str = ""


@register_model("harness-completions")
class KeepingCompletions(LocalCompletionsAPI):  # type: ignore[misc, unused-ignore]
    """local-completions with one prompt a request, sent as text, so that no client cuts it."""

    def __init__(
        self,
        server: Server,
        task: asked.Task,
        client: asked.Client,
        keep: Callable[[Reply], None],
        kept: Mapping[int, str],
    ) -> None:
        super().__init__(
            base_url=f"{server.url}/v1/completions",
            model=server.model,
            tokenizer_backend="none",
            tokenized_requests=False,
            num_concurrent=client.concurrency,
            max_retries=client.retries + 1,
            max_gen_toks=task.max_tokens,
            max_length=task.max_length,
            batch_size=1,
            seed=client.seed,
        )
        self._server, self._client = server, client
        self._keep, self._kept = keep, kept
        self._seen = Seen()
        self._headers = {**self.header, **credentials.header(server.login)}

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Replies in the order of ``requests``; those not kept yet are asked.

        Raises `ServerGone`, or `CannotRun` when the server refuses every request.
        """
        texts = {one.doc_id: self._kept[one.doc_id] for one in requests if one.doc_id in self._kept}
        todo = [one for one in requests if one.doc_id not in texts]
        if todo:
            texts |= asyncio.run(self.ask_all([(one.doc_id, *one.args) for one in todo]))
        return [texts[one.doc_id] for one in requests]

    async def ask_all(self, todo: list[tuple[int, str, dict[str, Any]]]) -> dict[int, str]:
        """Ask (question, prompt, generation settings), `keep` each reply, and give the texts."""
        pending, texts = iter(todo), dict[int, str]()
        limit = aiohttp.ClientTimeout(total=self._client.timeout)
        connector = aiohttp.TCPConnector(limit=self._client.concurrency)
        async with aiohttp.ClientSession(connector=connector, timeout=limit) as session:
            count = min(self._client.concurrency, len(todo))
            workers = [asyncio.create_task(self._work(session, pending, texts)) for _ in range(count)]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
        return texts

    async def _work(
        self,
        session: aiohttp.ClientSession,
        pending: Iterator[tuple[int, str, dict[str, Any]]],
        texts: dict[int, str],
    ) -> None:
        for question, prompt, settings in pending:
            reply = await self._ask(session, question, prompt, settings)
            self._keep(reply)
            texts[question] = reply.text or ""

    async def _ask(
        self, session: aiohttp.ClientSession, question: int, prompt: str, settings: dict[str, Any]
    ) -> Reply:
        """The reply to one question, failed after all tries. Raises `ServerGone` or `CannotRun`."""
        payload = self._create_payload(
            self.create_message([prompt]),
            generate=True,
            gen_kwargs=copy.deepcopy(settings),
            seed=self._seed,
        )
        failed = Reply(question, None, failed=True)
        for tries in range(self._client.retries + 1):
            if tries:
                await asyncio.sleep(min(LONGEST_WAIT, self._client.backoff * 2.0 ** (tries - 1)))
            began = time.monotonic()
            found, again = await self._once(session, question, payload)
            found = replace(found, latency=time.monotonic() - began, retries=tries)
            if not found.failed:
                return found
            failed = found
            self._check_process()
            if not again:
                break
        if failed.http_status is None or failed.http_status >= 500:
            await self._check_health(failed)
        return failed

    async def _once(
        self, session: aiohttp.ClientSession, question: int, payload: dict[str, Any]
    ) -> tuple[Reply, bool]:
        """(reply of one try, whether another makes sense)."""
        status: int | None = None
        try:
            async with session.post(self.base_url, json=payload, headers=self._headers) as response:
                status = response.status
                content = await response.read()
            if status != 200:
                return self._refused(question, status, content.decode("utf-8", "replace"))
            return replace(understand(question, parsed(content), self._seen), http_status=status), True
        except Unusable as error:
            said = str(error)
        except TimeoutError:
            said = f"no reply within {self._client.timeout:g} s"
        except aiohttp.ClientError as error:
            said = f"{type(error).__name__}: {error}"
        return Reply(question, None, http_status=status, error=printable(said), failed=True), True

    def _refused(self, question: int, status: int, text: str) -> tuple[Reply, bool]:
        said = f"HTTP {status}: {masked.text(' '.join(text.split()))[:300]}"
        if status in HOPELESS:
            raise CannotRun(f"the server at {self.base_url} refuses every request, {said}")
        return Reply(question, None, http_status=status, error=said, failed=True), status in AGAIN

    def _check_process(self) -> None:
        ended = self._server.ended()
        if ended is not None:
            raise ServerGone(ended)

    async def _check_health(self, failed: Reply) -> None:
        if not await asyncio.to_thread(self._server.healthy):
            self._check_process()
            raise ServerGone(f"the server answers no more ({failed.error})")
