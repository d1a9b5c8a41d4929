"""Lakes of several machines with one store: nothing is overwritten unseen, and nothing is lost by a fault."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longtail.errors import LakeError
from longtail.progress import current
from longtail.storage import object_store
from longtail.storage.lake import Lake, QuarantinedRow
from longtail.storage.lake_files import checksum_of
from longtail.storage.object_store import ObjectStore, check_store
from tests.object_stores import BUCKET, S3Server, s3_server

SOME = dict(
    object_id="Q2", property_id="P19", relation="place of birth", source="sandbox", facts_from="query_service"
)


KEPT = 3


def rows(*subjects: str) -> list[dict[str, Any]]:
    return [{**SOME, "subject_id": subject} for subject in subjects]


def subjects(lake: Lake, partition: str = "all") -> list[str]:
    found: list[str] = lake.read("triples", partition).column("subject_id").to_pylist()
    return found


@pytest.fixture(scope="module")
def running() -> Iterator[S3Server]:
    with s3_server() as started:
        yield started


@pytest.fixture
def server(running: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    running.reset()
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    return running


@pytest.fixture
def lakes(server: S3Server, tmp_path: Path) -> tuple[Lake, Lake]:
    """The lakes of one study on two machines."""
    del server
    here, there = (Lake.of("mine", tmp_path / name / "lake") for name in ("here", "there"))
    return here, there


def test_without_an_address_there_is_no_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LONGTAIL_OBJECT_STORE", raising=False)
    assert ObjectStore.of("mine", tmp_path) is None


def test_what_one_machine_writes_the_other_has(lakes: tuple[Lake, Lake], server: S3Server) -> None:
    here, there = lakes
    here.ensure_schemas()
    stamp = here.write(
        "triples", rows("Q1"), fingerprint="f", quarantined=[QuarantinedRow("k", "bad", "raw")]
    )
    assert server.objects() == {
        f"mine/lake/{table}/{name}.parquet": here.path(table, name).read_bytes()
        for table, name in (("triples", "all"), ("quarantine", "triples__all"))
    }
    found = server.client.head_object(Bucket=BUCKET, Key="some/folder/mine/lake/triples/all.parquet")
    assert found["Metadata"] == {"fingerprint": "f", "checksum": checksum_of(here.path("triples"))}
    there.synchronise()
    assert there.current("triples", "f") == stamp
    there.write("triples", rows("Q1", "Q3"), fingerprint="g")
    here.synchronise()
    assert subjects(here) == ["Q1", "Q3"]
    assert here.partitions("quarantine") == []  # the second writer had no rejected rows
    assert here.current("triples", "g")


def test_nothing_is_copied_again_without_a_change(lakes: tuple[Lake, Lake], server: S3Server) -> None:
    here, there = lakes
    here.write("triples", rows("Q1"), fingerprint="f")
    there.synchronise()
    asked: list[str] = []
    server.before = lambda method, path: asked.append(method)
    changed = there.path("triples").stat().st_mtime_ns
    for lake in lakes:
        lake.synchronise()
    assert asked == ["GET", "GET"]  # the two lists
    assert there.path("triples").stat().st_mtime_ns == changed


def test_two_machines_that_make_a_partition_at_once_have_that_of_the_first(lakes: tuple[Lake, Lake]) -> None:
    here, there = lakes
    first = here.write("triples", rows("Q1"), fingerprint="f")
    assert there.write("triples", rows("Q9"), fingerprint="f") == first
    assert subjects(there) == ["Q1"]


@pytest.mark.parametrize("is_known", [False, True])
def test_another_study_file_on_the_other_machine_is_an_error(
    lakes: tuple[Lake, Lake], is_known: bool
) -> None:
    here, there = lakes
    if is_known:
        here.write("triples", rows("Q0"), fingerprint="e")
        there.synchronise()
    here.write("triples", rows("Q1"), fingerprint="f")
    with pytest.raises(LakeError, match="all\\.parquet: another machine has made it from other inputs"):
        there.write("triples", rows("Q9"), fingerprint="g")
    assert subjects(there) == ["Q1"]
    there.write("triples", rows("Q9"), fingerprint="g")  # once it is known, it is replaced
    here.synchronise()
    assert subjects(here) == ["Q9"]


def test_a_discarded_partition_goes_everywhere_and_may_come_back(
    lakes: tuple[Lake, Lake], server: S3Server
) -> None:
    here, there = lakes
    here.write("triples", rows("Q1"), fingerprint="f", quarantined=[QuarantinedRow("k", "bad", "raw")])
    there.synchronise()
    here.discard("triples")
    assert set(server.objects().values()) == {b""}
    there.synchronise()
    assert (there.partitions("triples"), there.partitions("quarantine")) == ([], [])
    there.write("triples", rows("Q2"), fingerprint="f")
    here.synchronise()
    assert subjects(here) == ["Q2"]


def test_a_partition_that_another_machine_removed_may_be_written(lakes: tuple[Lake, Lake]) -> None:
    here, there = lakes
    here.write("triples", rows("Q1"), fingerprint="f", quarantined=[QuarantinedRow("k", "bad", "raw")])
    here.discard("triples")
    stamp = there.write(
        "triples", rows("Q2"), fingerprint="f", quarantined=[QuarantinedRow("k", "bad", "raw")]
    )
    assert there.current("triples", "f") == stamp
    here.synchronise()
    assert here.current("triples", "f") == stamp


@pytest.mark.parametrize("is_discarded", [False, True])
def test_a_version_that_was_not_seen_is_not_removed(lakes: tuple[Lake, Lake], is_discarded: bool) -> None:
    here, there = lakes
    rejected = [QuarantinedRow("k", "bad", "raw")]
    here.write("triples", rows("Q1"), fingerprint="f", quarantined=rejected)
    there.synchronise()
    here.write("triples", rows("Q2"), fingerprint="g", quarantined=rejected)
    if is_discarded:
        there.discard("triples")
    else:
        with pytest.raises(LakeError, match="from other inputs"):
            there.write("triples", rows("Q3"), fingerprint="h")  # without rejected rows: no quarantine
    for lake in lakes:
        lake.synchronise()
        assert lake.current("triples", "g")


@pytest.mark.parametrize("n_bytes", [0, 1_000])
def test_a_damaged_file_is_not_put_and_the_object_mends_it(lakes: tuple[Lake, Lake], n_bytes: int) -> None:
    here, there = lakes
    here.write("triples", rows("Q1"), fingerprint="f")
    there.synchronise()
    path = here.path("triples")
    path.write_bytes(path.read_bytes()[:n_bytes])
    for lake in lakes:
        lake.synchronise()
        assert subjects(lake) == ["Q1"]


def test_a_damaged_object_replaces_nothing(lakes: tuple[Lake, Lake], server: S3Server) -> None:
    here, there = lakes
    here.write("triples", rows("Q1"), fingerprint="f")
    there.synchronise()
    key = "some/folder/mine/lake/triples/all.parquet"
    server.client.put_object(Bucket=BUCKET, Key=key, Body=here.path("triples").read_bytes()[:-9])
    with pytest.raises(LakeError, match=r"lake/triples/all\.parquet is damaged; delete it"):
        there.synchronise()
    server.client.delete_object(Bucket=BUCKET, Key=key)
    for lake in lakes:
        lake.synchronise()
        assert subjects(lake) == ["Q1"]


def test_objects_of_others_are_left_alone(lakes: tuple[Lake, Lake], server: S3Server) -> None:
    here, there = lakes
    here.write("triples", rows("Q1"), fingerprint="f")
    names = ("readme.txt", "triples/", "triples/x/y.parquet", "triples/_schema.parquet", "later/all.parquet")
    for name in names:
        server.client.put_object(Bucket=BUCKET, Key=f"some/folder/mine/lake/{name}", Body=b"theirs")
    there.synchronise()
    found = [str(path.relative_to(there.root)) for path in there.root.rglob("*.parquet")]
    assert [name for name in found if not name.startswith(".")] == ["triples/all.parquet"]


def test_an_emptied_store_is_filled_again(lakes: tuple[Lake, Lake], server: S3Server) -> None:
    here, there = lakes
    here.write("triples", rows("Q1"), fingerprint="f")
    there.synchronise()
    for key in server.objects():
        server.client.delete_object(Bucket=BUCKET, Key=f"some/folder/{key}")
    there.synchronise()
    assert list(server.objects()) == ["mine/lake/triples/all.parquet"]
    server.client.delete_object(Bucket=BUCKET, Key="some/folder/mine/lake/triples/all.parquet")
    there.write("triples", rows("Q2"), fingerprint="g")  # its record names an object that is gone
    here.synchronise()
    assert subjects(here) == ["Q2"]


def test_of_two_changes_the_object_wins_and_the_log_says_so(
    lakes: tuple[Lake, Lake], caplog: pytest.LogCaptureFixture
) -> None:
    here, there = lakes
    here.write("triples", rows("Q1"), fingerprint="f")
    there.synchronise()
    assert not caplog.records
    here.write("triples", rows("Q2"), fingerprint="g")
    Lake(there.root).write("triples", rows("Q3"), fingerprint="h")
    there.synchronise()
    assert subjects(there) == ["Q2"]
    assert "another machine has made it, too" in caplog.text


@pytest.mark.parametrize("content", [b"", b'{"e_tag": "\\"a\\"', b"[]"])
def test_a_record_that_a_kill_cut_off_is_made_again(lakes: tuple[Lake, Lake], content: bytes) -> None:
    here, _ = lakes
    here.write("triples", rows("Q1"), fingerprint="f")
    (record,) = here.root.glob(".stored/*/triples/all.parquet")
    record.write_bytes(content)
    here.synchronise()
    here.write("triples", rows("Q2"), fingerprint="g")
    assert subjects(here) == ["Q2"]


def test_another_store_is_filled_from_the_files(
    lakes: tuple[Lake, Lake], server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _ = lakes
    here.write("triples", rows("Q1"), fingerprint="f")
    monkeypatch.setenv("LONGTAIL_OBJECT_STORE", f"{server.address}/elsewhere")
    Lake.of("mine", here.root).synchronise()
    assert subjects(here) == ["Q1"]
    assert "elsewhere/mine/lake/triples/all.parquet" in server.objects()


def test_a_store_that_restarts_is_waited_for(lakes: tuple[Lake, Lake], server: S3Server) -> None:
    here, there = lakes
    refused = iter([503] * 15)
    server.refuse = lambda method, path: next(refused, None)
    here.write("triples", rows("Q1"), fingerprint="f")
    there.synchronise()
    assert subjects(there) == ["Q1"]


def test_a_lost_answer_of_the_store_is_no_conflict(lakes: tuple[Lake, Lake], server: S3Server) -> None:
    """The request is repeated, and its condition no longer holds: the object is the file itself."""
    here, _ = lakes
    here.write("triples", rows("Q1"), fingerprint="f")
    lost = iter([500])
    server.lose = lambda method, path: next(lost, None) if method == "PUT" else None
    here.write("triples", rows("Q2"), fingerprint="g")
    assert subjects(here) == ["Q2"]
    assert list(lost) == []


def test_a_store_that_is_away_is_one_line_and_the_next_run_puts_the_file(
    lakes: tuple[Lake, Lake], server: S3Server
) -> None:
    here, there = lakes
    server.refuse = lambda method, path: 403 if method == "PUT" else None
    with pytest.raises(
        LakeError, match=r"^s3://bucket/some/folder/mine/lake/triples/all\.parquet: .*403"
    ) as caught:
        here.write("triples", rows("Q1"), fingerprint="f")
    assert "\n" not in str(caught.value)
    assert "secret-of-the-store" not in str(caught.value)
    server.refuse = lambda method, path: None
    here.synchronise()
    there.synchronise()
    assert subjects(there) == ["Q1"]


def test_a_store_that_hangs_is_named_and_given_up_within_minutes(
    lakes: tuple[Lake, Lake], server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    ended = threading.Event()

    def hang(method: str, path: str) -> None:
        shown.extend(progress.what for progress in current(0.0))
        ended.wait(60)

    client, seconds = object_store._client, {"10m": "600s", "60s": "1s"}
    monkeypatch.setattr(
        object_store,
        "_client",
        lambda address, retries=None, timeout="10m": client(address, {"max_retries": 0}, seconds[timeout]),
    )
    server.before = hang
    try:
        with pytest.raises(LakeError, match="the store did not do what was asked"):
            lakes[0].synchronise()
    finally:
        ended.set()
    assert f"waiting for {server.address}/mine" in shown  # tests before may have left others


def test_a_published_version_is_named_by_the_pointer_and_old_ones_go(
    server: S3Server, tmp_path: Path
) -> None:
    store = ObjectStore.of("mine", tmp_path / "lake")
    assert store is not None
    for number in range(KEPT + 2):
        version = tmp_path / f"2026112{number}"
        (version / "data").mkdir(parents=True)
        (version / "data" / "a.parquet").write_bytes(b"rows")
        (version / "README.md").write_bytes(b"card")
        files = {f"{version.name}/{name}": version / name for name in ("README.md", "data/a.parquet")}
        store.publish("export", version.name, files)
        store.publish("export", version.name, files)
    folder = "mine/published/export/"
    objects = server.objects()
    kept = [f"2026112{number}" for number in range(2, KEPT + 2)]
    assert json.loads(objects.pop(f"{folder}current.json")) == {"version": "20261124", "versions": kept}
    assert sorted(objects) == [
        f"{folder}{one}/{name}" for one in kept for name in ("README.md", "data/a.parquet")
    ]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file of three parts, the smallest that a store takes."""
    monkeypatch.setattr(object_store, "_LARGE", 5 << 20)
    path = tmp_path / "000001-hash.duckdb"
    path.write_bytes(bytes(range(256)) * (11 << 12))
    return path


def test_a_large_version_is_put_in_parts_and_never_replaced(server: S3Server, large: Path) -> None:
    store = ObjectStore.of("mine", large.parent / "lake")
    assert store is not None
    requests: list[str] = []
    server.before = lambda method, path: requests.append(method) if path.endswith(large.name) else None
    refused = iter([503])
    server.refuse = lambda method, path: next(refused, None) if requests.count("PUT") == 2 else None
    store.publish("warehouse", large.name, {large.name: large})
    assert sorted(requests) == ["HEAD", "POST", "POST", *["PUT"] * 4], "one part is sent again, not the file"
    key = f"mine/published/warehouse/{large.name}"
    assert server.objects()[key] == large.read_bytes()
    first = large.read_bytes()
    large.write_bytes(first[::-1])
    store.publish("warehouse", large.name, {large.name: large})
    assert server.objects()[key] == first


def test_a_version_whose_upload_failed_is_not_current(server: S3Server, large: Path) -> None:
    store = ObjectStore.of("mine", large.parent / "lake")
    assert store is not None
    server.refuse = lambda method, path: 403 if method == "PUT" and path.endswith(large.name) else None
    with pytest.raises(LakeError, match=r"published/warehouse/000001-hash\.duckdb: .*403"):
        store.publish("warehouse", large.name, {large.name: large})
    objects = server.objects()
    assert list(objects) == ["mine/published/warehouse/current.json"]
    assert json.loads(objects["mine/published/warehouse/current.json"])["version"] is None
    server.refuse = lambda method, path: None
    store.publish("warehouse", large.name, {large.name: large})
    assert f"mine/published/warehouse/{large.name}" in server.objects()


def test_a_download_that_is_cut_off_goes_on_where_it_was(lakes: tuple[Lake, Lake], server: S3Server) -> None:
    here, there = lakes
    here.write("triples", rows(*(f"Q{number}" for number in range(20_000))), fingerprint="f")
    size = here.path("triples").stat().st_size
    server.cuts = [size // 2, size // 8]
    there.synchronise()
    assert server.cuts == []
    assert there.path("triples").read_bytes() == here.path("triples").read_bytes()
    assert server.ranges == [None, f"bytes={size // 2}-{size - 1}"]


def test_versions_are_kept_in_the_order_in_which_machines_began_them(
    server: S3Server, tmp_path: Path
) -> None:
    """Neither their names nor the store's times say it; one that a killed run began counts, too."""
    stores = [ObjectStore.of("mine", tmp_path / name / "lake") for name in ("here", "there")]

    def publish(number: int, name: str) -> None:
        store = stores[number % 2]
        assert store is not None
        (tmp_path / name).write_bytes(name.encode())
        store.publish("warehouse", name, {name: tmp_path / name})

    folder = "mine/published/warehouse/"
    for number, name in enumerate(("5", "6", "7", "1")):
        publish(number, name)
    server.refuse = lambda method, path: 403 if path.endswith("/2") else None
    with pytest.raises(LakeError):
        publish(1, "2")
    server.refuse = lambda method, path: None
    assert json.loads(server.objects()[f"{folder}current.json"])["version"] == "1", "the last whole one"
    lost = [500]
    server.lose = lambda method, path: lost.pop() if lost and path.endswith("current.json") else None
    publish(0, "4")
    objects = server.objects()
    kept = ["1", "2", "4"]
    assert json.loads(objects.pop(f"{folder}current.json")) == {"version": "4", "versions": kept}
    assert objects == {f"{folder}{name}": name.encode() for name in ("1", "4")}


# The check before a run -----------------------------------------------------------------------------


def test_a_good_store_passes_and_keeps_nothing(server: S3Server) -> None:
    check_store(server.address)
    assert server.client.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0


@pytest.mark.parametrize("unheeded", [("If-Match",), ("If-None-Match",), ("If-Match", "If-None-Match")])
def test_a_server_that_ignores_conditions_is_refused_by_name(
    server: S3Server, unheeded: tuple[str, ...]
) -> None:
    server.unheeded = unheeded
    with pytest.raises(LakeError, match=r"s3://bucket/some/folder: this server overwrites"):
        check_store(server.address)


@pytest.mark.parametrize(
    "address",
    ["bucket", "s3://", "s3://key:secret@bucket", "gs://bucket", "s3://bucket/a?b", "s3://bucket/../a", ""],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(LakeError, match="is no address of a store") as caught:
        check_store(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9000", "ftp://127.0.0.1"])
def test_an_endpoint_without_http_is_refused(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(LakeError, match="begins with http"):
        check_store("s3://bucket/folder")


def test_the_check_passes_although_an_answer_was_lost(server: S3Server) -> None:
    lost = iter([500])
    server.lose = lambda method, path: next(lost, None) if method == "PUT" else None
    check_store(server.address)


@pytest.mark.parametrize("fault", ["refused", "no bucket", "no server"])
def test_a_store_that_cannot_be_used_is_one_line(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    address = "s3://other-bucket/x" if fault == "no bucket" else server.address
    if fault == "refused":
        server.refuse = lambda method, path: 403
    if fault == "no server":
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://me:password-of-mine@127.0.0.1:9")
    with pytest.raises(
        LakeError, match=f"^{address}: (the store did not do what was asked |there is no such bucket)"
    ) as caught:
        check_store(address)
    assert "\n" not in str(caught.value)


# Any order of events --------------------------------------------------------------------------------

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["write", "discard", "synchronise", "killed", "forget"]),
        st.integers(0, 1),
        st.sampled_from(["m|vanilla", "m|bm25"]),
    ),
    max_size=14,
)


@settings(max_examples=20, deadline=None)
@given(events=EVENTS)
def test_after_any_events_all_machines_have_the_same_and_nothing_is_torn(
    running: S3Server, events: list[tuple[str, int, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("machines")
    running.reset()
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in running.environment.items():
                patch.setenv(name, value)
            lakes = [Lake.of("mine", folder / str(number) / "lake") for number in range(3)]
            for number, (event, machine, partition) in enumerate(events):
                lake = lakes[machine]
                if event == "write":
                    try:
                        lake.write(
                            "triples", rows(f"Q{number}"), fingerprint=f"{number}", partition=partition
                        )
                    except LakeError as error:
                        if "from other inputs" not in str(error):
                            raise
                elif event == "killed":
                    Lake(lake.root).write(
                        "triples", rows(f"Q{number}"), fingerprint=f"{number}", partition=partition
                    )
                elif event == "discard":
                    lake.discard("triples", partition)
                elif event == "forget":
                    shutil.rmtree(lake.root / ".stored", ignore_errors=True)
                else:
                    lake.synchronise()
            for lake in (lakes[0], lakes[1], lakes[2], lakes[0]):
                lake.synchronise()
            found = [
                {one: (lake.current("triples", lake.stamp("triples", one).fingerprint, one), subjects(lake, one))  # type: ignore[union-attr]
                 for one in lake.partitions("triples")}
                for lake in lakes
            ]  # fmt: skip
            assert found[0] == found[1] == found[2]
            assert all(stamp for stamp, _ in found[0].values())
    finally:
        shutil.rmtree(folder)
