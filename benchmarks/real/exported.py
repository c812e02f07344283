"""Exports networks as users have them: from `transformers` configurations, by PyTorch's exporters.

    python -m venv build/exporters && build/exporters/bin/pip install torch transformers onnx onnxscript
    build/exporters/bin/python benchmarks/real/exported.py [NAME ...] [--exporter legacy|dynamo] [--dynamic]
        [--out DIR]
    python -m benchmarks peers DIR/*.onnx

Runs apart from superopt, whose environment needs no PyTorch. Widths are the published ones, layers are few,
weights are random with the seed 0; the statistics of batch normalisations are not all 0 and 1. ``--dynamic``
leaves the batch open, and the length of what is token ids.
"""

# pyright: basic, reportMissingImports=false
# Neither package is in the environment that types are checked in.

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import transformers

OPSET = 17


class Wrapped(torch.nn.Module):
    """A network with tensors in and one tensor out."""

    def __init__(self, network: torch.nn.Module, output: str, names: tuple[str, ...]) -> None:
        super().__init__()
        self.network = network
        self.output = output
        self.names = names

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        """The tensor that users want of the network's outputs."""
        return self.network(**dict(zip(self.names, tensors, strict=True)))[self.output]


def tokens(length: int, vocabulary: int) -> torch.Tensor:
    """Token ids, shape [1, length]."""
    return torch.randint(0, vocabulary, (1, length))


def image(size: int) -> torch.Tensor:
    """An image, shape [1, 3, size, size]."""
    return torch.randn(1, 3, size, size)


Built = tuple[torch.nn.Module, tuple[torch.Tensor, ...], tuple[str, ...], str]


def _text(network: torch.nn.Module, length: int, vocabulary: int) -> Built:
    return network, (tokens(length, vocabulary),), ("input_ids",), "last_hidden_state"


def _masked(network: torch.nn.Module, length: int, vocabulary: int) -> Built:
    given = (tokens(length, vocabulary), torch.ones(1, length, dtype=torch.int64))
    return network, given, ("input_ids", "attention_mask"), "last_hidden_state"


def _vision(network: torch.nn.Module, size: int, output: str) -> Built:
    return network, (image(size),), ("pixel_values",), output


def bert() -> Built:
    """BERT-base, two layers."""
    c = transformers.BertConfig(num_hidden_layers=2)
    return _masked(transformers.BertModel(c), 128, c.vocab_size)


def distilbert() -> Built:
    """DistilBERT, two layers."""
    c = transformers.DistilBertConfig(n_layers=2)
    return _masked(transformers.DistilBertModel(c), 128, c.vocab_size)


def t5_encoder() -> Built:
    """The encoder of T5-small, two layers."""
    c = transformers.T5Config(num_layers=2, d_model=512, d_ff=2048)
    return _text(transformers.T5EncoderModel(c), 64, c.vocab_size)


def gpt2() -> Built:
    """GPT-2 small, two layers."""
    c = transformers.GPT2Config(n_layer=2, use_cache=False)
    return _text(transformers.GPT2Model(c), 64, c.vocab_size)


def llama() -> Built:
    """LLaMA with hidden size 768, two layers."""
    c = transformers.LlamaConfig(
        num_hidden_layers=2,
        hidden_size=768,
        intermediate_size=2048,
        num_attention_heads=12,
        num_key_value_heads=4,
        vocab_size=8000,
        use_cache=False,
    )
    return _text(transformers.LlamaModel(c), 64, c.vocab_size)


def vit() -> Built:
    """ViT-base, two layers."""
    c = transformers.ViTConfig(num_hidden_layers=2)
    return _vision(transformers.ViTModel(c, add_pooling_layer=False), 224, "last_hidden_state")


def whisper_encoder() -> Built:
    """The encoder of Whisper-tiny, two layers."""
    c = transformers.WhisperConfig(
        encoder_layers=2, decoder_layers=1, d_model=384, encoder_ffn_dim=1536, encoder_attention_heads=6
    )
    network = transformers.WhisperModel(c).get_encoder()
    return network, (torch.randn(1, 80, 3000),), ("input_features",), "last_hidden_state"


def convnext() -> Built:
    """ConvNeXt-tiny with one or two blocks a stage."""
    c = transformers.ConvNextConfig(depths=[1, 1, 2, 1])
    return _vision(transformers.ConvNextModel(c), 224, "pooler_output")


def efficientnet() -> Built:
    """EfficientNet-B0."""
    c = transformers.EfficientNetConfig(
        width_coefficient=1.0, depth_coefficient=1.0, image_size=224, hidden_dim=1280
    )
    return _vision(transformers.EfficientNetModel(c), 224, "pooler_output")


def mobilenet_v1() -> Built:
    """MobileNet v1."""
    network = transformers.MobileNetV1Model(transformers.MobileNetV1Config())
    return _vision(network, 224, "pooler_output")


def mobilenet_v2() -> Built:
    """MobileNet v2."""
    network = transformers.MobileNetV2Model(transformers.MobileNetV2Config())
    return _vision(network, 224, "pooler_output")


def mobilevit() -> Built:
    """MobileViT-small."""
    network = transformers.MobileViTModel(transformers.MobileViTConfig(num_attention_heads=4))
    return _vision(network, 256, "pooler_output")


def regnet() -> Built:
    """RegNet with one or two blocks a stage."""
    network = transformers.RegNetModel(transformers.RegNetConfig(depths=[1, 1, 2, 1]))
    return _vision(network, 224, "pooler_output")


def resnet18() -> Built:
    """ResNet-18."""
    c = transformers.ResNetConfig(
        depths=[2, 2, 2, 2], layer_type="basic", hidden_sizes=[64, 128, 256, 512], embedding_size=64
    )
    return _vision(transformers.ResNetModel(c), 224, "pooler_output")


def segformer() -> Built:
    """SegFormer-B0 with one block a stage."""
    c = transformers.SegformerConfig(depths=[1, 1, 1, 1])
    return _vision(transformers.SegformerForSemanticSegmentation(c), 256, "logits")


def swin() -> Built:
    """Swin-tiny with one or two blocks a stage."""
    return _vision(transformers.SwinModel(transformers.SwinConfig(depths=[1, 1, 2, 1])), 224, "pooler_output")


def deberta() -> Built:
    """DeBERTa-v3-xsmall with two layers and 8,000 words."""
    c = transformers.DebertaV2Config(
        num_hidden_layers=2,
        hidden_size=384,
        intermediate_size=1536,
        num_attention_heads=6,
        relative_attention=True,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        vocab_size=8000,
    )
    return _masked(transformers.DebertaV2Model(c), 64, c.vocab_size)


def yolos() -> Built:
    """YOLOS-tiny, two layers."""
    c = transformers.YolosConfig(
        num_hidden_layers=2,
        hidden_size=192,
        intermediate_size=768,
        num_attention_heads=3,
        image_size=[256, 256],
    )
    return _vision(transformers.YolosForObjectDetection(c), 256, "logits")


def levit() -> Built:
    """LeViT-128S."""
    return _vision(transformers.LevitModel(transformers.LevitConfig()), 224, "pooler_output")


def _sound(network: torch.nn.Module, samples: int) -> Built:
    return network, (torch.randn(1, samples),), ("input_values",), "last_hidden_state"


def wav2vec2() -> Built:
    """wav2vec 2.0 base, two layers, on a second of sound."""
    return _sound(transformers.Wav2Vec2Model(transformers.Wav2Vec2Config(num_hidden_layers=2)), 16000)


def conformer() -> Built:
    """wav2vec 2.0 with Conformer layers, of which two, of width 384."""
    c = transformers.Wav2Vec2ConformerConfig(
        num_hidden_layers=2, hidden_size=384, intermediate_size=1536, num_attention_heads=6
    )
    return _sound(transformers.Wav2Vec2ConformerModel(c), 16000)


class Waveform(torch.nn.Module):
    """A vocoder that returns its sound under a name."""

    def __init__(self, vocoder: torch.nn.Module) -> None:
        super().__init__()
        self.vocoder = vocoder

    def forward(self, spectrogram: torch.Tensor) -> dict[str, torch.Tensor]:
        """Sound of a spectrogram, [batch, frames, 80]."""
        return {"waveform": self.vocoder(spectrogram)}


def hifigan() -> Built:
    """The HiFi-GAN vocoder of SpeechT5, on 50 frames."""
    network = Waveform(transformers.SpeechT5HifiGan(transformers.SpeechT5HifiGanConfig()))
    return network, (torch.randn(1, 50, 80),), ("spectrogram",), "waveform"


def swin2sr() -> Built:
    """Swin2SR, which doubles images, with two blocks of two layers of width 60."""
    c = transformers.Swin2SRConfig(embed_dim=60, depths=[2, 2], num_heads=[6, 6], upscale=2)
    return _vision(transformers.Swin2SRForImageSuperResolution(c), 64, "reconstruction")


def glpn() -> Built:
    """GLPN, which estimates depth, with one block a stage."""
    c = transformers.GLPNConfig(depths=[1, 1, 1, 1])
    return _vision(transformers.GLPNForDepthEstimation(c), 256, "predicted_depth")


NETWORKS: dict[str, Callable[[], Built]] = {
    build.__name__: build
    for build in (
        *(bert, distilbert, t5_encoder, gpt2, llama, vit, whisper_encoder),
        *(convnext, efficientnet, mobilenet_v1, mobilenet_v2, mobilevit, regnet, resnet18, segformer),
        *(swin, deberta, yolos, levit),
        *(wav2vec2, conformer, hifigan, swin2sr, glpn),
    )
}


def main() -> int:
    """Exports each to ``OUT/NAME-EXPORTER[-dynamic].onnx``; 1 when one of them could not be exported."""
    parser = argparse.ArgumentParser(prog="exported", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(NETWORKS)}; default: all")
    parser.add_argument("--exporter", choices=["legacy", "dynamo"], default="legacy")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/bench/exported"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in arguments.names or NETWORKS:
        ending = "-dynamic" if arguments.dynamic else ""
        path = arguments.out / f"{name}-{arguments.exporter}{ending}.onnx"
        write = export_dynamic if arguments.dynamic else export
        try:
            write(NETWORKS[name], path, arguments.exporter)
        except Exception as error:  # noqa: BLE001 - exporters fail in many ways; the others are to be exported
            failed += 1
            sys.stdout.write(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:150]}\n")
        else:
            sys.stdout.write(f"{path}: {path.stat().st_size / 1e6:.1f} MB\n")
    return 1 if failed else 0


def export(build: Callable[[], Built], path: Path, exporter: str) -> None:
    """Writes one network."""
    wrapped, given, names = _prepared(build)
    with torch.no_grad():
        torch.onnx.export(
            wrapped, given, path, input_names=[*names], output_names=["out"], **_style(exporter)
        )


def export_dynamic(build: Callable[[], Built], path: Path, exporter: str) -> None:
    """Writes one network with open dimensions: the batch, and the length of token ids."""
    wrapped, given, names = _prepared(build)
    axes = [
        {0: "batch", 1: "length"} if t.ndim == 2 and not t.is_floating_point() else {0: "batch"}
        for t in given
    ]
    doubled = tuple(torch.cat([tensor, tensor]) for tensor in given)  # a batch of 1 would become a constant
    if exporter == "legacy":
        open_axes = {"dynamic_axes": {**dict(zip(names, axes, strict=True)), "out": {0: "batch"}}}
    else:
        dims = {name: torch.export.Dim(name) for name in ("batch", "length")}
        shapes = tuple({axis: dims[name] for axis, name in named.items()} for named in axes)
        open_axes = {"dynamic_shapes": (shapes,)}
    with torch.no_grad():
        torch.onnx.export(
            *(wrapped, doubled, path),
            input_names=[*names],
            output_names=["out"],
            **_style(exporter),
            **open_axes,
        )


def _prepared(
    build: Callable[[], Built],
) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], tuple[str, ...]]:
    torch.manual_seed(0)
    network, given, names, output = build()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.8, 1.2)
    return Wrapped(network, output, names).eval(), given, names


def _style(exporter: str) -> dict[str, object]:
    if exporter == "legacy":
        return {"dynamo": False, "opset_version": OPSET}
    return {"dynamo": True, "external_data": False}


if __name__ == "__main__":
    sys.exit(main())
