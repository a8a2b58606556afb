"""The examples, each run with a real server."""

from __future__ import annotations

import datetime
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Iterator

import pytest
import yaml

from leasehold import Client, Lease, NotAcquired

from .server import Server, until

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture(autouse=True)
def _environment(shared_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LEASEHOLD_URL", shared_server.url)
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent / "src"))
    yield
    for name in [name for name in sys.modules if name.startswith("examples.")]:
        del sys.modules[name]


def example(name: str) -> ModuleType:
    return importlib.import_module(f"examples.{name}")


def test_cron(client: Client, tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    command = [sys.executable, str(EXAMPLES / "cron_job.py"), str(report)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(process.communicate(timeout=300)[0].split(":")[0].strip() for process in both)
    assert said == ["done", "skipped"]
    assert len(report.read_text().splitlines()) == 2, "it was done once"
    client.revoke("cron/report", "the test is over")


def test_kubernetes_cronjob(client: Client, tmp_path: Path) -> None:
    manifest = yaml.safe_load((EXAMPLES / "kubernetes_cronjob.yaml").read_text())
    pod = manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {variable["name"] for variable in container["env"]} == {"LEASEHOLD_URL", "LEASEHOLD_API_KEY_FILE"}
    assert [mount["name"] for mount in container["volumeMounts"]] == [volume["name"] for volume in pod["volumes"]]
    program, script, report = container["command"]
    assert program == "python3"
    ran = subprocess.run(
        [sys.executable, str(EXAMPLES / script), str(tmp_path / Path(report).name)],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.stdout == "done\n"
    client.revoke("cron/report", "the test is over")


def test_celery(client: Client) -> None:
    celery_beat = example("celery_beat")
    assert "report" in celery_beat.app.tasks
    assert celery_beat.app.conf.beat_schedule["report"]["task"] == "report"
    result = celery_beat.report.apply(args=["nightly"]).get(timeout=300)
    assert result.startswith("nightly by token ")
    with client.lock("celery/report"):
        assert celery_beat.report.apply(args=["nightly"]).get(timeout=300) is None
    celery_beat.client.close()


def test_apscheduler(client: Client, capfd: pytest.CaptureFixture[str]) -> None:
    apscheduler_job = example("apscheduler_job")
    scheduler = apscheduler_job.scheduler()
    scheduler.start()
    try:
        # Now instead of in five minutes.
        scheduler.modify_job("report", next_run_time=datetime.datetime.now())
        until(lambda: client.look("apscheduler/report")["last_token"] > 0, "it was due and ran")
        until(lambda: not client.look("apscheduler/report")["held"], "it is done")
    finally:
        scheduler.shutdown()
    assert "reported by token" in capfd.readouterr().out
    apscheduler_job.client.close()


def test_airflow_style_operator(client: Client, shared_server: Server) -> None:
    airflow_operator = example("airflow_operator")

    def work(lease: Lease, context: dict[str, str]) -> str:
        assert (client.look("warehouse").get("metadata"), lease.held) == ({"task_id": "report"}, True)
        return f"{context['ds']} by token {lease.fencing_token}"

    operator = airflow_operator.LockedOperator(task_id="report", lock="warehouse", work=work, url=shared_server.url)
    assert operator.execute({"ds": "2026-11-15"}).startswith("2026-11-15 by token ")
    assert not client.look("warehouse")["held"]
    with client.lock("warehouse"), pytest.raises(NotAcquired):
        operator.execute({"ds": "2026-11-16"})

    def killed(lease: Lease, _: object) -> None:
        operator.on_kill()
        assert not client.look("warehouse")["held"]

    operator.work = killed
    operator.execute({})
