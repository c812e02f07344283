from __future__ import annotations

import json

import pytest
from onnx import TensorProto, helper

from superopt.server.http.app import create_app
from superopt.server.http.locations import display_name
from superopt.server.settings import Settings
from superopt.substitution_db import Database
from tests.server.conftest import Http, problem, tiny_model
from tests.server.test_optimizations import CLUSTER

URL = "/v1/optimizations"
BOUNDARY = "multipart/form-data; boundary=b"


def incoming(database: Database) -> list[str]:
    directory = database.blobs.directory / "incoming"
    return [path.name for path in directory.iterdir()] if directory.exists() else []


@pytest.mark.parametrize(
    "location",
    [
        "../w.bin",
        "/etc/passwd",
        "a/../../w.bin",
        "a//w.bin",
        "./w.bin",
        "a/.",
        "",
        "a\\b",
        "w\u0000.bin",
        "w\n.bin",
        "x" * 256,
        "/".join(["x" * 200] * 6),
        "model.onnx",
        "model.onnx/w.bin",
    ],
)
def test_no_location_leaves_the_directory_of_the_job(
    http: Http, database: Database, model: bytes, location: str
) -> None:
    quoted = location.replace("\\", "\\\\").encode()
    body = (
        b'--b\r\nContent-Disposition: form-data; name="model"; filename="m.onnx"\r\n\r\n' + model + b"\r\n"
        b'--b\r\nContent-Disposition: form-data; name="data"; filename="'
        + quoted
        + b'"\r\n\r\nx\r\n--b--\r\n'
    )
    response = http("POST", URL, content=body, headers={"Content-Type": BOUNDARY})
    assert problem(response)[1] == "invalid-upload"
    assert http("GET", URL).json()["items"] == []
    assert incoming(database) == []


@pytest.mark.parametrize(
    ("locations", "accepted"),
    [
        (["w.bin", "sub/w.bin"], True),
        (["gewicht-ü.bin", "重み.bin"], True),
        (["w.bin", "w.bin"], False),
        (["w", "w/x"], False),
    ],
)
def test_locations_are_distinct_files(http: Http, model: bytes, locations: list[str], accepted: bool) -> None:  # noqa: FBT001
    files = [("model", ("m.onnx", model)), *(("data", (name, b"x")) for name in locations)]
    response = http("POST", URL, files=files)
    assert response.status_code == (202 if accepted else 422)
    if accepted:
        stored = [file["name"] for file in response.json()["files"] if file["role"] == "data"]
        assert sorted(stored) == sorted(locations)


PART = b'--b\r\nContent-Disposition: form-data; name="%s"; filename="x"\r\n\r\n%s\r\n'


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        (b"", BOUNDARY, (422, "invalid-upload")),
        (b"nonsense", BOUNDARY, (422, "invalid-upload")),
        (PART % (b"model", b"m"), BOUNDARY, (422, "invalid-upload")),
        (b"--b--\r\n", BOUNDARY, (422, "invalid-upload")),
        (PART % (b"model", b"m") * 2 + b"--b--\r\n", BOUNDARY, (422, "invalid-upload")),
        (PART % (b"data", b"m") + b"--b--\r\n", BOUNDARY, (422, "invalid-upload")),
        (PART % (b"what", b"m") + b"--b--\r\n", BOUNDARY, (422, "invalid-upload")),
        (PART % (b"options", b" " * (1 << 21)) + b"--b--\r\n", BOUNDARY, (413, "upload-too-large")),
        (PART % (b"cluster", b" " * (1 << 21)) + b"--b--\r\n", BOUNDARY, (413, "upload-too-large")),
        (b"--b\r\n" + b"X-Long: " + b"y" * 100_000, BOUNDARY, (422, "invalid-upload")),
        (b"{}", "application/json", (415, "unsupported-media-type")),
        (b"", "multipart/form-data", (415, "unsupported-media-type")),
        (b"", "multipart/form-data; boundary=" + "b" * 300, (415, "unsupported-media-type")),
    ],
)
def test_a_body_that_is_not_what_is_expected(
    http: Http, database: Database, body: bytes, kind: str, expected: tuple[int, str]
) -> None:
    assert problem(http("POST", URL, content=body, headers={"Content-Type": kind})) == expected
    assert incoming(database) == []


@pytest.mark.parametrize(
    ("options", "detail"),
    [
        ("nonsense", "options: not JSON"),
        ('{"budget": 5, "budget": 6}', "options: not JSON: 'budget' is given twice"),
        ("[]", "options: expected an object, got []"),
        ('{"speed": 1}', "options: expected options among alpha, budget, dim, "),
        ('{"budget": -1}', "options: budget: expected a number of seconds, above 0 and at most 3600, got -1"),
        ('{"budget": NaN}', "options: budget: "),
        (
            '{"budget": 1e9}',
            "options: budget: expected a number of seconds, above 0 and at most 3600, got 1000000000.0",
        ),
        ('{"alpha": 0.5}', "options: alpha: "),
        ('{"target": "/etc/passwd"}', "options: target: "),
        ('{"dim": {"batch": 0}}', "options: dim.batch: "),
        ('{"keep": ["\\ud800"]}', "options: keep.0: "),
        ('{"inputs": "/etc/passwd"}', "options: expected options among "),
        ('{"\\ud800": 1}', "options: expected options among "),
        ('{"dim": {"\\ud800": 1}}', "options: dim: "),
        ('{"seed": ' + "9" * 4000 + "}", "options: seed: "),
        ('{"objective": "beauty"}', "options: objective: "),
        (
            '{"search": "none"}',
            "options: search: expected one of auto, backtracking, regions, beam (none only with a cluster)",
        ),
        ('{"budget": "5"}', "options: budget: expected a number of seconds, "),
        ('{"runtime": "tvm"}', "options: runtime: expected one of portable, onnxruntime, got 'tvm'"),
        ("[" * 100_000, "options: "),
    ],
)
def test_options_are_checked(http: Http, model: bytes, options: str, detail: str) -> None:
    response = http("POST", URL, files={"model": model}, data={"options": options})
    assert problem(response) == (422, "invalid-options")
    assert response.json()["detail"].startswith(detail)


OPEN = "expected in dim or in freeze, got both"


@pytest.mark.parametrize(
    ("options", "field", "detail"),
    [
        (
            {"dim": {"bacth": 8}},
            "dim.bacth",
            "the model has no such open dimension (did you mean batch?); it has: batch, x.2",
        ),
        ({"freeze": {"rows": 8}}, "freeze.rows", "the model has no such open dimension; it has: batch, x.2"),
        ({"freeze": {"x.1": 8}}, "freeze.x.1", "(did you mean x.2 or x.0?)"),
        ({"dim": {"batch": 8}, "freeze": {"batch": 8}}, "dim.batch", OPEN),
    ],
)
def test_dimensions_are_those_of_the_model(
    http: Http, options: dict[str, dict[str, int]], field: str, detail: str
) -> None:
    model = tiny_model(shape=("batch", 4, "?", 4))
    response = http("POST", URL, files={"model": model}, data={"options": json.dumps(options)})
    assert problem(response) == (422, "invalid-options")
    (error,) = response.json()["errors"]
    assert error["field"] == field
    assert detail in error["detail"]
    assert response.json()["detail"] == f"options: {field}: {error['detail']}"


@pytest.mark.parametrize(
    "options", [{"dim": {"batch": 8, "x.2": 3}}, {"dim": {"x.0": 8}, "freeze": {"x.2": 3}}]
)
def test_dimensions_are_named_as_inspect_lists_them(http: Http, options: dict[str, dict[str, int]]) -> None:
    model = tiny_model(shape=("batch", 4, "?", 4))
    response = http("POST", URL, files={"model": model}, data={"options": json.dumps(options)})
    assert response.status_code == 202, response.text


def found(rows: str) -> bytes:
    """A model with a size that depends on contents, and an output whose size follows from the input."""
    nodes = [helper.make_node("NonZero", ["x"], ["places"]), helper.make_node("Relu", ["x"], ["y"])]
    outputs = [
        helper.make_tensor_value_info("places", TensorProto.INT64, [2, "count"]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 4]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    graph = helper.make_graph(nodes, "found", [x], outputs)
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, ir_version=10, opset_imports=imports).SerializeToString()


def test_a_size_that_depends_on_contents_can_be_given(http: Http) -> None:
    options = json.dumps({"dim": {"batch": 8, "count": 5}})
    response = http("POST", URL, files={"model": found("batch")}, data={"options": options})
    assert response.status_code == 202, response.text


def test_a_size_that_only_outputs_declare_cannot(http: Http) -> None:
    options = json.dumps({"dim": {"rows": 8}})
    response = http("POST", URL, files={"model": found("rows")}, data={"options": options})
    assert problem(response) == (422, "invalid-options")
    detail = "the model has no such open dimension (only outputs declare it); it has: batch"
    assert response.json()["errors"] == [{"field": "dim.rows", "detail": detail}]


def test_a_model_without_open_dimensions_says_so(http: Http, model: bytes) -> None:
    response = http("POST", URL, files={"model": model}, data={"options": '{"dim": {"batch": 8}}'})
    assert response.json()["detail"] == "options: dim.batch: the model has no open dimensions"


def test_where_jobs_are_short_so_is_the_budget_that_is_left_out(
    settings: Settings, database: Database, model: bytes
) -> None:
    http = Http(create_app(settings.model_copy(update={"max_job_seconds": 5.0}), database))
    identity = http("POST", URL, files={"model": model}).json()["id"]
    job = database.jobs.get(identity)
    assert job is not None
    assert job.options["budget"] == 5


def test_a_cluster_has_objectives_of_its_own(http: Http, model: bytes) -> None:
    for objective, expected in {"training": 202, "latency": 202, "flops": 422}.items():
        options = f'{{"objective": "{objective}"}}'
        files = {"model": model, "cluster": CLUSTER}
        assert http("POST", URL, files=files, data={"options": options}).status_code == expected


def test_a_cluster_needs_sizes(http: Http) -> None:
    options = json.dumps({"dim": {"batch": 8}})
    files = {"model": tiny_model(shape=("batch", 4, "?", 4)), "cluster": CLUSTER}
    response = http("POST", URL, files=files, data={"options": options})
    assert problem(response) == (422, "invalid-options")
    (error,) = response.json()["errors"]
    assert error == {"field": "dim.x.2", "detail": "expected a size, which a plan for a cluster needs"}


def test_a_cluster_is_refused_where_none_can_be_planned_for(
    settings: Settings, database: Database, model: bytes
) -> None:
    http = Http(create_app(settings.model_copy(update={"plans_clusters": False}), database))
    response = http("POST", URL, files={"model": model, "cluster": b"name: two"})
    assert problem(response) == (422, "invalid-cluster")
    assert response.json()["detail"].startswith("cluster: this service does not plan for several devices")
    assert incoming(database) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"max_upload_bytes": 100}, (413, "upload-too-large")),
        ({"max_upload_files": 1}, (413, "too-many-files")),
        ({"min_free_bytes": 1 << 60}, (507, "disk-full")),
    ],
)
def test_limits(
    settings: Settings, database: Database, model: bytes, changes: dict[str, int], expected: tuple[int, str]
) -> None:
    http = Http(create_app(settings.model_copy(update=changes), database))
    files = [("model", ("m", model)), ("data", ("a", b"x")), ("data", ("b", b"x"))]
    assert problem(http("POST", URL, files=files)) == expected
    assert incoming(database) == []


def test_a_body_without_length_is_limited_too(settings: Settings, database: Database) -> None:
    http = Http(create_app(settings.model_copy(update={"max_upload_bytes": 5_000_000}), database))
    sent = 0

    async def endless():
        nonlocal sent
        yield b'--b\r\nContent-Disposition: form-data; name="model"; filename="m"\r\n\r\n'
        while sent < 1 << 30:
            sent += 100_000
            yield b"x" * 100_000

    response = http("POST", URL, content=endless(), headers={"Content-Type": BOUNDARY})
    assert problem(response) == (413, "upload-too-large")
    assert sent < 10_000_000
    assert incoming(database) == []


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("net.onnx", "net.onnx"),
        ("../../etc/passwd", "passwd"),
        ("C:\\models\\net.onnx", "net.onnx"),
        ("", "model.onnx"),
        ("..", "model.onnx"),
        ("a\r\nb.onnx", "ab.onnx"),
        ("模型.onnx", "模型.onnx"),
        ("Модель “v2” (final).onnx", "Модель “v2” (final).onnx"),
        ("what%22ever.onnx", 'what"ever.onnx'),
        ("x" * 200, "x" * 200),
        ("a" * 300 + ".onnx", "a" * 100 + "…" + "a" * 95 + ".onnx"),
    ],
)
def test_names_for_people(sent: str, shown: str) -> None:
    assert display_name(sent) == shown
