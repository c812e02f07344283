"""Models with bodies, in ONNX's text. ``Identity`` before ``Relu`` is what canonicalisation removes."""


def constant(size: int) -> str:
    """Different numbers, of shape [3, 3, size]."""
    return f"float[3,3,{size}] {{{','.join(map(str, range(9 * size)))}}}"


CASES = {
    "a captured input": """(bool c, float[2,3] x) => (float[2,3] y) {
        y = If (c) <then_branch = a () => (float[2,3] p) { q = Identity(x) p = Relu(q) },
                    else_branch = b () => (float[2,3] r) { s = Identity(x) r = Relu(s) }> }""",
    "a captured result": """(bool c, float[2,3] x) => (float[2,3] y) { z = Neg(x)
        y = If (c) <then_branch = a () => (float[2,3] p) { q = Identity(z) p = Relu(q) },
                    else_branch = b () => (float[2,3] r) { r = Identity(z) }> }""",
    "a captured weight": """(bool c, float[2,3] x) => (float[2,2] y) <float[3,2] w = {1,2,3,4,5,6}> {
        y = If (c) <then_branch = a () => (float[2,2] p) {
                        t = Transpose<perm=[1,0]>(w) s = Transpose<perm=[1,0]>(t) p = MatMul(x, s) },
                    else_branch = b () => (float[2,2] r) { r = MatMul(x, w) }> }""",
    "a captured zero": """(bool c, float[2,3] x) => (float[2,3] y) { k = Constant<value = float {0}>()
        y = If (c) <then_branch = a () => (float[2,3] p) { q = Add(x, k) p = Relu(q) },
                    else_branch = b () => (float[2,3] r) { r = Relu(x) }> }""",
    "an own weight": """(bool c, float[2,3] x) => (float[2,3] y) {
        y = If (c) <then_branch = a () => (float[2,3] p) <float[3] w = {1,2,3}> {
                        q = Identity(x) p = Add(q, w) },
                    else_branch = b () => (float[2,3] r) { r = Relu(x) }> }""",
    "a folded constant": """(bool c, float[2,3] x) => (float[A,B,C] y) {
        y = If (c) <then_branch = a () => (float[D,E,F] p) { k = Constant<value = KKK>()
                        t = Transpose<perm=[1,2,0]>(k) s = Transpose<perm=[1,2,0]>(t) p = MatMul(x, s) },
                    else_branch = b () => (float[G,H,I] r) { k = Constant<value = KKK>()
                        t = Transpose<perm=[1,2,0]>(k) s = Transpose<perm=[1,2,0]>(t) q = Neg(x)
                        r = MatMul(q, s) }> }""".replace("KKK", constant(3)),
    "an output that is a constant": """(bool c, float[2,3] x) => (float[3] y) {
        y = If (c) <then_branch = a () => (float[3] p) {
                        k = Constant<value = float[3] {1,2,3}>() q = Identity(k) p = Relu(q) },
                    else_branch = b () => (float[3] w) <float[3] w = {1,2,3}> { }> }""",
    "an output that is captured": """(bool c, float[2,3] x) => (float[2,3] y) {
        y = If (c) <then_branch = a () => (float[2,3] p) { q = Identity(x) p = Identity(q) },
                    else_branch = b () => (float[2,3] r) { s = Identity(x) r = Relu(s) }> }""",
    "sizes computed in a body": """(bool c, float[N,3] x) => (float[M] y) {
        y = If (c) <then_branch = a () => (float[K] p) {
                        s = Shape(x) z = Constant<value = int64[1] {0}>() d = Gather<axis=0>(s, z)
                        m = Constant<value = int64[1] {3}>() f = Mul(d, m) p = Reshape(x, f) },
                    else_branch = b () => (float[L] r) {
                        m = Constant<value = int64[1] {-1}>() q = Reshape(x, m) r = Relu(q) }> }""",
    "names shared by branches": """(bool c, float[2,3] x) => (float[2,3] y) {
        y = If (c) <then_branch = a () => (float[2,3] p) { q = Identity(x) p = Relu(q) },
                    else_branch = b () => (float[2,3] p) { q = Neg(x) p = Neg(q) }> }""",
    "a name of a later node": """(bool c, float[2,3] x) => (float[2,3] y) {
        z = If (c) <then_branch = a () => (float[2,3] p) { q = Identity(x) p = Relu(q) },
                    else_branch = b () => (float[2,3] r) { r = Neg(x) }>
        q = Neg(z) y = Relu(q) }""",
    "equal bodies": """(bool c, float[2,3] x) => (float[2,3] y) {
        z = If (c) <then_branch = a () => (float[2,3] p) { q = Identity(x) p = Relu(q) },
                    else_branch = b () => (float[2,3] r) { r = Neg(x) }>
        y = If (c) <then_branch = a () => (float[2,3] s) { t = Identity(z) s = Relu(t) },
                    else_branch = b () => (float[2,3] u) { u = Neg(z) }> }""",
    "a carried value": """(int64 n, float[2,3] x) => (float[2,3] y) {
        y = Loop (n, , x) <body = b (int64 i, bool on, float[2,3] v) => (bool still, float[2,3] u) {
            still = Identity(on) w = Add(v, x) g = Identity(w) u = Relu(g) }> }""",
    "a carried value that grows": """(int64 n, float[2,3] x) => (float[M,3] y) {
        y = Loop (n, , x) <body = b (int64 i, bool on, float[K,3] v) => (bool still, float[L,3] u) {
            still = Identity(on) g = Identity(x) w = Relu(g) u = Concat<axis=0>(v, w) }> }""",
    "scanned outputs": """(int64 n, float[2,3] x) => (float[2,3] y, float[M,2,3] z) {
        y, z = Loop (n, , x) <body = b (int64 i, bool on, float[2,3] v)
            => (bool still, float[2,3] u, float[2,3] s) {
            still = Identity(on) u = Neg(v) g = Identity(v) s = Relu(g) }> }""",
    "passed on": """(int64 n, float[2,3] x) => (float[2,3] y, float[M,2,3] z) {
        y, z = Loop (n, , x) <body = b (int64 i, bool on, float[2,3] v)
            => (bool on, float[2,3] v, float[2,3] s) { g = Identity(v) s = Relu(g) }> }""",
    "a condition computed in the loop": """(int64 n, float[2,3] x) => (float[2,3] y) <int64 two = {2}> {
        y = Loop (n, , x) <body = b (int64 i, bool on, float[2,3] v) => (bool still, float[2,3] u) {
            still = Less(i, two) w = Add(v, x) g = Identity(w) u = Relu(g) }> }""",
    "a loop without a limit": """(bool c, float[2,3] x) => (float[2,3] y) <int64 two = {2}> {
        y = Loop (, c, x) <body = b (int64 i, bool on, float[2,3] v) => (bool still, float[2,3] u) {
            still = Less(i, two) w = Add(v, x) g = Identity(w) u = Relu(g) }> }""",
    "a branch in a loop": """(int64 n, bool c, float[2,3] x) => (float[2,3] y) {
        y = Loop (n, , x) <body = b (int64 i, bool on, float[2,3] v) => (bool still, float[2,3] u) {
            still = Identity(on) a = Add(v, x)
            u = If (c) <then_branch = t () => (float[2,3] p) { g = Identity(a) p = Relu(g) },
                        else_branch = e () => (float[2,3] q) { q = Neg(x) }> }> }""",
    "a scan": """(float[3] s, float[2,3] x) => (float[3] y, float[2,3] z) {
        y, z = Scan <num_scan_inputs = 1, body = b (float[3] v, float[3] row)
            => (float[3] u, float[3] out) { u = Add(v, row) g = Identity(row) out = Relu(g) }> (s, x) }""",
    "an optional value": """(bool c, float[2,3] x) => (float[2,3] y) {
        y = If (c) <then_branch = a () => (float[2,3] p) {
                        o = Optional(x) g = OptionalGetElement(o) h = Identity(x) k = Relu(h)
                        p = Add(g, k) },
                    else_branch = b () => (float[2,3] r) { s = Identity(x) r = Relu(s) }> }""",
    "a sequence within a body": """(bool c, float[2,3] x) => (float[M,3] y) {
        y = If (c) <then_branch = a () => (float[K,3] p) {
                        g = Identity(x) w = Relu(g) s = SequenceConstruct(x, w)
                        p = ConcatFromSequence<axis=0>(s) },
                    else_branch = b () => (float[2,3] r) { r = Relu(x) }> }""",
    "an opaque operator": """(bool c, float[2,3] x) => (float[2,3] y) {
        y = If (c) <then_branch = a () => (float[2,3] p) {
                        g = com.microsoft.Gelu(x) h = Identity(g) p = Relu(h) },
                    else_branch = b () => (float[2,3] r) { r = Relu(x) }> }""",
}
"""Models whose bodies canonicalisation changes, by what is special about them."""

REFUSED = {
    "a carried sequence": (
        """(int64 n, float[2,3] x) => (float[M,3] y) { e = SequenceEmpty()
        l = Loop (n, , e) <body = b (int64 i, bool on, seq(float[2,3]) v)
            => (bool still, seq(float[2,3]) u) { still = Identity(on) u = SequenceInsert(v, x) }>
        k = SequenceInsert(l, x) y = ConcatFromSequence<axis=0>(k) }""",
        "its input 'v' is a sequence",
    ),
    "a captured sequence": (
        """(int64 n, float[2,3] x) => (float[M,3] y) { s = SequenceConstruct(x, x) e = Relu(x)
        y = Loop (n, , e) <body = b (int64 i, bool on, float[K,3] v) => (bool still, float[L,3] u) {
            still = Identity(on) u = ConcatFromSequence<axis=0>(s) }> }""",
        "it reads 's', which is a sequence",
    ),
    "a batch axis of Scan": (
        """(float[1,3] s, float[1,2,3] x) => (float[1,3] y, float[1,2,3] z) {
        y, z = Scan <num_scan_inputs = 1, body = b (float[3] v, float[3] row)
            => (float[3] u, float[3] out) { u = Add(v, row) out = Relu(row) }> (, s, x) }""",
        "Scan has a batch axis in operator set 8",
    ),
}
"""(model, reason) of bodies that are not optimised."""
