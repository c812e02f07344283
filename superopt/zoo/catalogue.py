"""Catalogue of the zoo: description, source and published parameter count of each network."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from superopt.zoo.blueprint import Blueprint
from superopt.zoo.networks.dense import candle_uno, dlrm, light_mlp, mlp, mlp_mnist, xdl
from superopt.zoo.networks.language.bert import bert_base, bert_large, light_bert
from superopt.zoo.networks.language.encoder_decoder import light_transformer, transformer
from superopt.zoo.networks.language.gpt2 import gpt2, light_gpt2
from superopt.zoo.networks.language.llama import light_llama, llama, llama_block
from superopt.zoo.networks.language.nasrnn import nasrnn
from superopt.zoo.networks.language.recurrent import light_lstm_lm, lstm_lm, lstm_lm_operator, nmt
from superopt.zoo.networks.language.vdcnn import vdcnn
from superopt.zoo.networks.ncf import light_ncf, ncf
from superopt.zoo.networks.vision.densenet import densenet121
from superopt.zoo.networks.vision.edsr import edsr
from superopt.zoo.networks.vision.inception import inception_v3
from superopt.zoo.networks.vision.mobilenet import mobilenet_v3
from superopt.zoo.networks.vision.nasnet import nasnet_a
from superopt.zoo.networks.vision.repvgg import repvgg
from superopt.zoo.networks.vision.resnet import (
    light_resnet18,
    light_resnet101,
    resnet18,
    resnet50,
    resnet101,
    resnext50,
)
from superopt.zoo.networks.vision.squeezenet import squeezenet
from superopt.zoo.networks.vision.unet import light_unet, unet
from superopt.zoo.networks.vision.vgg import light_vgg16, vgg16, vgg19
from superopt.zoo.networks.vision.vit import vit_base
from superopt.zoo.networks.vision.yolo import yolov3_tiny

__all__ = ["FAMILY", "NETWORKS", "Network", "member"]


@dataclass(frozen=True)
class Network:
    """How to build a network for any batch, and for any number of tokens where that can be chosen;
    ``parameters`` is the number given by its authors or reference code, else computed from the published
    layer sizes."""

    summary: str
    source: str
    parameters: int
    build: Callable[[int], Blueprint]
    of_tokens: Callable[[int, int], Blueprint] | None = None


NETWORKS: Mapping[str, Network] = {
    "squeezenet": Network(
        "SqueezeNet 1.1: 8 fire modules without normalisation", "Iandola et al. 2016", 1_235_496, squeezenet
    ),
    "resnet18": Network("ResNet-18: 8 blocks of two convolutions", "He et al. 2016", 11_689_512, resnet18),
    "resnet50": Network("ResNet-50: 16 bottleneck blocks", "He et al. 2016", 25_557_032, resnet50),
    "resnet101": Network("ResNet-101: 33 bottleneck blocks", "He et al. 2016", 44_549_160, resnet101),
    "resnext50": Network(
        "ResNeXt-50 32x4d: bottlenecks with 32 groups", "Xie et al. 2017", 25_028_904, resnext50
    ),
    "bert-base": Network(
        "BERT-base: 12 encoder layers, 128 tokens", "Devlin et al. 2019", 109_482_240, bert_base, bert_base
    ),
    "nasrnn": Network(
        "NasRNN: 5 steps of 8 gates, hidden size 512", "Zoph and Le 2017", 16 * 512**2, nasrnn
    ),
    "inception-v3": Network(
        "Inception-v3 without auxiliary classifier", "Szegedy et al. 2016", 23_834_568, inception_v3
    ),
    "vgg16": Network(
        "VGG-16 for standardised images", "Simonyan and Zisserman 2015", 138_357_544, vgg16
    ),
    "vgg19": Network("VGG-19, preprocessing included", "Simonyan and Zisserman 2015", 143_667_240, vgg19),
    "densenet121": Network("DenseNet-121: 58 dense layers", "Huang et al. 2017", 7_978_856, densenet121),
    "mobilenet-v3": Network(
        "MobileNet-v3 large, hard-swish decomposed", "Howard et al. 2019", 5_483_032, mobilenet_v3
    ),
    "bert-large": Network(
        "BERT-large: 24 layers, shapes computed, old export", "Devlin et al. 2019",
        335_141_888, bert_large, bert_large,
    ),
    "gpt2": Network("GPT-2 small with head, 128 tokens", "Radford et al. 2019", 124_439_808, gpt2, gpt2),
    "vit-base": Network(
        "ViT-Base/16 at 224, preprocessing included", "Dosovitskiy et al. 2021", 86_567_656, vit_base
    ),
    "mlp-mnist": Network(
        "perceptron 784-300-100-10 for digits", "LeCun et al. 1998, with relu", 266_610, mlp_mnist
    ),
    "mlp": Network("16 dense layers of 8192: 4.3 GB", "Unger et al. 2022 (Unity)", 16 * 8192 * 8193, mlp),
    "nasnet-a": Network("NASNet-A large, 6 @ 4032", "Zoph et al. 2018", 88_753_150, nasnet_a),
    "dlrm": Network(
        "DLRM: 8 tables of 1,000,000 x 64: 2.1 GB", "Naumov et al. 2019, sizes of FlexFlow",
        8 * 64_000_000 + 65 * 512 + 513 * 512 + 513 * 64 + 577 * 1024 + 2 * 1025 * 1024 + 1025, dlrm,
    ),
    "xdl": Network(
        "XDL: 4 tables of 1,000,000 x 64: 1 GB", "Jiang et al. 2019, sizes of FlexFlow",
        4 * 64_000_000 + 2 * 256**2 + 256 * 2, xdl,
    ),
    "candle-uno": Network(
        "CANDLE-Uno: towers for cell and drugs", "CANDLE benchmarks", 21_275_001, candle_uno
    ),
    "lstm-lm": Network(
        "LSTM language model: 2 x 650, 35 steps unrolled", "Zaremba et al. 2014, medium", 19_780_400, lstm_lm
    ),
    "lstm-lm-operator": Network(
        "the same with ONNX's LSTM operator", "Zaremba et al. 2014, medium", 19_780_400, lstm_lm_operator
    ),
    "nmt": Network(
        "translation: LSTMs 2 + 2 x 1024, attention, 20 steps", "Luong et al. 2015, sizes of FlexFlow",
        3 * 32_000 * 1024 + 32_000 + 4 * (8 * 1024**2 + 8 * 1024) + 3 * 1024**2, nmt,
    ),
    "transformer": Network(
        "Transformer base: 6 + 6 layers of 512, 128 tokens", "Vaswani et al. 2017",
        37_000 * 512 + 6 * (3 * 4 * 512**2 + 2 * (2 * 512 * 2048 + 2048 + 512) + 5 * 2 * 512), transformer,
    ),
    "ncf": Network(
        "NeuMF for MovieLens-20M: 64 factors, 4 widths", "He et al. 2017, sizes of MLPerf 0.5",
        31_832_577, ncf,
    ),
    "u-net": Network(
        "U-Net, padded: 512 x 512 to 2 classes", "Ronneberger et al. 2015", 31_030_658, unet
    ),
    "edsr": Network(
        "EDSR baseline, twice the resolution of 128 x 128", "Lim et al. 2017", 1_369_859, edsr
    ),
    "yolov3-tiny": Network(
        "YOLOv3-tiny, a detector at 416 x 416", "Redmon and Farhadi 2018", 8_852_366, yolov3_tiny
    ),
    "vdcnn": Network(
        "VDCNN-29: 1,024 characters of a text", "Conneau et al. 2017",
        16_646_933, vdcnn,
    ),
    "repvgg": Network("RepVGG-A0 as trained: 3 branches a block", "Ding et al. 2021", 9_110_000, repvgg),
    "llama-block": Network(
        "LLaMA 3.2 1B, one block: RMSNorm, RoPE, GQA, SwiGLU", "Grattafiori et al. 2024",
        10_485_760 + 3 * 2048 * 8192 + 2 * 2048, llama_block, llama_block,
    ),
    "light-mlp": Network("perceptron 64-32-16-10 for 8 x 8 digits", "small mlp-mnist", 2_778, light_mlp),
    "light-resnet18": Network(
        "ResNet-18 for 32 x 32: channels / 4", "small resnet18", 703_386, light_resnet18
    ),
    "light-resnet101": Network("6 bottlenecks for 32 x 32", "small resnet101", 166_546, light_resnet101),
    "light-vgg16": Network("VGG-16 for 32 x 32: channels / 8", "small vgg16", 239_538, light_vgg16),
    "light-u-net": Network("U-Net for 32 x 32: channels / 16", "small u-net", 121_658, light_unet),
    "light-ncf": Network("NeuMF for 200 users, 100 items", "small ncf", 7_881, light_ncf),
    "light-bert": Network("BERT-Tiny: 2 layers of 128, 32 tokens", "Turc et al. 2019", 4_385_920, light_bert),
    "light-gpt2": Network("GPT-2: 2 blocks of 64, 16 tokens", "small gpt2", 110_336, light_gpt2),
    "light-transformer": Network(
        "Transformer: 2 + 2 layers of 64, 16 tokens", "small transformer", 174_080, light_transformer
    ),
    "light-llama": Network(
        "LLaMA decoder: 2 blocks of 64, 16 tokens", "small llama-LxW", 131_392, light_llama
    ),
    "light-lstm-lm": Network("LSTM language model: 2 x 32, 8 steps", "small lstm-lm", 24_960, light_lstm_lm),
}  # fmt: skip

FAMILY = "llama-LxW"
"""How the names of LLaMA decoders of L blocks of width W are written; ``NETWORKS`` has none of them."""

_MEMBER = re.compile(r"llama-([1-9]\d{0,2})x([1-9]\d{1,4})")


def member(name: str) -> Network | None:
    """The LLaMA decoder of that name, as ``llama-16x2048``; None for a name of another form. Raises
    InvalidOptionError for a width that is no multiple of 64."""
    found = _MEMBER.fullmatch(name)
    if found is None:
        return None
    layers, width = (int(number) for number in found.groups())
    build = partial(llama, layers, width)
    summary = f"LLaMA decoder: {layers} blocks of {width}, 128 tokens"
    return Network(summary, "Grattafiori et al. 2024", build(1).parameters, build, build)
