"""Rules that are right and rules that are wrong, as text."""

# ruff: noqa: E501

RIGHT = """
matmul(x, matmul(y, z)) <=> matmul(matmul(x, y), z)
add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))
matmul(x, add(matmul(y, z), w)) => add(matmul(matmul(x, y), z), matmul(x, w))
(matmul(x, y), matmul(x, z)) => (split0[axis=-1](matmul(x, concat[axis=-1](y, z))), split1[axis=-1](matmul(x, concat[axis=-1](y, z))))
matmul(transpose(x), transpose(y)) => transpose(matmul(y, x))
concat[axis=-2](matmul(x, z), matmul(y, z)) => matmul(concat[axis=-2](x, y), z)
add(matmul(x, y), matmul(z, w)) => matmul(concat[axis=-1](x, z), concat[axis=-2](y, w))
add(scale(x, w), scale(x, v)) => scale(x, add(w, v))
scale(matmul(x, y), w) => matmul(scale(x, w), y)
relu(concat[axis=1](relu(x), y)) => concat[axis=1](relu(x), relu(y))
relu(transpose(x)) <=> transpose(relu(x))
mul(add(x, y), add(x, y)) => add(add(mul(x, x), mul(y, y)), scale(mul(x, y), full[value=2]))
mul(x, hard_sigmoid[alpha=1/6, beta=1/2](x)) => hard_swish(x)
bias_add[axis=1](channel_scale[axis=1](affine[axis=1](x, s, t), u), v) => affine[axis=1](x, mul(s, u), add(mul(t, u), v))
matmul(x, channel_scale[axis=-1](y, s)) => channel_scale[axis=-1](matmul(x, y), s)
relu(conv[stride=s, padding=p](x, w)) => conv[stride=s, padding=p, activation=relu](x, w)
affine[axis=1](conv[stride=s, padding=p](x, w), u, v) => bias_add[axis=1](conv[stride=s, padding=p](x, channel_scale[axis=0](w, u)), v)
add(conv[stride=s, padding=same](x, w), conv[stride=s, padding=same](x, v)) => conv[stride=s, padding=same](x, add(w, enlarge[kernel=k](v)))
(conv(x, y), conv(x, z)) => (split0[axis=1](conv(x, concat[axis=0](y, z))), split1[axis=1](conv(x, concat[axis=0](y, z)))) where groups(x, y) = 1
concat[axis=1](maxpool[kernel=k, stride=s, padding=p](x), maxpool[kernel=k, stride=s, padding=p](y)) => maxpool[kernel=k, stride=s, padding=p](concat[axis=1](x, y))
maxpool[kernel=2, stride=2](relu(x)) => relu(maxpool[kernel=2, stride=2](x))
avgpool[kernel=2, stride=2](conv(x, w)) => conv(avgpool[kernel=2, stride=2](x), w) where dim(w, 2) = 1, dim(w, 3) = 1
conv[padding=same](conv[padding=same](x, y), identity_kernel[kernel=3]) => conv[padding=same](x, y)
conv[padding=same](x, scale(identity_kernel[kernel=3], y)) => mul(x, scale(ones(), y))
conv[padding=same](concat[axis=1](x, y), concat[axis=1](x, y)) => conv[padding=same](concat[axis=1](y, x), concat[axis=1](y, x))
conv(conv(x, y), z) => conv(x, conv(z, transpose[perm=(1, 0, 2, 3)](y))) where channels(x) = channels(y), channels(z) = dim(y, 0), dim(y, 2) = 1, dim(y, 3) = 1
""".strip().splitlines()

WRONG = {
    "operands of a matrix product swapped": "matmul(x, y) => matmul(y, x)",
    "concat along rows instead of columns": (
        "concat[axis=-1](transpose(x), transpose(y)) => transpose(concat[axis=-1](x, y))"
    ),
    "enlarge under same_upper at stride 2": (
        "conv[stride=2, padding=same_upper](x, w) => conv[stride=2, padding=same_upper](x, enlarge[kernel=3](w))"
    ),
    "enlarge under valid": "conv(x, w) => conv(x, enlarge[kernel=3](w))",
    "average pooling without counting padding is no convolution": (
        "avgpool[kernel=3, padding=same](x) => conv[padding=same](x, avgpool_kernel[kernel=3])"
    ),
    "halves in the wrong order": "split0[axis=a](concat[axis=a](x, y)) => y",
    "a transposed weight": "matmul(x, transpose(y)) => matmul(x, y)",
    "a dropped relu": "relu(conv(x, w)) => conv(x, w)",
    "relu of a product": "relu(mul(x, y)) => mul(relu(x), relu(y))",
    "relu of a sum": "relu(add(x, y)) => add(relu(x), relu(y))",
    "relu is not linear in the kernel": "conv[activation=relu](x, add(y, z)) => add(conv[activation=relu](x, y), conv[activation=relu](x, z))",
    "blocks that are aligned in square tensors only": (
        "matmul(concat[axis=-1](x, y), concat[axis=-2](x, z)) => matmul(concat[axis=-1](y, x), concat[axis=-2](z, x))"
    ),
    "outputs of a grouped convolution": (
        "concat[axis=1](conv(x, y), conv(x, z)) => conv(x, concat[axis=0](y, z))"
    ),
    "channels of a grouped convolution": (
        "add(conv(x, y), conv(z, w)) => conv(concat[axis=1](x, z), concat[axis=1](y, w))"
    ),
    "same shape is not same value": "transpose(x) => reshape[shape=(2, 2)](x)",
    "types that agree for square matrices only": "matmul(x, transpose(x)) => matmul(transpose(x), x)",
    "same_upper is not same_lower": "conv[padding=same_upper](x, w) => conv[padding=same_lower](x, w)",
    "maximum is not linear": "maxpool[kernel=2](add(x, y)) => add(maxpool[kernel=2](x), maxpool[kernel=2](y))",
    "pooling with padding counted moves a bias": (
        "avgpool[kernel=3, padding=same, includes_padding=1](bias_add[axis=1](x, b)) => bias_add[axis=1](avgpool[kernel=3, padding=same, includes_padding=1](x), b)"
    ),
    "a bias through padding": (
        "conv[padding=same](bias_add[axis=1](x, b), w) => bias_add[axis=1](conv[padding=same](x, w), kernel_response(w, b))"
    ),
    "a square root keeps no sign": "sqrt(mul(x, x)) => x",
    "a quotient by zero": "mul(x, y) => mul(mul(div(x, y), y), y)",
    "the maximum of a negative multiple": "maxpool[kernel=2](scale(x, w)) => scale(maxpool[kernel=2](x), w)",
    "softmax sees a bias along its own axis": "softmax[axis=-1](bias_add[axis=-1](x, b)) => softmax[axis=-1](x)",
    "sigmoid is not tanh": "sigmoid(x) => tanh(x)",
    "a factor of columns is none of rows": "matmul(channel_scale[axis=-1](x, s), y) => channel_scale[axis=-1](matmul(x, y), s)",
    "stride": "conv[stride=1, padding=same](x, w) => conv[stride=2, padding=same](x, w)",
    "swapped outputs": "(relu(x), sigmoid(x)) => (sigmoid(x), relu(x))",
}

NEEDS_PETABYTES = (
    "maxpool[kernel=(1, 99999999999999), padding=same](x)"
    " => relu(maxpool[kernel=(1, 99999999999999), padding=same](x))"
)
"""No machine has the memory to execute it; with symbols for its sizes it would be proved."""
