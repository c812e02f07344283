"""What all tests rely on."""

import signal

# A shell ignores interrupts for what it runs in the background, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
