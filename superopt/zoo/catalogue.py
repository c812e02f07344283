"""Catalogue of the zoo: description, source and published parameter count of each network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from superopt.zoo.bert import bert_base, bert_large
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.dense import candle_uno, dlrm, mlp, xdl
from superopt.zoo.densenet import densenet121
from superopt.zoo.gpt2 import gpt2
from superopt.zoo.inception import inception_v3
from superopt.zoo.llama import llama_block
from superopt.zoo.mobilenet import mobilenet_v3
from superopt.zoo.nasnet import nasnet_a
from superopt.zoo.nasrnn import nasrnn
from superopt.zoo.recurrent import lstm_lm, lstm_lm_operator, nmt
from superopt.zoo.repvgg import repvgg
from superopt.zoo.resnet import resnet50, resnext50
from superopt.zoo.squeezenet import squeezenet
from superopt.zoo.vgg import vgg19
from superopt.zoo.vit import vit_base

__all__ = ["NETWORKS", "Network"]


@dataclass(frozen=True)
class Network:
    """How to build a network at any batch; ``parameters`` as its authors or its reference code count them.

    Where nobody published a number, it is what the published sizes of the layers give.
    """

    summary: str
    source: str
    parameters: int
    build: Callable[[int], Blueprint]


NETWORKS: Mapping[str, Network] = {
    "squeezenet": Network(
        "SqueezeNet 1.1: 8 fire modules without normalisation", "Iandola et al. 2016", 1_235_496, squeezenet
    ),
    "resnet50": Network("ResNet-50: 16 bottleneck blocks", "He et al. 2016", 25_557_032, resnet50),
    "resnext50": Network(
        "ResNeXt-50 32x4d: bottlenecks with 32 groups", "Xie et al. 2017", 25_028_904, resnext50
    ),
    "bert-base": Network(
        "BERT-base: 12 encoder layers, 128 tokens", "Devlin et al. 2019", 109_482_240, bert_base
    ),
    "nasrnn": Network(
        "NasRNN: 5 steps of 8 gates, hidden size 512", "Zoph and Le 2017", 16 * 512**2, nasrnn
    ),
    "inception-v3": Network(
        "Inception-v3 without auxiliary classifier", "Szegedy et al. 2016", 23_834_568, inception_v3
    ),
    "vgg19": Network("VGG-19, preprocessing included", "Simonyan and Zisserman 2015", 143_667_240, vgg19),
    "densenet121": Network("DenseNet-121: 58 dense layers", "Huang et al. 2017", 7_978_856, densenet121),
    "mobilenet-v3": Network(
        "MobileNet-v3 large, hard-swish decomposed", "Howard et al. 2019", 5_483_032, mobilenet_v3
    ),
    "bert-large": Network(
        "BERT-large: 24 layers, shapes computed, old export", "Devlin et al. 2019", 335_141_888, bert_large
    ),
    "gpt2": Network("GPT-2 small with head, 128 tokens", "Radford et al. 2019", 124_439_808, gpt2),
    "vit-base": Network(
        "ViT-Base/16 at 224, preprocessing included", "Dosovitskiy et al. 2021", 86_567_656, vit_base
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
    "repvgg": Network("RepVGG-A0 as trained: 3 branches a block", "Ding et al. 2021", 9_110_000, repvgg),
    "llama-block": Network(
        "LLaMA 3.2 1B, one block: RMSNorm, RoPE, GQA, SwiGLU", "Grattafiori et al. 2024",
        10_485_760 + 3 * 2048 * 8192 + 2 * 2048, llama_block,
    ),
}  # fmt: skip
