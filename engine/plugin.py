"""Decides which routes our server has beside vLLM's own (`vllm.endpoint_plugins`, VLLM_PLUGINS=readonce)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI


class Plugin:
    """vLLM makes one in its server, gives it the app, and later the engine."""

    name = "readonce"
    required_tasks = ("generate",)

    def attach_router(self, app: FastAPI) -> None:
        """Adds the routes to vLLM's app."""

    async def init_state(self, engine_client: Any, state: Any, args: Any) -> None:
        """Takes hold of the engine."""
