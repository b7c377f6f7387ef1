"""An OpenAI-compatible completions server over the small model: ``python -m harness.legs.demo.server``.

Contract: ``/health`` answers 200 only while requests are served; every reply tells its finish reason and the
tokens of prompt and reply. Only greedy decoding is served, so a request for anything else is refused (400)
instead of answered by something that it did not ask for.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from pathlib import Path
from typing import Any

from aiohttp import web

from harness.legs.demo.batching import Batcher, Request
from harness.legs.demo.index import KINDS, Index

FIXED = {"temperature": 0, "n": 1, "stream": False, "echo": False}
"""Fields that may be sent, each with the only value served."""


class Refused(Exception):
    """A request that cannot be served; the message is one sentence."""


def request_of(body: Any, tokenizer: Any, length: int) -> Request:
    """What ``body`` asks. Raises `Refused`."""
    if not isinstance(body, dict) or not isinstance(body.get("prompt"), str):
        raise Refused("prompt is missing or no text, allowed is one text")
    for name, only in FIXED.items():
        if body.get(name, only) not in (only, None):
            raise Refused(f"{name} is {body[name]!r}, allowed is {only!r}")
    most = body.get("max_tokens", 16)
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise Refused(f"max_tokens is {most!r}, allowed are whole numbers of 1 or more")
    stop = body.get("stop") or []
    stops = [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(one, str) and one for one in stops):
        raise Refused(f"stop is {stop!r}, allowed are texts that are not empty")
    tokens = tokenizer.encode(body["prompt"]).ids
    if not tokens or len(tokens) + most > length:
        raise Refused(
            f"prompt has {len(tokens)} tokens, allowed are 1 to {length - most} (and {most} of reply)"
        )
    return Request(tokens, most, stops)


def application(batcher: Batcher, tokenizer: Any, name: str, length: int) -> web.Application:
    """The server's paths."""
    numbers = itertools.count(1)

    async def health(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"}, status=200 if batcher.alive else 503)

    async def completions(request: web.Request) -> web.Response:
        try:
            asked = request_of(await request.json(), tokenizer, length)
        except (Refused, ValueError) as error:
            return web.json_response({"error": {"message": str(error)}}, status=400)
        found = await asyncio.wrap_future(batcher.submit(asked))
        choice = {"index": 0, "text": found.text, "finish_reason": found.finish_reason, "logprobs": None}
        usage = {
            "prompt_tokens": len(asked.prompt),
            "completion_tokens": found.tokens,
            "total_tokens": len(asked.prompt) + found.tokens,
        }
        head = {"id": f"cmpl-{next(numbers)}", "object": "text_completion", "created": int(time.time())}
        return web.json_response({**head, "model": name, "choices": [choice], "usage": usage})

    made = web.Application()
    made.add_routes([web.get("/health", health), web.post("/v1/completions", completions)])
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description="serve the small model of 'harness legs demo'")
    parser.add_argument("--model", type=Path, required=True, help="folder that the demo converted it to")
    parser.add_argument("--index", choices=list(KINDS), required=True, help="format of the index")
    parser.add_argument("--index-topk", type=int, required=True, help="keys that a query attends to")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slots", type=int, default=8, help="sequences at a time (default: %(default)s)")
    parser.add_argument("--max-length", type=int, default=1024, help="tokens of prompt and reply")
    args = parser.parse_args()
    from tokenizers import Tokenizer

    from harness.legs.demo.served import Served

    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    served = Served(args.model, Index(args.index, args.index_topk), args.slots, args.max_length)
    print(f"index cache: {args.index} ({KINDS[args.index]}), top-k {args.index_topk}", flush=True)
    batcher = Batcher(served, lambda made: str(tokenizer.decode(made, skip_special_tokens=False)))
    web.run_app(
        application(batcher, tokenizer, args.model.name, args.max_length),
        host="127.0.0.1",
        port=args.port,
        print=None,
        access_log=None,
    )


if __name__ == "__main__":
    main()
