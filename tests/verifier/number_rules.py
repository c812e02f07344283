"""Rules with calculated numbers that are true, and that are false, as text."""

# ruff: noqa: E501

TRUE = """
hard_sigmoid[alpha=a, beta=b](scale(x, full[value=c]())) => hard_sigmoid[alpha=a*c, beta=b](x)
hard_sigmoid[alpha=a, beta=b](add(x, full[value=c]())) => hard_sigmoid[alpha=a, beta=a*c + b](x)
scale(scale(x, full[value=a]()), full[value=b]()) => scale(x, full[value=a*b]())
add(add(x, full[value=a]()), full[value=b]()) => add(x, full[value=a + b]())
div(x, full[value=c]()) => scale(x, full[value=1/c]())
add(scale(x, full[value=a]()), scale(x, full[value=b]())) => scale(x, full[value=a + b]())
hard_sigmoid[alpha=a, beta=b](add(scale(x, full[value=c]()), full[value=d]())) => hard_sigmoid[alpha=a*c, beta=a*d + b](x)
hard_sigmoid[alpha=a, beta=b](scale(add(x, full[value=d]()), full[value=c]())) => hard_sigmoid[alpha=a*c, beta=a*c*d + b](x)
hard_sigmoid[alpha=a, beta=b](scale(scale(x, full[value=c]()), full[value=d]())) => hard_sigmoid[alpha=a*c*d, beta=b](x)
hard_sigmoid[alpha=a, beta=b](scale(x, full[value=-1]())) => hard_sigmoid[alpha=-a, beta=b](x)
sub(sub(x, full[value=a]()), full[value=b]()) => sub(x, full[value=a + b]())
sub(add(x, full[value=a]()), full[value=b]()) => add(x, full[value=a - b]())
add(sub(x, full[value=a]()), full[value=b]()) => add(x, full[value=b - a]())
sub(full[value=a](), sub(full[value=b](), x)) => add(x, full[value=a - b]())
sub(scale(x, full[value=a]()), scale(x, full[value=b]())) => scale(x, full[value=a - b]())
add(x, scale(x, full[value=a]())) => scale(x, full[value=a + 1]())
div(scale(x, full[value=a]()), full[value=c]()) => scale(x, full[value=a/c]())
scale(div(x, full[value=c]()), full[value=a]()) => scale(x, full[value=a/c]())
scale(add(x, full[value=a]()), full[value=b]()) => add(scale(x, full[value=b]()), full[value=a*b]())
mul(x, full[value=a]()) => scale(x, full[value=a]())
add(full[value=a](), full[value=b]()) => full[value=a + b]()
sub(full[value=a](), full[value=b]()) => full[value=a - b]()
scale(full[value=a](), full[value=b]()) => full[value=a*b]()
relu(scale(scale(x, full[value=a]()), full[value=b]())) => scale(relu(x), full[value=a*b]()) where a*b >= 0
scale(relu(scale(x, full[value=a]())), full[value=b]()) => scale(relu(x), full[value=a*b]()) where a >= 0
scale(relu(scale(x, full[value=a]())), full[value=b]()) => relu(scale(x, full[value=a*b]())) where b >= 0
maxpool[kernel=k, stride=s, padding=p](scale(scale(x, full[value=a]()), full[value=b]())) => scale(maxpool[kernel=k, stride=s, padding=p](x), full[value=a*b]()) where a*b >= 0
reduce_max[axis=i](scale(scale(x, full[value=a]()), full[value=b]())) => scale(reduce_max[axis=i](x), full[value=a*b]()) where a*b >= 0
reduce_sum[axis=i](scale(scale(x, full[value=a]()), full[value=b]())) => scale(reduce_sum[axis=i](x), full[value=a*b]())
matmul(scale(x, full[value=a]()), scale(y, full[value=b]())) => scale(matmul(x, y), full[value=a*b]())
mul(scale(x, full[value=a]()), scale(y, full[value=b]())) => scale(mul(x, y), full[value=a*b]())
conv(scale(x, full[value=a]()), scale(y, full[value=b]())) => scale(conv(x, y), full[value=a*b]())
transpose(scale(scale(x, full[value=a]()), full[value=b]())) => scale(transpose(x), full[value=a*b]())
scale(scale(x, full[value=a]()), full[value=min(b, c)]()) => scale(x, full[value=a*min(c, b)]())
scale(scale(x, full[value=a]()), full[value=max(b, 0)]()) => scale(x, full[value=max(0, b)*a]())
relu(scale(x, full[value=max(a, b)]())) => scale(relu(x), full[value=max(b, a)]()) where max(a, b) >= 0
div(x, full[value=a + b]()) => scale(x, full[value=1/(a + b)]())
x => scale(scale(x, full[value=c]()), full[value=1/c]())
silu[alpha=a](x) => mul(x, sigmoid(scale(x, full[value=a]())))
silu[alpha=a](scale(x, full[value=b]())) => scale(mul(x, sigmoid(scale(x, full[value=a*b]()))), full[value=b]())
reduce_max[axis=i](add(x, full[value=a]())) => add(reduce_max[axis=i](x), full[value=a]())
"""
FALSE = """
hard_sigmoid[alpha=a, beta=b](scale(x, full[value=c]())) => hard_sigmoid[alpha=a + c, beta=b](x)
hard_sigmoid[alpha=a, beta=b](scale(x, full[value=c]())) => hard_sigmoid[alpha=a*c, beta=b*c](x)
hard_sigmoid[alpha=a, beta=b](add(x, full[value=c]())) => hard_sigmoid[alpha=a, beta=b + c](x)
hard_sigmoid[alpha=a, beta=b](add(x, full[value=c]())) => hard_sigmoid[alpha=a, beta=a*b + c](x)
hard_sigmoid[alpha=a, beta=b](sub(x, full[value=c]())) => hard_sigmoid[alpha=a, beta=a*c + b](x)
hard_sigmoid[alpha=a, beta=b](div(x, full[value=c]())) => hard_sigmoid[alpha=c/a, beta=b](x)
hard_sigmoid[alpha=a, beta=b](x) => hard_sigmoid[alpha=b, beta=a](x)
scale(hard_sigmoid[alpha=a, beta=b](x), full[value=c]()) => hard_sigmoid[alpha=a*c, beta=b*c](x)
add(hard_sigmoid[alpha=a, beta=b](x), full[value=c]()) => hard_sigmoid[alpha=a, beta=b + c](x)
sub(ones(), hard_sigmoid[alpha=a, beta=b](x)) => hard_sigmoid[alpha=-a, beta=b](x)
relu(hard_sigmoid[alpha=a, beta=b](x)) => hard_sigmoid[alpha=max(a, 0), beta=b](x)
hard_sigmoid[alpha=a, beta=b](relu(x)) => relu(hard_sigmoid[alpha=a, beta=b](x))
hard_sigmoid[alpha=a, beta=b](x) => hard_sigmoid[alpha=a, beta=max(b, 0)](x)
hard_sigmoid[alpha=a, beta=b](x) => hard_sigmoid[alpha=a, beta=min(b, 1)](x)
hard_sigmoid[alpha=a, beta=b](relu(x)) => hard_sigmoid[alpha=a, beta=max(b, 0)](relu(x))
relu(scale(x, full[value=a]())) => scale(relu(x), full[value=a]())
relu(scale(x, full[value=a]())) => scale(relu(x), full[value=a]()) where a != 0
relu(scale(x, full[value=a]())) => scale(relu(x), full[value=a]()) where a >= -1
relu(scale(x, full[value=a]())) => scale(relu(x), full[value=a]()) where a <= 0
relu(scale(x, full[value=a]())) => scale(relu(x), full[value=-a]()) where a <= 0
relu(scale(x, full[value=a]())) => scale(relu(x), full[value=max(a, 0)]())
relu(scale(x, full[value=a*b]())) => scale(relu(x), full[value=a*b]()) where a >= 0
relu(scale(scale(x, full[value=a]()), full[value=b]())) => scale(relu(x), full[value=a*b]()) where a >= 0
relu(scale(scale(x, full[value=a]()), full[value=b]())) => scale(relu(x), full[value=a*b]()) where b >= 0
relu(scale(scale(x, full[value=a]()), full[value=b]())) => scale(relu(x), full[value=a*b]()) where a + b >= 0
relu(scale(scale(x, full[value=a]()), full[value=b]())) => scale(relu(x), full[value=a*b]()) where a*b <= 1
relu(scale(scale(x, full[value=a]()), full[value=b]())) => scale(relu(x), full[value=a*b]()) where a*b != 0
relu(scale(x, full[value=max(a, b)]())) => scale(relu(x), full[value=max(a, b)]()) where min(a, -b) <= 0
relu(scale(x, full[value=min(a, b)]())) => scale(relu(x), full[value=min(a, b)]()) where max(a, b) >= 0
relu(scale(x, full[value=a - b]())) => scale(relu(x), full[value=a - b]()) where a + b >= 0
relu(add(x, full[value=a]())) => add(relu(x), full[value=a]())
relu(add(x, full[value=a]())) => add(relu(x), full[value=a]()) where a >= 0
relu(add(x, full[value=a]())) => add(relu(x), full[value=max(a, 0)]())
relu(sub(x, full[value=a]())) => sub(relu(x), full[value=a]()) where a = 1
scale(relu(scale(x, full[value=a]())), full[value=b]()) => relu(scale(x, full[value=a*b]())) where a >= 0
scale(relu(scale(x, full[value=a]())), full[value=b]()) => scale(relu(x), full[value=a*b]()) where b >= 0
scale(scale(x, full[value=a]()), full[value=b]()) => scale(x, full[value=a + b]())
scale(scale(x, full[value=a]()), full[value=b]()) => scale(x, full[value=a*a]())
scale(scale(x, full[value=a]()), full[value=b]()) => scale(x, full[value=min(a, b)*min(a, b)]())
scale(scale(x, full[value=a]()), full[value=b]()) => scale(x, full[value=a/b]()) where b > 0
scale(scale(x, full[value=a]()), full[value=max(b, 0)]()) => scale(x, full[value=max(a*b, 0)]())
scale(scale(x, full[value=a]()), full[value=max(b, c)]()) => scale(x, full[value=max(a*b, a*c)]())
scale(scale(x, full[value=a]()), full[value=min(b, c)]()) => scale(x, full[value=a*max(b, c)]())
scale(scale(x, full[value=a]()), full[value=b]()) => x where a*b >= 1
add(add(x, full[value=a]()), full[value=b]()) => add(x, full[value=a*b]())
add(add(x, full[value=a]()), full[value=b]()) => add(x, full[value=max(a, b)]())
sub(sub(x, full[value=a]()), full[value=b]()) => sub(x, full[value=a - b]())
sub(full[value=a](), sub(full[value=b](), x)) => add(x, full[value=b - a]())
sub(full[value=a](), sub(x, full[value=b]())) => sub(x, full[value=a + b]())
sub(scale(x, full[value=a]()), scale(x, full[value=b]())) => scale(x, full[value=b - a]())
add(scale(x, full[value=a]()), scale(y, full[value=b]())) => scale(add(x, y), full[value=a + b]())
scale(add(x, full[value=a]()), full[value=b]()) => add(scale(x, full[value=b]()), full[value=a]())
scale(add(x, full[value=a]()), full[value=b]()) => scale(add(x, full[value=b]()), full[value=a]())
div(x, full[value=c]()) => scale(x, full[value=c]())
div(x, full[value=c]()) => scale(x, full[value=-1/c]())
div(x, full[value=a + b]()) => add(div(x, full[value=a]()), div(x, full[value=b]()))
div(div(x, full[value=a]()), full[value=b]()) => scale(x, full[value=a/b]())
x => div(scale(x, full[value=c]()), full[value=c]())
x => mul(div(x, full[value=c]()), full[value=c]()) where c >= 0
scale(x, full[value=c]()) => div(scale(x, full[value=c*c]()), full[value=c]()) where c <= 0
x => div(scale(x, full[value=min(a, 0)]()), full[value=min(a, 0)]())
mul(full[value=a](), x) => scale(x, full[value=1/a]())
maxpool[kernel=k](scale(x, full[value=a]())) => scale(maxpool[kernel=k](x), full[value=a]())
maxpool[kernel=2](scale(scale(x, full[value=a]()), full[value=b]())) => scale(maxpool[kernel=2](x), full[value=a*b]()) where a >= b
maxpool[kernel=2](hard_sigmoid[alpha=a, beta=b](x)) => hard_sigmoid[alpha=a, beta=b](maxpool[kernel=2](x)) where b >= 0
reduce_max[axis=0](scale(scale(x, full[value=a]()), full[value=b]())) => scale(reduce_max[axis=0](x), full[value=a*b]()) where a + b > 0
reduce_max[axis=0](hard_sigmoid[alpha=a, beta=b](x)) => hard_sigmoid[alpha=a, beta=b](reduce_max[axis=0](x)) where a > -1
silu[alpha=a](scale(x, full[value=b]())) => silu[alpha=a*b](x)
silu[alpha=a](x) => mul(x, sigmoid(scale(x, full[value=a + 1]())))
silu[alpha=a](scale(x, full[value=b]())) => scale(silu[alpha=a](x), full[value=b]())
full[value=a, shape=(2, 2)]() => full[value=a, shape=(4,)]()
add(full[value=a, shape=(2,)](), full[value=b, shape=(1, 2)]()) => full[value=a + b, shape=(2,)]()
"""
