"""Whatever the OpenAPI document allows, and much that it does not: no answer is a 500, and each is as documented."""

from __future__ import annotations

import pytest

from serving.small_server import CHANGE

schemathesis = pytest.importorskip("schemathesis")
from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from schemathesis import GenerationMode  # noqa: E402

QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example]


def fuzz(client, examples: int) -> int:
    """Requests made from the document, right ones and wrong ones, to every route; how many there were."""
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    return sum(_fuzz(client, found.ok(), examples) for found in schema.get_all_operations())


def _fuzz(client, operation, examples: int) -> int:
    modes = st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
    count = 0

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=QUIET,
        phases=[Phase.generate],
    )
    @given(data=st.data())
    def requests(data):
        nonlocal count
        case = data.draw(operation.as_strategy(generation_mode=data.draw(modes)))
        case.headers = {**(case.headers or {}), **CHANGE}
        answer = client.request(case.method, **_request(case))
        count += 1
        assert answer.status_code < 500 or answer.status_code == 503, (case.as_curl_command(), answer.text)
        assert str(answer.status_code) in operation.definition.raw["responses"], (operation.label, answer.text)
        if answer.status_code >= 400:
            assert list(answer.json())[-1] == "error"

    requests()
    return count


def _request(case):
    """What the client of the tests is told: the same words that go over a wire."""
    wanted = case.as_transport_kwargs(base_url="http://127.0.0.1")
    kept = {name: wanted[name] for name in ("headers", "params", "json", "data", "files") if wanted.get(name)}
    if "data" in kept and not isinstance(kept["data"], dict):
        kept["content"] = kept.pop("data")
    return {"url": wanted["url"], **kept}


def test_no_request_made_from_the_document_is_answered_with_500(serving, samples, tmp_path, monkeypatch):
    monkeypatch.setattr("firstsight.serving.samples.SAMPLES", 20)
    client = serving(samples=samples, keep=str(tmp_path / "kept"))
    assert fuzz(client, 3) >= 30


@pytest.mark.slow
def test_thousands_of_requests_made_from_the_document_bring_no_500(serving, samples, tmp_path):
    client = serving(samples=samples, keep=str(tmp_path / "kept"))
    print(f"{fuzz(client, 200):,} requests, none answered with 500")
