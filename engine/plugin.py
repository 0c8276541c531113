"""Decides what our server answers beside vLLM's own routes (entry point `vllm.endpoint_plugins`).

    POST /v1/prefixes                register                  routes_handles -> handles -> prefixes, admission
    GET, PATCH, DELETE /v1/prefixes/ID, GET /v1/prefixes, DELETE /v1/sessions/NAME, GET /v1/cache     the same way
    POST /v1/prefixes/ID/generate    ask                       routes_generate -> questions -> admission -> bridge

vLLM loads it where VLLM_PLUGINS names readonce. Who may call is vLLM's affair: with VLLM_API_KEY (or --api-key)
everything under /v1 wants that key.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from engine import routes_generate, routes_handles
from engine.assemble import open_parts
from engine.base import EngineError
from engine.guard import Guard
from engine.handles import Handles
from engine.knobs import GUARD
from engine.metrics import Metrics
from engine.parts import Parts
from engine.questions import Questions
from engine.view import CacheView

if TYPE_CHECKING:
    from starlette.applications import Starlette

logger = logging.getLogger("vllm.readonce")


class Plugin:
    """vLLM makes one in its server, gives it the app, and later the engine.

    Args:
        open_with: Builds the parts from vLLM's engine client.
    """

    name = "readonce"
    required_tasks = ("generate",)

    def __init__(self, open_with: Callable[[Any], Awaitable[Parts]] = open_parts) -> None:
        self._open_with = open_with
        self._handles: Handles | None = None
        self._questions: Questions | None = None
        self._problem = EngineError(
            "no_engine", "This server has no engine yet, or none at all; ask one that generates."
        )
        self._tasks: set[asyncio.Task[None]] = set()

    def attach_router(self, app: Starlette) -> None:
        """Adds the routes to vLLM's app."""
        token = os.environ.get("VLLM_API_KEY")
        if token and os.environ.get(GUARD) == "1":
            app.add_middleware(Guard, token=token)
        # Before vLLM's own: a question is compared with one path instead of all.
        app.router.routes[:0] = [routes_generate.route(self.questions), *routes_handles.routes(self.handles)]

    async def init_state(self, engine_client: Any, state: Any, args: Any) -> None:
        """Takes hold of the engine, and begins to read again what was registered before.

        Where the folder of the state can't be used, the server serves all the same; our routes say what is wrong.

        Raises:
            EngineError: `bad_setting`, `unknown_setting`; the server then does not start.
        """
        if engine_client is None:  # a server that only renders prompts: the routes say that there is no engine
            return
        try:
            parts = await self._open_with(engine_client)
        except EngineError as error:
            if error.code != "state_unusable":
                raise
            logger.error("readonce is off: %s", error.message)
            self._problem = error
            return
        self._questions = Questions(parts)
        self._handles = Handles(parts, self._questions)
        parts.metrics = parts.metrics or Metrics(self.view)
        self._start(self._handles.come_back())
        self._start(self._handles.keep())

    def handles(self) -> Handles:
        """Raises EngineError: `no_engine`, `state_unusable`."""
        if self._handles is None:
            raise EngineError(self._problem.code, self._problem.message)
        return self._handles

    def questions(self) -> Questions:
        """Raises EngineError: `no_engine`, `state_unusable`."""
        if self._questions is None:
            raise EngineError(self._problem.code, self._problem.message)
        return self._questions

    def view(self) -> CacheView:
        """What GET /v1/cache shows."""
        return self.handles().view()

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("readonce: %r", error)
