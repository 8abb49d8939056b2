"""The networks of PyTorch for `module_networks.py`: timm, transformers, and recurrent layers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from module_networks import Array, Network

IMAGE_NETWORKS = {
    "resnet10t": 64,
    "mobilenetv2_050": 64,
    "mobilenetv3_small_050": 64,
    "mobilenetv4_conv_small_050": 64,
    "mixnet_s": 64,
    "ghostnetv2_100": 96,
    "mobileone_s0": 64,
    "starnet_s050": 64,
    "hrnet_w18_small": 64,
    "skresnet18": 64,
    "res2net50_14w_8s": 64,
    "convnextv2_atto": 64,
    "edgenext_xx_small": 64,
    "mobilevit_xxs": 64,
    "fastvit_t8": 64,
    "repvit_m0_9": 64,
    "efficientformerv2_s0": 224,
    "efficientvit_b0": 64,
    "levit_128s": 224,
    "vit_tiny_patch16_224": 224,
}
"""Names of timm, and the size of the image."""

SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 200,
}
GROUPED = SMALL | {"num_key_value_heads": 2, "head_dim": 16}
TOKEN_NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertModel", SMALL),
    "distilbert": ("DistilBertModel", {"dim": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 200}),
    "albert": ("AlbertModel", SMALL | {"embedding_size": 32}),
    "roberta": ("RobertaModel", SMALL),
    "electra": ("ElectraModel", SMALL | {"embedding_size": 32}),
    "deberta-v2": ("DebertaV2Model", SMALL | {"relative_attention": True}),
    "mobilebert": ("MobileBertModel", SMALL | {"embedding_size": 32, "intra_bottleneck_size": 32}),
    "gpt2": ("GPT2Model", {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 200}),
    "opt": ("OPTModel", SMALL | {"ffn_dim": 128, "word_embed_proj_dim": 64}),
    "gpt-neox": ("GPTNeoXModel", SMALL),
    "phi": ("PhiModel", SMALL),
    "llama": ("LlamaModel", GROUPED),
    "qwen3": ("Qwen3Model", GROUPED),
    "gemma": ("GemmaModel", GROUPED),
    "t5-encoder": ("T5EncoderModel", {"d_model": 64, "d_kv": 16, "num_layers": 2, "num_heads": 4}),
    "bloom": ("BloomModel", {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 200}),
    "mamba": ("MambaModel", {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 200}),
}
"""Classes of transformers with the fields of their configurations; the inputs are tokens."""

SIGNAL_NETWORKS: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
    "vit-mae": ("ViTModel", SMALL | {"image_size": 64}, (1, 3, 64, 64)),
    "dinov2": ("Dinov2Model", SMALL | {"image_size": 56}, (1, 3, 56, 56)),
    "segformer": ("SegformerModel", {"hidden_sizes": [16, 32, 64, 128]}, (1, 3, 64, 64)),
    "swin": (
        "SwinModel",
        {
            "image_size": 64,
            "embed_dim": 16,
            "depths": [2, 2],
            "num_heads": [2, 4],
            "window_size": 4,
        },
        (1, 3, 64, 64),
    ),
    "wav2vec2": ("Wav2Vec2Model", SMALL | {"conv_dim": [32] * 7}, (1, 4000)),
    "whisper-encoder": (
        "models.whisper.modeling_whisper.WhisperEncoder",
        {"d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4},
        (1, 80, 3000),
    ),
    "patchtst": (
        "PatchTSTModel",
        {"num_input_channels": 2, "context_length": 64, "patch_length": 8, "d_model": 32},
        (1, 64, 2),
    ),
}
"""Classes and fields as in `TOKEN_NETWORKS`, and the shape of the input."""

LENGTH = 12


def networks() -> dict[str, Callable[[], Network]]:
    """Return a function for each network that builds it."""
    found: dict[str, Callable[[], Network]] = {}
    for name in own_modules():
        found[name] = partial(own, name)
    for name, (cls, fields) in TOKEN_NETWORKS.items():
        found[name] = partial(transformer, cls, fields, None)
    for name, (cls, fields, shape) in SIGNAL_NETWORKS.items():
        found[name] = partial(transformer, cls, fields, shape)
    for name, size in IMAGE_NETWORKS.items():
        found[name] = partial(image_network, name, size)
    return found


def image_network(name: str, size: int) -> Network:
    import_module("torch").manual_seed(0)
    timm: Any = import_module("timm")
    return network(timm.create_model(name, pretrained=False, num_classes=10), (1, 3, size, size))


def transformer(cls: str, fields: dict[str, Any], shape: tuple[int, ...] | None) -> Network:
    torch: Any = import_module("torch")
    torch.manual_seed(0)
    folder, _, member = f"transformers.{cls}".rpartition(".")
    model: Any = getattr(import_module(folder), member)
    built = model(model.config_class(**fields))
    built.config.use_cache = False
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 200, (1, LENGTH))
    return network(first_output(torch, built), shape, tokens if shape is None else None)


def first_output(torch: Any, module: Any) -> Any:
    """Return a module that has only the first output of `module`."""

    class First(torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.network = module

        def forward(self, x: Any) -> Any:
            return self.network(x)[0]

    return First()


def own_modules() -> dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]]:
    """Return functions that build modules of `torch.nn`, and the shapes of their inputs."""

    def recurrent(cls: str, **options: Any) -> Callable[[Any], Any]:
        return lambda nn: first_output(
            import_module("torch"), getattr(nn, cls)(16, 24, batch_first=True, **options)
        )

    def encoder(nn: Any) -> Any:
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def autoencoder(nn: Any) -> Any:
        return nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.InstanceNorm2d(8, affine=True), nn.PReLU(8),
            nn.Conv2d(8, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.Mish(),
            nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.LeakyReLU(0.1),
            nn.Upsample(scale_factor=2, mode="bilinear"), nn.ReflectionPad2d(1),
            nn.Conv2d(8, 12, 3), nn.PixelShuffle(2), nn.AvgPool2d(2), nn.Tanh(),
        )  # fmt: skip

    def signal(nn: Any) -> Any:
        return nn.Sequential(
            nn.Conv1d(4, 16, 5, padding="same", dilation=2), nn.GELU(), nn.MaxPool1d(2),
            nn.Conv1d(16, 16, 3, groups=16), nn.GLU(1), nn.AdaptiveAvgPool1d(4),
            nn.Flatten(), nn.Softplus(), nn.LayerNorm(32), nn.Linear(32, 6), nn.LogSoftmax(1),
        )  # fmt: skip

    def volumes(nn: Any) -> Any:
        return nn.Sequential(
            nn.Conv3d(2, 8, 3, padding=1), nn.BatchNorm3d(8), nn.Hardswish(), nn.MaxPool3d(2),
            nn.Conv3d(8, 8, (1, 3, 3), stride=(1, 2, 2)), nn.SELU(), nn.AdaptiveAvgPool3d(1),
            nn.Flatten(), nn.Linear(8, 4), nn.Softmax(1),
        )  # fmt: skip

    return {
        "lstm, 2 layers": (recurrent("LSTM", num_layers=2), (1, LENGTH, 16)),
        "lstm, bidirectional": (recurrent("LSTM", bidirectional=True), (1, LENGTH, 16)),
        "lstm, projected": (recurrent("LSTM", proj_size=8), (1, LENGTH, 16)),
        "gru, bidirectional": (recurrent("GRU", bidirectional=True), (1, LENGTH, 16)),
        "rnn, relu": (recurrent("RNN", nonlinearity="relu"), (1, LENGTH, 16)),
        "transformer encoder": (encoder, (1, LENGTH, 16)),
        "autoencoder": (autoencoder, (1, 3, 32, 32)),
        "signal": (signal, (1, 4, 64)),
        "volumes": (volumes, (1, 2, 8, 8, 8)),
    }


def own(name: str) -> Network:
    torch: Any = import_module("torch")
    torch.manual_seed(0)
    build, shape = own_modules()[name]
    return network(build(torch.nn), shape)


def network(module: Any, shape: tuple[int, ...] | None, tokens: Array | None = None) -> Network:
    """Return `module` with seeded values instead of constants, which initializations leave."""
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    module = vary(torch, module).eval()
    if tokens is None:
        assert shape is not None
        tokens = np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)

    def forward(model: Any, arrays: Sequence[Array], kind: Any) -> list[Array]:
        tensors = [torch.from_numpy(array) for array in arrays]
        with torch.no_grad():
            given = [each.to(kind) if each.is_floating_point() else each for each in tensors]
            results = model(*given)
        if not isinstance(results, tuple):
            results = (results,)
        return [each.numpy() for each in cast("tuple[Any, ...]", results)]

    def precise(arrays: Sequence[Array]) -> list[Array]:
        return forward(copy.deepcopy(module).double(), arrays, torch.float64)

    def save(path: Path) -> None:
        program = torch.export.export(module, (torch.from_numpy(tokens),))
        torch.export.save(program, str(path))

    return Network(
        module, (tokens,), lambda arrays: forward(module, arrays, torch.float32), precise, save
    )


def vary(torch: Any, module: Any) -> Any:
    """Replace constant parameters and statistics, such as scales of 1, by seeded values."""
    generator = torch.Generator().manual_seed(0)
    statistics = {n: b for n, b in module.named_buffers() if "running_" in n}
    for name, value in {**dict(module.named_parameters()), **statistics}.items():
        if value.numel() < 2 or value.min() != value.max():
            continue
        shift = torch.rand(value.shape, generator=generator) - 0.5
        with torch.no_grad():
            positive = "running_var" in name or value.flatten()[0] > 0.5
            value.copy_(1 + shift if positive else 0.2 * shift)
    return module
