"""Requests that are malformed around the model; ``uploads`` gives them and mutations of models in turn."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator

from tests.server.conftest import WEIGHT, tiny_model
from tests.server.damage import OF_BYTES, Mutation, Random, Upload, model_upload, upload_of
from tests.server.mutations import LOCATIONS, OF_MODELS


def uploads(count: int, seed: int = 0) -> Iterator[Upload]:
    """So many uploads of all kinds; the same ones for the same numbers."""
    for number in range(count):
        mutation = _ALL[number % len(_ALL)]
        yield mutation(random.Random(f"{seed} {number}"))


def _data_names(chance: Random) -> Upload:
    names = [
        chance.choice((*LOCATIONS, "model.onnx", "w.bin/x", "w.bin")) for _ in range(chance.choice((1, 2, 5)))
    ]
    data = [(name.replace("\0", "\\u0000"), WEIGHT) for name in ("w.bin", *names)]
    return model_upload("names of external data", tiny_model("w.bin"), *data)


_PART = b'--xyz\r\nContent-Disposition: form-data; name="model"; filename="m"\r\n\r\n'


def _multipart(chance: Random) -> Upload:
    whole = _PART + tiny_model() + b"\r\n--xyz--\r\n"
    body, type_ = chance.choice(
        (
            (whole[: chance.randrange(len(whole))], "multipart/form-data; boundary=xyz"),
            (whole, "multipart/form-data"),
            (whole, "multipart/form-data; boundary=" + "x" * 100),
            (whole, "multipart/form-data; boundary=other"),
            (whole, "application/octet-stream"),
            (whole, "multipart/mixed; boundary=xyz"),
            (whole.replace(b'name="model"', b'name="model'), "multipart/form-data; boundary=xyz"),
            (whole.replace(b'name="model"', b"name=\xff\xfe"), "multipart/form-data; boundary=xyz"),
            (whole.replace(b"form-data;", b"attachment"), "multipart/form-data; boundary=xyz"),
            (
                whole.replace(b"\r\n\r\n", b"\r\n" + b"X: y\r\n" * 1000 + b"\r\n", 1),
                "multipart/form-data; boundary=xyz",
            ),
            (
                whole.replace(b"\r\n\r\n", b"\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", 1),
                "multipart/form-data; boundary=xyz",
            ),
            (_PART * 2000, "multipart/form-data; boundary=xyz"),
            (chance.randbytes(1000), "multipart/form-data; boundary=xyz"),
            (b"", "multipart/form-data; boundary=xyz"),
        )
    )
    return Upload("multipart", body, {"Content-Type": type_})


def _parts(chance: Random) -> Upload:
    model = ("model", "net.onnx", tiny_model())
    parts = chance.choice(
        (
            (),
            (model, model),
            (("data", "w.bin", WEIGHT),),
            (model, ("../model", "x", b"x")),
            (model, ("options", "", b"{}"), ("options", "", b"{}")),
            (("model", "n" * 3000, b"x"),),
            (("model", "../../x.onnx", b""),),
        )
    )
    return upload_of("parts", *parts)


def _encoded(chance: Random) -> Upload:
    upload = model_upload("compressed body", tiny_model())
    encoding = chance.choice(("gzip", "br", "deflate"))
    return Upload(upload.kind, gzip.compress(upload.body), {**upload.headers, "Content-Encoding": encoding})


_BAD_OPTIONS = (
    b"nonsense",
    b"[]",
    b"[" * 100_000,
    b'{"budget": 1e400}',
    b'{"budget": NaN}',
    b'{"budget": "1"}',
    b'{"seed": ' + b"9" * 5000 + b"}",
    b'{"dim": {"x": -1}}',
    b'{"keep": "all"}',
    b'{"target": "../../etc"}',
    b'{"search": "; rm"}',
    b'{"a":' * 10_000,
    b"\xff\xfe",
    b'{"exclude_rule": [' + b'"x",' * 10_001 + b'"x"]}',
)


def _options(chance: Random) -> Upload:
    options = chance.choice(_BAD_OPTIONS)
    return upload_of("options", ("model", "net.onnx", tiny_model()), ("options", "", options))


_BAD_CLUSTERS = (
    b"a: &a [x, x]\n" + b"".join(b"b%d: &b%d [*a, *a]\n" % (i, i) for i in range(20)),
    b"!!python/object/apply:os.system ['true']",
    b"nodes: " + b"[" * 10_000,
    b"nodes: " + b"{a: " * 1000,
    b"\xff\xfe\x00",
    b"",
    b"name: two",
    b"nodes: [{count: 999999999, devices: 8, device: cpu, memory: 1 GiB}]",
    b"nodes: [{count: 2, devices: 8, device: ../../etc/passwd, memory: 80 GiB}]",
    b"x" * 300_000,
)


def _clusters(chance: Random) -> Upload:
    cluster = chance.choice(_BAD_CLUSTERS)
    return upload_of("cluster", ("model", "net.onnx", tiny_model()), ("cluster", "c.yaml", cluster))


_ALL: tuple[Mutation, ...] = (
    *OF_BYTES,
    *OF_MODELS,
    _data_names,
    _multipart,
    _parts,
    _encoded,
    _options,
    _clusters,
)
