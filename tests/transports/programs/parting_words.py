"""A child that has more to write than its pipe holds, and writes it only when its standard input has ended."""

import sys

sys.stdin.buffer.read()
sys.stdout.buffer.write(bytes(3_000_000))
