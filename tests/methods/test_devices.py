"""Every torch method on any device. There is no GPU here: torch's `meta` device, shapes without numbers, stands in.

Whoever reads a number from it, or computes with tensors of it and of the CPU together, is caught.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter

import numpy as np
import pytest
from sklearn.base import clone

import firstsight
from firstsight.devices import find_device
from firstsight.errors import BadInput, StaleCheckpoint
from firstsight.methods import DeepEmbedding, all_methods
from firstsight.methods._gradient_training import as_tensor

pytest.importorskip("torch")

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ON_DEVICES = {word: cls for word, cls in all_methods().items() if "device" in cls._get_param_names()}
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without CUDA")


def quick(cls, **changes):
    return cls(**{**cls.quick, "random_state": 0, **changes})


def fitted(model, task, rows=None):
    pool = {"X_unlabeled": task.X_unseen[:rows]} if model.transductive else {}
    return model.fit(task.X[:rows], task.y[:rows], task.table, **pool)


def test_whatever_learns_by_gradient_steps_can_do_so_anywhere():
    chance = {word for word, cls in all_methods().items() if "random_state" in cls._get_param_names()}
    chance -= {"blend", "transductive-blend"}  # they pass a seed to their parts and train nothing themselves
    assert set(ON_DEVICES) == chance
    assert all("precision" in cls._get_param_names() for cls in ON_DEVICES.values())


# A device that is not there -----------------------------------------------------------------------------------


@no_gpu
@pytest.mark.parametrize("name", ["cuda", "cuda:3", "mps", "meta", "nonsense"])
def test_a_device_that_is_not_there_is_one_sentence(name):
    with pytest.raises(BadInput, match="use 'cpu' or 'auto'") as caught:
        find_device(name)
    assert f"There is no device {name!r}" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@no_gpu
@pytest.mark.parametrize("word", ON_DEVICES)
def test_every_method_says_so(word, task):
    model = quick(ON_DEVICES[word], device="cuda")
    with pytest.raises(BadInput, match="There is no device 'cuda'"):
        fitted(model, task)
    assert not hasattr(model, "classes_")


def test_auto_is_a_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(torch.xpu, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto").type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("auto").type == "cuda"


# What a device is asked for -----------------------------------------------------------------------------------


class _NoMixing(TorchDispatchMode):
    """Refuses operations on tensors of both devices, as a GPU does; copying is what moves them."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor) and leaf.ndim]
        if "copy" not in func.__name__:
            assert len({tensor.device.type for tensor in tensors}) < 2, f"{func} on two devices"
        return func(*args, **(kwargs or {}))


class FakeGpu(TorchFunctionMode):
    """Answers with zeros when a number is wanted from the device, and counts how often that was."""

    def __init__(self):
        super().__init__()
        self.waits = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in ("cpu", "tolist", "unique") and args[0].device.type == "meta":
            self.waits[name] += 1
            if name == "unique":
                return args[0][:3], torch.zeros_like(args[0])
            zeros = torch.zeros(args[0].shape, dtype=args[0].dtype)
            return zeros.tolist() if name == "tolist" else zeros
        return func(*args, **(kwargs or {}))


def _unfused(optimizer):
    return lambda *args, fused, **options: optimizer(*args, foreach=False, **options)


@contextlib.contextmanager
def fake_gpu():
    with pytest.MonkeyPatch.context() as patch, FakeGpu() as gpu, _NoMixing():
        for name in ("Adam", "SGD"):  # fused kernels have no shapes without numbers
            patch.setattr(torch.optim, name, _unfused(getattr(torch.optim, name)))
        for name, module in list(sys.modules.items()):
            if name.startswith("firstsight.methods") and "find_device" in vars(module):
                patch.setattr(module, "find_device", lambda name: torch.device("meta"))
        yield gpu


@pytest.mark.filterwarnings("ignore:The embedding has collapsed")
@pytest.mark.parametrize("word", ON_DEVICES)
def test_training_stays_on_the_device(word, task):
    """How often a fit waits for the device does not depend on the number of steps."""
    cls, waits = ON_DEVICES[word], []
    short = {"epochs": 2, "warm_up": 1, "iterations": 2, "rounds": 2, "round_iterations": 2, "semantic_steps": 2}
    changes = {name: value for name, value in short.items() if name in cls._get_param_names()}
    for batch_size in (10, 20) if word in ("dem", "psr") else (30, 60):  # of classes, of rows
        with fake_gpu() as gpu:
            model = fitted(quick(cls, batch_size=batch_size, **changes), task, rows=120)
            waits.append(gpu.waits["tolist"] + gpu.waits["cpu"])
            # The relation network compares the classes that a batch holds, and has to ask which these are.
            assert (gpu.waits["unique"] > 0) == (word == "rn")
            assert model.decision_function(task.X_unseen).shape == (len(task.X_unseen), 25)
    assert waits[0] == waits[1] > 0


def test_the_fake_gpu_notices(task):
    with fake_gpu():
        on_gpu = as_tensor(task.X, torch.device("meta"))
        with pytest.raises(RuntimeError, match="item"):
            on_gpu[0, 0].item()
        with pytest.raises(AssertionError, match="two devices"):
            on_gpu @ torch.zeros(16, 2)
        with pytest.raises(AssertionError, match="two devices"):
            on_gpu[torch.arange(3)]


def test_on_the_cpu_features_are_not_copied(task):
    assert np.shares_memory(as_tensor(task.X, find_device("cpu")).numpy(), task.X)


# What a device does not change --------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ON_DEVICES)
def test_a_record_knows_the_precision_and_not_the_device(word):
    cls = ON_DEVICES[word]
    plain = cls().resolved_parameters()
    assert not {"device", "precision"} & set(plain)  # nor does any record of before
    assert cls(device="cuda").resolved_parameters() == plain
    assert cls(precision="bfloat16").resolved_parameters() == {**plain, "precision": "bfloat16"}
    assert clone(cls(device="cuda", precision="bfloat16")).get_params()["device"] == "cuda"


def test_a_model_that_was_trained_elsewhere_is_loaded_here(task, tmp_path):
    model = fitted(quick(DeepEmbedding), task)
    expected = model.predict(task.X_unseen)
    firstsight.save(model.set_params(device="cuda"), tmp_path / "model")
    assert "device" not in json.loads((tmp_path / "model" / "model.json").read_text())["parameters"]
    loaded = firstsight.load(tmp_path / "model")
    assert loaded.device == "cpu"
    assert np.array_equal(loaded.predict(task.X_unseen), expected)


def test_a_fit_may_go_on_on_another_device_but_not_in_another_precision(task, tmp_path):
    first = fitted(quick(DeepEmbedding, checkpoint=tmp_path / "state"), task)
    second = fitted(quick(DeepEmbedding, checkpoint=tmp_path / "state", device="cpu:0"), task)
    assert np.array_equal(first.decision_function(task.X_seen), second.decision_function(task.X_seen))
    with pytest.raises(StaleCheckpoint, match="other data or parameters"):
        fitted(quick(DeepEmbedding, checkpoint=tmp_path / "state", precision="bfloat16"), task)


@pytest.mark.parametrize("word", ["ale", "cmt", "deep-embedding", "latem"])
def test_bfloat16_learns_the_same_with_fewer_digits(word, task):
    cls = ON_DEVICES[word]
    exact, rough = (fitted(quick(cls, precision=p), task) for p in ("float32", "bfloat16"))
    among = {"classes": list(task.unseen)}
    a, b = (model.decision_function(task.X_unseen, **among) for model in (exact, rough))
    assert b.dtype == np.float32
    assert not np.array_equal(a, b)
    right, still = (model.score(task.X_unseen, task.y_unseen, **among) for model in (exact, rough))
    assert still > right - 0.1
