"""What is measured against ONNX Runtime's own full optimisation: ``python -m benchmarks --help``."""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # as in the product, for peers' processes, too
