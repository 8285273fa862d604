"""The page of `firstsight serve --demo`: recognise, teach, undo, map, figures, files, and what goes wrong."""

from __future__ import annotations

import base64
import csv
import io
import json
import re

import numpy as np
import pytest
from PIL import Image, ImageDraw

from firstsight.serving.wire_schema import NewClass

# What a tab shows once it is there.
READY = {
    "recognise": ".samples button",
    "teach": ".class-list li",
    "map": "canvas.scatter",
    "measure": ".per-class tbody tr",
}


def _text(page, selector: str) -> str:
    return page.locator(selector).first.inner_text()


def _open(open_page, site: str, tab: str = "recognise", **more):
    page = open_page(f"{site}#{tab}", **more)
    page.wait_for_selector("body[data-ready]")
    page.wait_for_selector(READY[tab])
    return page


def test_a_picture_gets_ranked_classes_with_confidence_and_reasons(open_page, site, complaints, expect, tmp_path):
    page = _open(open_page, site)
    picture = Image.new("L", (300, 300), 255)
    ImageDraw.Draw(picture).line([(60, 260), (150, 40), (240, 260)], fill=0, width=22)
    picture.save(tmp_path / "tent.png")
    page.locator(".drop input").set_input_files(tmp_path / "tent.png")
    expect(page.locator(".answer-file")).to_contain_text("tent.png")
    expect(page.locator(".ranks .rank-number")).to_have_text([re.compile(r"^(< |> )?\d+ %$")] * 5)
    expect(page.locator(".answer-chips .chip").first).to_have_text(re.compile("^(seen|unseen|no class)$"))
    page.locator(".why summary").click()
    expect(page.locator(".why-name").first).to_be_visible()
    expect(page.locator(".why-name").first).to_have_text(re.compile(r"^(more|less) of (base|mark) .* \([+−]"))
    expect(page.locator(".reasons")).to_contain_text("other attribute")
    expect(page.locator(".reasons .sum")).to_contain_text("Together: ")
    assert complaints == []


def noise_file(folder):
    pixels = np.random.default_rng(0).integers(0, 255, (24, 24), dtype=np.uint8)
    Image.fromarray(pixels).save(folder / "noise.png")
    return folder / "noise.png"


def open_dialog(page):
    page.get_by_role("button", name=re.compile("^It is")).click()
    return page.get_by_role("dialog", name="What does it show?")


def test_a_correction_by_keyboard_changes_the_next_answer_and_is_undone(open_page, site, complaints, expect, tmp_path):
    page = _open(open_page, site)
    classes = page.request.get(f"{site}api/classes").json()["classes"]
    unseen = next(one["class"] for one in classes if not one["seen"])
    page.locator(".drop input").set_input_files(noise_file(tmp_path))
    expect(page.locator(".answer-name")).to_have_text("none of these")
    with page.expect_response("**/api/classes"):
        page.get_by_role("button", name=re.compile("^It is")).press("Enter")
    dialog = page.get_by_role("dialog", name="What does it show?")
    expect(dialog.get_by_role("option")).to_have_count(len(classes))  # every class, not the best five
    expect(dialog.get_by_role("button", name="Learn it")).to_be_disabled()
    search = dialog.get_by_role("combobox", name="Search classes")
    expect(search).to_be_focused()
    page.keyboard.type(unseen)
    expect(dialog.locator("[aria-selected=true]")).to_have_text(re.compile(f"^{unseen}"))
    page.keyboard.press("Enter")
    expect(page.locator("#notices")).to_contain_text(f"Learned: it is {unseen}.")
    expect(dialog).to_be_hidden()
    expect(page.locator(".answer-name")).to_have_text(unseen)
    expect(page.locator(".answer-chips")).to_contain_text("training picture")
    expect(page.locator(".learned")).to_have_text(f"Learned: it is {unseen}.")
    expect(page.locator("#notices").get_by_role("button", name="Undo")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#notices")).to_contain_text("Undone")
    expect(page.locator(".answer-name")).to_have_text("none of these")
    expect(page.locator(".learned")).to_have_count(0)
    assert complaints == []


def test_a_sample_is_corrected_twice_and_every_answer_on_screen_is_asked_again(open_page, site, complaints, expect):
    page = _open(open_page, site)
    before = page.request.get(f"{site}api/model").json()
    page.get_by_role("button", name="Recognise all").click()
    expect(page.locator(".answer")).to_have_count(18)
    expect(page.locator(".results.waiting")).to_have_count(0)
    card = page.locator(".answer").first
    for letter in "ÿź":
        card.get_by_role("button", name=re.compile("^It is")).click()
        page.get_by_role("combobox", name="Search classes").fill(letter)
        with page.expect_response("**/api/predict") as answer:
            page.get_by_role("button", name="Learn it").click()
        assert len(answer.value.json()["answers"]) == 16  # the first of two requests
        expect(card.locator(".learned")).to_have_text(f"Learned: it is {letter}.")
        expect(page.locator("#notices")).to_contain_text(f"Learned: it is {letter}.")
        expect(card.locator(".answer-chips")).to_contain_text("training picture")
        expect(page.locator(".learned")).to_have_count(1)
    for left in ("Learned: it is ÿ.", None):
        card.get_by_role("button", name="Undo").click()
        expect(page.locator("#notices")).to_contain_text("Undone")
        if left:
            expect(card.locator(".learned")).to_have_text(left)
        expect(page.locator(".results.waiting")).to_have_count(0)
    expect(page.locator(".learned")).to_have_count(0)
    assert page.request.get(f"{site}api/model").json() == before
    assert complaints == []


def test_a_picture_is_kept_under_any_class_by_search(open_page, site, complaints, expect):
    page = _open(open_page, site)
    page.locator(".samples button").first.click()
    dialog = open_dialog(page)
    search = dialog.get_by_role("combobox", name="Search classes")
    search.fill("no such letter")
    expect(dialog.get_by_role("option")).to_have_count(0)
    expect(dialog).to_contain_text("No class is called so.")
    expect(dialog.get_by_role("button", name="Keep it")).to_be_disabled()
    search.fill("")
    dialog.get_by_role("option").nth(40).click()
    expect(dialog.get_by_role("option").nth(40)).to_have_attribute("aria-selected", "true")
    search.press("ArrowDown")
    expect(dialog.get_by_role("option").nth(41)).to_have_attribute("aria-selected", "true")
    chosen = dialog.get_by_role("option").nth(41).get_attribute("data-class")
    dialog.get_by_role("button", name="Keep it").click()
    page.locator("#notices", has_text=f"Kept as {chosen} for the next").wait_for()
    expect(page.locator(".learned")).to_have_count(0)
    open_dialog(page)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert complaints == []


def test_what_goes_wrong_with_a_correction_is_told_in_the_dialog(open_page, site, expect):
    page = _open(open_page, site)
    page.locator(".samples button").first.click()
    page.route("**/api/corrections", lambda route: route.fulfill(status=422, json={"error": "There is no room."}))
    dialog = open_dialog(page)
    dialog.get_by_role("option").first.click()
    dialog.get_by_role("button", name="Learn it").click()
    expect(dialog.get_by_role("alert")).to_have_text("There is no room.")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()


TWO_FILES = """(content) => {
    const bytes = Uint8Array.from(atob(content), (sign) => sign.charCodeAt(0));
    const held = new DataTransfer();
    for (const name of ["one.png", "two.png"]) held.items.add(new File([bytes], name, { type: "image/png" }));
    return held;
}"""


def test_pictures_are_dropped_anywhere_and_pasted(open_page, site, complaints, expect):
    page = _open(open_page, site)
    content = base64.b64encode(page.request.get(f"{site}api/samples/0.png").body()).decode()
    files = page.evaluate_handle(TWO_FILES, content)
    page.dispatch_event("footer", "dragover", {"dataTransfer": files})
    expect(page.locator(".drop.over")).to_have_count(1)
    page.dispatch_event("footer", "drop", {"dataTransfer": files})
    expect(page.locator(".drop.over")).to_have_count(0)
    expect(page.locator(".answer-file")).to_have_text(["one.png", "two.png"])
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate(
        """async (content) => {
            const bytes = Uint8Array.from(atob(content), (sign) => sign.charCodeAt(0));
            const picture = new Blob([bytes], { type: "image/png" });
            await navigator.clipboard.write([new ClipboardItem({ "image/png": picture })]);
        }""",
        content,
    )
    with page.expect_response("**/api/predict") as answer:
        page.keyboard.press("Control+V")
    assert len(answer.value.json()["answers"]) == 1
    page.locator(".single .answer").wait_for()
    assert complaints == []


def test_a_token_is_asked_for_until_it_is_right(open_page, site, expect):
    page = open_page("about:blank")
    tokens = []

    def model(route):
        route.continue_() if "right" in tokens else route.fulfill(status=401, json={"error": "A token is needed."})

    def session(route):
        tokens.append(route.request.headers["authorization"].removeprefix("Bearer "))
        route.fulfill(**({"status": 204} if tokens[-1] == "right" else {"status": 401, "json": {"error": "No."}}))

    page.route("**/api/model", model)
    page.route("**/api/session", session)
    page.goto(site)
    for word in ("wrong", "right"):
        page.locator("#token-value").fill(word)
        page.get_by_role("button", name="Go on").click()
        if word == "wrong":
            page.locator("#token-error", has_text="No.").wait_for()
    page.wait_for_selector("body[data-ready]")
    assert tokens == ["wrong", "right"]
    expect(page.locator("#token")).to_be_hidden()


def test_many_pictures_are_sorted_filtered_and_saved(open_page, site, complaints, expect):
    page = _open(open_page, site)
    page.get_by_role("button", name="Recognise all").click()
    expect(page.locator(".grid-count")).to_have_text("18 pictures")
    expect(page.locator(".answer")).to_have_count(18)
    page.get_by_label("Kind", exact=True).select_option("unseen")
    expect(page.locator(".grid-count")).to_have_text(re.compile(r"^\d+ of 18 pictures$"))
    kinds = page.locator(".answer .answer-chips .chip:first-child").all_inner_texts()
    shown = len(kinds)
    assert 0 < shown < 18
    expect(page.locator(".grid-count")).to_have_text(f"{shown} of 18 pictures")
    assert set(kinds) == {"unseen"}
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save CSV").click()
    assert waiting.value.suggested_filename == "answers.csv"
    lines = list(csv.DictReader(io.StringIO(waiting.value.path().read_text(encoding="utf-8"))))
    assert len(lines) == shown
    assert {line["seen"] for line in lines} == {"false"}
    assert [line["class"] for line in lines] == page.locator(".answer-name").all_inner_texts()
    page.get_by_label("Kind", exact=True).select_option("")
    page.get_by_label("Order", exact=True).select_option("sure")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save JSON").click()
    entries = json.loads(waiting.value.path().read_text(encoding="utf-8"))
    sure = [-1 if entry["confidence"] is None else entry["confidence"] for entry in entries]
    assert len(entries) == 18
    assert sure == sorted(sure, reverse=True)
    assert len(entries[0]["top"]) == 5
    assert not {"picture", "source"} & set(entries[0])
    assert complaints == []


def test_a_taught_class_wins_at_once_and_loses_after_undo(open_page, site, complaints, expect):
    page = _open(open_page, site)
    classes = page.request.get(f"{site}api/model").json()["classes"]
    for _ in range(8):  # until a letter is shown that the model has no description of
        if page.locator(".samples .unknown").count():
            break
        with page.expect_response("**/api/samples?*") as answer:
            page.get_by_role("button", name="Others").click()
        titles = [re.compile(f"^{re.escape(one['class'])}(: not among .*)?$") for one in answer.value.json()["samples"]]
        for button, title in zip(page.locator(".samples button").all(), titles, strict=True):
            expect(button).to_have_attribute("title", title)  # the new ones are there, not those from before
    unknown = page.locator(".samples .unknown").first
    name = unknown.get_attribute("title").split(":")[0]
    unknown.click()
    page.wait_for_selector(".answer")
    before = _text(page, ".answer-name")
    assert before != name
    page.get_by_role("button", name=f"Teach “{name}”").click()
    expect(page.locator("#class-name")).to_have_value(name)
    expect(page.locator(".picked .pill")).to_have_count(2)  # its base letter and its mark
    page.wait_for_selector(".class-list li")
    page.get_by_role("button", name="Teach it").click()
    expect(page.locator("#notices")).to_contain_text(f"{name} is known now. {classes + 1} classes in all.")
    expect(page.locator(".class-list li .class-name").first).to_have_text(name)
    page.get_by_role("link", name="Recognise something").click()
    expect(page.locator(".answer-name")).to_have_text(name)
    expect(page.locator(".answer-chips")).to_contain_text("✓ right")
    page.get_by_role("tab", name="Teach").click()
    page.get_by_role("button", name="Undo the last one").click()
    expect(page.locator("#notices")).to_contain_text(f"Undone. {classes} classes in all.")
    expect(page.get_by_role("button", name="Undo the last one")).to_be_disabled()
    page.get_by_role("tab", name="Recognise").click()
    expect(page.locator(".answer-name")).to_have_text(before)
    assert complaints == []


def test_what_goes_wrong_is_one_sentence_for_a_person(open_page, site, expect, tmp_path):
    page = _open(open_page, site)
    (tmp_path / "notes.png").write_text("no picture at all")
    page.locator(".drop input").set_input_files(tmp_path / "notes.png")
    page.wait_for_selector("#alerts .message")
    told = _text(page, "#alerts .message p")
    assert "picture" in told
    assert len(told.splitlines()) == 1
    page.get_by_role("button", name="Close").click()
    expect(page.locator("#alerts .message")).to_have_count(0)
    page.get_by_role("tab", name="Teach").click()
    page.wait_for_selector(".class-list li")
    existing = _text(page, ".class-list .class-name")
    page.locator("#class-name").fill(existing)
    page.get_by_role("button", name="Teach it").click()
    expect(page.locator("#alerts .message p")).to_contain_text(existing)


def test_a_sentence_is_sent_as_the_server_takes_it(open_page, site, complaints, expect):
    """The server is not one of sentences; the slow test beside has one."""
    page, sent = open_page("about:blank"), []

    def model(route):
        facts = route.fetch().json()
        route.fulfill(json={**facts, "attributes": [], "can": {**facts["can"], "sentence": True}})

    def teach(route):
        sent.append(NewClass.model_validate_json(route.request.post_data))
        done = [{"class": sent[-1].name, "seen": False, "what": "added"}]
        undo = {"remove": [sent[-1].name], "restore": []}
        route.fulfill(status=201, json={"revision": "x", "classes": 168, "done": done, "undo": undo, "durable": True})

    page.route("**/api/model", model)
    page.route("**/api/classes", lambda route: teach(route) if route.request.method == "POST" else route.continue_())
    page.goto(f"{site}#teach")
    page.locator("#class-name").fill("okapi")
    expect(page.locator("#like")).to_have_count(0)
    page.get_by_label("A sentence that describes it").fill("A shy animal with striped legs.")
    page.get_by_role("button", name="Teach it").click()
    page.locator("#notices", has_text="okapi is known now. 168 classes in all.").wait_for()
    assert [(one.name, one.text, one.attributes) for one in sent] == [("okapi", "A shy animal with striped legs.", {})]
    assert complaints == []


def test_a_hostile_name_is_text(open_page, site, complaints, expect):
    name = '<img src=x onerror=alert(1)>"&amp;</li>'
    page = _open(open_page, site, "teach")
    page.locator("#class-name").fill(name)
    page.locator("#like").fill("é")
    page.locator("#like").press("Tab")
    page.locator(".picked .pill").nth(1).wait_for()
    page.get_by_role("button", name="Teach it").click()
    page.locator("#notices", has_text="is known now").wait_for()
    expect(page.locator(".class-list .class-name").first).to_have_text(name)
    expect(page.locator("img[src=x]")).to_have_count(0)
    page.get_by_role("button", name="Undo the last one").click()
    page.locator("#notices", has_text="Undone").wait_for()
    expect(page.locator("img[src=x]")).to_have_count(0)
    assert complaints == []


def test_a_letter_can_be_drawn_or_typed(open_page, site, complaints, expect):
    page = _open(open_page, site)
    page.get_by_label("Type a letter instead").fill("ô")
    expect(page.locator(".answer-file")).to_have_text("drawing.png")
    expect(page.locator(".rank-name").filter(has_text=re.compile("^ô$"))).to_have_count(1)
    page.get_by_role("button", name="Clear").click()
    box = page.locator("canvas.pad").bounding_box()
    with page.expect_response("**/api/predict"):
        page.mouse.move(box["x"] + 60, box["y"] + 60)
        page.mouse.down()
        for step in range(1, 8):
            page.mouse.move(box["x"] + 60 + 20 * step, box["y"] + 60 + 15 * step)
        page.mouse.up()
    assert complaints == []


def test_pointing_at_the_map_shows_the_picture_and_its_class(open_page, site, complaints, expect):
    page = _open(open_page, site, "map")
    canvas = page.locator("canvas.scatter").first
    place = canvas.evaluate(
        """(canvas) => {
            const { plot } = canvas;
            const one = plot.data.samples.find((sample) => sample.picture && !sample.seen);
            const [x, y] = plot.onScreen(one.at[plot.space.name]);
            const hit = plot.hitAt(x, y).one;
            return { x, y, name: String(hit.class) };
        }"""
    )
    canvas.hover(position={"x": place["x"], "y": place["y"]})
    expect(page.locator(".tip strong")).to_have_text(place["name"])
    expect(page.locator(".tip")).to_be_visible()
    page.mouse.wheel(0, -400)
    page.wait_for_function("(canvas) => canvas.plot.zoom > 1.3", arg=canvas.element_handle())
    page.locator(".map-bar label", has_text="unseen").locator("input").uncheck()
    shown = "({ plot }) => plot.data.samples.filter((one) => plot.shown(one)).map((one) => one.seen)"
    assert set(canvas.evaluate(shown)) == {True}
    assert complaints == []


def test_the_map_is_moved_by_keys_and_by_two_fingers(open_page, site, complaints):
    page = _open(open_page, site, "map", has_touch=True)
    canvas = page.locator("canvas.scatter").first
    view = lambda: canvas.evaluate("({ plot }) => [plot.zoom, ...plot.middle]")  # noqa: E731
    zoom, x, y = view()
    canvas.press("+")
    assert view() == [pytest.approx(1.3 * zoom), x, y]
    canvas.press("ArrowRight")
    canvas.press("ArrowUp")
    assert view()[1] > x
    assert view()[2] > y
    canvas.press("0")
    assert view() == [zoom, x, y]
    box = canvas.bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = page.context.new_cdp_session(page)

    def touch(kind: str, *apart: int) -> None:
        points = [{"x": middle[0] + side * apart[0], "y": middle[1], "id": side} for side in (-1, 1)] if apart else []
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 40)
    for apart in (60, 80, 100):
        touch("touchMove", apart)
    touch("touchEnd")
    wanted = [canvas.element_handle(), 2.5 * zoom]  # from 80 to 200 pixels apart
    page.wait_for_function("([{ plot }, wanted]) => Math.abs(plot.zoom / wanted - 1) < 0.1", arg=wanted)
    assert complaints == []


def test_the_figures_follow_the_slider_and_the_classes_their_heads(open_page, site, complaints, expect):
    page = _open(open_page, site, "measure")
    expect(page.locator(".tiles b")).to_have_text([re.compile(r"^\d+\.\d$")] * 5)
    told = page.locator(".told")
    expect(told).to_have_text(re.compile("^As it is: "))
    first = told.inner_text()
    page.locator("#constant").press("Home")
    expect(told).to_have_text(re.compile("^With "))
    page.get_by_role("button", name="As it is").click()
    expect(told).to_have_text(first)
    page.get_by_role("button", name="Right among all").click()
    expect(page.locator("th", has_text="Right among all")).to_have_attribute("aria-sort", "descending")
    found = [int(re.sub(r"\D", "", text)) for text in page.locator(".per-class td:nth-child(4)").all_inner_texts()]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) > 1
    assert complaints == []


def test_nothing_is_cut_on_a_phone(open_page, site, cut):
    page = _open(open_page, site, width=390)
    for tab, shown in READY.items():
        page.get_by_role("tab", name=tab.capitalize()).click()
        page.wait_for_selector(shown)
        assert cut(page) == [], tab
    page.get_by_role("tab", name="Recognise").click()
    page.locator(".samples button").first.click()
    dialog = open_dialog(page)
    dialog.get_by_role("option").nth(5).click()
    assert cut(page) == []
    box = dialog.get_by_role("button", name="Learn it").bounding_box()
    assert box["y"] + box["height"] < 900


def test_tabs_are_walked_by_keyboard(open_page, site, expect):
    page = _open(open_page, site)
    page.get_by_role("tab", name="Recognise").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Teach")).to_be_focused()
    expect(page.locator("#teach")).to_be_visible()
    expect(page.locator("#recognise")).to_be_hidden()
    page.keyboard.press("Home")
    expect(page.get_by_role("tab", name="Recognise")).to_be_focused()
    expect(page.locator("#recognise")).to_be_visible()
    expect(page.locator("#teach")).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_an_audit_has_no_serious_findings(open_page, site, audit, expect, scheme):
    page = _open(open_page, site, scheme=scheme, bypass_csp=True)
    page.locator(".samples button").first.click()
    page.wait_for_selector(".answer")
    expect(page.locator(".results.waiting")).to_have_count(0)  # pale while it waits
    page.locator(".why summary").click()
    found = audit(page)
    dialog = open_dialog(page)
    dialog.get_by_role("option").nth(1).click()
    found += audit(page)
    dialog.get_by_role("button", name="Cancel").click()
    for tab in list(READY)[1:]:
        page.get_by_role("tab", name=tab.capitalize()).click()
        page.wait_for_selector(READY[tab])
        found += audit(page)
    assert found == []
